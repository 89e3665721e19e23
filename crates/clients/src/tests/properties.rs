//! Properties of generated files: an edit is made once, and undone to the byte.

use proptest::prelude::*;

use super::texts::{PROGRAM, form, text, unwrapped, wrapped};
use crate::{
    plan::{FileForm, Wish, plan},
    setup::{settled, undone},
    table::client,
};

/// White space and comments between two tokens.
fn gap() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(["", " ", "\n  ", "\r\n\t", " /* , */ ", " // ] \"\n ", "\n\n"].as_slice())
}

/// A string, as it is written.
fn literal() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(
        [
            "a", "mcp", "\\\"", "\\\\", "\\u00e9", "é", "//", "/*", ",", "]", " ", "-",
        ]
        .as_slice(),
    );
    proptest::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn list() -> impl Strategy<Value = String> {
    let items = proptest::collection::vec((gap(), literal(), gap()), 0..4);
    (items, gap(), any::<bool>()).prop_map(|(items, end, trailing)| {
        let items: Vec<_> = items
            .iter()
            .map(|(before, item, after)| format!("{before}{item}{after}"))
            .collect();
        let comma = if trailing && !items.is_empty() { "," } else { "" };
        format!("[{}{comma}{end}]", items.join(","))
    })
}

fn server() -> impl Strategy<Value = String> {
    let arguments = prop_oneof![list().prop_map(Some), Just(Some("null".to_owned())), Just(None)];
    (literal(), arguments, gap(), gap(), any::<[bool; 2]>()).prop_map(
        |(command, arguments, one, two, [first, trailing])| {
            let command = format!("{one}\"command\"{two}:{one}{command}{two}");
            let arguments = arguments.map(|list| format!("{two}\"args\"{one}:{two}{list}{one}"));
            let other = format!("{one}\"env\": {{\"A\": [1, 2e3]}}{two}");
            let mut members: Vec<_> = [Some(command), arguments, Some(other)]
                .into_iter()
                .flatten()
                .collect();
            if first {
                members.reverse();
            }
            let comma = if trailing { "," } else { "" };
            format!("{{{}{comma}{two}}}", members.join(","))
        },
    )
}

fn remote_server() -> impl Strategy<Value = String> {
    (literal(), gap(), gap(), any::<[bool; 4]>()).prop_map(
        |(header, one, two, [reversed, trailing, has_kind, has_headers])| {
            let url = format!("{one}\"url\"{two}:{one}\"https://u.example.com/m\"{two}");
            let kind = has_kind.then(|| format!("{two}\"type\":{one}\"http\"{two}"));
            let headers = format!("{one}\"headers\"{two}:{{{one}\"A-B\":{two}{header}{one}}}{two}");
            let headers = has_headers.then_some(headers);
            let mut members: Vec<_> = [kind, Some(url), headers].into_iter().flatten().collect();
            if reversed {
                members.reverse();
            }
            let comma = if trailing { "," } else { "" };
            format!("{{{}{comma}{two}}}", members.join(","))
        },
    )
}

fn document() -> impl Strategy<Value = String> {
    let servers = proptest::collection::vec((gap(), prop_oneof![3 => server(), 1 => remote_server()]), 0..4);
    (servers, gap(), gap()).prop_map(|(servers, before, after)| {
        let servers: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(number, (gap, server))| format!("{gap}\"s{number}\"{gap}:{server}"))
            .collect();
        format!(
            "{before}{{\"mcpServers\"{after}:{{{}{after}}}{before}}}{after}",
            servers.join(",")
        )
    })
}

/// Lines and parts of lines of a YAML file, in any order.
const YAML: &[&str] = &[
    "extensions:\n",
    "  a:\n",
    "  b:\n",
    "    cmd: x\n",
    "    cmd: 'y z' # c\r\n",
    "    \"cmd\": \"w\"\n",
    "    args:\n",
    "    - p\n",
    "      - \"q\"\n",
    "      -   r # s\n",
    "    args: [t, 'u',]\n",
    "    args: ~\n",
    "    args: []\n",
    "    envs: {A: b}\n",
    "  c: {cmd: x, args: [y]}\n",
    "  d: {cmd: x}\n",
    "    ? cmd\n    : x\n",
    "    # c\n",
    "\n",
    "      - |\n        v\n",
    "    args: &a [x]\n",
    "é: 1\n",
    "  - cmd: x\n",
    "    cmd: >-\n      x\n",
    "---\n",
    "    cmd:\n      x\n",
    "  e: { cmd: x,\n    args: [ # c\n      y ] }\n",
    "    type: stdio\n",
    "    uri: https://u.example.com/m # c\n",
    "    uri: 'http://u.example.com/n'\r\n",
    "    type: sse\n",
    "    headers: {A: 'b', C-D: \"\u{e9}\"}\n",
    "    headers:\n      A: b\n",
    "  f: {uri: https://u.example.com/m, headers: {A: b}}\n",
];

/// Lines and parts of lines of a TOML file, in any order.
const TOML: &[&str] = &[
    "[mcp_servers.a]\n",
    "[mcp_servers.'b c']\n",
    "  [mcp_servers.d] # e\n",
    "command = \"x\"\n",
    "\tcommand = 'y' # c\n",
    "\"command\" = \"w\"\r\n",
    "args = []\n",
    "args = [\"p\", 'q']\n",
    "args = [\n  # r\n  \"s\", # t\n]\n",
    "mcp_servers.f.command = \"x\"\n",
    "mcp_servers . g . command = \"x\"\n",
    "mcp_servers.h = { command = \"x\" }\n",
    "mcp_servers.i = { command = \"x\", args = [\"y\"] }\n",
    "env = { A = \"é\" }\n",
    "# c\n",
    "\n",
    "[mcp_servers]\n",
    "j = {\n  command = \"x\",\n}\n",
    "k.command = \"\"\"x\"\"\"\n",
    "[[mcp_servers.l]]\n",
    "model = \"o\"",
    "url = \"https://u.example.com/m\" # c\n",
    "  url = 'https://u.example.com/m'\r\n",
    "http_headers = { A = 'b', \"C-D\" = \"\u{e9}\" }\n",
    "mcp_servers.m.url = \"https://u.example.com/m\"\n",
    "mcp_servers.m.http_headers.A = \"b\"\n",
    "mcp_servers.n = { url = \"https://u.example.com/m\", http_headers = { A = \"b\" } }\n",
];

fn fragments(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(parts), 0..12).prop_map(|parts| parts.concat())
}

/// Sets up a text, and sets up and undoes the result. Returns false if the text is not of that format.
fn survives(original: &str, form: FileForm) -> Result<bool, TestCaseError> {
    let Ok(plan) = settled(form, original.as_bytes(), &[], Wish::Wrap(PROGRAM.into())) else {
        return Ok(false);
    };
    let back = undone(form, original.as_bytes(), &plan);
    prop_assert!(back.is_ok(), "{original:?} became {:?}", text(&plan));
    prop_assert_eq!(back.unwrap_or_default(), original.as_bytes());
    let forgotten = settled(form, &plan.text, &[], Wish::Unwrap);
    prop_assert!(forgotten.is_ok(), "{:?} without the ledger", text(&plan));
    with_remote_servers(original, form)?;
    Ok(true)
}

/// Sets up a text with its remote servers, and undoes the result.
fn with_remote_servers(original: &str, form: FileForm) -> Result<(), TestCaseError> {
    let Ok(plan) = settled(form, original.as_bytes(), &[], Wish::WrapAll(PROGRAM.into())) else {
        return Err(TestCaseError::fail(format!("{original:?} is not certain")));
    };
    let back = undone(form, original.as_bytes(), &plan);
    prop_assert!(back.is_ok(), "{original:?} became {:?}", text(&plan));
    prop_assert_eq!(back.unwrap_or_default(), original.as_bytes());
    Ok(())
}

proptest! {
    #[test]
    fn wrapping_can_be_undone_and_is_done_once(original in document()) {
        let once = wrapped(&original);
        let twice = plan(&once.text, form(), &once.kept, Wish::Wrap(PROGRAM.into())).expect("readable");
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert_eq!(unwrapped(&once.text, &once.kept), original);
    }

    #[test]
    fn remote_servers_are_undone_to_the_byte(original in document()) {
        with_remote_servers(&original, form())?;
    }

    #[test]
    fn a_wrapped_server_starts_what_the_bare_one_starts(original in document()) {
        let once = wrapped(&original);
        let again = wrapped(text(&once));
        let servers = once.servers.iter().zip(&again.servers);
        for (before, after) in servers.filter(|(before, _)| before.url.is_none()) {
            prop_assert_eq!(&before.after, &after.before);
            prop_assert_eq!(&before.before[..], &after.before[5..]);
        }
    }

    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:/*\\ \n1asmcpServers".as_slice()), 0..60)) {
        let unread = plan(&bytes, form(), &[], Wish::Wrap(PROGRAM.into()));
        if let Ok(plan) = unread {
            prop_assert_eq!(unwrapped(&plan.text, &plan.kept).into_bytes(), bytes);
        }
    }

    #[test]
    fn yaml_is_undone_to_the_byte(original in fragments(YAML)) {
        let original = format!("extensions:\n  z:\n    cmd: z\n{original}");
        survives(&original, FileForm { client: client("goose").expect("a client"), file: &client("goose").expect("a client").files[0] })?;
    }

    #[test]
    fn toml_is_undone_to_the_byte(original in fragments(TOML)) {
        let file = &client("codex").expect("a client").files[0];
        survives(&original, FileForm { client: client("codex").expect("a client"), file })?;
    }
}

#[test]
fn the_fragments_make_files_of_their_format() {
    let goose = client("goose").expect("a client");
    let form = FileForm {
        client: goose,
        file: &goose.files[0],
    };
    let yaml = [YAML[0], YAML[1], YAML[4], YAML[6], YAML[7], YAML[17], YAML[14]].concat();
    assert!(survives(&yaml, form).expect("undone"), "{yaml}");
    let codex = client("codex").expect("a client");
    let form = FileForm {
        client: codex,
        file: &codex.files[0],
    };
    let toml = [TOML[9], TOML[10], TOML[11], TOML[0], TOML[4], TOML[8]].concat();
    assert!(survives(&toml, form).expect("undone"), "{toml}");
}
