//! Admission of servers by their names.

use mcpmon_model::{Denial, ServerId};

use super::Policy;

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
    /// Returns the admission of `server`.
    pub fn admits(&self, server: &ServerId) -> Admission {
        if self.server_policy.denies(server) {
            return Admission::Denied;
        }
        let mut declared = self.servers.iter();
        if self.fail_closed && !declared.any(|declared| declared.id.is_spelling_of(server)) {
            return Admission::Undeclared;
        }
        Admission::Admitted
    }
}

impl Admission {
    /// Returns the denial if `server` may not be started.
    pub fn denial(self, server: &ServerId) -> Option<Denial> {
        let (rule, reason, remedy) = match self {
            Self::Admitted => return None,
            Self::Denied => (
                "mcp.server_policy",
                format!("`{server}` may not be used"),
                "change mcp.allowed_servers or mcp.denied_servers to let it run",
            ),
            Self::Undeclared => (
                "mcp.fail_closed",
                format!("`{server}` is not declared"),
                "declare it in mcp.servers to let it run",
            ),
        };
        Some(Denial {
            rule: rule.to_owned(),
            reason,
            remedy: Some(remedy.to_owned()),
            event: None,
        })
    }
}
