//! Which server a wrapper is for, and what its pins belong to.

use mcpmon_core::{
    decide::recognise,
    inspect::launch::LaunchRules,
    model::{PinKey, ServerId},
    policy::Policy,
};

/// Name of a server whose command says nothing.
const NAMELESS: &str = "server";

/// The identity of the server that `argv` starts; `given` is what the user calls it.
pub(super) fn of(policy: &Policy, rules: &LaunchRules, given: Option<&ServerId>, argv: &[String]) -> PinKey {
    let launch = recognise(policy, rules, argv);
    let program = argv.first().map_or("", String::as_str);
    let (server, name) = match launch {
        Some(launch) => (Some(launch.server), launch.name),
        None => (None, program.to_owned()),
    };
    PinKey {
        server: given.cloned().or(server).unwrap_or_else(|| by_program(program)),
        name,
        uid: nix::unistd::getuid().as_raw(),
    }
}

/// A server that nothing else is known of is called as its program.
fn by_program(program: &str) -> ServerId {
    let name = program.rsplit('/').next().unwrap_or_default();
    ServerId::new(name).unwrap_or_else(|_| ServerId::new(NAMELESS).expect("a plain word is an id"))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(None, &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("server-memory".to_owned(), "@modelcontextprotocol/server-memory".to_owned()); "derived")]
    #[test_case(Some("mine"), &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("mine".to_owned(), "@modelcontextprotocol/server-memory".to_owned()); "given")]
    #[test_case(None, &["/opt/tool", "serve"] => ("tool".to_owned(), "/opt/tool".to_owned()); "by its program")]
    #[test_case(None, &["/opt/my tool"] => ("server".to_owned(), "/opt/my tool".to_owned()); "no name for an id")]
    fn identities(given: Option<&str>, argv: &[&str]) -> (String, String) {
        let given = given.map(|id| ServerId::new(id).expect("an id"));
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let key = of(&Policy::default(), &LaunchRules::default(), given.as_ref(), &argv);
        (key.server.to_string(), key.name)
    }
}
