//! Names by which the kernel knows a start of a pinned server, to stop it before its first instruction.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use mcpmon_detect::{
    agents::is_agent,
    launch::{LaunchRules, Stage},
};
use mcpmon_model::{LOADER_NAMES, PinKey, is_loader_command};

use crate::{
    instances::ServingProcess,
    pins::{PinBook, Pins},
};

/// A name that pinned servers of a user are started by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatedName {
    /// The user.
    pub uid: u32,
    /// The part of the start that has the name.
    pub part: GatedPart,
    /// The name.
    pub name: String,
}

/// The part of a start that has a gated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatedPart {
    /// The program, which is the server itself and nothing else.
    Program,
    /// The interpreter, container client, or program of which a subcommand is the server; alone it says nothing.
    Interpreter,
    /// The script, module, image or subcommand among the arguments, without what stands before its last `/`.
    Argument,
}

/// Most names of one package that were learned from its starts.
const MAX_LEARNED: usize = 16;
/// Bytes of a command name that the kernel keeps.
const COMM: usize = 15;
/// Subcommands by which programs are servers, see [`subcommand_words`].
const SUBCOMMANDS: [&[&str]; 13] = [
    &["--mcp"],
    &["--mcp", "start"],
    &["boost:mcp"],
    &["experimental:mcp"],
    &["mcp"],
    &["mcp", "gateway", "run"],
    &["mcp", "serve"],
    &["mcp", "start"],
    &["mcp-server"],
    &["mcp:start"],
    &["run-mcp-server"],
    &["run-test-mcp-server"],
    &["start-mcp-server"],
];

static BUILT_IN: LazyLock<LaunchRules> = LazyLock::new(LaunchRules::default);

type Name = (GatedPart, String);

/// The names of the starts that were accepted in this run, beside those that follow from pins: a command may be a link,
/// whose name no pin has.
#[derive(Debug, Default)]
pub(super) struct LearnedNames {
    of: BTreeMap<PinKey, BTreeSet<Name>>,
}

impl LearnedNames {
    /// Learns from an accepted start; returns whether that is news.
    pub(super) fn learn(&mut self, key: &PinKey, serving: &ServingProcess) -> bool {
        let names = without_clients(key, names_of_start(&serving.program, &serving.stage));
        let known = self.of.entry(key.clone()).or_default();
        let before = known.len();
        for name in names {
            if known.len() < MAX_LEARNED {
                known.insert(name);
            }
        }
        known.len() > before
    }

    /// Every name of what is pinned.
    pub(super) fn with_pins(&self, pins: &PinBook) -> BTreeSet<GatedName> {
        let mut names = BTreeSet::new();
        for (key, sets) in pins.iter() {
            let pinned = sets.values().flat_map(|pins| {
                let names = names_of_pins(key, pins);
                without_clients(key, names)
            });
            let learned = self.of.get(key).into_iter().flatten().cloned();
            names.extend(pinned.chain(learned).map(|(part, name)| GatedName {
                uid: key.uid,
                part,
                name,
            }));
        }
        let by_loaders: Vec<_> = names.iter().flat_map(GatedName::by_loaders).collect();
        names.extend(by_loaders);
        names
    }
}

impl GatedName {
    /// The names by which the kernel knows a start of the same program that a dynamic loader is told to run.
    fn by_loaders(&self) -> impl Iterator<Item = Self> {
        let of_user = |part, name: &str| Self {
            uid: self.uid,
            part,
            name: name.to_owned(),
        };
        let is_program = self.part == GatedPart::Program;
        let program = is_program.then(|| of_user(GatedPart::Argument, &self.name));
        let loaders = LOADER_NAMES.iter().filter(move |_| is_program);
        program
            .into_iter()
            .chain(loaders.map(move |loader| of_user(GatedPart::Interpreter, loader)))
    }
}

/// The names in a start that the kernel saw.
fn names_of_start(program: &str, stage: &Stage) -> Vec<Name> {
    // What was executed by descriptor has a number for its name.
    let is_number = program.bytes().all(|byte| byte.is_ascii_digit());
    let argument = match stage {
        Stage::Program if is_number => return Vec::new(),
        Stage::Program => return vec![(GatedPart::Program, program.to_owned())],
        Stage::Script { path } => path,
        Stage::Module { name } => name,
        Stage::Container { image } => image,
        // They are compared when they have been alone for a while, or never.
        Stage::Shell { .. } | Stage::Launcher | Stage::Inline => return Vec::new(),
    };
    let argument = last_component(argument);
    let mut names = vec![(GatedPart::Argument, argument.to_owned())];
    if argument.bytes().take(COMM).eq(program.bytes().take(COMM)) {
        names.push((GatedPart::Program, argument.to_owned())); // by its `#!` line
    } else if !is_number {
        names.push((GatedPart::Interpreter, program.to_owned()));
    }
    names
}

/// The names by which pinned files are likely to be started.
fn names_of_pins(key: &PinKey, pins: &Pins) -> Vec<Name> {
    let executable = file_name(&pins.executable.path);
    let name = last_component(key.bare_name());
    let own = [executable, name];
    if is_program(pins) {
        return own
            .iter()
            .map(|name| (GatedPart::Program, (*name).to_owned()))
            .collect();
    }
    let is_launcher = LaunchRules::is_launcher(executable);
    let script = pins.script.as_ref().map(|script| file_name(&script.path));
    let mut names: Vec<Name> = unversioned(executable)
        .map(|name| (GatedPart::Interpreter, name.to_owned()))
        .collect();
    // A module has the name of its distribution in another spelling.
    let module = name.replace('-', "_");
    let module = Some(module.as_str()).filter(|module| *module != name);
    for name in script.into_iter().chain([name]).chain(module) {
        names.push((GatedPart::Argument, name.to_owned()));
        if !is_launcher && (pins.package.is_some() || pins.script.is_some()) {
            names.push((GatedPart::Program, name.to_owned())); // by its `#!` line
        }
    }
    names
}

/// Returns whether what is pinned is a program that is a server itself.
pub(super) fn is_program(pins: &Pins) -> bool {
    let executable = file_name(&pins.executable.path);
    pins.script.is_none()
        && pins.package.is_none()
        && !LaunchRules::is_launcher(executable)
        && LaunchRules::stage(&[executable]) == Stage::Program
}

/// Returns whether people start a program of this name for something else than the server with this key, too.
pub(super) fn is_client(key: &PinKey, name: &str) -> bool {
    !subcommand_words(key.bare_name()).is_empty()
        || is_loader_command(name)
        || is_agent(name.get(..COMM).unwrap_or(name))
}

/// The same names, none of which is that of a program that people start in a terminal for something else than the server:
/// a shell that sees it stopped takes its terminal away. A program of which a subcommand is the server, or that is an agent
/// too, is known by the subcommand; a dynamic loader runs any program, and is known by what it is told to run.
fn without_clients(key: &PinKey, names: Vec<Name>) -> Vec<Name> {
    let words = subcommand_words(key.bare_name());
    let is_client = |name: &str| {
        !words.is_empty() || is_loader_command(name) || is_agent(name.get(..COMM).unwrap_or(name))
    };
    let mut kept: Vec<Name> = Vec::new();
    for (part, name) in names {
        match part {
            GatedPart::Program if is_client(&name) => kept.push((GatedPart::Interpreter, name)),
            GatedPart::Argument if is_client(&name) => {}
            GatedPart::Program | GatedPart::Interpreter | GatedPart::Argument => kept.push((part, name)),
        }
    }
    kept.extend(words.iter().map(|word| (GatedPart::Argument, (*word).to_owned())));
    kept
}

/// The first words of the subcommands by which a package or program is a server that is none without them.
fn subcommand_words(name: &str) -> BTreeSet<&'static str> {
    let is_server = |words: &[&str]| {
        let line = [&["npx", "--", name], words].concat();
        BUILT_IN.detect(&line).is_some()
    };
    if is_server(&[]) {
        return BTreeSet::new();
    }
    let subcommands = SUBCOMMANDS.iter().filter(|words| is_server(words));
    subcommands.filter_map(|words| words.first().copied()).collect()
}

/// `python3.11`, `python3`, `python`: a command names an interpreter with more or less of its version.
fn unversioned(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let shorter = digits.strip_suffix('.').unwrap_or(digits);
        (shorter.len() < name.len() && !shorter.is_empty()).then_some(shorter)
    })
}

pub(super) fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

pub(super) fn last_component(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mcpmon_model::{Digest, Exec, ServerId, Timestamp};
    use test_case::test_case;

    use super::*;
    use crate::pins::PinnedFile;

    fn file(path: &str) -> PinnedFile {
        PinnedFile {
            path: PathBuf::from(path),
            digest: Digest::of(path.as_bytes()),
        }
    }

    fn key(name: &str) -> PinKey {
        PinKey {
            server: ServerId::new("x").expect("id"),
            name: name.to_owned(),
            uid: 7,
        }
    }

    /// A start as the kernel tells it.
    fn started(filename: &str, comm: &str, argv: &[&str], stage: Stage) -> ServingProcess {
        let exec = Exec {
            filename: filename.to_owned(),
            comm: comm.to_owned(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            ..Exec::default()
        };
        ServingProcess::new(&exec, stage, Timestamp::default())
    }

    fn shown(names: Vec<Name>) -> Vec<String> {
        names
            .into_iter()
            .map(|(part, name)| format!("{part:?} {name}"))
            .collect()
    }

    #[test_case("mcp-git", Stage::Program => vec!["Program mcp-git"]; "a program")]
    #[test_case("9", Stage::Program => Vec::<String>::new(); "a program by descriptor")]
    #[test_case("node", Stage::Script { path: "dist/index.js".to_owned() } => vec!["Argument index.js", "Interpreter node"]; "a script")]
    #[test_case("mcp-server-of-a", Stage::Script { path: "/b/mcp-server-of-a-long-name".to_owned() } => vec!["Argument mcp-server-of-a-long-name", "Program mcp-server-of-a-long-name"]; "a script with its own interpreter")]
    #[test_case("python3", Stage::Module { name: "mcp_git".to_owned() } => vec!["Argument mcp_git", "Interpreter python3"]; "a module")]
    #[test_case("docker", Stage::Container { image: "mcp/time".to_owned() } => vec!["Argument time", "Interpreter docker"]; "an image")]
    #[test_case("python3", Stage::Inline => Vec::<String>::new(); "code in an argument")]
    fn starts_are_known_by(comm: &str, stage: Stage) -> Vec<String> {
        shown(names_of_start(comm, &stage))
    }

    #[test_case("/o/git-real", None, "mcp-git" => vec!["Program git-real", "Program mcp-git"]; "a program by a link")]
    #[test_case("/usr/bin/python3.11", Some("/s/server.py"), "/s/server.py" => vec!["Interpreter python3.11", "Interpreter python3", "Interpreter python", "Argument server.py", "Program server.py", "Argument server.py", "Program server.py"]; "a script")]
    #[test_case("/usr/bin/docker", None, "mcp/time" => vec!["Interpreter docker", "Argument time"]; "an image")]
    #[test_case("/usr/bin/node", None, "x" => vec!["Interpreter node", "Argument x"]; "an interpreter alone stops nothing by its name")]
    fn pins_are_known_by(executable: &str, script: Option<&str>, name: &str) -> Vec<String> {
        shown(names_of_pins(&key(name), &pins(executable, script)))
    }

    fn pins(executable: &str, script: Option<&str>) -> Pins {
        Pins {
            executable: file(executable),
            script: script.map(file),
            package: None,
            launcher: None,
        }
    }

    #[test_case("codex", "/o/codex", None => vec!["Interpreter codex", "Interpreter codex", "Argument mcp-server"]; "codex")]
    #[test_case("claude", "/v/2.0.1", None => vec!["Interpreter 2.0.1", "Interpreter claude", "Argument mcp"]; "claude by a link")]
    #[test_case("goose", "/o/goose", None => vec!["Interpreter goose", "Interpreter goose", "Argument mcp"]; "goose")]
    #[test_case("gopls", "/o/gopls", None => vec!["Interpreter gopls", "Interpreter gopls", "Argument mcp"]; "a tool that is no agent")]
    #[test_case("docker", "/usr/bin/docker", None => vec!["Interpreter docker", "Argument mcp"]; "a container client")]
    #[test_case("@openai/codex", "/usr/bin/node", Some("/n/bin/codex.js") => vec!["Interpreter node", "Interpreter codex.js", "Interpreter codex", "Argument mcp-server"]; "a script")]
    #[test_case("gemini", "/o/gemini", None => vec!["Interpreter gemini", "Interpreter gemini"]; "an agent without a known subcommand")]
    #[test_case("helper", "/o/code", None => vec!["Interpreter code", "Program helper"]; "a server in an agent's program")]
    #[test_case("mcp-git", "/o/mcp-git", None => vec!["Program mcp-git", "Program mcp-git"]; "a server itself")]
    #[test_case("codex-tools", "/o/codex-tools", None => vec!["Program codex-tools", "Program codex-tools"]; "a longer name than an agent's")]
    fn clients_are_known_by_their_subcommand(
        name: &str,
        executable: &str,
        script: Option<&str>,
    ) -> Vec<String> {
        let key = key(name);
        shown(without_clients(
            &key,
            names_of_pins(&key, &pins(executable, script)),
        ))
    }

    #[test_case("codex", "codex", Stage::Program, Some(GatedPart::Interpreter); "a client")]
    #[test_case("mcp-git", "mcp-git", Stage::Program, Some(GatedPart::Program); "a server itself")]
    #[test_case("@openai/codex", "node", Stage::Script { path: "/usr/bin/codex".to_owned() }, None; "a client's script")]
    fn starts_of_clients_teach_no_program(
        key_name: &str,
        comm: &str,
        stage: Stage,
        of_name: Option<GatedPart>,
    ) {
        let mut learned = LearnedNames::default();
        let serving = started(comm, comm, &[comm], stage);
        let key = key(key_name);
        assert!(learned.learn(&key, &serving));
        let names = &learned.of[&key];
        let name = last_component(key_name);
        let part = names
            .iter()
            .find(|(_, known)| known == name)
            .map(|(part, _)| *part);
        assert_eq!(part, of_name, "{names:?}");
        let is_by_word = names.contains(&(GatedPart::Argument, "mcp-server".to_owned()));
        assert_eq!(is_by_word, name == "codex", "{names:?}");
    }

    #[test]
    fn every_subcommand_of_the_launch_rules_is_looked_for() {
        let rules = include_str!("../../detect/rules/tables/launchers.toml");
        let value = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let mut found = 0;
        for rule in rules.split("[[").filter(|rule| rule.starts_with("subcommand]]")) {
            let get = |key: &str| rule.lines().find(|line| line.starts_with(key)).and_then(value);
            let words = get("words = ").expect("words");
            let words: Vec<&str> = words.split(' ').collect();
            // A bridge: what it runs is the server, known by its own name.
            if words == ["run"] {
                continue;
            }
            found += 1;
            assert!(SUBCOMMANDS.contains(&words.as_slice()), "{words:?}");
            for program in get("programs = ").expect("programs").split(' ') {
                let known = subcommand_words(program);
                assert!(known.contains(words[0]), "{program} {words:?}: {known:?}");
            }
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn only_names_of_what_is_pinned_are_gated() {
        let mut learned = LearnedNames::default();
        let mut book = PinBook::default();
        let serving = |comm: &str| started(comm, comm, &[comm], Stage::Program);
        assert!(learned.learn(&key("a"), &serving("link")));
        assert!(!learned.learn(&key("a"), &serving("link")), "known already");
        assert!(learned.with_pins(&book).is_empty());
        book.add(key("a"), pins("/o/a", None));
        let gated = |name: &str, part| GatedName {
            uid: 7,
            part,
            name: name.to_owned(),
        };
        let by_loaders = LOADER_NAMES
            .iter()
            .map(|loader| gated(loader, GatedPart::Interpreter));
        let expected: BTreeSet<_> = ["a", "link"]
            .iter()
            .flat_map(|name| [gated(name, GatedPart::Program), gated(name, GatedPart::Argument)])
            .chain(by_loaders)
            .collect();
        assert_eq!(learned.with_pins(&book), expected);
    }

    /// Returns whether the kernel stops a start below an agent or a server: by its command name, or by that and an argument.
    fn stops(names: &BTreeSet<GatedName>, uid: u32, comm: &str, argv: &[&str]) -> bool {
        let is_in = |part: GatedPart, name: &str| {
            names.iter().any(|gated| {
                let kept = match part {
                    GatedPart::Program | GatedPart::Interpreter => {
                        gated.name.get(..COMM).unwrap_or(&gated.name)
                    }
                    GatedPart::Argument => &gated.name,
                };
                (gated.uid, gated.part, kept) == (uid, part, name)
            })
        };
        let argument = || {
            argv.iter()
                .any(|word| is_in(GatedPart::Argument, last_component(word)))
        };
        is_in(GatedPart::Program, comm) || is_in(GatedPart::Interpreter, comm) && argument()
    }

    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    const LOADER_COMM: &str = "ld-linux-x86-64";
    const LONG: &str = "a-very-long-server-name";

    #[test_case("/o/mcp-git", started(LOADER, LOADER_COMM, &[LOADER, "/o/mcp-git"], Stage::Program); "a program behind a loader")]
    #[test_case(LOADER, started(LOADER, LOADER_COMM, &["mcp-git", "./mcp-git"], Stage::Program); "a loader that says it is the program")]
    #[test_case("/home/me/ld.so", started("/home/me/ld.so", "ld.so", &["/home/me/ld.so", "mcp-git"], Stage::Program); "a loader of one's own")]
    #[test_case("/usr/lib/musl/lib/libc.so", started("/lib/ld-musl-x86_64.so.1", "ld-musl-x86_64.", &["/lib/ld-musl-x86_64.so.1", "mcp-git"], Stage::Program); "musl")]
    fn a_server_behind_a_loader_stops_nothing_else_that_loaders_run(pinned: &str, serving: ServingProcess) {
        let (mut learned, mut book) = (LearnedNames::default(), PinBook::default());
        book.add(key("mcp-git"), pins(pinned, None));
        learned.learn(&key("mcp-git"), &serving);
        let names = learned.with_pins(&book);
        for loader in LOADER_NAMES {
            let comm = loader.get(..COMM).unwrap_or(loader);
            assert!(!stops(&names, 7, comm, &[loader, "/bin/true"]), "{names:?}");
            assert!(!stops(&names, 8, comm, &[loader, "/o/mcp-git"]), "another user");
            assert!(stops(&names, 7, comm, &[loader, "/o/mcp-git"]), "{names:?}");
        }
    }

    #[test_case(started(&format!("/o/{LONG}"), "a-very-long-ser", &[LONG], Stage::Program); "itself")]
    #[test_case(started(LOADER, LOADER_COMM, &[LOADER, "./a-very-long-server-name"], Stage::Program); "by a loader")]
    fn names_that_the_kernel_cuts_are_learned_in_full(serving: ServingProcess) {
        let (mut learned, mut book) = (LearnedNames::default(), PinBook::default());
        // A link: no pin has its name.
        book.add(key("x"), pins("/o/x", None));
        learned.learn(&key("x"), &serving);
        let names = learned.with_pins(&book);
        assert!(stops(&names, 7, "a-very-long-ser", &[LONG]), "{names:?}");
        let by_loader = [LOADER, "--argv0", "y", "./a-very-long-server-name"];
        assert!(stops(&names, 7, LOADER_COMM, &by_loader), "{names:?}");
        assert!(
            !stops(&names, 7, LOADER_COMM, &[LOADER, "./a-very-long-ser"]),
            "{names:?}"
        );
    }
}
