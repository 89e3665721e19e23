//! Identity of the wrapped server, which owns its pins.

use std::path::Path;

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_engine::{launch_rules, recognise_linked};
use mcpmon_model::{PinKey, ServerId};
use mcpmon_policy::Policy;

use super::{DestinationError, WrapOptions, own::linked_words};

/// Name of a server whose command has no usable name.
const NAMELESS: &str = "server";
/// File names that many servers have: the name of the directory is used instead.
const COMMON: [&str; 8] = [
    "__main__", "app", "cli", "index", "main", "mcp", "server", "start",
];

/// Returns the identity of the server that `argv` starts. `given` is the user's name for it; `linked` is `argv` with
/// links into installed packages followed.
pub(super) fn of(
    policy: &Policy,
    rules: &LaunchRules,
    given: Option<&ServerId>,
    argv: &[String],
    linked: &[String],
) -> PinKey {
    let (server, name) = match recognise_linked(policy, rules, argv, linked) {
        Some(launch) => (launch.server, launch.name),
        None => unknown(argv),
    };
    PinKey {
        server: given.cloned().unwrap_or(server),
        name,
        uid: nix::unistd::getuid().as_raw(),
    }
}

/// Returns the id that follows from a server's program, its address or its declaration under this policy, whatever its
/// client calls it.
pub(super) fn derived(policy: &Policy, options: &WrapOptions) -> Result<ServerId, DestinationError> {
    if let Some(remote) = &options.remote {
        return Ok(remote.destination(policy)?.id);
    }
    let argv = command(options);
    Ok(of(policy, &launch_rules(policy), None, &argv, &linked_words(&argv)).server)
}

/// Returns the id that follows from a command without any declaration.
pub(in crate::app) fn derived_id(argv: &[String]) -> ServerId {
    let policy = Policy::default();
    of(&policy, &launch_rules(&policy), None, argv, &linked_words(argv)).server
}

/// Returns the words of the server's command.
pub(super) fn command(options: &WrapOptions) -> Vec<String> {
    let words = std::iter::once(&options.program).chain(&options.arguments);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Names a server that is not recognised after what runs: its script or module, or else its program.
fn unknown(argv: &[String]) -> (ServerId, String) {
    let program = || argv.first().cloned().unwrap_or_default();
    match LaunchRules::stage_of_named(argv) {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => (id(&script_name(&path)), path),
        Stage::Module { name } => (id(&name), name),
        Stage::Program if LaunchRules::is_script(&program()) => (id(&script_name(&program())), program()),
        Stage::Launcher
        | Stage::Shell { script: None }
        | Stage::Program
        | Stage::Container { .. }
        | Stage::Inline => {
            let program = program();
            (id(program.rsplit('/').next().unwrap_or_default()), program)
        }
    }
}

/// Returns `notes` for `/srv/notes.py` and for `/srv/notes/index.js`.
fn script_name(path: &str) -> String {
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let directory = path.parent().and_then(Path::file_name);
    match directory {
        Some(directory) if COMMON.contains(&stem.as_ref()) => directory.to_string_lossy().into_owned(),
        _ => stem.into_owned(),
    }
}

fn id(name: &str) -> ServerId {
    ServerId::new(name).unwrap_or_else(|_| ServerId::new(NAMELESS).expect("a plain word is an id"))
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{Server, Transport};
    use test_case::test_case;

    use super::*;

    #[test_case(None, &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("server-memory".to_owned(), "@modelcontextprotocol/server-memory".to_owned()); "derived")]
    #[test_case(Some("mine"), &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("mine".to_owned(), "@modelcontextprotocol/server-memory".to_owned()); "given")]
    #[test_case(None, &["/opt/tool", "serve"] => ("tool".to_owned(), "/opt/tool".to_owned()); "by its program")]
    #[test_case(None, &["/srv/notes.py"] => ("notes".to_owned(), "/srv/notes.py".to_owned()); "by its script, executed")]
    #[test_case(None, &["/srv/mcp-server-notes.py", "x"] => ("mcp-server-notes".to_owned(), "mcp-server-notes".to_owned()); "by its script, executed and recognised")]
    #[test_case(None, &["python3", "/srv/mcp-server-notes.py"] => ("mcp-server-notes".to_owned(), "mcp-server-notes".to_owned()); "by its script, recognised")]
    #[test_case(None, &["python3", "-u", "/srv/notes.py"] => ("notes".to_owned(), "/srv/notes.py".to_owned()); "by its script")]
    #[test_case(None, &["python3", "/srv/b/notes.py"] => ("notes".to_owned(), "/srv/b/notes.py".to_owned()); "another script of that name")]
    #[test_case(None, &["node", "/srv/notes/index.js"] => ("notes".to_owned(), "/srv/notes/index.js".to_owned()); "by its script's directory")]
    #[test_case(None, &["python3", "-m", "notes_store"] => ("notes_store".to_owned(), "notes_store".to_owned()); "by its module")]
    #[test_case(None, &["/opt/my tool"] => ("server".to_owned(), "/opt/my tool".to_owned()); "no name for an id")]
    fn identities(given: Option<&str>, argv: &[&str]) -> (String, String) {
        let given = given.map(|id| ServerId::new(id).expect("an id"));
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let key = of(
            &Policy::default(),
            &LaunchRules::default(),
            given.as_ref(),
            &argv,
            &[],
        );
        (key.server.to_string(), key.name)
    }

    #[test_case(&["python3", "/srv/notes.py", "--data", "/x"]; "script")]
    #[test_case(&["node", "/srv/notes/index.js"]; "script of a directory")]
    #[test_case(&["python3", "-m", "notes_store"]; "module")]
    #[test_case(&["sh", "/srv/notes.sh"]; "script of a shell")]
    #[test_case(&["/opt/tool", "serve"]; "program")]
    #[test_case(&["npx", "-y", "@modelcontextprotocol/server-memory"]; "package")]
    #[test_case(&["node", "-e", "x"]; "code")]
    fn a_declaration_changes_no_identity(argv: &[&str]) {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let before = of(&Policy::default(), &LaunchRules::default(), None, &argv, &[]);
        let declared = Server {
            id: before.server.clone(),
            transport: Transport::Stdio {
                command: argv[0].clone(),
                args: argv[1..].to_vec(),
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: Default::default(),
            egress: None,
            on_change: None,
        };
        let policy = Policy {
            servers: vec![declared],
            ..Policy::default()
        };
        let after = of(&policy, &LaunchRules::default(), None, &argv, &[]);
        assert_eq!((before.server, before.name), (after.server, after.name));
    }
}
