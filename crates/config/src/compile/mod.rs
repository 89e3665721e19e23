//! Compilation of the raw configuration to [`Policy`] and [`ActiveSettings`], and the checks that need several keys.

mod bundle;
mod bypass;
mod cross_server;
mod guard;
mod inspection;
mod known;
mod network;
mod proxy;
mod rate;
mod rules;
mod servers;
mod settings;

use mcpmon_model::NameGlob;
use mcpmon_policy::{FirstUse, Handling, LaunchPatterns, LlmPolicy, Pinning, Policy, ServerPolicy};

use self::servers::globs;
use super::{
    load::KeyMistake,
    raw,
    settings::{ActiveSettings, ProxySettings},
};

/// A compiled configuration, and the mistakes in it. With any mistake it is not used.
pub(super) struct CompiledPolicy {
    /// The policy, as far as it could be compiled.
    pub(super) policy: Policy,
    /// The settings outside the policy, as far as they could be compiled.
    pub(super) settings: ActiveSettings,
    /// The parts that could not be compiled; none for a valid configuration.
    pub(super) mistakes: Vec<KeyMistake>,
}

/// Compiles `config`.
pub(super) fn compile(config: &raw::Config) -> CompiledPolicy {
    let mut mistakes = Vec::new();
    let servers = servers::compile(&config.mcp.servers, &mut mistakes);
    let server_policy = server_policy(&config.mcp);
    let network = network::compile(&config.network, bypass::compile(config), &mut mistakes);
    let policy = Policy {
        mode: config.mode,
        servers,
        server_policy,
        network,
        launch_patterns: LaunchPatterns {
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
        known: known::known(&config.mcp.version_pinning.known, &mut mistakes),
        first_use: match config.mcp.registry.pin_on_first_use {
            true => FirstUse::Pin,
            false => FirstUse::Record,
        },
        inspection: inspection::definitions(&config.mcp.detection, &mut mistakes),
        outputs: config.mcp.output_inspection,
        arguments: config.mcp.argument_inspection,
        suppressions: inspection::suppressions(&config.mcp, &mut mistakes),
        requests: inspection::requests(&config.mcp),
        rules: rules::compile(&config.mcp, &mut mistakes),
        limits: inspection::limits(&config.mcp.limits, &mut mistakes),
        approvals: inspection::approvals(&config.mcp.approvals, &mut mistakes),
        fail_closed: config.mcp.enforce_policy && config.mcp.fail_closed,
        name_similarity: inspection::name_similarity(&config.mcp.cross_server.shadow_tool, &mut mistakes),
        exec: config.exec,
        guard: guard::guard(&config.mcp.config_guard, &mut mistakes),
        cross_server: cross_server::rules(&config.mcp.cross_server, &mut mistakes),
        categories: cross_server::categories(&config.mcp, &mut mistakes),
        rate_limits: rate::limits(&config.mcp.rate_limits, &mut mistakes),
        llm: LlmPolicy {
            mode: config.proxy.mode,
            dlp: config.dlp.mode,
            native_tools: match config.mcp.enforce_policy {
                true => config.mcp.native_tools,
                false => Handling::Allow,
            },
        },
    };
    let bodies = settings::bodies(config, &mut mistakes);
    let settings = ActiveSettings {
        proxy: proxy::compile(&config.proxy, &mut mistakes).map(|proxy| ProxySettings { bodies, ..proxy }),
        record: settings::record(&config.record, &mut mistakes),
        metrics: settings::metrics(&config.metrics, &mut mistakes),
        discovery: settings::discovery(&config.mcp.discovery, &mut mistakes),
        bundle: bundle::bundle(&config.policy.bundle, &mut mistakes),
    };
    CompiledPolicy {
        policy,
        settings,
        mistakes,
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
        files: raw.files,
    }
}
