//! Names of tools and servers in rules: compared in any spelling and, for refusing rules, as they look.

use mcpmon_model::{NameGlob, one_spelling};

/// A glob over names that matches them in any spelling (see [`one_spelling`]): `run_shell` is `Run-Shell`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpellingGlob {
    written: NameGlob,
    spelled: NameGlob,
}

/// A name in the forms that rules look at.
#[derive(Clone, Debug)]
pub struct Spellings<'a> {
    written: &'a str,
    spelled: String,
    looks: String,
    looks_spelled: String,
    looks_underscored: String,
}

impl<'a> Spellings<'a> {
    /// Returns the forms of `written`, which looks like `looks`.
    pub fn new(written: &'a str, looks: &str) -> Self {
        let looks = looks.trim();
        let looks_spelled = one_spelling(looks);
        Self {
            written,
            spelled: one_spelling(written),
            looks: looks.to_lowercase(),
            looks_underscored: looks_spelled.replace('-', "_"),
            looks_spelled,
        }
    }

    /// Returns the name itself.
    pub const fn written(&self) -> &'a str {
        self.written
    }

    /// Returns the texts that a refusing regular expression is tried on.
    pub(super) fn texts(&self) -> [&str; 4] {
        [
            self.written,
            &self.looks,
            &self.looks_spelled,
            &self.looks_underscored,
        ]
    }
}

impl SpellingGlob {
    /// Builds the glob from `pattern`, which is used as it is.
    pub fn new(pattern: &str) -> Self {
        Self {
            written: NameGlob::new(pattern),
            spelled: NameGlob::new(one_spelling(pattern)),
        }
    }

    /// Returns the glob as it is written.
    pub fn as_str(&self) -> &str {
        self.written.as_str()
    }

    /// Returns whether it matches `name` as both are written.
    pub fn is_exactly(&self, name: &Spellings<'_>) -> bool {
        self.written.matches(name.written)
    }

    /// Returns whether it names `name`, in any spelling.
    pub fn names(&self, name: &Spellings<'_>) -> bool {
        self.is_exactly(name) || self.spelled.matches(&name.spelled)
    }

    /// Returns whether it names `name`, or something that looks like it.
    pub fn resembles(&self, name: &Spellings<'_>) -> bool {
        self.names(name) || self.spelled.matches(&name.looks_spelled)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("run_shell", "run_shell", "run_shell" => (true, true, true); "itself")]
    #[test_case("run_shell", "Run-Shell", "Run-Shell" => (false, true, true); "another spelling")]
    #[test_case("run_shell", "run_shеll", "run_shell" => (false, false, true); "a look-alike")]
    #[test_case("run_shell", "run_shell ", "run_shell " => (false, false, true); "a space behind it")]
    #[test_case("run_shell", "run\u{200b}_shell", "run_shell" => (false, false, true); "a character that takes no place")]
    #[test_case("run_shell", "run_shells", "run_shells" => (false, false, false); "another name")]
    #[test_case("run*", "RUN_x", "RUN_x" => (false, true, true); "a glob in another case")]
    #[test_case("run*", "run_x", "run_x" => (true, true, true); "a glob")]
    fn spellings(glob: &str, name: &str, looks: &str) -> (bool, bool, bool) {
        let (glob, name) = (SpellingGlob::new(glob), Spellings::new(name, looks));
        (glob.is_exactly(&name), glob.names(&name), glob.resembles(&name))
    }
}
