//! The servers in a parsed file, and the command or URL of each.

use std::{collections::BTreeSet, path::Path};

use crate::{
    remote::{RemoteEntry, obstacle},
    syntax::{Node, NodeKind, PlacedItem, PlacedMember, Style, SyntaxMistake},
    table::Client,
};

/// The subcommands with which mcpmon is a wrapper.
const VERBS: [&str; 2] = ["wrap", "mcp-proxy"];
/// The name of mcpmon's program file.
const PROGRAM: &str = "mcpmon";
/// The member with the name of a server in a list.
const NAME: &str = "name";
/// The member with which YAML merges another map.
const MERGE: &str = "<<";

/// A server of a client.
#[derive(Debug)]
pub(crate) struct ServerEntry<'n> {
    /// The members from the root to the server; the last is its name.
    pub(crate) path: Vec<String>,
    /// Start of its name, or of the server itself in a list.
    pub(crate) start: usize,
    /// The server itself.
    pub(crate) node: &'n Node,
    pub(crate) transport: ServerReach<'n>,
}

/// The way in which a client reaches a server.
#[derive(Debug)]
pub(crate) enum ServerReach<'n> {
    /// The client starts a command.
    Stdio(PlacedCommand<'n>),
    /// The client connects to a URL.
    Remote(RemoteEntry<'n>),
    /// Unknown, for this reason.
    Unclear(&'static str),
}

/// A command with its position.
#[derive(Debug)]
pub(crate) struct PlacedCommand<'n> {
    /// Start of the name of the member with the command.
    pub(crate) name: usize,
    /// Style of the map with the command.
    pub(crate) style: Style,
    /// Name of the member with the arguments.
    pub(crate) args_field: &'n str,
    pub(crate) command: CommandForm<'n>,
    /// The member with the arguments, if there is one; it begins with the command if both are in one list.
    pub(crate) arguments: Option<PlacedArguments<'n>>,
    /// The member with the kind of the server.
    pub(crate) kind: Option<&'n PlacedMember>,
    /// The member with the environment.
    pub(crate) env: Option<&'n PlacedMember>,
}

/// The form of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandForm<'n> {
    /// The command has its own member.
    Text(&'n Node),
    /// The command is the first item of the arguments.
    FirstArgument,
}

/// Arguments with their position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedArguments<'n> {
    /// Start of the name of the member.
    pub(crate) name: usize,
    /// A list, or null.
    pub(crate) node: &'n Node,
}

/// The state of a server's entry: wrapped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// It is not wrapped.
    Bare,
    /// It is wrapped in the form of `mcpmon setup`.
    Ours,
    /// It is wrapped in another form.
    ByHand,
}

impl<'n> PlacedArguments<'n> {
    pub(crate) fn items(&self) -> &'n [PlacedItem] {
        self.node.items()
    }
}

impl PlacedCommand<'_> {
    /// Returns the command and its arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let command = match self.command {
            CommandForm::Text(node) => node.text(),
            CommandForm::FirstArgument => None,
        };
        let items = self.arguments.iter().flat_map(|arguments| arguments.items());
        let items = items.map(|item| item.node.text().unwrap_or_default());
        command.into_iter().chain(items).map(str::to_owned).collect()
    }

    /// Returns how the command is wrapped, by mcpmon or by the program at one of these paths.
    pub(crate) fn wrapping(&self, programs: &[String]) -> Wrapping {
        wrapping(&self.words(), programs)
    }

    /// Returns the URL in the arguments of mcpmon, or of the program at one of these paths, in the form of `mcpmon
    /// setup`.
    pub(crate) fn wrapped_url(&self, programs: &[String]) -> Option<String> {
        let mut words = self.words();
        let is_ours = matches!(words.as_slice(), [program, verb, server, _, url, _, ..]
            if is_program(program, programs)
                && (verb.as_str(), server.as_str(), url.as_str()) == (VERBS[0], "--server", "--url"));
        is_ours.then(|| words.swap_remove(5))
    }
}

fn is_program(word: &str, programs: &[String]) -> bool {
    programs.iter().any(|program| program == word)
        || Path::new(word).file_name().is_some_and(|name| name == PROGRAM)
}

/// The position of the server's name among the words of a wrapper of `mcpmon setup`.
pub(crate) const SERVER_WORD: usize = 3;
/// Options of a wrapper that `mcpmon setup` writes; each has a value.
const OPTIONS: [&str; 2] = ["--config", "--db"];

/// Returns the number of words up to the `--` of a wrapper in the form of `mcpmon setup`, the program included.
pub(crate) fn wrapper_length(words: &[String]) -> Option<usize> {
    let [_, verb, option, _, rest @ ..] = words else {
        return None;
    };
    if (verb.as_str(), option.as_str()) != (VERBS[0], "--server") {
        return None;
    }
    let mut length = SERVER_WORD + 1;
    let mut rest = rest;
    while let [option, _, after @ ..] = rest
        && OPTIONS.contains(&option.as_str())
    {
        length += 2;
        rest = after;
    }
    (rest.first()?.as_str() == "--").then_some(length + 1)
}

fn wrapping(words: &[String], programs: &[String]) -> Wrapping {
    let is_program = |word: &str| is_program(word, programs);
    if let Some(program) = words.first()
        && Path::new(program).is_absolute()
        && is_program(program)
        && wrapper_length(words).is_some_and(|length| words.len() > length)
    {
        return Wrapping::Ours;
    }
    // Examples: `env A=b mcpmon wrap -- x`, `sh -c "exec mcpmon wrap -- x"`.
    let quotes = ['"', '\''];
    let all = words.iter().flat_map(|word| word.split_ascii_whitespace());
    let mut rest = all
        .map(|word| word.trim_matches(quotes))
        .skip_while(|word| !is_program(word));
    match rest.any(|word| VERBS.contains(&word)) {
        true => Wrapping::ByHand,
        false => Wrapping::Bare,
    }
}

/// Collects the servers at all of these paths, in the order of the file.
pub(crate) fn entries<'n>(
    root: &'n Node,
    paths: &[Vec<String>],
    client: &'n Client,
    bytes: &[u8],
) -> Result<Vec<ServerEntry<'n>>, SyntaxMistake> {
    if !matches!(root.kind, NodeKind::Map(_)) {
        return Err(SyntaxMistake::at(bytes, root.range.start, "expected an object"));
    }
    let mut entries = Vec::new();
    for path in paths {
        let mut walk = EntryWalk {
            bytes,
            client,
            entries: &mut entries,
            only_certain: path.is_empty(),
        };
        walk.descend(root, path, &mut Vec::new())?;
    }
    entries.sort_by_key(|entry| entry.start);
    Ok(entries)
}

struct EntryWalk<'n, 'e> {
    bytes: &'e [u8],
    client: &'n Client,
    entries: &'e mut Vec<ServerEntry<'n>>,
    /// True at the root, where members that are no servers are mixed with servers.
    only_certain: bool,
}

impl<'n> EntryWalk<'n, '_> {
    fn descend(
        &mut self,
        node: &'n Node,
        path: &[String],
        passed: &mut Vec<String>,
    ) -> Result<(), SyntaxMistake> {
        if node.is_shared {
            let reason = "servers behind an anchor, an alias or a tag are not edited";
            return Err(SyntaxMistake::at(self.bytes, node.range.start, reason));
        }
        let Some((step, rest)) = path.split_first() else {
            return match &node.kind {
                NodeKind::List(items) => self.list(items, passed),
                NodeKind::Null | NodeKind::Text(_) | NodeKind::Map(_) | NodeKind::Other => {
                    self.map(node, passed)
                }
            };
        };
        for member in named(node, self.bytes, |name| step == "*" || name == step)? {
            passed.push(member.name.clone());
            self.descend(&member.node, rest, passed)?;
            passed.pop();
        }
        Ok(())
    }

    fn map(&mut self, servers: &'n Node, passed: &[String]) -> Result<(), SyntaxMistake> {
        for member in named(servers, self.bytes, |_| true)? {
            self.server(passed, member.name.clone(), member.start, &member.node)?;
        }
        Ok(())
    }

    fn list(&mut self, servers: &'n [PlacedItem], passed: &[String]) -> Result<(), SyntaxMistake> {
        let mut names = BTreeSet::new();
        for (number, item) in servers.iter().enumerate() {
            let named = item.node.members().iter().find(|member| member.name == NAME);
            let name = named.and_then(|member| member.node.text());
            let name = name.map_or_else(|| (number + 1).to_string(), str::to_owned);
            if !names.insert(name.clone()) {
                return Err(twice(self.bytes, item.start, &name));
            }
            self.server(passed, name, item.start, &item.node)?;
        }
        Ok(())
    }

    fn server(
        &mut self,
        passed: &[String],
        name: String,
        start: usize,
        server: &'n Node,
    ) -> Result<(), SyntaxMistake> {
        let transport = transport(server, self.client, self.bytes)?;
        if self.only_certain && matches!(transport, ServerReach::Unclear(_)) {
            return Ok(());
        }
        let mut path = passed.to_vec();
        path.push(name);
        self.entries.push(ServerEntry {
            path,
            start,
            node: server,
            transport,
        });
        Ok(())
    }
}

/// Returns the members with such names. A name that occurs twice is an error, because readers differ in which one they
/// use.
fn named<'n>(
    node: &'n Node,
    bytes: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<&'n PlacedMember>, SyntaxMistake> {
    let mut names = BTreeSet::new();
    let mut members = Vec::new();
    for member in node.members().iter().filter(|member| is_wanted(&member.name)) {
        if !names.insert(&member.name) {
            return Err(twice(bytes, member.start, &member.name));
        }
        members.push(member);
    }
    Ok(members)
}

fn twice(bytes: &[u8], position: usize, name: &str) -> SyntaxMistake {
    SyntaxMistake::at(bytes, position, format!("`{name}` stands twice"))
}

fn transport<'n>(
    server: &'n Node,
    client: &'n Client,
    bytes: &[u8],
) -> Result<ServerReach<'n>, SyntaxMistake> {
    if server.is_shared {
        return Ok(ServerReach::Unclear("it has an anchor, an alias or a tag"));
    }
    if !matches!(server.kind, NodeKind::Map(_)) {
        return Ok(ServerReach::Unclear("it is no object"));
    }
    let fields = &client.fields;
    let is_url = |name: &str| fields.url.iter().any(|field| field == name);
    let is_wanted = |name: &str| {
        let wanted = [
            fields.command.as_str(),
            &fields.args,
            &fields.env,
            &fields.headers,
            &fields.kind,
            MERGE,
        ];
        wanted.contains(&name) || is_url(name)
    };
    let members = named(server, bytes, is_wanted)?;
    let member = |name: &str| members.iter().copied().find(|member| member.name == name);
    if member(MERGE).is_some() {
        return Ok(ServerReach::Unclear(
            "it takes members from elsewhere in the file",
        ));
    }
    let Some(command) = member(&fields.command) else {
        let kind = member(&fields.kind)
            .and_then(|member| member.node.text())
            .unwrap_or_default();
        let urls: Vec<_> = members
            .iter()
            .copied()
            .filter(|member| is_url(&member.name))
            .collect();
        if let Some(url) = urls.first() {
            let mut remote = RemoteEntry {
                url,
                kind: member(&fields.kind),
                headers: member(&fields.headers).filter(|member| !is_empty(&member.node)),
                args: member(&fields.args),
                env: member(&fields.env),
                style: server.style,
                fields,
                obstacle: None,
            };
            remote.obstacle = match urls.len() {
                1 => obstacle(server, &remote),
                _ => Some("it has two URLs"),
            };
            return Ok(ServerReach::Remote(remote));
        }
        return Ok(ServerReach::Unclear(
            match client.in_process.iter().any(|name| name == kind) {
                true => "it runs inside the client",
                false => "it has neither a command nor a URL",
            },
        ));
    };
    // Older versions of Zed have `command: {path, args}`.
    if matches!(command.node.kind, NodeKind::Map(_)) && !command.node.is_shared {
        let inner = named(&command.node, bytes, |name| name == "path" || name == "args")?;
        let Some(path) = inner.iter().copied().find(|member| member.name == "path") else {
            return Ok(ServerReach::Unclear("its command is no string"));
        };
        let args = inner.iter().copied().find(|member| member.name == "args");
        return Ok(start(path, args, "args", command.node.style));
    }
    let mut transport = start(command, member(&fields.args), &fields.args, server.style);
    if let ServerReach::Stdio(start) = &mut transport {
        start.kind = member(&fields.kind);
        start.env = member(&fields.env);
    }
    Ok(transport)
}

fn start<'n>(
    command: &'n PlacedMember,
    args: Option<&'n PlacedMember>,
    args_field: &'n str,
    style: Style,
) -> ServerReach<'n> {
    let with = |form, arguments| {
        ServerReach::Stdio(PlacedCommand {
            name: command.start,
            style,
            args_field,
            command: form,
            arguments,
            kind: None,
            env: None,
        })
    };
    let arguments = |member: &'n PlacedMember| PlacedArguments {
        name: member.start,
        node: &member.node,
    };
    if let NodeKind::List(items) = &command.node.kind {
        return match args {
            _ if items.is_empty() || !is_list_of_texts(&command.node) => {
                ServerReach::Unclear("its command is no list of strings")
            }
            Some(_) => ServerReach::Unclear("its command is a list, and it has arguments as well"),
            None => with(CommandForm::FirstArgument, Some(arguments(command))),
        };
    }
    if command.node.text().is_none() || command.node.is_shared {
        return ServerReach::Unclear("its command is no string");
    }
    if command.node.style == Style::Block {
        return ServerReach::Unclear("its command is a text of several lines");
    }
    let Some(args) = args else {
        return with(CommandForm::Text(&command.node), None);
    };
    match args.node.kind == NodeKind::Null || is_list_of_texts(&args.node) {
        true => with(CommandForm::Text(&command.node), Some(arguments(args))),
        false => ServerReach::Unclear("its arguments are no list of strings"),
    }
}

fn is_empty(node: &Node) -> bool {
    node.kind == NodeKind::Null || matches!(&node.kind, NodeKind::Map(members) if members.is_empty())
}

fn is_list_of_texts(node: &Node) -> bool {
    let is_text = |item: &PlacedItem| item.node.text().is_some() && !item.node.is_shared;
    let is_list = matches!(node.kind, NodeKind::List(_));
    is_list && !node.is_shared && node.items().iter().all(is_text)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::{
        syntax::parse,
        table::{Format, client},
    };

    fn found(text: &str, paths: &[&[&str]]) -> Result<Vec<String>, String> {
        let steps = |path: &&[&str]| path.iter().map(|step| (*step).to_owned()).collect();
        let paths: Vec<Vec<String>> = paths.iter().map(steps).collect();
        let root = parse(text.as_bytes(), Format::Jsonc, &paths)
            .expect("strict")
            .expect("a value");
        let described = |entry: ServerEntry<'_>| {
            let path = entry.path.join(".");
            match entry.transport {
                ServerReach::Stdio(start) => format!("{path}: {}", start.words().join(" ")),
                ServerReach::Remote(_) => format!("{path}: remote"),
                ServerReach::Unclear(reason) => format!("{path}: {reason}"),
            }
        };
        let client = client("cursor").expect("a client");
        match entries(&root, &paths, client, text.as_bytes()) {
            Ok(entries) => Ok(entries.into_iter().map(described).collect()),
            Err(mistake) => Err(format!("{}:{}: {}", mistake.line, mistake.column, mistake.reason)),
        }
    }

    #[test]
    fn servers_are_found_at_every_path_in_order() {
        let text = r#"{"projects": {"/a": {"mcpServers": {"x": {"command": "one", "args": ["2", "\u0033"]}}},
            "/b": {"history": []}, "/c": null}, "mcpServers": {"y": {"type": "http", "url": "https://example.com"}, "z": {"command": "zed", "args": null}}}"#;
        let paths: &[&[&str]] = &[&["mcpServers"], &["projects", "*", "mcpServers"]];
        assert_eq!(
            found(text, paths).unwrap(),
            [
                "projects./a.mcpServers.x: one 2 3",
                "mcpServers.y: remote",
                "mcpServers.z: zed"
            ]
        );
    }

    #[test]
    fn at_the_root_only_servers_count() {
        let text = r#"{"description": "d", "a": {"command": "x"}, "mcpServers": {"b": {"url": "u"}}}"#;
        assert_eq!(
            found(text, &[&["mcpServers"], &[]]).unwrap(),
            ["a: x", "mcpServers.b: remote"]
        );
    }

    #[test_case(r#"{"s": {"a": {}}}"# => "s.a: it has neither a command nor a URL"; "nothing")]
    #[test_case(r#"{"s": {"a": []}}"# => "s.a: it is no object"; "an array")]
    #[test_case(r#"{"s": {"a": {"command": ["x"]}}}"# => "s.a: x"; "a list as command")]
    #[test_case(r#"{"s": {"a": {"command": []}}}"# => "s.a: its command is no list of strings"; "an empty list")]
    #[test_case(r#"{"s": {"a": {"command": ["x"], "args": []}}}"# => "s.a: its command is a list, and it has arguments as well"; "two lists")]
    #[test_case(r#"{"s": {"a": {"command": {"path": "x", "args": ["y"]}}}}"# => "s.a: x y"; "a command with members")]
    #[test_case(r#"{"s": {"a": {"command": {}}}}"# => "s.a: its command is no string"; "a command without members")]
    #[test_case(r#"{"s": [{"name": "n", "command": "x"}, {"command": "y"}, 3]}"# => "s.n: x\ns.2: y\ns.3: it is no object"; "a list of servers")]
    #[test_case(r#"{"s": {"a": {"command": "x", "args": "y"}}}"# => "s.a: its arguments are no list of strings"; "a string as arguments")]
    #[test_case(r#"{"s": {"a": {"command": "x", "args": [1]}}}"# => "s.a: its arguments are no list of strings"; "a number as argument")]
    fn odd_servers_say_why(text: &str) -> String {
        found(text, &[&["s"]]).unwrap().join("\n")
    }

    #[test_case("{\"s\": {},\n \"s\": {}}" => "2:2: `s` stands twice"; "on the way")]
    #[test_case(r#"{"s": {"a": {}, "\u0061": {}}}"# => "1:17: `a` stands twice"; "two servers")]
    #[test_case(r#"{"s": {"a": {"command": "x", "command": "y"}}}"# => "1:30: `command` stands twice"; "two commands")]
    #[test_case(r#"{"s": [{"name": "n"}, {"name": "n"}]}"# => "1:23: `n` stands twice"; "two servers of a list")]
    #[test_case("[]" => "1:1: expected an object"; "no object")]
    fn what_readers_differ_about_is_refused(text: &str) -> String {
        found(text, &[&["s"]]).unwrap_err()
    }

    #[test_case("npx -y server" => Wrapping::Bare; "bare")]
    #[test_case("/usr/bin/mcpmon wrap --server a -- npx" => Wrapping::Ours; "ours")]
    #[test_case("mcpmon wrap --server a -- npx" => Wrapping::ByHand; "searched on PATH")]
    #[test_case("/usr/bin/mcpmon wrap -- npx" => Wrapping::ByHand; "without a name")]
    #[test_case("mcpmon --json mcp-proxy -- npx" => Wrapping::ByHand; "its other name")]
    #[test_case("env A=b /opt/mcpmon wrap -- npx" => Wrapping::ByHand; "behind another program")]
    #[test_case("npx mcpmon-server wrap" => Wrapping::Bare; "a longer name")]
    #[test_case("wrap mcpmon" => Wrapping::Bare; "in the wrong order")]
    #[test_case("/opt/monitor wrap --server a -- npx" => Wrapping::Ours; "under another name")]
    #[test_case("/opt/other wrap --server a -- npx" => Wrapping::Bare; "another program")]
    fn wrappers_are_recognised(line: &str) -> Wrapping {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        wrapping(&words, &["/opt/monitor".to_owned()])
    }

    #[test]
    fn a_wrapper_inside_a_shell_is_recognised() {
        let words = ["sh", "-c", "cd /x && exec \"/usr/bin/mcpmon\" wrap -- npx"].map(str::to_owned);
        assert_eq!(wrapping(&words, &[]), Wrapping::ByHand);
    }
}
