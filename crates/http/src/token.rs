//! The token that clients have to present on an address that other hosts can reach.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

/// Shortest token, characters.
const MIN_LENGTH: usize = 16;
/// Longest token, characters.
const MAX_LENGTH: usize = 256;
/// Random bytes in a new token.
const RANDOM: usize = 32;

/// A shared secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

/// The reason why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The text is not a token.
    #[error(
        "a token has {MIN_LENGTH} to {MAX_LENGTH} of the characters A-Z, a-z, 0-9, `-`, `_`, `.` and `~`"
    )]
    Form,
    /// Other users can read the file.
    #[error("others can read {path}, so that it is no secret: `chmod 600 {path}`", path = .0.display())]
    Public(PathBuf),
    /// The file cannot be read or created.
    #[error("cannot read or make {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Checks that `text` is a valid token.
    ///
    /// # Errors
    /// Returns an error if it is too short, or cannot be part of a path.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        match (MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(TokenError::Form),
        }
    }

    /// Returns the token in the file at `path`, which is created if it is missing.
    ///
    /// # Errors
    /// Returns an error if others can read the file, or it contains no token.
    pub fn at(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Io {
            path: path.to_owned(),
            source,
        };
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made {
            Ok(mut file) => {
                let text = random().map_err(failed)?;
                writeln!(file, "{text}").map_err(failed)?;
                return Self::new(&text);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(TokenError::Public(path.to_owned()));
        }
        let mut text = String::new();
        file.take(MAX_LENGTH as u64 + 2)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Self::new(text.trim())
    }

    /// Returns whether `text` is the token, in a time that does not depend on the position of a difference.
    pub fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let mut differs = own.len() ^ other.len();
        for (index, byte) in own.iter().enumerate() {
            differs |= usize::from(byte ^ other.get(index).copied().unwrap_or_default());
        }
        std::hint::black_box(differs) == 0
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; RANDOM];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_is_made_for_its_owner_alone_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let made = Token::at(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 2 * RANDOM);
        assert!(made == Token::at(&path).unwrap() && made.is(text.trim()));
        assert!(!made.is(&text) && !made.is("") && !made.is(&text[..RANDOM]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Token::at(&path), Err(TokenError::Public(_))));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "short",
            "with a space in it",
            "0123456789abcde/",
            &"a".repeat(257),
        ] {
            assert!(Token::new(text).is_err(), "{text}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let missing = Token::at(&path.join("deeper"));
        assert!(matches!(missing, Err(TokenError::Io { .. })));
    }
}
