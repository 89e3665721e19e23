//! Identity of the wrapped server, which owns its pins.

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_engine::{id, launch_rules, pin_name, plain_id, recognise_linked, script_name};
use mcpmon_model::{DerivedId, Package, PinKey, ServerId};
use mcpmon_policy::Policy;

use super::{DestinationError, WrapOptions, own::command_files};
use crate::app::linked::CommandFiles;

/// Returns the identity of the server that `argv` starts. `given` is the user's name for it; `files` is what the files of
/// the command tell.
pub(super) fn of(
    policy: &Policy,
    rules: &LaunchRules,
    given: Option<&ServerId>,
    argv: &[String],
    files: &CommandFiles,
) -> PinKey {
    recognised(policy, rules, given, argv, files).0
}

/// Returns the same, and whether the command is that of a declaration.
fn recognised(
    policy: &Policy,
    rules: &LaunchRules,
    given: Option<&ServerId>,
    argv: &[String],
    files: &CommandFiles,
) -> (PinKey, bool) {
    let (server, is_declared, name, named) = match recognise_linked(policy, rules, argv, &files.linked) {
        Some(launch) => (launch.server, launch.is_declared, launch.name, launch.package),
        None => {
            let package = LaunchRules::package(argv, &files.linked);
            let (server, name) = unknown(argv, package.as_ref());
            (server, false, name, package)
        }
    };
    let package = files.package.clone().or(named);
    let identity = PinKey {
        server: given.cloned().unwrap_or(server),
        name: pin_name(package.as_ref(), &name),
        uid: nix::unistd::getuid().as_raw(),
    };
    (identity, is_declared)
}

/// Returns the id that follows from a server's program, its address or its declaration under this policy, whatever its
/// client calls it.
pub(super) fn derived(policy: &Policy, options: &WrapOptions) -> Result<DerivedId, DestinationError> {
    if let Some(remote) = &options.remote {
        return Ok(DerivedId {
            id: remote.destination(policy)?.id,
            is_declared: true,
        });
    }
    let argv = command(options);
    let rules = launch_rules(policy);
    let (identity, is_declared) = recognised(policy, &rules, None, &argv, &command_files(&argv));
    Ok(DerivedId {
        id: identity.server,
        is_declared,
    })
}

/// Returns the words of the server's command.
pub(super) fn command(options: &WrapOptions) -> Vec<String> {
    let words = std::iter::once(&options.program).chain(&options.arguments);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Names a server that is not recognised after what runs: its script or module, the package that a launcher starts, or else
/// its program.
fn unknown(argv: &[String], package: Option<&Package>) -> (ServerId, String) {
    let program = || argv.first().cloned().unwrap_or_default();
    match LaunchRules::stage_of_named(argv) {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => (id(&script_name(&path)), path),
        Stage::Module { name } => (id(&name), name),
        Stage::Program if LaunchRules::is_script(&program()) => (id(&script_name(&program())), program()),
        Stage::Launcher | Stage::Container { .. } if package.is_some() => {
            let program = program();
            (package.map_or_else(|| id(&program), plain_id), program)
        }
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

#[cfg(test)]
mod tests {
    use mcpmon_policy::{Server, Transport};
    use test_case::test_case;

    use super::*;

    #[test_case(None, &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("server-memory".to_owned(), "npm:@modelcontextprotocol/server-memory".to_owned()); "derived")]
    #[test_case(Some("mine"), &["npx", "-y", "@modelcontextprotocol/server-memory"] => ("mine".to_owned(), "npm:@modelcontextprotocol/server-memory".to_owned()); "given")]
    #[test_case(None, &["/opt/tool", "serve"] => ("tool".to_owned(), "program:tool".to_owned()); "by its program")]
    #[test_case(None, &["/srv/notes.py"] => ("notes".to_owned(), "script:/srv/notes.py".to_owned()); "by its script, executed")]
    #[test_case(None, &["/srv/mcp-server-notes.py", "x"] => ("mcp-server-notes".to_owned(), "script:/srv/mcp-server-notes.py".to_owned()); "by its script, executed and recognised")]
    #[test_case(None, &["python3", "/srv/mcp-server-notes.py"] => ("mcp-server-notes".to_owned(), "script:/srv/mcp-server-notes.py".to_owned()); "by its script, recognised")]
    #[test_case(None, &["python3", "-u", "/srv/notes.py"] => ("notes".to_owned(), "script:/srv/notes.py".to_owned()); "by its script")]
    #[test_case(None, &["python3", "/srv/b/notes.py"] => ("notes".to_owned(), "script:/srv/b/notes.py".to_owned()); "another script of that name")]
    #[test_case(None, &["node", "/srv/notes/index.js"] => ("notes".to_owned(), "script:/srv/notes/index.js".to_owned()); "by its script's directory")]
    #[test_case(None, &["python3", "-m", "notes_store"] => ("notes_store".to_owned(), "pypi:notes-store".to_owned()); "by its module")]
    #[test_case(None, &["/opt/my tool"] => ("server".to_owned(), "program:my tool".to_owned()); "no name for an id")]
    fn identities(given: Option<&str>, argv: &[&str]) -> (String, String) {
        let given = given.map(|id| ServerId::new(id).expect("an id"));
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let key = of(
            &Policy::default(),
            &LaunchRules::default(),
            given.as_ref(),
            &argv,
            &CommandFiles::default(),
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
        let before = of(
            &Policy::default(),
            &LaunchRules::default(),
            None,
            &argv,
            &CommandFiles::default(),
        );
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
        let after = of(
            &policy,
            &LaunchRules::default(),
            None,
            &argv,
            &CommandFiles::default(),
        );
        assert_eq!((before.server, before.name), (after.server, after.name));
    }
}
