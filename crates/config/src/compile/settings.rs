//! Settings beside the policy: the store and its exports, metrics, kept bodies, listing of remote servers.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use mcpmon_policy::ProxyMode;

use super::inspection::severity;
use crate::{
    load::{KeyFault, KeyPath},
    raw::{self, OtlpSignal},
    settings::{
        BodyStorageSettings, DiscoverySettings, EventFormat, JsonlSettings, OtlpSettings, RecordSettings,
        WebhookSettings,
    },
};

/// Smallest `record.max_size`: SQLite's own files take part of it.
const SMALLEST_STORE: u64 = 1 << 20;

/// Smallest `record.jsonl_max_size`.
const SMALLEST_FILE: u64 = 64 << 10;

/// Numbers that `record.jsonl_keep` may be.
const KEPT_FILES: RangeInclusive<u32> = 1..=999;

/// Compiles the `record` section.
pub(super) fn record(raw: &raw::Record, findings: &mut Vec<KeyFault>) -> RecordSettings {
    let section = KeyPath::root().key("record");
    let mut file = |key, given: &str| {
        let path = Some(PathBuf::from(given)).filter(|path| !path.as_os_str().is_empty());
        if path.as_ref().is_some_and(|path| path.is_relative()) {
            findings.push(KeyFault::new(
                section.key(key),
                "expected an absolute path: a daemon has no working directory to speak of",
            ));
        }
        path
    };
    let path = file("path", &raw.path);
    let jsonl_path = file("jsonl", &raw.jsonl);
    let key_file = file("webhook_key_file", &raw.webhook_key_file);
    let headers_file = file("otlp_headers_file", &raw.otlp_headers_file);
    let ca_file = file("otlp_ca_file", &raw.otlp_ca_file);
    let jsonl = jsonl(raw, jsonl_path, findings);
    let webhook = webhook(raw, key_file, findings);
    let otlp = otlp(raw, headers_file, ca_file, findings);
    let retention = raw.retention.0.0;
    if retention.is_zero() {
        findings.push(KeyFault::new(
            section.key("retention"),
            "no event would be kept: expected a duration over 0, for example `30d`",
        ));
    }
    let max_size = raw.max_size.0.0;
    if max_size < SMALLEST_STORE {
        findings.push(KeyFault::new(
            section.key("max_size"),
            "too small for a database: expected at least `1MiB`",
        ));
    }
    RecordSettings {
        path,
        jsonl,
        webhook,
        otlp,
        retention,
        max_size,
    }
}

/// Compiles what belongs to `record.jsonl`.
fn jsonl(raw: &raw::Record, path: Option<PathBuf>, findings: &mut Vec<KeyFault>) -> Option<JsonlSettings> {
    let section = KeyPath::root().key("record");
    if path.is_none() && raw.format != EventFormat::Mcpmon {
        let message = "no file is written that would have this form: set `jsonl` too";
        findings.push(KeyFault::new(section.key("format"), message));
    }
    let max_size = raw.jsonl_max_size.0.0;
    if max_size < SMALLEST_FILE {
        let message = "a file would hold a few events only: expected at least `64KiB`";
        findings.push(KeyFault::new(section.key("jsonl_max_size"), message));
    }
    if !KEPT_FILES.contains(&raw.jsonl_keep) {
        let message =
            "expected a number of files from 1 to 999, which are kept beside the one that is written to";
        findings.push(KeyFault::new(section.key("jsonl_keep"), message));
    }
    Some(JsonlSettings {
        path: path?,
        format: raw.format,
        max_size,
        keep: raw.jsonl_keep,
    })
}

/// Compiles `record.webhook_url` and the severity from which on it is told.
fn webhook(
    raw: &raw::Record,
    key_file: Option<PathBuf>,
    findings: &mut Vec<KeyFault>,
) -> Option<WebhookSettings> {
    if raw.webhook_url.is_empty() {
        if key_file.is_some() {
            let path = KeyPath::root().key("record").key("webhook_key_file");
            findings.push(KeyFault::new(
                path,
                "nothing is posted that could be signed: set `webhook_url` too",
            ));
        }
        return None;
    }
    let url = raw.webhook_url.parse::<raw::HttpUrl>();
    if let Err(error) = &url {
        let path = KeyPath::root().key("record").key("webhook_url");
        findings.push(KeyFault::new(path, error.to_string()));
    }
    Some(WebhookSettings {
        url: url.ok()?.as_str().to_owned(),
        key_file,
        min_severity: severity(raw.webhook_min_severity),
    })
}

/// Compiles `record.otlp_endpoint` and what belongs to it.
fn otlp(
    raw: &raw::Record,
    headers_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    findings: &mut Vec<KeyFault>,
) -> Option<OtlpSettings> {
    let section = KeyPath::root().key("record");
    let mut refuse = |key, message: String| findings.push(KeyFault::new(section.key(key), message));
    if raw.otlp_endpoint.is_empty() {
        for (key, file) in [("otlp_headers_file", &headers_file), ("otlp_ca_file", &ca_file)] {
            if file.is_some() {
                refuse(
                    key,
                    "nothing is exported that needs it: set `otlp_endpoint` too".to_owned(),
                );
            }
        }
        return None;
    }
    let url = match raw.otlp_endpoint.parse::<raw::HttpUrl>() {
        Ok(url) => url,
        Err(error) => {
            refuse("otlp_endpoint", error.to_string());
            return None;
        }
    };
    let endpoint = url.as_str().trim_end_matches('/').to_owned();
    if ["/v1/logs", "/v1/traces", "/v1/metrics"]
        .iter()
        .any(|path| endpoint.ends_with(path))
    {
        let message = "this is the path of one signal, and each gets its own: leave `/v1/…` out";
        refuse("otlp_endpoint", message.to_owned());
    }
    if endpoint.contains(['?', '#']) {
        let message =
            "paths are appended to it, so that it cannot have a query: send a key in `otlp_headers_file`";
        refuse("otlp_endpoint", message.to_owned());
    }
    let has = |signal| raw.otlp_signals.contains(&signal);
    Some(OtlpSettings {
        endpoint,
        headers_file,
        ca_file,
        with_content: raw.otlp_content,
        logs: has(OtlpSignal::Logs),
        traces: has(OtlpSignal::Traces),
        metrics: has(OtlpSignal::Metrics),
    })
}

/// Compiles the `metrics` section.
pub(super) fn metrics(raw: &raw::Metrics, findings: &mut Vec<KeyFault>) -> Option<SocketAddr> {
    if raw.listen.is_empty() {
        return None;
    }
    let path = KeyPath::root().key("metrics").key("listen");
    let address: SocketAddr = match raw.listen.parse() {
        Ok(address) => address,
        Err(error) => {
            let message = format!("`{}` is no address such as `127.0.0.1:9484`: {error}", raw.listen);
            findings.push(KeyFault::new(path, message));
            return None;
        }
    };
    if !address.ip().to_canonical().is_loopback() && !raw.allow_remote {
        let message = "no loopback address, and nothing asks who reads there: names of servers and rules would be \
                       served to every host that reaches it. To allow that, set `allow_remote: true`";
        findings.push(KeyFault::new(path, message));
    }
    Some(address)
}

/// Shortest time between two rounds: servers of others are asked.
const SHORTEST_DISCOVERY: Duration = Duration::from_secs(10);

/// Compiles `mcp.discovery`.
pub(super) fn discovery(raw: &raw::Discovery, findings: &mut Vec<KeyFault>) -> DiscoverySettings {
    let interval = raw.interval.0.0;
    if interval < SHORTEST_DISCOVERY {
        let path = KeyPath::root().key("mcp").key("discovery").key("interval");
        findings.push(KeyFault::new(
            path,
            "servers would be asked without a pause: expected at least `10s`; `enabled: false` asks none",
        ));
    }
    DiscoverySettings {
        enabled: raw.enabled,
        interval,
    }
}

/// Largest `max_body`: no body that is judged is longer.
const LARGEST_BODY: u64 = 64 << 20;

/// Compiles the section; `None` where nothing is to be kept. Mistakes are told all the same.
pub(super) fn bodies(config: &raw::Config, findings: &mut Vec<KeyFault>) -> Option<BodyStorageSettings> {
    let raw = &config.llm_storage;
    let section = KeyPath::root().key("llm_storage");
    let key_file = Some(PathBuf::from(&raw.key_file)).filter(|path| !path.as_os_str().is_empty());
    if key_file.as_ref().is_some_and(|path| path.is_relative()) {
        let message = "expected an absolute path: a daemon has no working directory to speak of";
        findings.push(KeyFault::new(section.key("key_file"), message));
    }
    let max_body = raw.max_body.0.0;
    if !(1..=LARGEST_BODY).contains(&max_body) {
        let message = "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`";
        findings.push(KeyFault::new(section.key("max_body"), message));
    }
    let retention = raw.retention.0.0;
    if retention.is_zero() {
        let message = "no body would be kept: expected a duration over 0, for example `7d`";
        findings.push(KeyFault::new(section.key("retention"), message));
    }
    let is_wanted = raw.store_bodies || config.proxy.mode == ProxyMode::McpOnly;
    is_wanted.then_some(BodyStorageSettings {
        key_file,
        max_body: usize::try_from(max_body.min(LARGEST_BODY)).unwrap_or(usize::MAX),
        retention,
    })
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn compiled(text: &str) -> (Option<BodyStorageSettings>, Vec<String>) {
        let raw: raw::Config = serde_json::from_str(text).expect("a configuration");
        let mut findings = Vec::new();
        let settings = bodies(&raw, &mut findings);
        (
            settings,
            findings.into_iter().map(|finding| finding.message).collect(),
        )
    }

    #[test_case(r#"{"jsonl": "/e", "format": "ocsf", "jsonl_max_size": "64KiB", "jsonl_keep": 999}"# => ""; "every key of the file")]
    #[test_case(r#"{"format": "ocsf"}"# => "no file is written that would have this form: set `jsonl` too"; "a form of no file")]
    #[test_case(r#"{"jsonl": "/e", "jsonl_max_size": "1KiB"}"# => "a file would hold a few events only: expected at least `64KiB`"; "a small file")]
    #[test_case(r#"{"jsonl": "/e", "jsonl_keep": 0}"# => "expected a number of files from 1 to 999, which are kept beside the one that is written to"; "no files")]
    fn mistakes_about_the_file(section: &str) -> String {
        let raw: raw::Config =
            serde_json::from_str(&format!(r#"{{"record": {section}}}"#)).expect("a configuration");
        let mut findings = Vec::new();
        record(&raw.record, &mut findings);
        let messages = findings.into_iter().map(|finding| finding.message);
        messages.collect::<Vec<_>>().join("\n")
    }

    #[test_case("{}" => false; "by default nothing")]
    #[test_case(r#"{"llm_storage": {"store_bodies": true}}"# => true; "what is asked for")]
    #[test_case(r#"{"proxy": {"mode": "mcp-only"}}"# => true; "what the mode implies")]
    #[test_case(r#"{"llm_storage": {"key_file": "/etc/mcpmon/bodies.key"}}"# => false; "a key alone asks for nothing")]
    fn is_kept(text: &str) -> bool {
        compiled(text).0.is_some()
    }

    #[test]
    fn the_keys_mean_what_they_say() {
        let (settings, findings) = compiled(
            r#"{"llm_storage": {"store_bodies": true, "key_file": "/k", "max_body": "2KiB", "retention": "1h"}}"#,
        );
        let expected = BodyStorageSettings {
            key_file: Some(PathBuf::from("/k")),
            max_body: 2048,
            retention: Duration::from_hours(1),
        };
        assert_eq!((settings, findings), (Some(expected), Vec::new()));
    }

    #[test_case(r#"{"key_file": "bodies.key"}"# => "expected an absolute path: a daemon has no working directory to speak of"; "a relative key")]
    #[test_case(r#"{"max_body": "0B"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "nothing of a body")]
    #[test_case(r#"{"max_body": "65MiB"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "more than passes")]
    #[test_case(r#"{"retention": "0s"}"# => "no body would be kept: expected a duration over 0, for example `7d`"; "for no time")]
    fn mistakes(section: &str) -> String {
        compiled(&format!(r#"{{"llm_storage": {section}}}"#)).1.join("\n")
    }
}
