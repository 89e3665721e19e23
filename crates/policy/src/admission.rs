//! Admission of servers by their names.

use std::fmt;

use mcpmon_model::{Denial, Package, ServerId};

use super::{Policy, Server};

/// The names of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerNames<'n> {
    /// The name that its client gives it.
    pub given: &'n ServerId,
    /// The id that follows from its program, its address or its declaration, whatever its client calls it.
    pub derived: &'n ServerId,
    /// The id by which a list permits it: `derived`, unless that is the id of declarations of other packages.
    pub permitting: &'n ServerId,
    /// The package of its program, if it is known.
    pub package: Option<&'n Package>,
}

impl<'n> ServerNames<'n> {
    /// Returns the names of a server of which only the id is known.
    #[must_use]
    pub const fn of_id(server: &'n ServerId) -> Self {
        Self {
            given: server,
            derived: server,
            permitting: server,
            package: None,
        }
    }
}

impl fmt::Display for ServerNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.given)?;
        match self.package {
            Some(package) => write!(f, " ({package})"),
            None if self.given != self.derived => write!(f, " (the server `{}`)", self.derived),
            None => Ok(()),
        }
    }
}

/// The admission of a server by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// The server is admitted.
    #[default]
    Admitted,
    /// The server policy refuses it.
    Denied,
    /// The server is not declared, and only declared servers may be used.
    Undeclared,
}

impl Policy {
    /// Returns the declaration of a server that its client calls `server`: that of its program, with the id `derived`,
    /// else the one of this name.
    pub fn declaration(&self, server: &ServerId, derived: &ServerId) -> Option<&Server> {
        let named = |id: &ServerId| self.servers.iter().find(|declared| declared.id == *id);
        named(derived).or_else(|| named(server))
    }

    /// Returns the admission of `server`.
    pub fn admits(&self, server: &ServerId) -> Admission {
        self.admits_named(ServerNames::of_id(server))
    }

    /// Returns the admission of a server with these names.
    pub fn admits_named(&self, names: ServerNames<'_>) -> Admission {
        if self.server_policy.denies_named(names) {
            return Admission::Denied;
        }
        let mut declared = self.servers.iter();
        if self.fail_closed && !declared.any(|declared| declared.id.is_spelling_of(names.permitting)) {
            return Admission::Undeclared;
        }
        Admission::Admitted
    }
}

impl Admission {
    /// Returns the denial if `server` may not be started.
    pub fn denial(self, server: &ServerId) -> Option<Denial> {
        self.denial_named(ServerNames::of_id(server))
    }

    /// Returns the denial if a server with these names may not be started. The remedy has the name that permits it.
    pub fn denial_named(self, names: ServerNames<'_>) -> Option<Denial> {
        let derived = names.derived;
        let permitting = match names.package {
            Some(package) if names.given != derived || names.permitting != derived => package.as_str(),
            Some(_) | None => derived.as_str(),
        };
        let (rule, reason, remedy) = match self {
            Self::Admitted => return None,
            Self::Denied => (
                "mcp.server_policy",
                format!("{names} may not be used"),
                format!("change mcp.allowed_servers or mcp.denied_servers to let `{permitting}` run"),
            ),
            Self::Undeclared => (
                "mcp.fail_closed",
                format!("{names} is not declared"),
                match names.permitting == derived {
                    true => format!("declare `{derived}` in mcp.servers to let it run"),
                    false => format!(
                        "`{derived}` is declared with another command; if you trust this program, declare it in mcp.servers under another id"
                    ),
                },
            ),
        };
        Some(Denial {
            rule: rule.to_owned(),
            reason,
            remedy: Some(remedy),
            event: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::NameGlob;
    use test_case::test_case;

    use super::*;
    use crate::ServerPolicy;

    fn list(name: &str) -> Vec<NameGlob> {
        vec![NameGlob::new(name)]
    }

    #[test_case(ServerPolicy::Allowlist(list("git-mcp")), "git-mcp", "git-mcp" => Admission::Admitted; "allowed by its program")]
    #[test_case(ServerPolicy::Allowlist(list("git-mcp")), "notes", "git-mcp" => Admission::Admitted; "allowed by its program under another name")]
    #[test_case(ServerPolicy::Allowlist(list("notes")), "notes", "git-mcp" => Admission::Denied; "an allowed name before another program")]
    #[test_case(ServerPolicy::Allowlist(list("npm:git-*")), "notes", "git-mcp" => Admission::Admitted; "allowed by its package")]
    #[test_case(ServerPolicy::Allowlist(list("npm:git-*")), "git-mcp", "other" => Admission::Denied; "the name of an allowed package before another program")]
    #[test_case(ServerPolicy::Allowlist(list("pypi:git-mcp")), "notes", "git-mcp" => Admission::Denied; "a package of another kind")]
    #[test_case(ServerPolicy::Denylist(list("npm:git-mcp")), "notes", "git-mcp" => Admission::Denied; "denied by its package")]
    #[test_case(ServerPolicy::Denylist(list("git-mcp")), "notes", "git-mcp" => Admission::Denied; "denied by its program under another name")]
    #[test_case(ServerPolicy::Denylist(list("notes")), "notes", "git-mcp" => Admission::Denied; "denied by its name")]
    #[test_case(ServerPolicy::Denylist(list("other")), "notes", "git-mcp" => Admission::Admitted; "not denied")]
    fn a_name_refuses_and_does_not_permit(
        server_policy: ServerPolicy,
        server: &str,
        derived: &str,
    ) -> Admission {
        let package = Package::parse(&format!("npm:{derived}"));
        let policy = Policy {
            server_policy,
            ..Policy::default()
        };
        let id = |name| ServerId::new(name).expect("an id");
        policy.admits_named(ServerNames {
            given: &id(server),
            derived: &id(derived),
            permitting: &id(derived),
            package: package.as_ref(),
        })
    }

    #[test_case(ServerPolicy::Allowlist(list("weather")) => (Admission::Denied, "change mcp.allowed_servers or mcp.denied_servers to let `script:/tmp/weather.py` run"); "an allowlist")]
    #[test_case(ServerPolicy::Denylist(list("weather")) => (Admission::Denied, "change mcp.allowed_servers or mcp.denied_servers to let `script:/tmp/weather.py` run"); "a denylist")]
    #[test_case(ServerPolicy::None => (Admission::Undeclared, "`weather` is declared with another command; if you trust this program, declare it in mcp.servers under another id"); "declared servers only")]
    fn the_id_of_another_declaration_refuses_and_does_not_permit(
        server_policy: ServerPolicy,
    ) -> (Admission, &'static str) {
        let id = |name| ServerId::new(name).expect("an id");
        let (derived, permitting) = (id("weather"), id("weather-1f2e3d4c"));
        let package = Package::parse("script:/tmp/weather.py");
        let names = ServerNames {
            given: &derived,
            derived: &derived,
            permitting: &permitting,
            package: package.as_ref(),
        };
        let policy = Policy {
            server_policy,
            fail_closed: true,
            ..Policy::default()
        };
        let admission = policy.admits_named(names);
        let denial = admission.denial_named(names).expect("a denial");
        (admission, denial.remedy.expect("a remedy").leak())
    }
}
