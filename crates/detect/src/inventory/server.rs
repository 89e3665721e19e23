//! Configured servers: how they are started or reached, and secrets in clear in their entries.

use mcpmon_clients::{ConfiguredServer, ConfiguredTransport, Scope};
use mcpmon_model::{RawJson, Severity};
use url::{Host, Url};

use super::{InventoryFinding, shortened};
use crate::{
    arguments::Arguments,
    launch::{Fetched, LaunchRules, UnpinnedKind},
    mask::mask_text,
    normalise::skeleton::Skeleton,
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
    /// True if names are compared with well-known ones.
    pub compares_names: bool,
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

/// The npm scope of the reference servers.
const PUBLISHER: &str = "modelcontextprotocol";
/// Namespaces of Docker Hub whose images Docker builds from the servers' sources.
const NAMESPACES: [&str; 2] = ["mcp", "docker"];
/// Most edits by which the name of one publisher imitates that of another.
const IMITATION: usize = 2;

/// The publisher of what a command starts, as far as the command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publisher<'n> {
    /// The publisher of the reference servers, or Docker.
    Official,
    /// Another one, by the name of its scope or namespace.
    Named(&'n str),
    /// The registry has names without publishers, so anyone may have taken a free one.
    Unnamed,
    /// Nothing is fetched: a program of this host.
    Host,
}

impl<'n> Publisher<'n> {
    fn new(fetched: &'n Fetched) -> Self {
        match fetched.name() {
            Some((Some(publisher), _)) => {
                let is_official = if fetched.is_image {
                    NAMESPACES.contains(&publisher)
                } else {
                    publisher.strip_prefix('@') == Some(PUBLISHER)
                };
                if is_official {
                    Self::Official
                } else {
                    Self::Named(publisher.trim_start_matches('@'))
                }
            }
            Some((None, _)) => Self::Unnamed,
            None => Self::Host,
        }
    }

    /// Returns whether a name by this publisher that resembles another one in this way is made to be taken for it.
    fn imitates(self, method: &str) -> bool {
        match self {
            Self::Official => false,
            Self::Named(_) => matches!(method, "skeleton" | "edit" | "transposition"),
            Self::Unnamed => true,
            Self::Host => method == "skeleton",
        }
    }

    /// Returns whether its name is nearly that of the reference servers' publisher.
    fn is_imitation(self) -> bool {
        match self {
            Self::Named(name) => {
                let folded = Skeleton::of(name).text.to_lowercase();
                strsim::osa_distance(&folded, PUBLISHER) <= IMITATION
            }
            Self::Official | Self::Unnamed | Self::Host => false,
        }
    }
}

/// Finds a package, image or name that looks like a well-known one. The publisher and the registry are compared as well
/// as letters.
fn look_alike(server: &ConfiguredServer, words: &[String], file: &FileTraits) -> Option<InventoryFinding> {
    if !file.compares_names {
        return None;
    }
    let rule = |message| InventoryFinding::new("lookalike-server", message, Some(server.place));
    let fetched = LaunchRules::fetches(words).into_iter().next();
    let publisher = fetched.as_ref().map_or(Publisher::Host, Publisher::new);
    let package = fetched.as_ref().and_then(|fetched| Some(fetched.name()?.1));
    if publisher.is_imitation() {
        return Some(rule(format!(
            "the publisher of `{}` resembles `{PUBLISHER}`",
            shortened(package.unwrap_or_default())
        )));
    }
    let program = LaunchRules::default().detect(words).map(|launch| launch.name);
    let package = package.or(program.as_deref());
    let names = [package, Some(server.name())].into_iter().flatten();
    let (name, found) = names
        .filter_map(|name| Some((name, resembles(name, well_known().iter().copied())?)))
        .find(|(_, found)| publisher.imitates(found.method))?;
    Some(rule(format!(
        "`{}` resembles the well-known `{}` ({})",
        shortened(name),
        found.similar_to,
        found.method
    )))
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
            compares_names: true,
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

    #[test_case(&["docker", "run", "-i", "--rm", "mcp/sequentialthinking"] => false; "an image that Docker builds")]
    #[test_case(&["docker", "run", "-i", "docker.io/mcp/sequentialthinking:latest"] => false; "the same with its registry")]
    #[test_case(&["docker", "run", "-i", "someone/sequentialthinkng"] => true; "a slip in the image of another publisher")]
    #[test_case(&["browser-use-mcp-server", "run"] => false; "a program of this host")]
    #[test_case(&["github-mcp-sever", "stdio"] => false; "a slip in a program of this host")]
    #[test_case(&["uvx", "browser-use-mcp-server"] => false; "another second word")]
    #[test_case(&["npx", "-y", "@acme/markdown-mcp-server@1.0.0"] => false; "another word in a scope")]
    #[test_case(&["npx", "-y", "@modelcontextprotocol/server-sequential-thinking"] => false; "a reference server")]
    #[test_case(&["npx", "-y", "@acme/mcp-server-githib"] => true; "a slip in a scope")]
    #[test_case(&["npx", "-y", "mcp-server-githib"] => true; "a slip without a scope")]
    #[test_case(&["npx", "-y", "sequentialthinking-mcp"] => true; "a delimiter less without a scope")]
    #[test_case(&["npx", "-y", "@modelcontextprotocl/server-github"] => true; "a slip in the publisher")]
    #[test_case(&["npx", "-y", "@rnodelcontextprotocol/server-github"] => true; "letters of the publisher that look alike")]
    fn look_alikes(words: &[&str]) -> bool {
        let server = serde_json::json!({"command": words[0], "args": &words[1..]}).to_string();
        let found = inspected(&server, Scope::User, false);
        found.iter().any(|finding| finding.rule == "lookalike-server")
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
