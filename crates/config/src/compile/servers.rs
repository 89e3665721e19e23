//! Compilation of `mcp.servers`: the declared servers.

use std::collections::BTreeMap;

use mcpmon_model::{NameGlob, ServerType};
use mcpmon_policy::{
    Egress, EgressDefault, ProcessAccess, SandboxMode, SandboxPath, SandboxPolicy, Server, Transport,
};

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
};

/// Compiles `mcp.servers`.
pub(super) fn compile(raw: &[raw::Server], mistakes: &mut Vec<KeyMistake>) -> Vec<Server> {
    let list = KeyPath::root().key("mcp").key("servers");
    let mut first_uses = BTreeMap::new();
    let mut servers = Vec::with_capacity(raw.len());
    for (index, entry) in raw.iter().enumerate() {
        let path = list.index(index);
        let id_path = path.key("id");
        match first_uses.get(&entry.id.0) {
            None => drop(first_uses.insert(entry.id.0.clone(), id_path)),
            Some(first) => mistakes.push(KeyMistake {
                related: Some(KeyPath::clone(first)),
                ..KeyMistake::new(id_path, format!("the server id `{}` is used twice", entry.id.0))
            }),
        }
        servers.extend(server(entry, &path, mistakes));
    }
    servers
}

fn server(raw: &raw::Server, path: &KeyPath, mistakes: &mut Vec<KeyMistake>) -> Option<Server> {
    let transport = match kind(raw, path, mistakes)? {
        ServerType::Stdio => stdio(raw, path, mistakes),
        kind @ (ServerType::Http | ServerType::Sse) => remote(raw, kind, path, mistakes),
    };
    Some(Server {
        id: raw.id.0.clone(),
        transport: transport?,
        env_allow: globs(&raw.env_allow),
        env_deny: globs(&raw.env_deny),
        processes: raw.sandbox.as_ref().and_then(|sandbox| sandbox.processes),
        sandbox: raw
            .sandbox
            .as_ref()
            .map(|sandbox| compile_sandbox(sandbox, &path.key("sandbox"), mistakes))
            .unwrap_or_default(),
        egress: raw.egress.as_ref().and_then(egress),
        on_change: raw.on_change,
    })
}

/// Returns the type as written, or as `command` and `url` imply it.
fn kind(raw: &raw::Server, path: &KeyPath, mistakes: &mut Vec<KeyMistake>) -> Option<ServerType> {
    let message = match (raw.kind, &raw.command, &raw.url) {
        (Some(kind), _, _) => return Some(kind),
        (None, Some(_), None) => return Some(ServerType::Stdio),
        (None, None, Some(_)) => return Some(ServerType::Http),
        (None, None, None) => "a server needs a `command` (stdio) or a `url` (http, sse)",
        (None, Some(_), Some(_)) => {
            "a server has either a `command` (stdio) or a `url` (http, sse), not both"
        }
    };
    mistakes.push(KeyMistake::new(path.clone(), message));
    None
}

fn stdio(raw: &raw::Server, path: &KeyPath, mistakes: &mut Vec<KeyMistake>) -> Option<Transport> {
    for (key, given) in [
        ("url", raw.url.is_some()),
        ("tls_fingerprint", raw.tls_fingerprint.is_some()),
    ] {
        if given {
            let message = format!("`{key}` belongs to a server of type http or sse, this one is stdio");
            mistakes.push(KeyMistake::new(path.key(key), message));
        }
    }
    match raw.command.as_deref() {
        Some(command) if !command.trim().is_empty() => Some(Transport::Stdio {
            command: command.to_owned(),
            args: raw.args.clone(),
        }),
        Some(_) | None => {
            mistakes.push(KeyMistake::new(
                path.key("command"),
                "a server of type stdio needs the `command` that starts it",
            ));
            None
        }
    }
}

fn remote(
    raw: &raw::Server,
    server_type: ServerType,
    path: &KeyPath,
    mistakes: &mut Vec<KeyMistake>,
) -> Option<Transport> {
    for (key, given) in [
        ("command", raw.command.is_some()),
        ("args", !raw.args.is_empty()),
        ("env_allow", !raw.env_allow.is_empty()),
        ("env_deny", !raw.env_deny.is_empty()),
        ("sandbox", raw.sandbox.is_some()),
        ("egress", raw.egress.is_some()),
    ] {
        if given {
            let message = format!(
                "`{key}` belongs to a server of type stdio: no process of an http or sse server runs on this host"
            );
            mistakes.push(KeyMistake::new(path.key(key), message));
        }
    }
    let Some(url) = &raw.url else {
        mistakes.push(KeyMistake::new(
            path.key("url"),
            "a server of type http or sse needs its `url`",
        ));
        return None;
    };
    if raw.tls_fingerprint.is_some() && !url.0.as_str().to_ascii_lowercase().starts_with("https:") {
        mistakes.push(KeyMistake::new(
            path.key("tls_fingerprint"),
            "a certificate is shown over TLS alone: the `url` has to begin with `https:`",
        ));
    }
    Some(Transport::Remote {
        server_type,
        url: url.0.as_str().to_owned(),
        host: url.0.host().clone(),
        port: url.0.port(),
        tls_fingerprint: raw.tls_fingerprint.as_ref().map(|digest| digest.0),
    })
}

fn compile_sandbox(raw: &raw::Sandbox, path: &KeyPath, mistakes: &mut Vec<KeyMistake>) -> SandboxPolicy {
    let paths = |paths: &[raw::Text<SandboxPath>]| paths.iter().map(|path| path.0.clone()).collect();
    let compiled = SandboxPolicy {
        mode: raw.default,
        read: paths(&raw.read),
        write: paths(&raw.write),
        network: raw.network,
    };
    for (key, granted) in [("read", &raw.read), ("write", &raw.write)] {
        if raw.default == SandboxMode::Off && !granted.is_empty() {
            let message = format!(
                "`{key}` grants files in a sandbox, and there is none: set `default: home-readonly` or `default: strict`"
            );
            mistakes.push(KeyMistake::new(path.key(key), message));
        }
    }
    if raw.processes == Some(ProcessAccess::Any) && !compiled.is_open() {
        let message = "no server in a sandbox reaches into the processes of others: remove `processes: any`, or the sandbox";
        mistakes.push(KeyMistake::new(path.key("processes"), message));
    }
    compiled
}

fn egress(raw: &raw::Egress) -> Option<Egress> {
    let egress = Egress {
        default: raw.default,
        allow: raw.allow.iter().map(|endpoint| endpoint.0.clone()).collect(),
        deny: raw.deny.iter().map(|endpoint| endpoint.0.clone()).collect(),
    };
    let restricts = egress.default == EgressDefault::Deny || !egress.deny.is_empty();
    restricts.then_some(egress)
}

/// Compiles globs over names.
pub(super) fn globs(patterns: impl AsRef<[String]>) -> Vec<NameGlob> {
    patterns.as_ref().iter().map(NameGlob::new).collect()
}
