//! The key with which bodies are sealed: 32 bytes in a file that only its owner can read.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mcpmon_model::Digest;
use nix::fcntl::OFlag;
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};

/// Bytes of a key.
const LENGTH: usize = 32;
/// Longest file that is read: a key in hexadecimal digits, with a line break.
const MAX_FILE: u64 = 128;
/// The prefix of the text whose digest becomes the name of a key, so that the name is not a digest of the key alone.
const NAMING: &[u8] = b"mcpmon body key\0";
/// Hexadecimal digits of a key's name.
const NAME: usize = 16;

/// A key.
pub struct BodyKey {
    pub(super) key: LessSafeKey,
    name: String,
}

/// The reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No key file is configured.
    #[error("no key is named in `llm_storage.key_file`")]
    Unnamed,
    /// The file does not hold a key.
    #[error(
        "{path} holds no key of {LENGTH} bytes, raw, in {} hexadecimal digits or in base64: make one with `openssl rand -hex {LENGTH}`",
        2 * LENGTH, path = .0.display()
    )]
    Form(PathBuf),
    /// Other users can read the file.
    #[error("others can read {path}, so that it is no secret: `chmod 600 {path}`", path = .0.display())]
    Public(PathBuf),
    /// Another user can replace it.
    #[error("{path} belongs to user {owner}, who can replace it: `chown {user} {path}`", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user who has to own it.
        user: u32,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread that seals bodies: {0}")]
    Thread(io::Error),
    /// The file cannot be read.
    #[error("cannot read the key in {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyKey({})", self.name)
    }
}

impl BodyKey {
    /// Reads the key in the file at `path`.
    ///
    /// # Errors
    /// Returns an error if others can read or replace the file, or it contains no key.
    pub fn at(path: &Path) -> Result<Self, KeyError> {
        Ok(Self::new(&secret(path)?))
    }

    /// Creates a key from `bytes`.
    pub fn new(bytes: &[u8; LENGTH]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("the cipher takes 32 bytes");
        Self {
            key: LessSafeKey::new(key),
            name: Digest::of(&[NAMING, bytes].concat()).short(NAME),
        }
    }

    /// Returns the name, which identifies the key and discloses nothing about it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the bytes of the key in the file at `path`.
pub(crate) fn secret(path: &Path) -> Result<[u8; LENGTH], KeyError> {
    let failed = |source| KeyError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let user = nix::unistd::geteuid().as_raw();
    if let Some(fault) = fault(path, metadata.mode(), metadata.uid(), user) {
        return Err(fault);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
    decode(&bytes).ok_or_else(|| KeyError::Form(path.to_owned()))
}

/// Returns the reason why a file with this mode and owner does not keep a secret of `user`, if there is one. Files of
/// root are accepted for everyone.
pub(super) fn fault(path: &Path, mode: u32, owner: u32, user: u32) -> Option<KeyError> {
    let path = path.to_owned();
    match mode & 0o077 {
        0 if [0, user].contains(&owner) => None,
        0 => Some(KeyError::Foreign { path, owner, user }),
        _ => Some(KeyError::Public(path)),
    }
}

/// Decodes the bytes of a key in any of the accepted forms.
fn decode(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    if let Ok(raw) = bytes.try_into() {
        return Some(raw);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let decoded = match text.len() == 2 * LENGTH {
        true => hexadecimal(text.as_bytes())?,
        false => STANDARD.decode(text).ok()?,
    };
    decoded.try_into().ok()
}

fn hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.chunks(2)
        .map(|pair| {
            let value = digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?;
            u8::try_from(value).ok()
        })
        .collect()
}
