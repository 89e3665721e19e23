//! Declared servers: the comparison of an argv with a declared command.

use super::{
    budget::Budget,
    command::{Command, Word, program_name},
    target::{Subject, TargetStep, step},
};

/// Returns whether `argv` starts the server declared as `command` with `args`.
///
/// The program is compared by its name, the arguments word for word; wrappers, shells and the forms that
/// `#!` scripts take are seen through.
pub fn matches_declared<S: AsRef<str>>(command: &str, args: &[String], argv: &[S]) -> bool {
    // A declared program may have spaces in its name, as a title has.
    let as_given = Command::from_words(argv.iter().map(AsRef::as_ref));
    same_command(command, args, &as_given.words)
        || matches_at(command, args, Command::from_argv(argv), Budget::default())
}

fn matches_at(name: &str, args: &[String], command: Command<'_>, budget: Budget) -> bool {
    if command.words.is_empty() {
        return false;
    }
    if same_command(name, args, &command.words) {
        return true;
    }
    match step(command) {
        TargetStep::Runs(commands) => budget
            .wrapper()
            .is_some_and(|budget| any(name, args, commands, budget)),
        TargetStep::Shell(commands) => budget
            .shell()
            .is_some_and(|budget| any(name, args, commands, budget)),
        TargetStep::Is(target, _) => match &target.subject {
            Subject::File(path) => {
                program_name(path) == program_name(name) && same_words(args, &target.arguments)
            }
            Subject::Package { .. }
            | Subject::Module(_)
            | Subject::Served(_)
            | Subject::Program(_)
            | Subject::Image(_)
            | Subject::Task(_)
            | Subject::Code => false,
        },
    }
}

fn any(name: &str, args: &[String], commands: Vec<Command<'_>>, budget: Budget) -> bool {
    commands
        .into_iter()
        .any(|command| matches_at(name, args, command, budget))
}

fn same_command(name: &str, args: &[String], words: &[Word<'_>]) -> bool {
    let (program, arguments) = match words {
        // The command that `uvx` executes.
        [uv, tool, uvx, rest @ ..] if program_name(uv) == "uv" && tool == "tool" && uvx == "uvx" => {
            ("uvx", rest)
        }
        [program, rest @ ..] => (program_name(program), rest),
        [] => return false,
    };
    program == program_name(name) && same_words(args, arguments)
}

fn same_words(args: &[String], words: &[Word<'_>]) -> bool {
    args.len() == words.len() && args.iter().zip(words).all(|(arg, word)| arg == word)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&["npx", "-y", "pkg", "/data"] => true; "as declared")]
    #[test_case(&["/usr/bin/npx", "-y", "pkg", "/data"] => true; "by path")]
    #[test_case(&["/usr/bin/env", "node", "/usr/bin/npx", "-y", "pkg", "/data"] => true; "hash bang through env")]
    #[test_case(&["node", "/usr/bin/npx", "-y", "pkg", "/data"] => true; "hash bang")]
    #[test_case(&["node", "/usr/lib/node_modules/npm/bin/npx-cli.js", "-y", "pkg", "/data"] => true; "script of npm")]
    #[test_case(&["/lib64/ld-linux-x86-64.so.2", "--preload", "x.so", "/usr/bin/npx", "-y", "pkg", "/data"] => true; "by the dynamic loader")]
    #[test_case(&["sh", "-c", "exec npx -y pkg '/data'"] => true; "shell")]
    #[test_case(&["nohup", "sh", "-c", "cd / && npx -y pkg /data"] => true; "wrapper and shell")]
    #[test_case(&["npx", "-y", "pkg"] => false; "an argument less")]
    #[test_case(&["npx", "-y", "pkg", "/data", "x"] => false; "an argument more")]
    #[test_case(&["npx", "-y", "pkg", "/date"] => false; "another argument")]
    #[test_case(&["echo", "npx", "-y", "pkg", "/data"] => false; "an argument of something else")]
    #[test_case(&[] => false; "nothing")]
    fn declared_npx(argv: &[&str]) -> bool {
        matches_declared("npx", &["-y", "pkg", "/data"].map(str::to_owned), argv)
    }

    #[test_case("/opt/venv/bin/my-server", &["/opt/venv/bin/python", "/opt/venv/bin/my-server", "--x"] => true; "script of a virtual environment")]
    #[test_case("my-server", &["/opt/venv/bin/python", "-u", "/opt/venv/bin/my-server", "--x"] => true; "interpreter with options")]
    #[test_case("uvx", &["uv", "tool", "uvx", "--x"] => true; "what uvx becomes")]
    #[test_case("my-server", &["python", "-m", "my-server", "--x"] => false; "a module is no script")]
    fn declared_programs(command: &str, argv: &[&str]) -> bool {
        matches_declared(command, &["--x".to_owned()], argv)
    }
}
