//! Admission of servers, by name and by names that look like it.

use mcpmon_detect::meaning::looks;
use mcpmon_model::ServerId;
use mcpmon_policy::{Admission, Policy, ServerNames};

/// Returns the admission of `server`. A server whose name looks like a denied one is denied; a server is never allowed
/// because its name looks like an allowed one.
pub fn admission(policy: &Policy, server: &ServerId) -> Admission {
    admission_named(policy, ServerNames::of_id(server))
}

/// Returns the admission of a server with these names.
pub fn admission_named(policy: &Policy, names: ServerNames<'_>) -> Admission {
    let admission = policy.admits_named(names);
    let looks_denied = |id: &ServerId| !id.as_str().is_ascii() && looks_denied(policy, id);
    if admission == Admission::Admitted && (looks_denied(names.given) || looks_denied(names.derived)) {
        return Admission::Denied;
    }
    admission
}

fn looks_denied(policy: &Policy, server: &ServerId) -> bool {
    ServerId::new(looks(server.as_str())).is_ok_and(|looks| policy.server_policy.names_denied(&looks))
}

#[cfg(test)]
mod tests {
    use mcpmon_model::NameGlob;
    use mcpmon_policy::ServerPolicy;
    use test_case::test_case;

    use super::*;

    fn stands(policy: ServerPolicy, server: &str) -> Admission {
        let policy = Policy {
            server_policy: policy,
            ..Policy::default()
        };
        admission(&policy, &ServerId::new(server).expect("an id"))
    }

    #[test_case("mail-relay" => Admission::Denied; "itself")]
    #[test_case("Mail_Relay" => Admission::Denied; "another spelling")]
    #[test_case("mаil-relay" => Admission::Denied; "a letter of another script")]
    #[test_case("ｍａｉｌ-relay" => Admission::Denied; "full width")]
    #[test_case("mail-relays" => Admission::Admitted; "another name")]
    #[test_case("почта" => Admission::Admitted; "another name in another script")]
    fn denied(server: &str) -> Admission {
        stands(ServerPolicy::Denylist(vec![NameGlob::new("mail-relay")]), server)
    }

    #[test_case("mail-relay" => Admission::Admitted; "itself")]
    #[test_case("mаil-relay" => Admission::Denied; "a letter of another script")]
    #[test_case("ｍａｉｌ-relay" => Admission::Denied; "full width")]
    fn allowed(server: &str) -> Admission {
        stands(ServerPolicy::Allowlist(vec![NameGlob::new("mail-relay")]), server)
    }
}
