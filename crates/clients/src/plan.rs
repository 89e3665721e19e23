//! The plan for one file, without input and output: bytes and the ledger's record go in, new bytes and a new record
//! come out.

use mcpmon_model::ServerId;

use crate::{
    edit::{self, EditedFile, TextEdit, WrappedText},
    servers::{PlacedCommand, SERVER_WORD, ServerEntry, ServerReach, Wrapping, entries, wrapper_length},
    syntax::{self, SyntaxMistake},
    table::{Client, ConfigFile},
};

/// Id of a server whose name has no character that is allowed in ids.
const NAMELESS: &str = "server";

/// The reason why the wrapper of a remote server is kept.
const EDITED_REMOTE: &str =
    "its wrapper of a URL was edited: put the URL back by hand, from the copy of the file";

/// The form of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileForm {
    pub(crate) client: &'static Client,
    pub(crate) file: &'static ConfigFile,
}

/// The state that is wanted for every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish<'a> {
    /// Wrapped by this program, if it is started by a command.
    Wrap(Wrapper<'a>),
    /// Wrapped by this program, also if it is reached by a URL.
    WrapAll(Wrapper<'a>),
    /// Not wrapped by `mcpmon setup`.
    Unwrap,
}

/// A program as a wrapper, and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrapper<'a> {
    pub(crate) program: &'a str,
    pub(crate) options: &'a [String],
}

impl<'a> From<&'a str> for Wrapper<'a> {
    fn from(program: &'a str) -> Self {
        Self {
            program,
            options: &[],
        }
    }
}

impl Wrapper<'_> {
    /// Returns the words between the program and the server's command.
    pub(crate) fn words(&self, server: &str) -> Vec<String> {
        let verb = ["wrap", "--server", server].map(str::to_owned).into_iter();
        let options = self.options.iter().cloned();
        verb.chain(options).chain(["--".to_owned()]).collect()
    }
}

/// The plan for a file.
#[derive(Debug)]
pub(crate) struct FilePlan {
    pub(crate) servers: Vec<PlannedServer>,
    pub(crate) text: Vec<u8>,
    /// The original texts of the wrapped servers.
    pub(crate) kept: Vec<WrappedText>,
}

/// The plan for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedServer {
    /// The members from the root to the server; the last is its name.
    pub path: Vec<String>,
    /// Line of its name, from 1.
    pub line: usize,
    /// The outcome.
    pub outcome: PlanOutcome,
    /// Its URL, if the client or mcpmon's wrapper reaches it by one.
    pub url: Option<String>,
    /// Command and arguments, if it has them.
    pub before: Vec<String>,
    /// Command and arguments after the change, if they differ.
    pub after: Vec<String>,
}

/// The outcome for a server, or the reason why it is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutcome {
    /// The server is to be wrapped.
    Wrap,
    /// The path of mcpmon in its wrapper is to be updated.
    Update,
    /// The server is to be unwrapped.
    Unwrap,
    /// The server is wrapped already.
    Wrapped,
    /// The server is wrapped, but not in the form of `mcpmon setup`, and is left unchanged.
    ByHand,
    /// The server is not wrapped, and is not to be wrapped.
    Bare,
    /// The server is reached over the network.
    Remote,
    /// It is unclear how the server is started.
    Unclear(&'static str),
}

impl PlanOutcome {
    /// Returns whether the file changes for this server.
    pub const fn changes(self) -> bool {
        matches!(self, Self::Wrap | Self::Update | Self::Unwrap)
    }
}

/// Plans the changes of one file.
pub(crate) fn plan(
    bytes: &[u8],
    form: FileForm,
    kept: &[WrappedText],
    wish: Wish<'_>,
) -> Result<FilePlan, SyntaxMistake> {
    let mut plan = FilePlan {
        servers: Vec::new(),
        text: bytes.to_vec(),
        kept: Vec::new(),
    };
    let FileForm { client, file } = form;
    let Some(root) = syntax::parse(bytes, file.format, &file.servers)? else {
        return Ok(plan);
    };
    let source = EditedFile {
        bytes,
        format: file.format,
    };
    let mut edits = Vec::new();
    for entry in entries(&root, &file.servers, client, bytes)? {
        let mut known = kept.iter().find(|kept| kept.path == entry.path).cloned();
        let (planned, changes) = server(&entry, source, &mut known, wish);
        if matches!(
            planned.outcome,
            PlanOutcome::Wrap | PlanOutcome::Update | PlanOutcome::Wrapped
        ) {
            plan.kept.extend(known);
        }
        edits.extend(changes);
        plan.servers.push(planned);
    }
    plan.text = edit::applied(bytes, edits);
    Ok(plan)
}

fn server(
    entry: &ServerEntry<'_>,
    source: EditedFile<'_>,
    known: &mut Option<WrappedText>,
    wish: Wish<'_>,
) -> (PlannedServer, Vec<TextEdit>) {
    let mut planned = PlannedServer {
        path: entry.path.clone(),
        line: SyntaxMistake::at(source.bytes, entry.start, "").line,
        outcome: PlanOutcome::Bare,
        url: None,
        before: Vec::new(),
        after: Vec::new(),
    };
    let start = match &entry.transport {
        ServerReach::Stdio(start) => start,
        ServerReach::Remote(remote) => {
            planned.url = Some(remote.url().to_owned());
            let Wish::WrapAll(wrapper) = wish else {
                planned.outcome = PlanOutcome::Remote;
                return (planned, Vec::new());
            };
            if let Some(reason) = remote.obstacle {
                planned.outcome = PlanOutcome::Unclear(reason);
                return (planned, Vec::new());
            }
            let server = server_id(&entry.path);
            let (edits, wrapped) = source.wrap_remote(remote, &entry.path, wrapper, &server);
            *known = Some(wrapped);
            planned.outcome = PlanOutcome::Wrap;
            planned.after = remote.words(wrapper, &server);
            return (planned, edits);
        }
        ServerReach::Unclear(reason) => {
            planned.outcome = PlanOutcome::Unclear(reason);
            return (planned, Vec::new());
        }
    };
    planned.before = start.words();
    if known.as_ref().is_some_and(|known| known.remote.is_some()) {
        planned.url = start.wrapped_url(&programs(known.as_ref(), wish));
    }
    let (outcome, edits) = changes(start, &entry.path, source, known, wish);
    planned.outcome = outcome;
    planned.after = after(&planned, wish);
    (planned, edits)
}

fn changes(
    start: &PlacedCommand<'_>,
    path: &[String],
    source: EditedFile<'_>,
    known: &mut Option<WrappedText>,
    wish: Wish<'_>,
) -> (PlanOutcome, Vec<TextEdit>) {
    let programs = programs(known.as_ref(), wish);
    let members = known.as_ref().and_then(|known| known.remote.clone());
    let members = members.filter(|_| start.wrapped_url(&programs).is_some());
    let wrapping = match members {
        Some(_) => Wrapping::Ours,
        None => start.wrapping(&programs),
    };
    match (wrapping, wish) {
        (Wrapping::Bare, Wish::Wrap(wrapper) | Wish::WrapAll(wrapper)) => {
            let (edits, wrapped) = source.wrap(start, path, wrapper, &server_id(path));
            *known = Some(wrapped);
            (PlanOutcome::Wrap, edits)
        }
        (Wrapping::Ours, Wish::Wrap(wrapper) | Wish::WrapAll(wrapper)) => {
            // The options of a wrapper for a URL stay as they were written.
            let options = members.is_none().then_some(wrapper.options);
            let edits = source.point(start, wrapper.program, options, known.as_mut());
            let outcome = if edits.is_empty() {
                PlanOutcome::Wrapped
            } else {
                PlanOutcome::Update
            };
            (outcome, edits)
        }
        (Wrapping::Ours, Wish::Unwrap) => match &members {
            None => (PlanOutcome::Unwrap, source.unwrap(start, known.as_ref())),
            Some(members) => match source.unwrap_remote(start, members) {
                Some(edits) => (PlanOutcome::Unwrap, edits),
                None => (PlanOutcome::Unclear(EDITED_REMOTE), Vec::new()),
            },
        },
        (Wrapping::ByHand, Wish::Wrap(_) | Wish::WrapAll(_) | Wish::Unwrap) => {
            (PlanOutcome::ByHand, Vec::new())
        }
        (Wrapping::Bare, Wish::Unwrap) => (PlanOutcome::Bare, Vec::new()),
    }
}

/// Returns the paths of mcpmon now and when the server was wrapped.
fn programs(known: Option<&WrappedText>, wish: Wish<'_>) -> [String; 2] {
    let now = match wish {
        Wish::Wrap(wrapper) | Wish::WrapAll(wrapper) => wrapper.program,
        Wish::Unwrap => "",
    };
    [
        now.to_owned(),
        known.map(WrappedText::program).unwrap_or_default(),
    ]
}

/// Returns command and arguments after the change.
fn after(planned: &PlannedServer, wish: Wish<'_>) -> Vec<String> {
    let before = planned.before.iter().cloned();
    match (planned.outcome, wish) {
        (PlanOutcome::Wrap, Wish::Wrap(wrapper) | Wish::WrapAll(wrapper)) => {
            let words = wrapper.words(&server_id(&planned.path));
            [wrapper.program.to_owned()]
                .into_iter()
                .chain(words)
                .chain(before)
                .collect()
        }
        (PlanOutcome::Update, Wish::Wrap(wrapper) | Wish::WrapAll(wrapper)) => {
            let program = [wrapper.program.to_owned()].into_iter();
            match wrapper_length(&planned.before) {
                Some(length) => {
                    let server = before.clone().nth(SERVER_WORD).unwrap_or_default();
                    program
                        .chain(wrapper.words(&server))
                        .chain(before.skip(length))
                        .collect()
                }
                None => program.chain(before.skip(1)).collect(),
            }
        }
        (PlanOutcome::Unwrap, _) if planned.url.is_none() => {
            let length = wrapper_length(&planned.before).unwrap_or_default();
            before.skip(length).collect()
        }
        _ => Vec::new(),
    }
}

/// Converts a server's name to an id, by replacing characters that ids cannot have.
pub(crate) fn server_id(path: &[String]) -> String {
    let name = path.last().map_or("", String::as_str);
    let allowed = |character: char| match ServerId::new(character) {
        Ok(_) => character,
        Err(_) => '-',
    };
    let id: String = name.chars().map(allowed).collect();
    let id: String = id.trim_matches('-').chars().take(ServerId::MAX).collect();
    match id.as_str() {
        "" => NAMELESS.to_owned(),
        _ => id,
    }
}
