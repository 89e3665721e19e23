//! Admission of servers by their names.

use mcpmon_model::{Denial, ServerId};

use super::{Policy, Server};

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
        self.admits_named(server, server)
    }

    /// Returns the admission of a server that its client calls `server`; `derived` is the id that follows from its program
    /// or its declaration, and the only one that permits.
    pub fn admits_named(&self, server: &ServerId, derived: &ServerId) -> Admission {
        if self.server_policy.denies_named(server, derived) {
            return Admission::Denied;
        }
        let mut declared = self.servers.iter();
        if self.fail_closed && !declared.any(|declared| declared.id.is_spelling_of(derived)) {
            return Admission::Undeclared;
        }
        Admission::Admitted
    }
}

impl Admission {
    /// Returns the denial if `server` may not be started.
    pub fn denial(self, server: &ServerId) -> Option<Denial> {
        self.denial_named(server, server)
    }

    /// Returns the denial if a server may not be started that its client calls `server`, with the id `derived` that the
    /// policy goes by where it permits.
    pub fn denial_named(self, server: &ServerId, derived: &ServerId) -> Option<Denial> {
        let named = if server == derived {
            format!("`{server}`")
        } else {
            format!("`{server}` (the server `{derived}`)")
        };
        let (rule, reason, remedy) = match self {
            Self::Admitted => return None,
            Self::Denied => (
                "mcp.server_policy",
                format!("{named} may not be used"),
                format!("change mcp.allowed_servers or mcp.denied_servers to let `{derived}` run"),
            ),
            Self::Undeclared => (
                "mcp.fail_closed",
                format!("{named} is not declared"),
                format!("declare `{derived}` in mcp.servers to let it run"),
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
    #[test_case(ServerPolicy::Denylist(list("git-mcp")), "notes", "git-mcp" => Admission::Denied; "denied by its program under another name")]
    #[test_case(ServerPolicy::Denylist(list("notes")), "notes", "git-mcp" => Admission::Denied; "denied by its name")]
    #[test_case(ServerPolicy::Denylist(list("other")), "notes", "git-mcp" => Admission::Admitted; "not denied")]
    fn a_name_refuses_and_does_not_permit(
        server_policy: ServerPolicy,
        server: &str,
        derived: &str,
    ) -> Admission {
        let policy = Policy {
            server_policy,
            ..Policy::default()
        };
        let id = |name| ServerId::new(name).expect("an id");
        policy.admits_named(&id(server), &id(derived))
    }
}
