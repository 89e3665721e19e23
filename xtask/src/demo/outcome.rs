//! The expected outcome of each scene, compared with what the daemon recorded: a demo with another outcome fails.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{PORT, network};

/// The listings at the end of a demo, as JSON.
#[derive(Debug, Default)]
pub(super) struct Listings {
    pub(super) servers: Vec<Value>,
    pub(super) execs: Vec<Value>,
    pub(super) connections: Vec<Value>,
    pub(super) status: Vec<Value>,
}

impl Listings {
    /// Checks all expected outcomes.
    ///
    /// # Errors
    /// Returns an error with the first outcome that is missing.
    pub(super) fn check(&self) -> Result<()> {
        any(
            &self.servers,
            "a server that was launched, hashed and pinned",
            |server| is(server, "status", &["running"]) && is(server, "pin", &["pinned", "match"]),
        )?;
        any(&self.servers, "the declared HTTP server", |server| {
            is(server, "server_id", &["demo-http"])
        })?;
        any(
            &self.execs,
            "a launch with the digest of its executable",
            |launch| {
                is(launch, "status", &["running"])
                    && is(launch, "pin", &["pinned", "match"])
                    && text(launch, "exe_sha256").starts_with("sha256:")
            },
        )?;
        let reached = |address, action| {
            let target = format!("{address}:{PORT}");
            move |connection: &Value| {
                is(connection, "remote_addr", &[&target]) && is(connection, "action", &[action])
            }
        };
        any(
            &self.connections,
            "the connection to the watched address, as audit",
            reached(network::WATCHED, "audit"),
        )?;
        any(
            &self.connections,
            "the connection to the denied address, as block",
            reached(network::DENIED, "block"),
        )?;
        let let_through = reached(network::DENIED, "allow");
        ensure!(
            !self.connections.iter().any(let_through),
            "a connection to the denied address was let through"
        );
        any(&self.status, "a daemon that enforces", |status| {
            is(status, "state", &["enforcing"])
        })
    }
}

fn any(listed: &[Value], what: &str, is_meant: impl Fn(&Value) -> bool) -> Result<()> {
    match listed.iter().any(is_meant) {
        true => Ok(()),
        false => bail!("the demo was to show {what}, and shows {listed:?}"),
    }
}

fn is(object: &Value, field: &str, values: &[&str]) -> bool {
    values.contains(&text(object, field))
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Parses one object a line.
///
/// # Errors
/// Returns an error if a line is not an object.
pub(super) fn objects(output: &[u8]) -> Result<Vec<Value>> {
    let lines = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).context("a listing is one JSON object a line"))
        .collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const SERVERS: &str = r#"{"server_id":"everything","status":"running","pin":"match"}
{"server_id":"demo-http","status":"seen"}
"#;
    const EXECS: &str = r#"{"server_id":"everything","status":"running","pin":"match","exe_sha256":"sha256:00"}
"#;
    const CONNECTIONS: &str = r#"{"remote_addr":"198.18.77.2:3901","action":"audit"}
{"remote_addr":"198.18.77.3:3901","action":"block"}
"#;
    const STATUS: &str = r#"{"state":"enforcing"}
"#;

    fn outcome(change: (&str, &str)) -> Result<()> {
        let listed = |text: &str| objects(text.replace(change.0, change.1).as_bytes());
        Listings {
            servers: listed(SERVERS)?,
            execs: listed(EXECS)?,
            connections: listed(CONNECTIONS)?,
            status: listed(STATUS)?,
        }
        .check()
    }

    #[test]
    fn what_the_readme_shows_passes() {
        outcome(("", "")).unwrap();
    }

    #[test_case(r#""running""#, r#""stopped""#, "launched"; "nothing runs")]
    #[test_case("demo-http", "other", "declared"; "no declared server")]
    #[test_case("sha256:00", "", "digest"; "nothing was hashed")]
    #[test_case("audit", "allow", "watched"; "not watched")]
    #[test_case("block", "would_block", "denied"; "not refused")]
    #[test_case("198.18.77.3:3901\",\"action\":\"block", "198.18.77.3:3901\",\"action\":\"allow", "denied"; "let through")]
    #[test_case("enforcing", "degraded", "enforces"; "degraded")]
    #[test_case("{", "", "JSON"; "no JSON")]
    fn another_outcome_fails_and_is_named(what: &str, instead: &str, named: &str) {
        let error = outcome((what, instead)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
