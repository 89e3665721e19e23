//! Files that a command executes before the server runs: launchers, and scripts before interpreters.

use std::borrow::Cow;

use super::{
    LaunchRules, Stage,
    command::{Command, unversioned},
    container,
    file::FileName,
    interpreter::{self, is_shell, shell_step},
    loader, prefix, runner,
    target::{Subject, TargetStep, step},
};

/// Most programs that one command is assumed to look up.
const MAX_SEARCHED: usize = 16;
/// The name of mcpmon's own program.
const WRAPPER: &str = "mcpmon";
/// The commands of mcpmon that start another program.
const WRAPPER_VERBS: [&str; 2] = ["wrap", "run"];

impl LaunchRules {
    /// Returns whether `name` is that of a program that starts servers and is no server.
    pub fn is_launcher(name: &str) -> bool {
        is_shell(name)
            || runner::find(name).is_some()
            || prefix::find(name).is_some()
            || container::is_client(name)
    }

    /// Returns the file that a process executes, if such a file can come before a server: the script of a shell or
    /// interpreter, or the program that `execve` was given. A path that is not absolute is relative to the working
    /// directory of the process.
    pub fn executed_file<S: AsRef<str>>(argv: &[S], filename: &str) -> Option<String> {
        let command = Command::from_argv(argv);
        let name = command.program();
        if is_shell(name) {
            return match shell_step(command) {
                TargetStep::Is(target, _) => match target.stage {
                    Stage::Shell { script } => script,
                    Stage::Launcher
                    | Stage::Script { .. }
                    | Stage::Module { .. }
                    | Stage::Program
                    | Stage::Container { .. }
                    | Stage::Inline => None,
                },
                TargetStep::Runs(_) | TargetStep::Shell(_) => None,
            };
        }
        if let Some(interpreter) = interpreter::find(unversioned(name)) {
            return interpreter.script(&command);
        }
        if prefix::find(name).is_some() {
            return None;
        }
        // A wrapper executes by descriptor. The argument of `execve` is a path, even without a slash; a first argument
        // need not be one. A program that a loader runs counts as if it had been executed without the loader.
        let is_path = loader::program_at(argv).is_none() && !filename.is_empty();
        let filename = Some(filename).filter(|path| is_path && !path.starts_with("/dev/fd/"));
        let path = filename.or_else(|| Some(command.word(0)).filter(|word| word.contains('/')))?;
        Some(path.to_owned())
    }

    /// Returns whether a program is a script by the ending of its name, so that an interpreter runs it.
    pub fn is_script(program: &str) -> bool {
        FileName::read(program, None).is_script()
    }

    /// Returns whether a command runs `mcpmon wrap` or `mcpmon run`, directly or through shells and prefixes. The wrapper
    /// is no process of the server that it starts.
    pub fn leads_to_wrapper<S: AsRef<str>>(argv: &[S]) -> bool {
        let mut pending = vec![Command::from_argv(argv)];
        for _ in 0..MAX_SEARCHED {
            let Some(command) = pending.pop() else { break };
            if command.program() == WRAPPER {
                return command
                    .words
                    .iter()
                    .skip(1)
                    .any(|word| WRAPPER_VERBS.contains(&word.as_ref()));
            }
            if let TargetStep::Runs(commands) | TargetStep::Shell(commands) = step(command) {
                pending.extend(commands);
            }
        }
        false
    }

    /// Returns the names of programs that the shells and prefixes of a command look up when it runs.
    pub fn searched<S: AsRef<str>>(argv: &[S]) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![Command::from_argv(argv)];
        while let Some(command) = pending.pop() {
            let name = command.program();
            if !is_shell(name) && prefix::find(name).is_none() {
                continue;
            }
            let commands = match step(command) {
                TargetStep::Runs(commands) | TargetStep::Shell(commands) => commands,
                TargetStep::Is(..) => continue,
            };
            for command in commands {
                if found.len() == MAX_SEARCHED {
                    return found;
                }
                found.push(command.word(0).to_owned());
                pending.push(command);
            }
        }
        found
    }

    /// Returns the paths of the scripts that a command and its inner commands run, and of the directories in which its
    /// launchers run them; they are relative to the working directory, or to the previous directory.
    pub fn scripts<S: AsRef<str>>(argv: &[S]) -> Vec<ScriptPath> {
        let mut found = Vec::new();
        let mut pending = vec![Command::from_argv(argv)];
        while let Some(command) = pending.pop() {
            let target = match step(command) {
                TargetStep::Runs(commands) | TargetStep::Shell(commands) => {
                    let free = MAX_SEARCHED.saturating_sub(pending.len());
                    pending.extend(commands.into_iter().take(free));
                    continue;
                }
                // The scripts of a container are inside it.
                TargetStep::Is(target, _) => target,
            };
            let path = match (target.subject, target.stage) {
                (Subject::File(path) | Subject::Served(path), _) => Some(path.into_owned()),
                (_, Stage::Script { path } | Stage::Shell { script: Some(path) }) => Some(path),
                _ => None,
            };
            let directory = target.directory.map(Cow::into_owned);
            if path.is_some() || directory.is_some() {
                found.push(ScriptPath { directory, path });
            }
            if found.len() == MAX_SEARCHED {
                break;
            }
        }
        found
    }
}

/// A script in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPath {
    /// The directory in which a launcher was told to run it.
    pub directory: Option<String>,
    /// The script; `None` if the launcher finds it in the directory.
    pub path: Option<String>,
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test_case("/bin/sh /home/me/bin/python3 server.py", "/home/me/bin/python3" => Some("/home/me/bin/python3".to_owned()); "a script of a shell")]
    #[test_case("node /usr/bin/npx -y pkg", "/usr/bin/node" => Some("/usr/bin/npx".to_owned()); "a launcher that is a script")]
    #[test_case("/usr/bin/env node /usr/bin/npx -y pkg", "/usr/bin/npx" => None; "what env executes next")]
    #[test_case("python3 -m mcp_server_time", "/usr/bin/python3" => None; "a module")]
    #[test_case("ip netns exec lab npx -y pkg", "/usr/sbin/ip" => None; "a network namespace")]
    #[test_case("sh start.sh", "/bin/sh" => Some("start.sh".to_owned()); "a relative script")]
    #[test_case("node ./node_modules/.bin/npx -y pkg", "/usr/bin/node" => Some("./node_modules/.bin/npx".to_owned()); "a relative launcher that is a script")]
    #[test_case("uvx mcp-server-time", "../bin/uvx" => Some("../bin/uvx".to_owned()); "a relative program")]
    #[test_case("uvx mcp-server-time", "uvx" => Some("uvx".to_owned()); "a program in the working directory")]
    #[test_case("../bin/uvx mcp-server-time", "/dev/fd/7" => Some("../bin/uvx".to_owned()); "a relative program by descriptor")]
    #[test_case("sh -c npx", "/bin/sh" => None; "a line")]
    #[test_case("uvx mcp-server-time", "/usr/bin/uvx" => Some("/usr/bin/uvx".to_owned()); "a program")]
    #[test_case("/usr/bin/uvx mcp-server-time", "/dev/fd/7" => Some("/usr/bin/uvx".to_owned()); "by descriptor")]
    #[test_case("uvx mcp-server-time", "/dev/fd/7" => None; "by descriptor and name")]
    #[test_case("/lib64/ld-linux-x86-64.so.2 --preload x ./mcp-time y", "/lib64/ld-linux-x86-64.so.2" => Some("./mcp-time".to_owned()); "by a loader")]
    fn executed_files(line: &str, filename: &str) -> Option<String> {
        LaunchRules::executed_file(&argv(line), filename)
    }

    #[test_case("env A=b npx -y pkg" => "npx"; "env")]
    #[test_case("ip netns exec lab npx -y pkg" => "npx"; "a network namespace")]
    #[test_case("ip netns add lab" => ""; "no command")]
    #[test_case("timeout 5 nice python3 server.py" => "nice python3"; "one behind another")]
    #[test_case("npx -y pkg" => ""; "a launcher looks up by itself")]
    fn searched(line: &str) -> String {
        LaunchRules::searched(&argv(line)).join(" ")
    }

    #[test_case("node /srv/a.js" => "/srv/a.js"; "an interpreter")]
    #[test_case("bash /srv/a.sh x" => "/srv/a.sh"; "a shell")]
    #[test_case("env A=b timeout 5 node a.js" => "a.js"; "behind other programs")]
    #[test_case("uv --directory /srv run server.py" => "/srv:server.py"; "in a directory")]
    #[test_case("uv --directory /srv run mcp-server-x" => "/srv:"; "what is found in a directory")]
    #[test_case("npx -y pkg" => ""; "a package")]
    #[test_case("docker run -i image node /srv/a.js" => ""; "in a container")]
    fn scripts(line: &str) -> String {
        let scripts = LaunchRules::scripts(&argv(line)).into_iter();
        let scripts = scripts.map(|script| {
            let directory = script.directory.map(|directory| format!("{directory}:"));
            directory.unwrap_or_default() + &script.path.unwrap_or_default()
        });
        scripts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_line_of_a_shell_is_searched() {
        let found = LaunchRules::searched(&["sh", "-c", "cd / && exec uvx mcp-server-time"]);
        assert!(found.iter().any(|name| name == "uvx"), "{found:?}");
    }

    #[test_case("mcpmon wrap -- npx -y pkg" => true; "a wrapper")]
    #[test_case("/opt/bin/mcpmon --config x wrap --server a -- npx -y pkg" => true; "with options")]
    #[test_case("env A=b timeout 5 mcpmon wrap -- npx" => true; "behind prefixes")]
    #[test_case("mcpmon run -- claude" => true; "a session")]
    #[test_case("mcpmon events" => false; "another command")]
    #[test_case("npx -y pkg mcpmon wrap" => false; "an argument")]
    #[test_case("/opt/mcpmon-server wrap" => false; "another program")]
    fn wrappers(line: &str) -> bool {
        LaunchRules::leads_to_wrapper(&argv(line))
    }

    #[test]
    fn a_wrapper_in_a_shell_line_is_found() {
        assert!(LaunchRules::leads_to_wrapper(&[
            "sh",
            "-c",
            "cd /srv && exec mcpmon wrap -- npx -y pkg"
        ]));
    }

    #[test_case("npx" => true)]
    #[test_case("uvx" => true)]
    #[test_case("env" => true)]
    #[test_case("sh" => true)]
    #[test_case("python3" => false)]
    #[test_case("node" => false)]
    #[test_case("mcp-server-time" => false)]
    fn launchers(name: &str) -> bool {
        LaunchRules::is_launcher(name)
    }
}
