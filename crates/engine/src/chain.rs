//! Scripts whose `#!` line names another script: the interpreter of the first script is then a file to be compared,
//! too.

use std::borrow::Cow;

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_model::Exec;

use crate::gated::last_component;

/// A script that was executed, and the scripts that interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptChain {
    /// The script that `execve` was given.
    pub(super) script: String,
    /// The scripts that its `#!` line named, and theirs.
    pub(super) interpreters: Vec<String>,
    /// The arguments, as if the last interpreter had been given the script directly.
    argv: Vec<String>,
    /// `argv` with links resolved; empty if the exec had no resolved arguments.
    linked: Vec<String>,
}

impl ScriptChain {
    /// Finds the chain in the arguments of a process that executed a script: the kernel puts each interpreter and its
    /// option before the path that it interprets.
    pub(super) fn of(exec: &Exec) -> Option<Self> {
        let argv = &exec.argv;
        // The argument of a program may be its own path, and the arguments of an executed interpreter are no chain.
        let executed = last_component(&exec.filename);
        if executed == last_component(argv.first()?) || LaunchRules::stage(&[executed]) != Stage::Program {
            return None;
        }
        let end = 2 + argv.iter().skip(2).position(|word| *word == exec.filename)?;
        let first = LaunchRules::scripts(&argv[..end]).into_iter().next()?.path?;
        let start = 1 + argv[1..end].iter().position(|word| *word == first)?;
        Some(Self::between(exec, start, end))
    }

    /// Finds the same chain in the arguments of the next exec of the process: `env` looks up the interpreter and
    /// executes it.
    pub(super) fn again(script: &str, interpreters: &[String], exec: &Exec) -> Option<Self> {
        let argv = &exec.argv;
        let end = argv.iter().position(|word| word == script)?;
        let start = 1 + argv
            .get(1..end)?
            .iter()
            .rposition(|word| Some(word) == interpreters.first())?;
        let chain = Self::between(exec, start, end);
        (chain.interpreters == interpreters).then_some(chain)
    }

    fn between(exec: &Exec, start: usize, end: usize) -> Self {
        let argv = &exec.argv;
        let without = |words: &[String]| [&words[..start], &words[end..]].concat();
        // The kernel puts the argument of each `#!` line next to its path; the argument may be an option of the
        // interpreter.
        let between = argv[start..end]
            .iter()
            .filter(|word| word.contains('/') && !word.starts_with('-'));
        Self {
            script: argv[end].clone(),
            interpreters: between.cloned().collect(),
            argv: without(argv),
            linked: match exec.linked.len() == argv.len() {
                true => without(&exec.linked),
                false => Vec::new(),
            },
        }
    }

    /// Returns `exec` without the scripts of the chain between interpreter and script.
    pub(super) fn shortened(&self, exec: &Exec) -> Exec {
        Exec {
            argv: self.argv.clone(),
            linked: self.linked.clone(),
            ..exec.clone()
        }
    }
}

/// Returns `exec` without the scripts of its chain, if it has a chain.
pub(super) fn shortened<'e>(exec: &'e Exec, chain: Option<&ScriptChain>) -> Cow<'e, Exec> {
    chain.map_or(Cow::Borrowed(exec), |chain| Cow::Owned(chain.shortened(exec)))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn exec(line: &str, script: &str) -> Exec {
        Exec {
            argv: line.split(' ').map(str::to_owned).collect(),
            filename: script.to_owned(),
            ..Exec::default()
        }
    }

    fn shown(chain: &ScriptChain) -> String {
        format!("{}: {}", chain.interpreters.join(" "), chain.argv.join(" "))
    }

    #[test_case("/usr/bin/python3 /o/run /o/server --x", "/o/server" => Some("/o/run: /usr/bin/python3 /o/server --x".to_owned()); "a script between")]
    #[test_case("/bin/sh -e /o/run /o/server", "/o/server" => Some("/o/run: /bin/sh -e /o/server".to_owned()); "a shell with an option")]
    #[test_case("/bin/sh /o/b -u /o/a ./server x", "./server" => Some("/o/b /o/a: /bin/sh ./server x".to_owned()); "two between, one with an option")]
    #[test_case("/usr/bin/env node /o/run /o/server", "/o/server" => Some("/o/run: /usr/bin/env node /o/server".to_owned()); "by env")]
    #[test_case("/usr/bin/python3 -u /o/server", "/o/server" => None; "no script between")]
    #[test_case("/usr/bin/env node /o/server", "/o/server" => None; "env alone")]
    #[test_case("/usr/bin/python3 /o/server /o/file", "/usr/bin/python3" => None; "an interpreter")]
    #[test_case("/o/server a /o/server", "/o/server" => None; "a program")]
    #[test_case("/usr/bin/node /opt/s.js --node /usr/bin/node", "/usr/bin/node" => None; "an interpreter that is told its path")]
    #[test_case("python /opt/s.py /usr/bin/python3", "/usr/bin/python3" => None; "an interpreter by a link that is told its path")]
    #[test_case("/bin/sh /o/run serve /o/server", "/o/server" => Some("/o/run: /bin/sh /o/server".to_owned()); "a word for the interpreter")]
    fn chains(line: &str, script: &str) -> Option<String> {
        ScriptChain::of(&exec(line, script)).as_ref().map(shown)
    }

    #[test_case("node -r x /o/run /o/server --x" => Some("/o/run: node -r x /o/server --x".to_owned()); "what env executes")]
    #[test_case("bash /y/node exec node /o/run /o/server" => Some("/o/run: bash /y/node exec node /o/server".to_owned()); "a launcher between")]
    #[test_case("node /o/run /o/other" => None; "another script")]
    #[test_case("node /o/run /o/more /o/server" => None; "one more between")]
    #[test_case("/o/server" => None; "the script alone")]
    fn chains_that_go_on(line: &str) -> Option<String> {
        let interpreters = ["/o/run".to_owned()];
        let chain = ScriptChain::again("/o/server", &interpreters, &exec(line, "/usr/bin/node"));
        chain.as_ref().map(shown)
    }
}
