//! Runs of package managers that change installed packages.

use mcpmon_model::Ecosystem;

use super::command::{Command, program_name, unversioned};

/// Most words before the verb: an interpreter, its option, the manager, a subcommand, and options.
const MAX_WORDS: usize = 8;
/// Managers of npm packages, and the verbs that change packages.
const NPM: (&[&str], &[&str]) = (
    &["npm", "pnpm", "yarn", "yarnpkg", "bun"],
    &[
        "install",
        "i",
        "add",
        "ci",
        "update",
        "up",
        "upgrade",
        "remove",
        "rm",
        "uninstall",
        "un",
        "dedupe",
    ],
);
/// Managers of Python distributions, and their verbs.
const PYPI: (&[&str], &[&str]) = (
    &[
        "pip", "uv", "pipx", "poetry", "pdm", "rye", "pipenv", "conda", "mamba",
    ],
    &[
        "install",
        "add",
        "sync",
        "update",
        "upgrade",
        "upgrade-all",
        "remove",
        "uninstall",
        "reinstall",
        "lock",
    ],
);

/// Words between a manager and its verb.
const GROUPS: [&str; 4] = ["pip", "tool", "global", "workspace"];

/// A run of a package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallerRun {
    /// The kind of packages that it changes.
    pub ecosystem: Ecosystem,
    /// The manager and its verb, without options and arguments: `pip install`.
    pub command: String,
}

impl InstallerRun {
    /// Returns the run of a package manager that `argv` is, if it is one that changes packages.
    pub fn parse(argv: &[String]) -> Option<Self> {
        let command = Command::from_argv(argv);
        let words: Vec<&str> = command.words.iter().take(MAX_WORDS).map(AsRef::as_ref).collect();
        [(Ecosystem::Npm, NPM), (Ecosystem::Pypi, PYPI)]
            .into_iter()
            .find_map(|(ecosystem, (managers, verbs))| {
                let name = |word: &&str| {
                    let name = program_name(word);
                    let name = name.strip_suffix("-cli.js").unwrap_or(name);
                    let name = unversioned(name.strip_suffix(".js").unwrap_or(name));
                    managers.iter().copied().find(|known| *known == name)
                };
                // As a program, as the script of an interpreter, or as its module.
                let at = match words.as_slice() {
                    [first, option, ..] if is_interpreter(first) && *option == "-m" => 2,
                    [first, ..] if is_interpreter(first) => 1,
                    _ => 0,
                };
                let manager = name(words.get(at)?)?;
                let rest = words[at + 1..]
                    .iter()
                    .copied()
                    .filter(|word| !word.starts_with('-'));
                let verb = match (rest.clone().next()?, rest.clone().nth(1)) {
                    (verb, _) if verbs.contains(&verb) => 0,
                    // `uv pip install`, `uv tool upgrade`.
                    (group, Some(verb)) if GROUPS.contains(&group) && verbs.contains(&verb) => 1,
                    (_, Some(_) | None) => return None,
                };
                let named: Vec<&str> = std::iter::once(manager).chain(rest.take(verb + 1)).collect();
                Some(Self {
                    ecosystem,
                    command: named.join(" "),
                })
            })
    }
}

fn is_interpreter(word: &str) -> bool {
    matches!(
        unversioned(program_name(word)),
        "node" | "nodejs" | "python" | "sh" | "bash"
    )
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("npm install x" => Some("npm install".to_owned()); "npm")]
    #[test_case("node /usr/bin/npm i -g x" => Some("npm i".to_owned()); "its script")]
    #[test_case("node /usr/lib/node_modules/npm/bin/npm-cli.js update" => Some("npm update".to_owned()); "its file")]
    #[test_case("/usr/bin/python3 /venv/bin/pip install -U mcp" => Some("pip install".to_owned()); "pip")]
    #[test_case("python3.11 -m pip install mcp" => Some("pip install".to_owned()); "the module of pip")]
    #[test_case("pip3.12 uninstall mcp" => Some("pip uninstall".to_owned()); "pip of a version")]
    #[test_case("uv pip install mcp" => Some("uv pip install".to_owned()); "pip of uv")]
    #[test_case("uv tool upgrade mcp-server-time" => Some("uv tool upgrade".to_owned()); "a tool of uv")]
    #[test_case("uv --quiet add mcp" => Some("uv add".to_owned()); "an option before the verb")]
    #[test_case("pip --proxy http://user:secret@host install x" => None; "a value of an option")]
    #[test_case("npm run update" => None; "a script with the name of a verb")]
    #[test_case("npm run build" => None; "a script of npm")]
    #[test_case("npx -y x" => None; "npx")]
    #[test_case("pip list" => None; "a list")]
    #[test_case("grep npm install" => None; "words of another program")]
    #[test_case("" => None; "nothing")]
    fn runs(line: &str) -> Option<String> {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        InstallerRun::parse(&argv).map(|run| run.command)
    }
}
