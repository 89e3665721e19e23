//! Launch rules of a configuration, and detection with them.

use mcpmon_model::{NameGlob, ServerId};

use super::{
    Launch, Stage,
    bridge::{BRIDGES, Behind, behind},
    budget::Budget,
    builtin::built_in,
    command::{Command, Word, basename},
    container,
    identity::{Claim, claims, server_id, subject_text},
    interpreter::is_shell,
    loader,
    pattern::BUILT_IN_PATTERNS,
    target::{Subject, Target, TargetStep, step},
};

/// Most bytes of a command line that globs are matched against.
const MAX_LINE: usize = 4096;
/// Longest name that can be a server's, bytes: npm's longest, and room for a path.
pub(super) const MAX_NAME: usize = 512;

/// The recognition of MCP servers among commands, compiled once from configuration.
#[derive(Clone, Debug)]
pub struct LaunchRules {
    patterns: Patterns,
    custom: Vec<NameGlob>,
    exclude: Vec<NameGlob>,
}

#[derive(Clone, Debug)]
enum Patterns {
    BuiltIn(Vec<NameGlob>),
    Configured(Vec<NameGlob>),
}

/// A detected server, without the stage of its command.
struct FoundServer {
    server: ServerId,
    role: ProcessRole,
    pattern: String,
    name: String,
    /// The file that runs, if a glob of the configuration made it a server.
    configured_file: Option<String>,
}

impl FoundServer {
    /// Returns whether a glob of the configuration named a link; the target of the link need not match any name then.
    fn is_followed<S: AsRef<str>>(&self, argv: &[S], linked: &[String]) -> bool {
        let Some(file) = &self.configured_file else {
            return false;
        };
        let mut words = argv.iter().map(AsRef::as_ref).zip(linked);
        words.any(|(word, linked)| word == file && word != linked)
    }
}

/// The role of the process that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessRole {
    /// The process is the server, or connects to a remote one.
    Serves,
    /// The process starts the server as a child.
    Starts,
}

/// The state from the enclosing levels of a command.
#[derive(Clone, Copy)]
struct Above<'r> {
    /// A custom glob that matched the whole line of one of them.
    custom: Option<&'r NameGlob>,
    budget: Budget,
}

/// The result that a command is excluded, whatever else matches.
struct Excluded;

impl Default for LaunchRules {
    fn default() -> Self {
        Self::new(None, Vec::new(), Vec::new())
    }
}

impl LaunchRules {
    /// Builds rules with `patterns` in place of the built-in ones and of the built-in list of servers, if given.
    ///
    /// All globs are matched against the name of the program that runs (package, module, image, program, with and
    /// without scope), its path, its basename, and the whole command line joined by spaces. `patterns` do not make a
    /// developer's tool a server, `custom` ones do; `exclude` takes precedence over both.
    pub fn new(patterns: Option<Vec<NameGlob>>, custom: Vec<NameGlob>, exclude: Vec<NameGlob>) -> Self {
        let patterns = match patterns {
            Some(globs) => Patterns::Configured(globs),
            None => Patterns::BuiltIn(BUILT_IN_PATTERNS.iter().copied().map(NameGlob::new).collect()),
        };
        Self {
            patterns,
            custom,
            exclude,
        }
    }

    /// Returns the launch by `argv`, if it starts an MCP server.
    pub fn detect<S: AsRef<str>>(&self, argv: &[S]) -> Option<Launch> {
        self.detect_linked(argv, &[])
    }

    /// Returns the launch by `argv`, if it starts an MCP server, with the name of the package that `linked` leads to:
    /// `linked` is `argv` with its links resolved, and empty if there are none.
    pub fn detect_linked<S: AsRef<str>>(&self, argv: &[S], linked: &[String]) -> Option<Launch> {
        let above = || Above {
            custom: None,
            budget: Budget::default(),
        };
        let named = self.find(Command::from_argv(argv), above()).ok()?;
        let mut led_to = self.find(Command::from_argv(linked), above()).ok()?;
        if let (Some(named), None) = (&named, &led_to)
            && named.is_followed(argv, linked)
        {
            let glob = NameGlob::new(&named.pattern);
            let custom = Some(&glob);
            led_to = self
                .find(Command::from_argv(linked), Above { custom, ..above() })
                .ok()?;
        }
        let (found, is_named_whole) = match (named, led_to) {
            (Some(named), Some(led_to)) => (
                FoundServer {
                    role: named.role,
                    pattern: named.pattern,
                    ..led_to
                },
                self.names_line(argv),
            ),
            (Some(named), None) => (named, self.names_line(argv)),
            (None, Some(led_to)) => (led_to, self.names_line(linked)),
            (None, None) => return None,
        };
        Some(Launch {
            server: found.server,
            stage: match found.role {
                ProcessRole::Serves if is_named_whole => Self::stage_of_named(argv),
                ProcessRole::Serves => Self::stage(argv),
                ProcessRole::Starts => Stage::Launcher,
            },
            pattern: found.pattern,
            name: found.name,
            package: Self::package(argv, linked),
            is_declared: false,
            permitting: None,
        })
    }

    /// Returns whether a program or package connects a client to a server elsewhere.
    #[must_use]
    pub fn is_bridge(name: &str) -> bool {
        BRIDGES.contains(&name)
    }

    /// Returns the stage of the process of `argv` in a chain of launches, MCP or not.
    pub fn stage<S: AsRef<str>>(argv: &[S]) -> Stage {
        match step(Command::from_argv(argv)) {
            TargetStep::Runs(_) | TargetStep::Shell(_) => Stage::Launcher,
            TargetStep::Is(target, _) => target.stage,
        }
    }

    /// Returns the program that a dynamic loader is told to run, if `argv` is that of a loader.
    #[must_use]
    pub fn loaded_program<S: AsRef<str>>(argv: &[S]) -> Option<&str> {
        loader::program_at(argv).map(|at| argv[at].as_ref())
    }

    /// Returns whether the program that `argv` launches receives the input of this process: all do, except a container
    /// without input. Returns true if it cannot be known.
    pub fn hears<S: AsRef<str>>(argv: &[S]) -> bool {
        let command = Command::from_argv(argv);
        !container::is_client(command.program()) || container::hears(&command)
    }

    /// Returns the stage of a command that a person named as a whole: a shell with a line is then the named program.
    pub fn stage_of_named<S: AsRef<str>>(argv: &[S]) -> Stage {
        let command = Command::from_argv(argv);
        let is_shell = is_shell(command.program());
        match step(command) {
            TargetStep::Shell(_) if is_shell => Stage::Shell { script: None },
            TargetStep::Runs(_) | TargetStep::Shell(_) => Stage::Launcher,
            TargetStep::Is(target, _) => target.stage,
        }
    }

    fn find<'r>(
        &'r self,
        command: Command<'_>,
        mut above: Above<'r>,
    ) -> Result<Option<FoundServer>, Excluded> {
        if command.words.is_empty() {
            return Ok(None);
        }
        let line = self.needs_line().then(|| joined(&command.words));
        if let Some(line) = &line {
            if self.exclude.iter().any(|glob| glob.matches(line)) {
                return Err(Excluded);
            }
            above.custom = above
                .custom
                .or_else(|| self.custom.iter().find(|glob| glob.matches(line)));
        }
        match step(command) {
            TargetStep::Runs(commands) => match above.budget.wrapper() {
                Some(budget) => self.first(commands, Above { budget, ..above }),
                None => Ok(None),
            },
            TargetStep::Shell(commands) => match above.budget.shell() {
                Some(budget) => self.first(commands, Above { budget, ..above }),
                None => Ok(None),
            },
            TargetStep::Is(target, inside) => {
                if let Some(found) = self.judge(&target, line.as_deref(), above)? {
                    return Ok(Some(found));
                }
                match above.budget.wrapper() {
                    Some(budget) => self.first(inside, Above { budget, ..above }),
                    None => Ok(None),
                }
            }
        }
    }

    fn first<'r>(
        &'r self,
        commands: Vec<Command<'_>>,
        above: Above<'r>,
    ) -> Result<Option<FoundServer>, Excluded> {
        for command in commands {
            if let Some(found) = self.find(command, above)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Judges the program that a command runs by its names.
    fn judge(
        &self,
        target: &Target<'_>,
        line: Option<&str>,
        above: Above<'_>,
    ) -> Result<Option<FoundServer>, Excluded> {
        let claims = claims(target);
        let texts = line.map_or_else(Vec::new, |_| texts(target, &claims));
        let matching = |globs: &[NameGlob]| {
            globs
                .iter()
                .find(|glob| texts.iter().any(|text| glob.matches(text)))
                .cloned()
        };
        if matching(&self.exclude).is_some() {
            return Err(Excluded);
        }
        if let Some(glob) = above.custom.cloned().or_else(|| matching(&self.custom)) {
            let found = self.found(target, claims.first(), glob.to_string(), above.budget);
            return Ok(Some(FoundServer {
                configured_file: file(target),
                ..found
            }));
        }
        let (by_rule, configured_file) = match &self.patterns {
            Patterns::BuiltIn(globs) => (built_in(globs, target, &claims), None),
            Patterns::Configured(globs) => {
                let matching = configured(globs, target, &claims, line);
                (
                    matching.map(|(claim, pattern)| (claim, pattern, None)),
                    file(target),
                )
            }
        };
        Ok(by_rule.map(|(claim, pattern, id)| {
            let found = FoundServer {
                configured_file,
                ..self.found(target, Some(claim), pattern, above.budget)
            };
            match id.and_then(|id| ServerId::new(id).ok()) {
                Some(server) if !is_bridge(&found.name) => FoundServer { server, ..found },
                Some(_) | None => found,
            }
        }))
    }

    fn found(
        &self,
        target: &Target<'_>,
        claim: Option<&Claim>,
        pattern: String,
        budget: Budget,
    ) -> FoundServer {
        let name = match claim {
            Some(claim) => claim.name.full(),
            None => subject_text(&target.subject).to_owned(),
        };
        let behind = claim.and_then(|_| self.bridged(target, &name, budget));
        let (server, role) = behind.unwrap_or_else(|| (server_id(target, claim), ProcessRole::Serves));
        FoundServer {
            server,
            role,
            pattern,
            name,
            configured_file: None,
        }
    }

    /// Returns the server behind a bridge, and whether the bridge connects to it or starts it.
    fn bridged(&self, target: &Target<'_>, name: &str, budget: Budget) -> Option<(ServerId, ProcessRole)> {
        if !is_bridge(name) {
            return None;
        }
        match behind(&target.arguments)? {
            Behind::Remote(id) => Some((ServerId::new(id).ok()?, ProcessRole::Serves)),
            Behind::Commands(commands) => {
                let above = Above {
                    custom: None,
                    budget: budget.shell()?,
                };
                Some((self.first(commands, above).ok()??.server, ProcessRole::Starts))
            }
        }
    }

    /// Returns whether a custom glob names the whole command.
    fn names_line<S: AsRef<str>>(&self, argv: &[S]) -> bool {
        if self.custom.is_empty() {
            return false;
        }
        let line = joined(&Command::from_argv(argv).words);
        self.custom.iter().any(|glob| glob.matches(&line))
    }

    fn needs_line(&self) -> bool {
        let configured = match &self.patterns {
            Patterns::BuiltIn(_) => false,
            Patterns::Configured(_) => true,
        };
        configured || !self.custom.is_empty() || !self.exclude.is_empty()
    }
}

fn configured<'c>(
    globs: &[NameGlob],
    target: &Target<'_>,
    claims: &'c [Claim],
    line: Option<&str>,
) -> Option<(&'c Claim, String)> {
    if claims.iter().any(Claim::is_of_a_tool) {
        return None;
    }
    let path = subject_text(&target.subject);
    claims.iter().find_map(|claim| {
        let full = claim.name.full();
        let texts = [full.as_str(), &claim.name.bare, path, basename(path)];
        let is_matching = |glob: &&NameGlob| {
            let is_short = |text: &&str| !text.is_empty() && text.len() <= MAX_NAME;
            texts
                .iter()
                .filter(|text| is_short(text))
                .chain(&line)
                .any(|text| glob.matches(text))
        };
        Some((claim, globs.iter().find(is_matching)?.to_string()))
    })
}

/// Returns the file that a command runs.
fn file(target: &Target<'_>) -> Option<String> {
    match &target.subject {
        Subject::File(path) | Subject::Served(path) | Subject::Program(path) => Some(path.to_string()),
        Subject::Package { .. }
        | Subject::Module(_)
        | Subject::Image(_)
        | Subject::Task(_)
        | Subject::Code => None,
    }
}

fn is_bridge(name: &str) -> bool {
    BRIDGES.contains(&name)
}

/// Returns everything that a configured glob can match, except the line.
fn texts(target: &Target<'_>, claims: &[Claim]) -> Vec<String> {
    let subject = subject_text(&target.subject);
    let mut texts = vec![subject.to_owned(), basename(subject).to_owned()];
    for claim in claims {
        texts.push(claim.name.full());
        texts.push(claim.name.bare.clone());
    }
    texts.retain(|text| !text.is_empty() && text.len() <= MAX_NAME);
    texts
}

/// Returns `words` joined by spaces, up to about [`MAX_LINE`] bytes.
fn joined(words: &[Word<'_>]) -> String {
    let mut line = String::new();
    for word in words {
        if line.len() >= MAX_LINE {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word[..word.floor_char_boundary(MAX_LINE)]);
    }
    line.truncate(line.floor_char_boundary(MAX_LINE));
    line
}
