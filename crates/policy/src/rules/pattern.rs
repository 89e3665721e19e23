//! Patterns in the configuration: regular expressions of bounded size, and globs over paths.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// A regular expression that is searched for anywhere in a text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// The reason why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty.
    #[error("an empty pattern would match everything")]
    Empty,
    /// The pattern has a syntax error.
    #[error("no valid regular expression: {message}{}", at.map_or_else(String::new, |at| format!(" (at character {at})")))]
    Syntax {
        /// The error.
        message: String,
        /// The position of the error; the first character is 1.
        at: Option<usize>,
    },
    /// The pattern would take too much memory.
    #[error("the pattern is too large: at most {} characters, and {} KiB when compiled", MAX_PATTERN, MAX_COMPILED >> 10)]
    TooLarge,
}

/// Longest pattern, characters.
const MAX_PATTERN: usize = 4096;
/// Largest compiled pattern, bytes.
const MAX_COMPILED: usize = 1 << 20;

impl Pattern {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// Returns an error if it is empty, no regular expression, or too large.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.trim().is_empty() {
            return Err(PatternError::Empty);
        }
        compile(pattern).map(Self)
    }

    /// Returns the pattern as it is written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether it matches somewhere in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.chars().count() > MAX_PATTERN {
        return Err(PatternError::TooLarge);
    }
    let built = RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build();
    built.map_err(|error| {
        if let regex::Error::Syntax(drawing) = error {
            drawn(&drawing)
        } else {
            PatternError::TooLarge
        }
    })
}

/// Reads the drawing in the error of a wrong pattern: the pattern, a caret below it, and a last line with the message.
fn drawn(drawing: &str) -> PatternError {
    const INDENT: usize = 4;
    let message = drawing.lines().last().unwrap_or(drawing);
    let carets = drawing.lines().find(|line| {
        let marks = line.trim_start();
        !marks.is_empty() && marks.bytes().all(|byte| byte == b'^' || byte == b' ')
    });
    PatternError::Syntax {
        message: message.strip_prefix("error: ").unwrap_or(message).to_owned(),
        at: carets
            .and_then(|line| line.find('^'))
            .and_then(|column| (column + 1).checked_sub(INDENT)),
    }
}

/// A glob over paths: `*` matches any run of characters without `/`, `**` any run, `?` one character other than `/`.
/// `a/**` matches `a` and everything in it; `~` at the start is any user's home.
#[derive(Clone, Debug)]
pub struct PathGlob {
    written: String,
    matcher: Regex,
}

impl PathGlob {
    /// Compiles `glob`.
    ///
    /// # Errors
    /// Returns an error if it is empty or too large.
    pub fn new(glob: &str) -> Result<Self, PatternError> {
        if glob.trim().is_empty() {
            return Err(PatternError::Empty);
        }
        let mut pattern = format!(r"(?s)\A(?:{}", translated(glob));
        if let Some(rest) = glob.strip_prefix('~')
            && (rest.is_empty() || rest.starts_with('/'))
        {
            for home in ["/home/*", "/Users/*", "/root"] {
                write!(pattern, "|{}", translated(&format!("{home}{rest}")))
                    .expect("a string takes any text");
            }
        }
        pattern.push_str(r")\z");
        let matcher = RegexBuilder::new(&pattern)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build();
        match matcher {
            Ok(matcher) if glob.chars().count() <= MAX_PATTERN => Ok(Self {
                written: glob.to_owned(),
                matcher,
            }),
            Ok(_) | Err(_) => Err(PatternError::TooLarge),
        }
    }

    /// Returns the glob as it is written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns whether the whole of `path` matches.
    pub fn matches(&self, path: &str) -> bool {
        self.matcher.is_match(path)
    }
}

impl PartialEq for PathGlob {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

/// Returns the regular expression of a glob.
fn translated(glob: &str) -> String {
    let mut pattern = String::with_capacity(2 * glob.len());
    let mut rest = glob;
    let mut begins_part = true;
    while let Some(c) = rest.chars().next() {
        let (expression, length) = match c {
            '/' if rest == "/**" => ("(?:/.*)?", 3),
            '*' if begins_part && rest.starts_with("**/") => ("(?:[^/]*/)*", 3),
            '*' if rest.starts_with("**") => (".*", 2),
            '*' => ("[^/]*", 1),
            '?' => ("[^/]", 1),
            _ => {
                pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
                ("", c.len_utf8())
            }
        };
        pattern.push_str(expression);
        begins_part = rest[..length].ends_with('/');
        rest = &rest[length..];
    }
    pattern
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("**/.ssh/**", "/home/me/.ssh/id_rsa" => true; "anywhere")]
    #[test_case("**/.ssh/**", ".ssh/id_rsa" => true; "at the start")]
    #[test_case("**/.ssh/**", "/home/me/.ssh" => true; "the directory itself")]
    #[test_case("**/.ssh/**", "/home/me/.sshd/config" => false; "a longer name")]
    #[test_case("**/.ssh/**", "/home/me/x.ssh/y" => false; "a name that ends so")]
    #[test_case("/etc/**", "/etc/ssl/certs/a" => true; "below")]
    #[test_case("/etc/**", "/etcetera" => false; "beside")]
    #[test_case("/home/*/.aws/**", "/home/me/.aws/credentials" => true; "one part")]
    #[test_case("/home/*/.aws/**", "/home/a/b/.aws/credentials" => false; "two parts")]
    #[test_case("*.pem", "key.pem" => true; "a name")]
    #[test_case("*.pem", "dir/key.pem" => false; "star stops at a slash")]
    #[test_case("**.pem", "dir/key.pem" => true; "two stars do not")]
    #[test_case("/tmp/?", "/tmp/a" => true; "one character")]
    #[test_case("/tmp/?", "/tmp//" => false; "but no slash")]
    #[test_case("~/.ssh/**", "/root/.ssh/a" => true; "root's home")]
    #[test_case("~/.ssh/**", "/home/me/.ssh/a" => true; "a home")]
    #[test_case("~/.ssh/**", "~/.ssh/a" => true; "as written")]
    #[test_case("~me/x", "/home/me/x" => false; "the home of somebody else")]
    #[test_case("a.b[c]", "a.b[c]" => true; "nothing else is special")]
    #[test_case("a.b", "axb" => false; "a point is a point")]
    #[test_case("**", "a\nb/c" => true; "everything")]
    fn path_globs(glob: &str, path: &str) -> bool {
        PathGlob::new(glob).expect("a glob").matches(path)
    }

    #[test_case("(a", Some(1), "unclosed group"; "parenthesis")]
    #[test_case("ab[z-a]", Some(4), "invalid character class range, the start must be <= the end"; "class")]
    #[test_case("(?=a)", Some(1), "look-around, including look-ahead and look-behind, is not supported"; "look around")]
    fn mistakes_have_a_place(pattern: &str, at: Option<usize>, message: &str) {
        let expected = PatternError::Syntax {
            message: message.to_owned(),
            at,
        };
        assert_eq!(Pattern::new(pattern).map(|_| ()), Err(expected));
    }

    #[test]
    fn what_is_empty_or_too_large_is_refused() {
        assert_eq!(Pattern::new(" ").map(|_| ()), Err(PatternError::Empty));
        assert_eq!(PathGlob::new(""), Err(PatternError::Empty));
        assert_eq!(
            Pattern::new(r"\w{1000}{100}").map(|_| ()),
            Err(PatternError::TooLarge)
        );
        assert_eq!(
            Pattern::new(&"a".repeat(5000)).map(|_| ()),
            Err(PatternError::TooLarge)
        );
        assert_eq!(PathGlob::new(&"a".repeat(5000)), Err(PatternError::TooLarge));
    }

    proptest! {
        #[test]
        fn every_short_text_is_a_glob(glob in "[^\u{0}]{1,60}", path in any::<String>()) {
            match PathGlob::new(&glob) {
                Ok(compiled) => drop(compiled.matches(&path)),
                Err(error) => prop_assert!(glob.trim().is_empty(), "{error}"),
            }
        }

        #[test]
        fn a_plain_text_matches_itself_alone(text in "[a-z./()+-]{1,20}", other in "[a-z./()+-]{1,20}") {
            let glob = PathGlob::new(&text).expect("a glob");
            prop_assert_eq!(glob.matches(&other), text == other);
        }
    }
}
