//! The raw mirror to [`Policy`] and [`Settings`]: what keys mean together.

mod bypass;
mod cross_server;
mod discovery;
mod guard;
mod inspection;
mod llm;
mod network;
mod outlets;
mod proxy;
mod rate;
mod rules;
mod servers;
mod storage;

use std::path::PathBuf;

use mcpmon_model::NameGlob;
use mcpmon_policy::{FirstUse, LaunchPatterns, Pinning, Policy, ServerPolicy};

use super::{
    load::KeyPath,
    raw,
    settings::{ProxySettings, RecordSettings, Settings},
};

/// A policy, and why it may not be used.
pub(super) struct Compiled {
    /// Everything that could be made sense of.
    pub(super) policy: Policy,
    /// The same, beside the policy.
    pub(super) settings: Settings,
    /// The parts that could not be compiled; none for a valid configuration.
    pub(super) findings: Vec<Finding>,
}

/// Something that is wrong with a key.
pub(super) struct Finding {
    /// The key.
    pub(super) path: KeyPath,
    /// The mistake.
    pub(super) message: String,
    /// Another key it concerns.
    pub(super) related: Option<KeyPath>,
}

impl Finding {
    fn new(path: KeyPath, message: impl Into<String>) -> Self {
        Self {
            path,
            message: message.into(),
            related: None,
        }
    }
}

/// Smallest `record.max_size`: SQLite's own files take part of it.
const SMALLEST_STORE: u64 = 1 << 20;
/// Longest name of a rule, in characters.
const LONGEST_NAME: usize = 128;

/// Compiles `config`.
pub(super) fn compile(config: &raw::Config) -> Compiled {
    let mut findings = Vec::new();
    let servers = servers::compile(&config.mcp.servers, &mut findings);
    let server_policy = server_policy(&config.mcp);
    let network = network::compile(&config.network, bypass::compile(config), &mut findings);
    let policy = Policy {
        mode: config.mode,
        servers,
        server_policy,
        network,
        detection: LaunchPatterns {
            enabled: config.mcp.detection.enabled,
            server_patterns: config.mcp.detection.server_patterns.as_deref().map(globs),
            custom_servers: globs(&config.mcp.detection.custom_servers),
            exclude_servers: globs(&config.mcp.detection.exclude_servers),
        },
        pinning: Pinning {
            enabled: config.mcp.version_pinning.enabled && config.mcp.version_pinning.pin_binary,
            ..pinning(&config.mcp.version_pinning)
        },
        definition_pinning: pinning(&config.mcp.version_pinning),
        first_use: match config.mcp.registry.pin_on_first_use {
            true => FirstUse::Pin,
            false => FirstUse::Record,
        },
        inspection: inspection::detection(&config.mcp.detection, &mut findings),
        outputs: config.mcp.output_inspection,
        arguments: config.mcp.argument_inspection,
        suppressions: inspection::suppressions(&config.mcp, &mut findings),
        requests: inspection::requests(&config.mcp),
        rules: rules::compile(&config.mcp, &mut findings),
        limits: inspection::limits(&config.mcp.limits, &mut findings),
        approvals: inspection::approvals(&config.mcp.approvals, &mut findings),
        fail_closed: config.mcp.enforce_policy && config.mcp.fail_closed,
        name_similarity: inspection::name_similarity(&config.mcp.cross_server.shadow_tool, &mut findings),
        exec: config.exec,
        guard: guard::guard(&config.mcp.config_guard, &mut findings),
        cross_server: cross_server::rules(&config.mcp.cross_server, &mut findings),
        categories: cross_server::categories(&config.mcp, &mut findings),
        rate_limits: rate::limits(&config.mcp.rate_limits, &mut findings),
        llm: llm::policy(config),
    };
    let bodies = storage::compile(config, &mut findings);
    let settings = Settings {
        proxy: proxy::compile(&config.proxy, &mut findings).map(|proxy| ProxySettings { bodies, ..proxy }),
        record: record(&config.record, &mut findings),
        discovery: discovery::compile(&config.mcp.discovery, &mut findings),
    };
    Compiled {
        policy,
        settings,
        findings,
    }
}

fn server_policy(mcp: &raw::Mcp) -> ServerPolicy {
    let ids = |list: &[raw::ServerGlob]| list.iter().map(|entry| NameGlob::new(&entry.id)).collect();
    match mcp.server_policy {
        _ if !mcp.enforce_policy => ServerPolicy::None,
        raw::ListMode::None => ServerPolicy::None,
        raw::ListMode::Allowlist => ServerPolicy::Allowlist(ids(&mcp.allowed_servers)),
        raw::ListMode::Denylist => ServerPolicy::Denylist(ids(&mcp.denied_servers)),
    }
}

const fn pinning(raw: &raw::VersionPinning) -> Pinning {
    Pinning {
        enabled: raw.enabled,
        on_change: raw.on_change,
        auto_trust_first: raw.auto_trust_first,
    }
}

fn record(raw: &raw::Record, findings: &mut Vec<Finding>) -> RecordSettings {
    let section = KeyPath::root().key("record");
    let mut file = |key, given: &str| {
        let path = Some(PathBuf::from(given)).filter(|path| !path.as_os_str().is_empty());
        if path.as_ref().is_some_and(|path| path.is_relative()) {
            findings.push(Finding::new(
                section.key(key),
                "expected an absolute path: a daemon has no working directory to speak of",
            ));
        }
        path
    };
    let path = file("path", &raw.path);
    let jsonl = file("jsonl", &raw.jsonl);
    let key_file = file("webhook_key_file", &raw.webhook_key_file);
    let webhook = outlets::webhook(raw, key_file, findings);
    let retention = raw.retention.0.0;
    if retention.is_zero() {
        findings.push(Finding::new(
            section.key("retention"),
            "no event would be kept: expected a duration over 0, for example `30d`",
        ));
    }
    let max_size = raw.max_size.0.0;
    if max_size < SMALLEST_STORE {
        findings.push(Finding::new(
            section.key("max_size"),
            "too small for a database: expected at least `1MiB`",
        ));
    }
    RecordSettings {
        path,
        jsonl,
        webhook,
        retention,
        max_size,
    }
}

fn globs(patterns: impl AsRef<[String]>) -> Vec<NameGlob> {
    patterns.as_ref().iter().map(NameGlob::new).collect()
}

/// Names go into tables, logs and terminals.
fn check_name(name: &str, path: KeyPath, findings: &mut Vec<Finding>) {
    let message = if name.trim().is_empty() {
        "a name cannot be empty".to_owned()
    } else if name.chars().count() > LONGEST_NAME {
        format!("a name has at most {LONGEST_NAME} characters")
    } else if let Some(character) = name.chars().find(|character| character.is_control()) {
        format!("a name cannot contain {character:?}")
    } else {
        return;
    };
    findings.push(Finding::new(path, message));
}
