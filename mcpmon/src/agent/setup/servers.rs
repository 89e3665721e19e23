//! The servers that stand in a document, and how each is started.

use std::{borrow::Cow, collections::BTreeSet, path::Path};

use mcpmon_protocol::decode::json::{Member, Value, ValueKind};

use super::jsonc::Mistake;

/// Words that make mcpmon a wrapper.
const VERBS: [&str; 2] = ["wrap", "mcp-proxy"];
/// The file name of mcpmon.
const PROGRAM: &str = "mcpmon";

/// A server of a client.
#[derive(Debug)]
pub(super) struct Entry<'t> {
    /// Members on the way to it; the last is its name.
    pub(super) path: Vec<String>,
    /// The position of its name.
    pub(super) start: usize,
    pub(super) transport: Transport<'t>,
}

/// The way a client reaches it.
#[derive(Debug)]
pub(super) enum Transport<'t> {
    /// The client starts a command.
    Stdio(Start<'t>),
    /// Over the network.
    Remote,
    /// Nobody can tell, for this reason.
    Unclear(&'static str),
}

/// A command, and where it stands.
#[derive(Debug)]
pub(super) struct Start<'t> {
    /// The position of the name of the member with the command.
    pub(super) name: usize,
    pub(super) command: Value<'t>,
    /// The member with the arguments, where there is one.
    pub(super) arguments: Option<Arguments<'t>>,
}

/// Arguments, and where they stand.
#[derive(Debug)]
pub(super) struct Arguments<'t> {
    /// The position of the member's name.
    pub(super) name: usize,
    /// An array, or `null`.
    pub(super) value: Value<'t>,
    pub(super) items: Vec<Value<'t>>,
}

/// The wrapping of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// None.
    Bare,
    /// As `mcpmon setup` writes it.
    Ours,
    /// In another way.
    ByHand,
}

impl Start<'_> {
    /// The command and its arguments.
    pub(super) fn words(&self) -> Vec<String> {
        let items = self.arguments.iter().flat_map(|arguments| &arguments.items);
        [&self.command]
            .into_iter()
            .chain(items)
            .map(|value| value.string().map(Cow::into_owned).unwrap_or_default())
            .collect()
    }

    /// Returns the wrapping of the server, by mcpmon or by a program at one of these paths.
    pub(super) fn wrapping(&self, programs: &[&str]) -> Wrapping {
        wrapping(&self.words(), programs)
    }
}

fn wrapping(words: &[String], programs: &[&str]) -> Wrapping {
    let is_program = |word: &str| {
        programs.contains(&word) || Path::new(word).file_name().is_some_and(|name| name == PROGRAM)
    };
    if let [program, verb, option, _, dashes, _, ..] = words
        && Path::new(program).is_absolute()
        && is_program(program)
        && (verb.as_str(), option.as_str(), dashes.as_str()) == (VERBS[0], "--server", "--")
    {
        return Wrapping::Ours;
    }
    // `env A=b mcpmon wrap -- x`, `sh -c "exec mcpmon wrap -- x"`.
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

/// The servers at every one of these paths, in the order of the file.
pub(super) fn entries<'t>(
    root: Value<'t>,
    paths: &[&[&str]],
    bytes: &[u8],
) -> Result<Vec<Entry<'t>>, Mistake> {
    if !root.is_object() {
        return Err(Mistake::at(bytes, root.range().start, "expected an object"));
    }
    let mut entries = Vec::new();
    for path in paths {
        let mut reached = Reached {
            bytes,
            entries: &mut entries,
            only_certain: path.is_empty(),
        };
        reached.walk(root, path, &mut Vec::new())?;
    }
    entries.sort_by_key(|entry| entry.start);
    Ok(entries)
}

struct Reached<'t, 'e> {
    bytes: &'e [u8],
    entries: &'e mut Vec<Entry<'t>>,
    /// At the root, members that are no servers stand among those that are.
    only_certain: bool,
}

impl<'t> Reached<'t, '_> {
    fn walk(&mut self, value: Value<'t>, path: &[&str], passed: &mut Vec<String>) -> Result<(), Mistake> {
        let Some((step, rest)) = path.split_first() else {
            return self.servers(value, passed);
        };
        let members = match *step {
            "*" => named(value, self.bytes, |_| true)?,
            step => named(value, self.bytes, |name| name == step)?,
        };
        for (name, member) in members {
            passed.push(name);
            self.walk(member.value, rest, passed)?;
            passed.pop();
        }
        Ok(())
    }

    fn servers(&mut self, value: Value<'t>, passed: &[String]) -> Result<(), Mistake> {
        for (name, member) in named(value, self.bytes, |_| true)? {
            let transport = transport(member.value, self.bytes)?;
            if self.only_certain && matches!(transport, Transport::Unclear(_)) {
                continue;
            }
            let mut path = passed.to_vec();
            path.push(name);
            self.entries.push(Entry {
                path,
                start: member.start,
                transport,
            });
        }
        Ok(())
    }
}

/// The members with such names. One that stands twice is an error: readers differ in which they take.
fn named<'t>(
    value: Value<'t>,
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Member<'t>)>, Mistake> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for member in value.members() {
        let name = unescaped(member.name);
        if !wanted(&name) {
            continue;
        }
        if !seen.insert(name.clone().into_owned()) {
            return Err(Mistake::at(bytes, member.start, format!("`{name}` stands twice")));
        }
        found.push((name.into_owned(), member));
    }
    Ok(found)
}

/// A name as it is meant; as it is written where it cannot be (half of a surrogate pair).
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains('\\') {
        return Cow::Borrowed(name);
    }
    serde_json::from_str(&format!("\"{name}\"")).map_or(Cow::Borrowed(name), Cow::Owned)
}

fn transport<'t>(server: Value<'t>, bytes: &[u8]) -> Result<Transport<'t>, Mistake> {
    if !server.is_object() {
        return Ok(Transport::Unclear("it is no object"));
    }
    let keys = ["command", "args", "url", "serverUrl"];
    let members = named(server, bytes, |name| keys.contains(&name))?;
    let member = |key: &str| {
        let mut members = members.iter();
        members.find_map(|(name, member)| (name == key).then_some(*member))
    };
    let Some(command) = member("command") else {
        let remote = member("url").or_else(|| member("serverUrl")).is_some();
        return Ok(match remote {
            true => Transport::Remote,
            false => Transport::Unclear("it has neither a command nor a URL"),
        });
    };
    if command.value.kind() != ValueKind::String {
        return Ok(Transport::Unclear("its command is no string"));
    }
    let arguments = match member("args") {
        None => None,
        Some(member) => {
            let items: Vec<_> = member.value.items().collect();
            let is_list = member.value.is_null() || member.value.kind() == ValueKind::Array;
            if !is_list || items.iter().any(|item| item.kind() != ValueKind::String) {
                return Ok(Transport::Unclear("its arguments are no list of strings"));
            }
            Some(Arguments {
                name: member.start,
                value: member.value,
                items,
            })
        }
    };
    Ok(Transport::Stdio(Start {
        name: command.start,
        command: command.value,
        arguments,
    }))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::{
        super::jsonc::{Dialect, Plain},
        *,
    };

    fn found(text: &str, paths: &[&[&str]]) -> Result<Vec<String>, String> {
        let mut plain = Plain::of(text.as_bytes(), Dialect::Jsonc).expect("readable");
        let document = plain.document(text.as_bytes()).expect("strict");
        let told = |entry: Entry<'_>| {
            let path = entry.path.join(".");
            match entry.transport {
                Transport::Stdio(start) => format!("{path}: {}", start.words().join(" ")),
                Transport::Remote => format!("{path}: remote"),
                Transport::Unclear(reason) => format!("{path}: {reason}"),
            }
        };
        match entries(document.root(), paths, text.as_bytes()) {
            Ok(entries) => Ok(entries.into_iter().map(told).collect()),
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
    #[test_case(r#"{"s": {"a": {"command": ["x"]}}}"# => "s.a: its command is no string"; "a list as command")]
    #[test_case(r#"{"s": {"a": {"command": "x", "args": "y"}}}"# => "s.a: its arguments are no list of strings"; "a string as arguments")]
    #[test_case(r#"{"s": {"a": {"command": "x", "args": [1]}}}"# => "s.a: its arguments are no list of strings"; "a number as argument")]
    fn what_is_no_server_says_why(text: &str) -> String {
        found(text, &[&["s"]]).unwrap().join("\n")
    }

    #[test_case("{\"s\": {},\n \"s\": {}}" => "2:2: `s` stands twice"; "on the way")]
    #[test_case(r#"{"s": {"a": {}, "\u0061": {}}}"# => "1:17: `a` stands twice"; "two servers")]
    #[test_case(r#"{"s": {"a": {"command": "x", "command": "y"}}}"# => "1:30: `command` stands twice"; "two commands")]
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
        wrapping(&words, &["/opt/monitor"])
    }

    #[test]
    fn a_wrapper_inside_a_shell_is_recognised() {
        let words = ["sh", "-c", "cd /x && exec \"/usr/bin/mcpmon\" wrap -- npx"].map(str::to_owned);
        assert_eq!(wrapping(&words, &[]), Wrapping::ByHand);
    }
}
