//! Environment variables that a server may have.

use mcpmon_model::NameGlob;

use super::Server;

/// Variables without which programs do not run as expected; an allowlist need not name them.
const STANDARD: [&str; 8] = [
    "HOME",
    "LANG",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// Ends of names that hold secrets: an allowlist passes these only by their full names, not by a glob.
const SENSITIVE: [&str; 6] = [
    "_API_KEY",
    "_CREDENTIALS",
    "_KEY",
    "_PASSWORD",
    "_SECRET",
    "_TOKEN",
];

/// `env_allow` and `env_deny` of a server. With neither, everything passes; where both are set, the allowlist
/// holds alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvironmentRules<'a> {
    /// Variables it may have; empty for all.
    pub allow: &'a [NameGlob],
    /// Variables it may not have.
    pub deny: &'a [NameGlob],
}

/// The decision about an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableVerdict {
    /// The server gets it.
    Pass,
    /// Its name is on no allowlist.
    NotAllowed,
    /// A glob of the allowlist matches, but it holds a secret by its name and is not listed by that name.
    Sensitive,
    /// Its name is on the denylist.
    Denied,
}

impl<'a> EnvironmentRules<'a> {
    /// Returns the rules of a declared server.
    pub fn of(server: &'a Server) -> Self {
        Self {
            allow: &server.env_allow,
            deny: &server.env_deny,
        }
    }

    /// Returns whether every server gets the variable `name`, unless it is denied.
    pub fn is_standard(name: &str) -> bool {
        STANDARD.contains(&name)
    }

    /// Decides about the variable `name`.
    pub fn judge(self, name: &str) -> VariableVerdict {
        if self.allow.is_empty() {
            return match self.deny.iter().any(|glob| glob.matches(name)) {
                true => VariableVerdict::Denied,
                false => VariableVerdict::Pass,
            };
        }
        let listed = self.allow.iter().any(|glob| glob.as_str() == name);
        if listed || Self::is_standard(name) {
            return VariableVerdict::Pass;
        }
        if !self.allow.iter().any(|glob| glob.matches(name)) {
            return VariableVerdict::NotAllowed;
        }
        match is_sensitive(name) {
            true => VariableVerdict::Sensitive,
            false => VariableVerdict::Pass,
        }
    }
}

/// Returns whether the name of a variable shows that its value is a secret, ignoring case.
fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SENSITIVE.iter().any(|end| name.ends_with(end))
}

/// Names of variables that are recorded of one start.
const MAX_NAMES: usize = 512;
/// Longest name that is, bytes.
const MAX_NAME: usize = 128;

/// Names of variables in their order, as far as a policy could name them.
pub fn variable_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut names: Vec<String> = names
        .filter(|name| name.len() <= MAX_NAME && !name.is_empty() && name.bytes().all(is_part))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.truncate(MAX_NAMES);
    names
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn judge(allow: &[&str], deny: &[&str], name: &str) -> VariableVerdict {
        let globs = |texts: &[&str]| texts.iter().copied().map(NameGlob::new).collect::<Vec<_>>();
        let (allow, deny) = (globs(allow), globs(deny));
        EnvironmentRules {
            allow: &allow,
            deny: &deny,
        }
        .judge(name)
    }

    #[test_case(&[], &[], "AWS_SECRET_ACCESS_KEY" => VariableVerdict::Pass; "without rules everything passes")]
    #[test_case(&[], &["AWS_*", "ANTHROPIC_API_KEY"], "AWS_PROFILE" => VariableVerdict::Denied; "a glob of the denylist")]
    #[test_case(&[], &["AWS_*", "ANTHROPIC_API_KEY"], "ANTHROPIC_API_KEY" => VariableVerdict::Denied; "a name of the denylist")]
    #[test_case(&[], &["AWS_*"], "MY_AWS_PROFILE" => VariableVerdict::Pass; "a denylist matches whole names")]
    #[test_case(&[], &["AWS_*"], "GITHUB_TOKEN" => VariableVerdict::Pass; "a denylist strips no other secret")]
    #[test_case(&[], &["PATH"], "PATH" => VariableVerdict::Denied; "a denylist can name a standard variable")]
    #[test_case(&["GITHUB_TOKEN"], &[], "GITHUB_TOKEN" => VariableVerdict::Pass; "a secret that is listed")]
    #[test_case(&["GITHUB_TOKEN"], &[], "GITHUB_TOKEN_2" => VariableVerdict::NotAllowed; "an allowlist matches whole names")]
    #[test_case(&["GITHUB_TOKEN"], &[], "PATH" => VariableVerdict::Pass; "standard variables pass")]
    #[test_case(&["GITHUB_TOKEN"], &[], "XDG_RUNTIME_DIR" => VariableVerdict::Pass; "the runtime directory passes")]
    #[test_case(&["GITHUB_TOKEN"], &[], "XDG_CONFIG_HOME" => VariableVerdict::NotAllowed; "other directories do not")]
    #[test_case(&["GITHUB_*"], &[], "GITHUB_HOST" => VariableVerdict::Pass; "a glob of the allowlist")]
    #[test_case(&["GITHUB_*"], &[], "GITHUB_TOKEN" => VariableVerdict::Sensitive; "a glob lists no secret")]
    #[test_case(&["*"], &[], "DB_PASSWORD" => VariableVerdict::Sensitive; "password")]
    #[test_case(&["*"], &[], "CLIENT_SECRET" => VariableVerdict::Sensitive; "secret")]
    #[test_case(&["*"], &[], "GOOGLE_CREDENTIALS" => VariableVerdict::Sensitive; "credentials")]
    #[test_case(&["*"], &[], "OPENAI_API_KEY" => VariableVerdict::Sensitive; "key of an API")]
    #[test_case(&["*"], &[], "openai_api_key" => VariableVerdict::Sensitive; "in lower case")]
    #[test_case(&["*"], &[], "TOKEN_COUNT" => VariableVerdict::Pass; "a suffix is at the end")]
    #[test_case(&["*"], &[], "MONKEY" => VariableVerdict::Pass; "a suffix begins with an underscore")]
    #[test_case(&["AWS_REGION"], &["AWS_REGION"], "AWS_REGION" => VariableVerdict::Pass; "the allowlist holds alone")]
    #[test_case(&["AWS_REGION"], &["PATH"], "PATH" => VariableVerdict::Pass; "and standard variables with it")]
    #[test_case(&["github_token"], &[], "GITHUB_TOKEN" => VariableVerdict::NotAllowed; "names are told apart by case")]
    fn variables(allow: &[&str], deny: &[&str], name: &str) -> VariableVerdict {
        judge(allow, deny, name)
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(STANDARD.is_sorted() && SENSITIVE.is_sorted());
    }

    #[test]
    fn only_names_that_a_policy_could_have_are_told_and_no_more_than_the_limit() {
        let long = "A".repeat(MAX_NAME + 1);
        let given = ["PATH", "B_KEY", "a b", "*", "", &long, "A1"];
        assert_eq!(variable_names(given.into_iter()), ["A1", "B_KEY", "PATH"]);
        let many: Vec<_> = (0..MAX_NAMES + 9).map(|number| format!("V{number}")).collect();
        assert_eq!(variable_names(many.iter().map(String::as_str)).len(), MAX_NAMES);
    }
}
