//! Recognition of the server that a command starts, by the policy: declared servers first, then patterns of
//! commands.

use mcpmon_detect::launch::{Launch, LaunchRules, Stage, matches_declared};
use mcpmon_model::{Package, PinKey};
use mcpmon_policy::{Policy, Transport};

/// Hexadecimal digits in the name of a binary that cargo built.
const CARGO_HASH: usize = 16;

/// Returns the launch rules of a policy.
pub fn launch_rules(policy: &Policy) -> LaunchRules {
    let patterns = &policy.launch_patterns;
    if !patterns.enabled {
        return LaunchRules::new(Some(Vec::new()), Vec::new(), Vec::new());
    }
    LaunchRules::new(
        patterns.server_patterns.clone(),
        patterns.custom_servers.clone(),
        patterns.exclude_servers.clone(),
    )
}

/// Returns the server that `argv` starts, if it starts one; `rules` are those of the policy.
pub fn recognise(policy: &Policy, rules: &LaunchRules, argv: &[String]) -> Option<Launch> {
    recognise_linked(policy, rules, argv, &[])
}

/// Returns the same for `linked`, which is `argv` with links into installed packages resolved; empty if there are none.
/// The command of a package then has the package's name, as for the launcher that starts it.
pub fn recognise_linked(
    policy: &Policy,
    rules: &LaunchRules,
    argv: &[String],
    linked: &[String],
) -> Option<Launch> {
    let declared = policy.servers.iter().find_map(|server| match &server.transport {
        Transport::Stdio { command, args } => {
            matches_declared(command, args, argv).then_some((&server.id, command, args))
        }
        Transport::Remote { .. } => None,
    });
    let detected = rules.detect_linked(argv, linked);
    let Some((id, command, args)) = declared else {
        let is_test = argv.first().is_some_and(|program| is_test_binary(program));
        let found = detected.filter(|launch| !(is_test && launch.stage == Stage::Program));
        return found.map(|launch| with_declared_spelling(policy, launch));
    };
    Some(match detected {
        Some(launch) => Launch {
            server: id.clone(),
            is_declared: true,
            ..launch
        },
        None => Launch {
            server: id.clone(),
            is_declared: true,
            stage: LaunchRules::stage_of_named(argv),
            pattern: format!("mcp.servers[{id}]"),
            name: name_of(command, args),
            package: LaunchRules::package(argv, linked),
            permitting: None,
        },
    })
}

/// Returns whether a path is that of a test binary that cargo or Go built: it has the name of the crate or package that it
/// tests, and a new name with each build.
fn is_test_binary(path: &str) -> bool {
    let Some((directory, name)) = path.rsplit_once('/') else {
        return false;
    };
    let of_cargo = || {
        let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
        let is_hash = hash.len() == CARGO_HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash && directory.rsplit('/').next() == Some("deps")
    };
    let of_go = || name.ends_with(".test") && directory.contains("/go-build");
    of_cargo() || of_go()
}

/// Returns the launch of the server that a wrapper reports for `argv`.
pub(super) fn started_by_wrapper(server: &PinKey, argv: &[String]) -> Launch {
    Launch {
        server: server.server.clone(),
        is_declared: false,
        permitting: None,
        stage: LaunchRules::stage_of_named(argv),
        pattern: "wrapped".to_owned(),
        name: server.name.clone(),
        package: server.package(),
    }
}

/// Returns the name under which a server's files are pinned: the text of its package, or else the name that its launch gave.
pub fn pin_name(package: Option<&Package>, name: &str) -> String {
    package.map_or(name, Package::as_str).to_owned()
}

/// Returns the name of a declared server without other names: its script or module, else its program. The server has
/// the same name if it is not declared, because pins depend on it.
fn name_of(command: &str, args: &[String]) -> String {
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    let argv: Vec<String> = words.map(str::to_owned).collect();
    match LaunchRules::stage_of_named(&argv) {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => path,
        Stage::Module { name } => name,
        Stage::Launcher
        | Stage::Shell { script: None }
        | Stage::Program
        | Stage::Container { .. }
        | Stage::Inline => command.to_owned(),
    }
}

/// Gives a server that was found by its name the declared spelling of that name.
fn with_declared_spelling(policy: &Policy, launch: Launch) -> Launch {
    let mut ids = policy.servers.iter().map(|server| &server.id);
    let exact = ids.clone().find(|id| **id == launch.server);
    match exact.or_else(|| ids.find(|id| id.is_spelling_of(&launch.server))) {
        Some(id) => Launch {
            server: id.clone(),
            ..launch
        },
        None => launch,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/home/me/mcp-server/target/debug/deps/mcp_server-0f3a9c41d2b7e685" => false; "a test of cargo")]
    #[test_case("target/release/deps/mcp_server-0f3a9c41d2b7e685" => false; "by a relative path")]
    #[test_case("/tmp/go-build1234/b001/mcp-server.test" => false; "a test of Go")]
    #[test_case("/home/me/mcp-server/target/debug/mcp-server" => true; "the server itself")]
    #[test_case("/opt/mcp-server-0f3a9c41d2b7e685" => true; "a name with a hash elsewhere")]
    #[test_case("/opt/deps/mcp-server" => true; "a directory of that name")]
    fn a_program_is_a_server(path: &str) -> bool {
        let argv = [path.to_owned()];
        recognise(&Policy::default(), &LaunchRules::default(), &argv).is_some()
    }
}
