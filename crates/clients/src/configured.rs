//! Servers in clients' configuration files, for reading only: the command or URL, and every text with its position.

use std::path::{Path, PathBuf};

use mcpmon_model::ServerId;
use serde_json::{Map, Value};

use crate::{
    file::{FileError, Original},
    locate::{self, Roots},
    plan::{FileForm, server_id},
    servers::{ServerEntry, ServerReach, Wrapping, entries},
    setup::FileTrouble,
    syntax::{self, Node, NodeKind, SyntaxMistake},
    table::{Client, Scope},
};

/// A configuration file of a client, and the servers in it.
#[derive(Debug)]
pub struct ConfiguredFile {
    /// The client that reads it.
    pub client: &'static Client,
    /// Its path.
    pub path: PathBuf,
    /// Its scope, as the table has it.
    pub scope: Scope,
    /// The project that it belongs to.
    pub project: Option<PathBuf>,
    /// Its permission bits; 0 if it cannot be read.
    pub mode: u32,
    /// Its servers, in the order of the file, or the reason why they are unknown.
    pub servers: Result<Vec<ConfiguredServer>, FileTrouble>,
}

/// A server as a file configures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// The members from the root to the server; the last is its name.
    pub path: Vec<String>,
    /// The id that mcpmon gives the server.
    pub id: ServerId,
    /// The position of its name.
    pub place: Place,
    /// The server's transport; if it is wrapped, the one between mcpmon and the server.
    pub transport: ConfiguredTransport,
    /// True if it is behind a wrapper of mcpmon.
    pub is_wrapped: bool,
    /// Its environment: name and value.
    pub env: Vec<(String, String)>,
    /// Its headers: name and value.
    pub headers: Vec<(String, String)>,
    /// Its texts, including those in nested lists and maps.
    pub texts: Vec<ConfiguredText>,
    /// The whole server as JSON.
    pub json: String,
}

/// The transport of a configured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfiguredTransport {
    /// On stdio: these words are executed.
    Command(Vec<String>),
    /// Over the network.
    Url(String),
    /// Unknown, for this reason.
    Unclear(&'static str),
}

/// A text of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredText {
    /// The path inside the server: `env.TOKEN`, `args[1]`.
    pub path: String,
    /// The text.
    pub text: String,
    /// Its position.
    pub place: Place,
}

/// A position in a file, from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl ConfiguredServer {
    /// Returns its name in the file.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Returns the position of the text at `path`, or that of the server if there is no such text.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Place {
        let text = self.texts.iter().find(|text| text.path == path);
        text.map_or(self.place, |text| text.place)
    }
}

/// Reads every configuration file of a client that exists, in the order of the table.
pub fn configured_files(client: &'static Client, roots: &Roots, projects: &[PathBuf]) -> Vec<ConfiguredFile> {
    let files = locate::files(client, roots, projects).into_iter();
    files
        .map(|file| {
            let read = Original::read_only(&file.path);
            let mode = read.as_ref().map_or(0, Original::mode);
            ConfiguredFile {
                client,
                servers: read.map_err(FileTrouble::File).and_then(|original| {
                    configured_servers(&original.bytes, file.form).map_err(FileTrouble::Malformed)
                }),
                path: file.path,
                scope: file.form.file.scope,
                project: file.project,
                mode,
            }
        })
        .collect()
}

/// Reads the servers in the text of a client's file, for tests and examples.
///
/// # Errors
/// Returns the position of a syntax error.
pub fn parse_servers(bytes: &[u8], client: &'static Client) -> Result<Vec<ConfiguredServer>, SyntaxMistake> {
    let file = client.files.first().expect("every client has a file");
    configured_servers(bytes, FileForm { client, file })
}

fn configured_servers(bytes: &[u8], form: FileForm) -> Result<Vec<ConfiguredServer>, SyntaxMistake> {
    let FileForm { client, file } = form;
    let Some(root) = syntax::parse(bytes, file.format, &file.servers)? else {
        return Ok(Vec::new());
    };
    let lines = Lines::new(bytes);
    let found = entries(&root, &file.servers, client, bytes)?;
    Ok(found.iter().map(|entry| server(entry, client, &lines)).collect())
}

fn server(entry: &ServerEntry<'_>, client: &Client, lines: &Lines<'_>) -> ConfiguredServer {
    let (transport, wrapped) = transport(&entry.transport);
    let fields = &client.fields;
    let mut texts = Vec::new();
    collect(entry.node, "", lines, &mut texts);
    ConfiguredServer {
        id: wrapped
            .as_ref()
            .and_then(|wrapped| wrapped.id.clone())
            .unwrap_or_else(|| ServerId::new(server_id(&entry.path)).expect("a name made to be an id")),
        path: entry.path.clone(),
        place: lines.place(entry.start),
        transport,
        is_wrapped: wrapped.is_some(),
        env: pairs(entry.node, &fields.env),
        headers: pairs(entry.node, &fields.headers),
        texts,
        json: json(entry.node).to_string(),
    }
}

/// A wrapper that was found, with the id in its arguments.
#[derive(Debug, Default)]
struct FoundWrapper {
    id: Option<ServerId>,
}

fn transport(transport: &ServerReach<'_>) -> (ConfiguredTransport, Option<FoundWrapper>) {
    match transport {
        ServerReach::Remote(remote) => (ConfiguredTransport::Url(remote.url().to_owned()), None),
        ServerReach::Unclear(reason) => (ConfiguredTransport::Unclear(reason), None),
        ServerReach::Stdio(start) => {
            let words = start.words();
            match start.wrapping(&[]) {
                Wrapping::Bare if start.wrapped_url(&[]).is_none() => {
                    (ConfiguredTransport::Command(words), None)
                }
                Wrapping::Bare | Wrapping::Ours | Wrapping::ByHand => {
                    let (inner, wrapper) = unwrapped(&words);
                    (inner, Some(wrapper))
                }
            }
        }
    }
}

/// Returns the server behind a wrapper, from the wrapper's words.
fn unwrapped(words: &[String]) -> (ConfiguredTransport, FoundWrapper) {
    let option = |name: &str| {
        let before_command = words.iter().take_while(|word| *word != "--");
        let mut rest = before_command.skip_while(|word| *word != name);
        rest.nth(1).cloned()
    };
    let id = option("--server").and_then(|id| ServerId::new(id).ok());
    let command = words.iter().position(|word| word == "--");
    let inner = match (option("--url"), command) {
        (Some(url), _) => ConfiguredTransport::Url(url),
        (None, Some(at)) if at + 1 < words.len() => ConfiguredTransport::Command(words[at + 1..].to_vec()),
        (None, _) => ConfiguredTransport::Unclear("it is wrapped in a way that cannot be read"),
    };
    (inner, FoundWrapper { id })
}

/// Returns the members of a map of texts in a server.
fn pairs(server: &Node, name: &str) -> Vec<(String, String)> {
    let maps = server.members().iter().filter(|member| member.name == name);
    let members = maps.flat_map(|map| map.node.members());
    members
        .filter_map(|member| Some((member.name.clone(), member.node.text()?.to_owned())))
        .collect()
}

/// Adds every text of a node, with its path inside the server.
fn collect(node: &Node, way: &str, lines: &Lines<'_>, texts: &mut Vec<ConfiguredText>) {
    match &node.kind {
        NodeKind::Text(text) => texts.push(ConfiguredText {
            path: way.to_owned(),
            text: text.clone(),
            place: lines.place(node.range.start),
        }),
        NodeKind::List(items) => {
            for (number, item) in items.iter().enumerate() {
                collect(&item.node, &format!("{way}[{number}]"), lines, texts);
            }
        }
        NodeKind::Map(members) => {
            for member in members {
                let way = match way {
                    "" => member.name.clone(),
                    way => format!("{way}.{}", member.name),
                };
                collect(&member.node, &way, lines, texts);
            }
        }
        NodeKind::Null | NodeKind::Other => {}
    }
}

fn json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Text(text) => text.as_str().into(),
        NodeKind::List(items) => items.iter().map(|item| json(&item.node)).collect(),
        NodeKind::Map(members) => {
            let members = members
                .iter()
                .map(|member| (member.name.clone(), json(&member.node)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        NodeKind::Null | NodeKind::Other => Value::Null,
    }
}

/// The lines of a file, so that finding many positions takes one pass.
#[derive(Debug)]
struct Lines<'b> {
    bytes: &'b [u8],
    /// The start of each line.
    starts: Vec<usize>,
}

impl<'b> Lines<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { bytes, starts }
    }

    fn place(&self, position: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= position).max(1);
        let before = &self.bytes[self.starts[line - 1]..position.min(self.bytes.len())];
        let before = String::from_utf8_lossy(before);
        Place {
            line,
            column: before.trim_start_matches('\u{feff}').chars().count() + 1,
        }
    }
}

/// A skill of a client, and the project in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPlace {
    /// The directory with the SKILL.md.
    pub path: PathBuf,
    /// The project that it belongs to.
    pub project: Option<PathBuf>,
}

/// Lists the skills of a client.
pub fn skills(client: &'static Client, roots: &Roots, projects: &[PathBuf]) -> Vec<SkillPlace> {
    let directories = locate::skill_directories(client, roots, projects);
    let found = directories.into_iter().flat_map(|(directory, project)| {
        skills_below(&directory).into_iter().map(move |path| SkillPlace {
            path,
            project: project.clone(),
        })
    });
    found.collect()
}

/// Lists the directories with a SKILL.md at `directory` and below it.
pub fn skills_below(directory: &Path) -> Vec<PathBuf> {
    locate::skills_below(directory)
}

/// Lists the directories at `directory` and below it in which clients would look for files of a project.
pub fn projects_below(directory: &Path) -> Vec<PathBuf> {
    locate::projects_below(directory)
}

impl ConfiguredFile {
    /// Returns the position of the syntax error, if that is the reason why its servers are unknown.
    pub fn mistake(&self) -> Option<&SyntaxMistake> {
        match &self.servers {
            Err(FileTrouble::Malformed(mistake)) => Some(mistake),
            Ok(_)
            | Err(
                FileTrouble::File(_) | FileTrouble::Ledger(_) | FileTrouble::Unclear(_) | FileTrouble::Unsure,
            ) => None,
        }
    }

    /// Returns whether it was not read because it is too large.
    pub const fn is_too_large(&self) -> bool {
        matches!(self.servers, Err(FileTrouble::File(FileError::TooLarge)))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::table::client;

    fn servers(id: &str, text: &str) -> Vec<ConfiguredServer> {
        parse_servers(text.as_bytes(), client(id).expect("a client")).expect("readable")
    }

    #[test]
    fn every_text_has_its_place_in_each_syntax() {
        let told = |id, text: &str| {
            let servers = servers(id, text);
            let texts = servers[0].texts.iter();
            let texts = texts.map(|text| format!("{} {}:{}", text.path, text.place.line, text.place.column));
            texts.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            told(
                "claude-code",
                "{\"mcpServers\": {\"a\": {\n  \"command\": \"é\", \"args\": [\"x\", \"y\"],\n  \"env\": {\"K\": \"v\"}}}}"
            ),
            "command 2:14, args[0] 2:28, args[1] 2:33, env.K 3:16"
        );
        assert_eq!(
            told(
                "codex",
                "[mcp_servers.a]\ncommand = \"npx\"\n[mcp_servers.a.env]\nK = \"v\"\n"
            ),
            "command 2:11, env.K 4:5"
        );
        assert_eq!(
            told(
                "goose",
                "extensions:\n  a:\n    cmd: npx\n    envs:\n      K: v\n"
            ),
            "cmd 3:10, envs.K 5:10"
        );
    }

    #[test_case(r#"{"command": "npx", "args": ["a"]}"# => "a bare npx a"; "bare")]
    #[test_case(r#"{"command": "/x/mcpmon", "args": ["wrap", "--server", "b", "--", "npx", "a"]}"# => "b wrapped npx a"; "wrapped by setup")]
    #[test_case(r#"{"command": "mcpmon", "args": ["wrap", "--", "npx", "a"]}"# => "a wrapped npx a"; "by hand")]
    #[test_case(r#"{"command": "/x/mcpmon", "args": ["wrap", "--server", "b", "--url", "https://a.example/mcp"]}"# => "b wrapped https://a.example/mcp"; "a URL behind a wrapper")]
    #[test_case(r#"{"command": "sh", "args": ["-c", "mcpmon wrap -- npx a"]}"# => "a wrapped (it is wrapped in a way that cannot be read)"; "in a line")]
    #[test_case(r#"{"url": "https://a.example/mcp", "headers": {"A": "b"}}"# => "a bare https://a.example/mcp"; "remote")]
    #[test_case(r#"{}"# => "a bare (it has neither a command nor a URL)"; "nothing")]
    fn wrappers_are_taken_off(server: &str) -> String {
        let servers = servers("claude-code", &format!("{{\"mcpServers\": {{\"a\": {server}}}}}"));
        let [server] = &servers[..] else {
            panic!("one server: {servers:?}")
        };
        let transport = match &server.transport {
            ConfiguredTransport::Command(words) => words.join(" "),
            ConfiguredTransport::Url(url) => url.clone(),
            ConfiguredTransport::Unclear(reason) => format!("({reason})"),
        };
        let wrapped = if server.is_wrapped { "wrapped" } else { "bare" };
        format!("{} {wrapped} {transport}", server.id)
    }

    #[test]
    fn environment_and_headers_are_read_by_their_names() {
        let remote = &servers(
            "codex",
            "[mcp_servers.a]\nurl = \"http://a\"\nhttp_headers = {X = \"1\"}\n",
        )[0];
        assert_eq!(remote.headers, [("X".to_owned(), "1".to_owned())]);
        let local = &servers("goose", "extensions:\n  a:\n    cmd: npx\n    envs: {K: v}\n")[0];
        assert_eq!(local.env, [("K".to_owned(), "v".to_owned())]);
        assert_eq!(local.json, r#"{"cmd":"npx","envs":{"K":"v"}}"#);
    }
}
