//! Names by which the kernel knows candidates: programs that may be servers with an egress list. The kernel restricts and
//! stops them until the daemon has judged them, and no other programs.
//!
//! Below an agent or a server, every interpreter and launcher of the server's language is a candidate. Elsewhere a start
//! needs an argument of the server as well, so that `node build.js` in a terminal is none.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_model::{LOADER_NAMES, ServerId};
use mcpmon_policy::{Policy, Server, Transport};

use crate::{
    gated::{GatedPart, last_component},
    recognise::recognise,
};

/// Interpreters and launchers of a language, without versions.
struct Language {
    programs: &'static [&'static str],
    endings: &'static [&'static str],
}

const NODE: Language = Language {
    programs: &[
        "node", "nodejs", "npx", "npm", "pnpm", "pnpx", "yarn", "yarnpkg", "bun", "bunx", "deno", "tsx",
        "ts-node", "electron",
    ],
    endings: &[".js", ".mjs", ".cjs", ".ts", ".mts"],
};
const PYTHON: Language = Language {
    programs: &[
        "python", "pythonw", "pypy", "graalpy", "uv", "uvx", "pipx", "poetry", "pdm", "hatch", "rye",
        "pipenv", "mcp", "fastmcp",
    ],
    endings: &[".py", ".pyw", ".pyz"],
};
const CONTAINERS: Language = Language {
    programs: &["docker", "podman", "nerdctl", "finch"],
    endings: &[],
};
const LANGUAGES: [&Language; 3] = [&NODE, &PYTHON, &CONTAINERS];

/// Words of launchers that many commands have, so that they say nothing about a server.
const VERBS: [&str; 4] = ["run", "exec", "tool", "dlx"];
/// Versions in the names of programs: `python3.11`. The kernel compares whole names.
const PYTHON_VERSIONS: std::ops::RangeInclusive<u32> = 6..=20;
/// A name of a candidate, and the part of a start that has it.
pub type CandidateName = (GatedPart, String);

/// Returns the names by which the servers with these egress lists can be started, apart from those that their pins and
/// earlier starts have.
pub(super) fn declared(
    policy: &Policy,
    launches: &LaunchRules,
    restricted: &BTreeMap<ServerId, u32>,
) -> BTreeSet<CandidateName> {
    let mut names = Names {
        policy,
        launches,
        found: BTreeSet::new(),
    };
    let servers = policy.servers.iter();
    for server in servers.filter(|server| restricted.contains_key(&server.id)) {
        names.of_server(server);
    }
    names.with_loaders()
}

struct Names<'a> {
    policy: &'a Policy,
    launches: &'a LaunchRules,
    found: BTreeSet<CandidateName>,
}

impl Names<'_> {
    fn of_server(&mut self, server: &Server) {
        if let Transport::Stdio { command, args } = &server.transport {
            self.of_command(&server.id, command, args);
        }
        self.of_id(&server.id);
    }

    fn of_command(&mut self, id: &ServerId, command: &str, args: &[String]) {
        let words: Vec<String> = std::iter::once(command)
            .chain(args.iter().map(String::as_str))
            .map(str::to_owned)
            .collect();
        let program = last_component(command);
        let stage = LaunchRules::stage(&words);
        if let Stage::Script { path } = &stage {
            self.add(GatedPart::Program, last_component(path)); // by its `#!` line
        }
        // A line of a shell has words of its own.
        let parts = words.iter().flat_map(|word| word.split_whitespace());
        let parts: Vec<&str> = parts.map(|part| part.trim_matches(['"', '\'', ';'])).collect();
        for part in &parts {
            self.language_of(part);
        }
        let arguments: Vec<&str> = parts
            .iter()
            .skip(1)
            .filter(|part| !part.starts_with('-') && !VERBS.contains(part))
            .map(|part| last_component(part))
            .collect();
        for argument in &arguments {
            self.add(GatedPart::Argument, argument);
        }
        self.add(GatedPart::Argument, program); // as the script of an interpreter
        let is_alone = arguments.is_empty() || self.is_server(id, &[command]);
        if is_shell_or_prefix(program) {
            // What it starts is known by the words above.
        } else if stage == Stage::Program && is_alone {
            self.add(GatedPart::Program, program);
        } else {
            self.add(GatedPart::Interpreter, program);
        }
    }

    /// Adds the names by which the server is recognised without its declaration: a rule for a server applies however it is
    /// started.
    fn of_id(&mut self, id: &ServerId) {
        for spelling in spellings(id.as_str()) {
            let name = spelling.as_str();
            if self.is_server(id, &[name]) {
                self.add(GatedPart::Program, name);
                for ending in NODE.endings.iter().chain(PYTHON.endings) {
                    self.add(GatedPart::Program, &format!("{name}{ending}"));
                }
            }
            let forms: [(&Language, &[&str]); 3] = [
                (&NODE, &["npx", "-y", name]),
                (&PYTHON, &["python3", "-m", name]),
                (&CONTAINERS, &["docker", "run", "-i", name]),
            ];
            for (language, words) in forms {
                if !self.is_server(id, words) {
                    continue;
                }
                self.add_language(language);
                self.add(GatedPart::Argument, name);
                for ending in language.endings {
                    self.add(GatedPart::Argument, &format!("{name}{ending}"));
                }
            }
        }
    }

    fn is_server(&self, id: &ServerId, words: &[&str]) -> bool {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        recognise(self.policy, self.launches, &words).is_some_and(|launch| launch.server == *id)
    }

    fn language_of(&mut self, word: &str) {
        let name = last_component(word);
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        for language in LANGUAGES {
            let is_script = language.endings.iter().any(|ending| name.ends_with(ending));
            if language.programs.contains(&stem) || is_script {
                self.add_language(language);
            }
        }
    }

    fn add_language(&mut self, language: &Language) {
        for program in language.programs {
            self.add(GatedPart::Interpreter, program);
            if matches!(*program, "python" | "pypy") {
                for version in ["2", "3"] {
                    self.add(GatedPart::Interpreter, &format!("{program}{version}"));
                }
                for minor in PYTHON_VERSIONS {
                    self.add(GatedPart::Interpreter, &format!("{program}3.{minor}"));
                }
            }
        }
    }

    fn add(&mut self, part: GatedPart, name: &str) {
        if name.chars().any(|c| c != '.') {
            self.found.insert((part, name.to_owned()));
        }
    }

    /// Adds the names of the same programs behind a dynamic loader.
    fn with_loaders(mut self) -> BTreeSet<CandidateName> {
        let programs = self.found.iter().filter(|(part, _)| *part == GatedPart::Program);
        let programs: Vec<String> = programs.map(|(_, name)| name.clone()).collect();
        if !programs.is_empty() {
            for loader in LOADER_NAMES {
                self.add(GatedPart::Interpreter, loader);
            }
        }
        for program in programs {
            self.add(GatedPart::Argument, &program);
        }
        self.found
    }
}

/// The spellings of a name that mean the same server: packages, modules and programs differ in them.
fn spellings(id: &str) -> BTreeSet<String> {
    let all = ["-", "_", "."].map(|separator| id.replace(['-', '_', '.'], separator));
    all.into_iter().chain([id.to_owned()]).collect()
}

/// A shell or a prefix (`env`, `timeout`) starts another program, which is a candidate itself.
fn is_shell_or_prefix(program: &str) -> bool {
    let known = LANGUAGES.iter().any(|language| {
        let stem = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        language.programs.contains(&stem)
    });
    !known && LaunchRules::is_launcher(program)
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{Egress, EgressDefault, SandboxPolicy};
    use test_case::test_case;

    use super::*;

    /// Bytes of a command name that the kernel keeps.
    const COMM: usize = 15;

    /// Returns whether the kernel makes a candidate of a start: a command name with arguments, below an agent or not.
    fn is_candidate(names: &BTreeSet<CandidateName>, is_below: bool, comm: &str, argv: &[&str]) -> bool {
        let has = |part, name: &str| {
            names.iter().any(|(known, text)| {
                let kept = match part {
                    GatedPart::Argument => text.as_str(),
                    GatedPart::Program | GatedPart::Interpreter => text.get(..COMM).unwrap_or(text),
                };
                *known == part && kept == name
            })
        };
        let comm = comm.get(..COMM).unwrap_or(comm);
        let has_argument = || {
            argv.iter()
                .skip(1)
                .any(|word| has(GatedPart::Argument, last_component(word)))
        };
        has(GatedPart::Program, comm) || has(GatedPart::Interpreter, comm) && (is_below || has_argument())
    }

    fn names(id: &str, command: &str, args: &[&str]) -> BTreeSet<CandidateName> {
        let server = Server {
            id: ServerId::new(id).expect("id"),
            transport: Transport::Stdio {
                command: command.to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            },
            egress: Some(Egress {
                default: EgressDefault::Deny,
                allow: Vec::new(),
                deny: Vec::new(),
            }),
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            on_change: None,
            sandbox: SandboxPolicy::default(),
        };
        let restricted = BTreeMap::from([(server.id.clone(), 2)]);
        let policy = Policy {
            servers: vec![server],
            ..Policy::default()
        };
        declared(&policy, &LaunchRules::default(), &restricted)
    }

    /// A declaration: id, command, arguments.
    type Declared = (&'static str, &'static str, &'static [&'static str]);
    const NPX: Declared = (
        "files",
        "npx",
        &["-y", "@modelcontextprotocol/server-filesystem", "/data"],
    );
    const UVX: Declared = ("mcp-server-time", "uvx", &["mcp-server-time"]);
    const SCRIPT: Declared = ("weather", "/srv/venv/bin/python3.11", &["/srv/weather/main.py"]);
    const LINE: Declared = (
        "weather",
        "sh",
        &["-c", "cd /srv && exec node build/weather-server.js"],
    );
    const NATIVE: Declared = ("notes", "/opt/notes-server", &["--stdio"]);
    const SUBCOMMAND: Declared = ("hub", "gh", &["mcp-tool"]);
    const IMAGE: Declared = ("time", "docker", &["run", "-i", "--rm", "mcp/time"]);

    #[test_case(NPX, false, "npx", &["npx", "-y", "@modelcontextprotocol/server-filesystem", "/data"]; "npx from a program that nobody knows")]
    #[test_case(NPX, true, "node", &["node", "x.js"]; "node below an agent")]
    #[test_case(UVX, false, "uvx", &["uvx", "mcp-server-time"]; "uvx")]
    #[test_case(UVX, false, "python3", &["python3", "-m", "mcp_server_time"]; "the module of the same server")]
    #[test_case(UVX, false, "mcp-server-time", &["/v/bin/python", "/v/bin/mcp-server-time"]; "its console script")]
    #[test_case(SCRIPT, false, "python3.11", &["python3.11", "/srv/weather/main.py"]; "a script")]
    #[test_case(SCRIPT, false, "main.py", &["python3", "/srv/weather/main.py"]; "a script by its first line")]
    #[test_case(SCRIPT, true, "python3.12", &["python3.12", "-c", "pass"]; "another version below an agent")]
    #[test_case(LINE, false, "node", &["node", "build/weather-server.js"]; "what a shell starts")]
    #[test_case(NATIVE, false, "notes-server", &["/opt/notes-server", "--stdio"]; "a native program")]
    #[test_case(NATIVE, false, "ld-linux-x86-64", &["/lib64/ld-linux-x86-64.so.2", "/opt/notes-server"]; "behind a loader")]
    #[test_case(SUBCOMMAND, false, "gh", &["gh", "mcp-tool"]; "a subcommand")]
    #[test_case(IMAGE, false, "docker", &["docker", "run", "-i", "--rm", "mcp/time"]; "an image")]
    fn starts_of_a_declared_server_are_candidates(
        (id, command, args): Declared,
        is_below: bool,
        comm: &str,
        argv: &[&str],
    ) {
        let names = names(id, command, args);
        assert!(is_candidate(&names, is_below, comm, argv), "{names:?}");
    }

    #[test_case(NPX, false, "node", &["node", "build.js"]; "node in a terminal")]
    #[test_case(NPX, true, "python3", &["python3", "x.py"]; "another language below an agent")]
    #[test_case(NPX, true, "curl", &["curl", "https://example.com"]; "curl")]
    #[test_case(LINE, true, "sh", &["sh", "-c", "make"]; "a shell below an agent")]
    #[test_case(SCRIPT, false, "python3", &["python3", "-m", "http.server"]; "python in a terminal")]
    #[test_case(UVX, false, "time", &["time", "make"]; "a tool with a word of the id")]
    #[test_case(SUBCOMMAND, false, "gh", &["gh", "pr", "list"]; "another subcommand")]
    #[test_case(("git", "uvx", &["mcp-server-git"]), true, "git", &["git", "clone"]; "a tool with the name of a server")]
    #[test_case(IMAGE, false, "docker", &["docker", "run", "alpine"]; "another image")]
    fn other_programs_are_no_candidates(
        (id, command, args): Declared,
        is_below: bool,
        comm: &str,
        argv: &[&str],
    ) {
        let names = names(id, command, args);
        assert!(!is_candidate(&names, is_below, comm, argv), "{names:?}");
    }

    #[test]
    fn a_server_without_an_egress_list_has_no_candidates() {
        let policy = Policy::default();
        let names = declared(&policy, &LaunchRules::default(), &BTreeMap::new());
        assert!(names.is_empty(), "{names:?}");
    }
}
