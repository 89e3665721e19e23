//! Configured servers: how they are started or reached, and secrets in clear in their entries.

use mcpmon_clients::{ConfiguredServer, ConfiguredTransport, Scope};
use mcpmon_model::{RawJson, Severity};
use url::{Host, Url};

use super::{InventoryFinding, shortened};
use crate::{
    arguments::Arguments,
    launch::{LaunchRules, UnpinnedKind},
    mask::mask_text,
    secrets,
    similarity::{resembles, well_known},
};

/// The properties of the file with the entry of a server.
#[derive(Clone, Copy, Debug)]
pub struct FileTraits {
    /// The owner of the file.
    pub scope: Scope,
    /// True if users other than its owner may read it.
    pub is_open: bool,
    /// The least similarity of long names; `None` if names are not compared.
    pub similarity: Option<f64>,
}

/// Returns the findings in a server of a file.
pub fn inspect_server(server: &ConfiguredServer, file: &FileTraits) -> Vec<InventoryFinding> {
    let mut found = Vec::new();
    let place = Some(server.place);
    match &server.transport {
        ConfiguredTransport::Command(words) => {
            found.extend(unpinned(server, words));
            found.extend(look_alike(server, words, file));
        }
        ConfiguredTransport::Url(url) => found.extend(plain_http(server, url)),
        ConfiguredTransport::Unclear(_) => {}
    }
    found.extend(configured_secrets(server, file));
    let is_reached = !matches!(server.transport, ConfiguredTransport::Unclear(_));
    if is_reached && !server.is_wrapped {
        let message = "nothing stands between the client and this server".to_owned();
        found.push(InventoryFinding::new("not-wrapped", message, place));
    }
    found
}

fn unpinned(server: &ConfiguredServer, words: &[String]) -> Option<InventoryFinding> {
    let unpinned = LaunchRules::unpinned(words)?;
    let reference = shortened(&mask_text(&unpinned.reference));
    let text = server.texts.iter().find(|text| text.text == unpinned.reference);
    let place = Some(text.map_or(server.place, |text| text.place));
    Some(match unpinned.kind {
        UnpinnedKind::Package => {
            let message = format!("`{reference}` has no exact version: it is fetched when the server starts");
            InventoryFinding::new("unpinned-package", message, place)
        }
        UnpinnedKind::Image => {
            let message = format!("the image `{reference}` has no digest: it can change");
            InventoryFinding::new("unpinned-image", message, place)
        }
        UnpinnedKind::Tag => {
            let message = format!("the image `{reference}` is named by a tag, which its publisher can move");
            InventoryFinding::new("unpinned-image", message, place).at(Severity::Low)
        }
    })
}

/// Finds a name that looks like a well-known one: that of the package, or that in the file.
fn look_alike(server: &ConfiguredServer, words: &[String], file: &FileTraits) -> Option<InventoryFinding> {
    let threshold = file.similarity?;
    let package = LaunchRules::default().detect(words).map(|launch| launch.name);
    let names = [package.as_deref(), Some(server.name())].into_iter().flatten();
    let (name, found) = names
        .filter_map(|name| Some((name, resembles(name, well_known().iter().copied(), threshold)?)))
        .next()?;
    let message = format!(
        "`{}` resembles the well-known `{}` ({})",
        shortened(name),
        found.similar_to,
        found.method
    );
    Some(InventoryFinding::new(
        "lookalike-server",
        message,
        Some(server.place),
    ))
}

fn plain_http(server: &ConfiguredServer, url: &str) -> Option<InventoryFinding> {
    let parsed = Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "ws"))?;
    let is_own = match parsed.host()? {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback() || address.is_unspecified(),
        Host::Ipv6(address) => address.is_loopback() || address.is_unspecified(),
    };
    if is_own {
        return None;
    }
    let host = parsed.host_str().unwrap_or_default();
    let sends = !server.headers.is_empty();
    let beside = if sends {
        ", and its headers are sent along"
    } else {
        ""
    };
    let text = server.texts.iter().find(|text| text.text == url);
    let place = text.map_or(server.place, |text| text.place);
    let message = format!("`{}` is spoken to without TLS{beside}", shortened(host));
    let finding = InventoryFinding::new("plain-http", message, Some(place));
    Some(if sends {
        finding.at(Severity::High)
    } else {
        finding
    })
}

/// Finds secrets, by the same rules as in the arguments of a call.
fn configured_secrets(server: &ConfiguredServer, file: &FileTraits) -> Vec<InventoryFinding> {
    let json = RawJson::trusted(&server.json);
    let secrets = secrets::inspect(json, &Arguments::walk(json));
    let found = secrets
        .iter()
        .filter(|secret| secret.finding.severity >= Severity::Medium);
    found
        .map(|secret| {
            let finding = &secret.finding;
            let path = finding.field.as_str();
            let told = finding
                .matches
                .first()
                .map_or("", |matched| matched.text.as_str());
            // Every user can see the arguments of a process.
            let is_seen = path.starts_with("args") || path.starts_with("command") || path.starts_with("cmd");
            let (severity, why) = match (file.scope, is_seen, file.is_open) {
                (Scope::Project, ..) => (Severity::High, ", in a file that is shared with the project"),
                (Scope::User | Scope::Plugin | Scope::Host, true, _) => {
                    (Severity::High, ", which every user sees in the list of processes")
                }
                (Scope::User | Scope::Plugin | Scope::Host, false, true) => {
                    (Severity::High, ", in a file that others may read")
                }
                (Scope::User | Scope::Plugin | Scope::Host, false, false) => (Severity::Medium, ""),
            };
            let message = format!("`{}` holds a secret: {told}{why}", shortened(path));
            InventoryFinding::new("configured-secret", message, Some(server.place_of(path))).at(severity)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_clients::{client, parse_servers};
    use test_case::test_case;

    use super::*;

    fn inspected(server: &str, scope: Scope, is_open: bool) -> Vec<InventoryFinding> {
        let file = format!("{{\"mcpServers\": {{\"own\": {server}}}}}");
        let client = client("claude-code").expect("a client");
        let servers = parse_servers(file.as_bytes(), client).expect("readable");
        let traits = FileTraits {
            scope,
            is_open,
            similarity: Some(0.85),
        };
        inspect_server(&servers[0], &traits)
    }

    const TOKEN: &str = concat!("gh", "p_Zx81mPq0Lr5vT2yW9uK4sN7bD3fH6jA1cE5g");

    #[test_case("env", Scope::User, false => Severity::Medium; "in an environment of a user's own file")]
    #[test_case("env", Scope::User, true => Severity::High; "in a file that others may read")]
    #[test_case("env", Scope::Project, false => Severity::High; "in a project")]
    #[test_case("args", Scope::User, false => Severity::High; "in arguments")]
    fn secrets_count_by_where_they_stand(member: &str, scope: Scope, is_open: bool) -> Severity {
        let server = match member {
            "env" => format!(r#"{{"command": "/x", "env": {{"GITHUB_TOKEN": "{TOKEN}"}}}}"#),
            _ => format!(r#"{{"command": "/x", "args": ["--token", "{TOKEN}"]}}"#),
        };
        let found = inspected(&server, scope, is_open);
        assert!(
            found.iter().all(|finding| !finding.message.contains(TOKEN)),
            "{found:?}"
        );
        let secret = found.iter().find(|finding| finding.rule == "configured-secret");
        let secret = secret.expect("a secret");
        assert_ne!(secret.place, None);
        secret.severity
    }

    #[test_case("http://mcp.example.com/x" => Some(Severity::Medium); "a host")]
    #[test_case("http://10.0.0.7/x" => Some(Severity::Medium); "a private address")]
    #[test_case("https://mcp.example.com/x" => None; "with TLS")]
    #[test_case("http://localhost:80/x" => None; "this host")]
    #[test_case("http://[::1]:80/x" => None; "this host, version 6")]
    #[test_case("http://localhost.example.com/x" => Some(Severity::Medium); "a name that begins so")]
    fn urls(url: &str) -> Option<Severity> {
        let found = inspected(&format!(r#"{{"url": "{url}"}}"#), Scope::User, false);
        let plain = found.iter().find(|finding| finding.rule == "plain-http");
        plain.map(|finding| finding.severity)
    }
}
