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

use mcpmon_model::{NameGlob, Package};
use mcpmon_policy::{FirstUse, Handling, LaunchPatterns, LlmPolicy, Pinning, Policy, ServerPolicy};

use self::servers::globs;
use super::{
    load::{KeyMistake, KeyPath},
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
    let server_policy = server_policy(&config.mcp, &mut mistakes);
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

fn server_policy(mcp: &raw::Mcp, mistakes: &mut Vec<KeyMistake>) -> ServerPolicy {
    let allowed = listed("allowed_servers", &mcp.allowed_servers, mistakes);
    let denied = listed("denied_servers", &mcp.denied_servers, mistakes);
    match mcp.server_policy {
        _ if !mcp.enforce_policy => ServerPolicy::None,
        raw::ListMode::None => ServerPolicy::None,
        raw::ListMode::Allowlist => ServerPolicy::Allowlist(allowed),
        raw::ListMode::Denylist => ServerPolicy::Denylist(denied),
    }
}

/// Compiles a list of servers. A package's kind shows that the glob is one over packages.
fn listed(key: &str, list: &[raw::ServerGlob], mistakes: &mut Vec<KeyMistake>) -> Vec<NameGlob> {
    let mut globs = Vec::new();
    for (number, entry) in list.iter().enumerate() {
        let path = KeyPath::root().key("mcp").key(key).index(number);
        match (&entry.id, &entry.package) {
            (Some(id), None) => globs.push(NameGlob::new(id)),
            (None, Some(package)) if Package::parse(package).is_some() => globs.push(NameGlob::new(package)),
            (None, Some(_)) => mistakes.push(KeyMistake::new(
                path.key("package"),
                "expected a kind and a name: `npm:NAME`, `pypi:NAME`, `oci:IMAGE`, `script:PATH` or `program:NAME`",
            )),
            (Some(_), Some(_)) | (None, None) => {
                mistakes.push(KeyMistake::new(path, "expected either `id` or `package`"));
            }
        }
    }
    globs
}

const fn pinning(raw: &raw::VersionPinning) -> Pinning {
    Pinning {
        enabled: raw.enabled,
        on_change: raw.on_change,
        auto_trust_first: raw.auto_trust_first,
        files: raw.files,
    }
}
