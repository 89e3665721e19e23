//! Servers that a client reaches by a URL, and the wrapper that replaces the URL.
//!
//! The member with the URL becomes the command, the kind of the server becomes that of a started one, and the headers
//! become environment variables, because every user can read a command line. The original text of each of these members
//! is kept, so that undoing restores the same bytes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    edit::{EditedFile, TextEdit, WrappedText, quoted},
    plan::Wrapper,
    servers::{CommandForm, PlacedCommand},
    syntax::{Node, NodeKind, PlacedMember, Style},
    table::MemberNames,
};

/// Prefix of the variables with headers.
const VARIABLE_PREFIX: &str = "MCPMON_HEADER_";
/// The name of the transport of 2024-11-05 in all clients.
const SSE: &str = "sse";
/// Parts of the names of members by which a client authenticates or changes its requests in its own way.
const OWN_WAYS: [&str; 6] = ["auth", "cert", "header", "request", "tls", "token"];

/// A server that is reached by a URL.
#[derive(Debug)]
pub(crate) struct RemoteEntry<'n> {
    /// The member with the URL.
    pub(crate) url: &'n PlacedMember,
    /// The member with the kind of the server.
    pub(crate) kind: Option<&'n PlacedMember>,
    /// The member with the headers.
    pub(crate) headers: Option<&'n PlacedMember>,
    /// The member that would hold the arguments of a command.
    pub(crate) args: Option<&'n PlacedMember>,
    /// The member that would hold the environment of a command.
    pub(crate) env: Option<&'n PlacedMember>,
    /// Style of the map with the URL.
    pub(crate) style: Style,
    pub(crate) fields: &'n MemberNames,
    /// The reason why it cannot be wrapped.
    pub(crate) obstacle: Option<&'static str>,
}

/// The original members of a remote server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteMembers {
    /// The member with the URL.
    url: String,
    /// The value of the kind.
    kind: Option<String>,
    /// The member with the headers.
    headers: Option<String>,
}

/// A header, and its variable.
#[derive(Debug)]
struct EnvHeader<'n> {
    name: &'n str,
    variable: String,
    value: &'n Node,
}

/// Returns the reason why a remote server cannot be wrapped, if there is one.
pub(crate) fn obstacle(server: &Node, remote: &RemoteEntry<'_>) -> Option<&'static str> {
    let text = |member: &PlacedMember| match member.node.is_shared || member.node.style == Style::Block {
        true => None,
        false => member.node.text().map(str::to_owned),
    };
    let Some(url) = text(remote.url) else {
        return Some("its URL is no plain string");
    };
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Some("its URL does not begin with `http://` or `https://`");
    }
    if url.contains(['?', '@', '#']) {
        return Some("its URL may hold a secret, which a command line would show to every user");
    }
    if remote.args.is_some() {
        return Some("it has arguments beside a URL");
    }
    match remote.kind.map(text) {
        Some(None) => return Some("its kind is no plain string"),
        Some(Some(kind)) if kind.starts_with("ws") || kind.starts_with("web") => {
            return Some("`mcpmon wrap --url` speaks no WebSocket");
        }
        Some(Some(_)) | None => {}
    }
    let fields = remote.fields;
    let is_own_way = |member: &PlacedMember| {
        let name = member.name.to_lowercase();
        member.name != fields.headers && OWN_WAYS.iter().any(|part| name.contains(part))
    };
    if server.members().iter().any(is_own_way) {
        return Some("the client logs in, or changes its requests, in a way that no wrapper knows");
    }
    let headers = remote.headers?;
    if remote.env.is_some() {
        return Some("it has headers and an environment");
    }
    let is_plain = |member: &PlacedMember| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !member.name.is_empty() && member.name.bytes().all(is_token) && text(member).is_some()
    };
    let members = headers.node.members();
    let variables: BTreeSet<_> = members.iter().map(|member| variable(&member.name)).collect();
    let is_written_inline = headers.node.style == Style::Inline && !headers.node.is_shared;
    let are_plain = matches!(headers.node.kind, NodeKind::Map(_))
        && is_written_inline
        && members.iter().all(is_plain)
        && variables.len() == members.len();
    (!are_plain).then_some("its headers are no plain strings between braces")
}

fn variable(header: &str) -> String {
    let allowed = |character: char| match character.is_ascii_alphanumeric() {
        true => character.to_ascii_uppercase(),
        false => '_',
    };
    let name: String = header.chars().map(allowed).collect();
    format!("{VARIABLE_PREFIX}{name}")
}

impl<'n> RemoteEntry<'n> {
    fn headers(&self) -> Vec<EnvHeader<'n>> {
        let members = self
            .headers
            .map(|headers| headers.node.members())
            .unwrap_or_default();
        let header = |member: &'n PlacedMember| EnvHeader {
            name: &member.name,
            variable: variable(&member.name),
            value: &member.node,
        };
        members.iter().map(header).collect()
    }

    pub(crate) fn url(&self) -> &str {
        self.url.node.text().unwrap_or_default()
    }

    /// Returns the words of the wrapper that speaks to the URL.
    pub(crate) fn words(&self, wrapper: Wrapper<'_>, server: &str) -> Vec<String> {
        let mut words = [wrapper.program, "wrap", "--server", server, "--url", self.url()]
            .map(str::to_owned)
            .to_vec();
        let kind = self.kind.and_then(|kind| kind.node.text());
        if kind == Some(SSE) {
            words.extend(["--transport", SSE].map(str::to_owned));
        }
        for header in self.headers() {
            words.extend([
                "--header-env".to_owned(),
                format!("{}={}", header.name, header.variable),
            ]);
        }
        words.extend_from_slice(wrapper.options);
        words
    }
}

impl EditedFile<'_> {
    /// Replaces a URL by `wrapper`.
    pub(crate) fn wrap_remote(
        self,
        remote: &RemoteEntry<'_>,
        path: &[String],
        wrapper: Wrapper<'_>,
        server: &str,
    ) -> (Vec<TextEdit>, WrappedText) {
        let fields = remote.fields;
        let words: Vec<_> = remote
            .words(wrapper, server)
            .iter()
            .map(|word| quoted(word))
            .collect();
        let list = |words: &[String]| format!("[{}]", words.join(", "));
        let url = remote.url.start..remote.url.node.range.end;
        let mut edits = Vec::new();
        if fields.is_command_list {
            edits.push(TextEdit::new(
                url.clone(),
                self.member(&fields.command, &list(&words)),
            ));
        } else {
            let command = self.member(&fields.command, &words[0]);
            let (at, args) = self.beside(
                remote.style,
                remote.url.start,
                url.end,
                &fields.args,
                &list(&words[1..]),
            );
            match remote.style {
                Style::Inline => edits.push(TextEdit::new(url.clone(), format!("{command}{args}"))),
                Style::Block => {
                    edits.extend([TextEdit::new(at..at, args), TextEdit::new(url.clone(), command)])
                }
            }
        }
        let mut members = RemoteMembers {
            url: self.slice(&url),
            kind: None,
            headers: None,
        };
        if let Some(kind) = remote.kind {
            members.kind = Some(self.slice(&kind.node.range));
            edits.push(TextEdit::new(kind.node.range.clone(), quoted(&fields.stdio)));
        }
        if let Some(headers) = remote.headers {
            let range = headers.start..headers.node.range.end;
            members.headers = Some(self.slice(&range));
            let variables = remote.headers();
            let variables = variables.iter().map(|header| {
                let value = self.literal(header.value);
                self.member(&header.variable, &value)
            });
            let variables = variables.collect::<Vec<_>>().join(", ");
            edits.push(TextEdit::new(
                range,
                self.member(&fields.env, &format!("{{{variables}}}")),
            ));
        }
        (edits, WrappedText::remote(path, &words[0], members))
    }

    /// Restores the URL, the kind and the headers in place of a wrapper. Returns `None` if the server was edited so
    /// that they cannot be put back.
    pub(crate) fn unwrap_remote(
        self,
        start: &PlacedCommand<'_>,
        members: &RemoteMembers,
    ) -> Option<Vec<TextEdit>> {
        let arguments = start.arguments.as_ref()?;
        let mut edits = match start.command {
            CommandForm::FirstArgument => {
                vec![TextEdit::new(start.name..arguments.node.range.end, &members.url)]
            }
            CommandForm::Text(command) => {
                let url = TextEdit::new(start.name..command.range.end, &members.url);
                [vec![url], self.remove_member(start, arguments)].concat()
            }
        };
        if let Some(kind) = &members.kind {
            edits.push(TextEdit::new(start.kind?.node.range.clone(), kind));
        }
        if let Some(headers) = &members.headers {
            let env = start.env?;
            let mut variables = env.node.members().iter();
            if !variables.all(|member| member.name.starts_with(VARIABLE_PREFIX)) {
                return None;
            }
            edits.push(TextEdit::new(env.start..env.node.range.end, headers));
        }
        Some(edits)
    }
}
