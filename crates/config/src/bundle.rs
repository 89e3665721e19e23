//! A host's policy from a signed bundle: the bundle decides, and the host's own files can only tighten it.

use std::sync::Arc;

use jiff::civil::Date;
use mcpmon_bundle::BundleFile;
use mcpmon_policy::{Decision, Policy};

use super::{
    InvalidConfiguration, LoadedConfiguration, Source, Sources, compile,
    force::{self, Cause, NotInForce},
    load,
    mistake::Origin,
    own,
};

/// Loads the files of a bundle together with those of a host.
pub(super) fn load_on_bundle(
    sources: &Sources,
    today: Date,
) -> Result<LoadedConfiguration, InvalidConfiguration> {
    let (bundle, own) = sources.bundle_and_own();
    let mut document = load::read_bundle(&bundle, &own);
    let compiled = compile::compile(&document.config);
    document.tell(compiled.mistakes);
    let mut not_in_force = force::not_in_force(&document.tree, &document.config.mcp, today);
    document.mistakes.unless_any(())?;
    let mut policy = compiled.policy;
    if let Some(tightened) = tightened(&policy, &bundle, &own, &mut not_in_force)? {
        policy = tightened;
    }
    Ok(LoadedConfiguration {
        policy: Arc::new(policy),
        settings: compiled.settings,
        not_in_force,
        sources: sources.names().cloned().collect(),
        hash: sources.digest(),
        text: Arc::new(sources.clone()),
        lost: Vec::new(),
        switched_off: Vec::new(),
        instead_of: None,
    })
}

/// Checks the files of a bundle before it is built. Each has the name under which its mistakes are reported.
///
/// # Errors
/// Returns every mistake in them.
pub fn check_bundle(files: &[(BundleFile, Source, String)]) -> Result<Policy, InvalidConfiguration> {
    let origin = |(file, source, text): &(BundleFile, Source, String)| {
        let (name, text) = (source.to_string(), text.clone());
        (*file, Origin { name, text })
    };
    let files: Vec<_> = files.iter().map(origin).collect();
    let mut document = load::read_bundle(&files, &[]);
    let compiled = compile::compile(&document.config);
    document.tell(compiled.mistakes);
    document.mistakes.unless_any(compiled.policy)
}

/// Returns `policy`, tightened by the host's own files. Returns `None` if these say nothing about policy.
fn tightened(
    policy: &Policy,
    bundle: &[(BundleFile, Origin)],
    own: &[Origin],
    not_in_force: &mut Vec<NotInForce>,
) -> Result<Option<Policy>, InvalidConfiguration> {
    let Some(mut document) = load::read_on_bundle(bundle, own, &own::apart()) else {
        return Ok(None);
    };
    let compiled = compile::compile(&document.config);
    document.tell(compiled.mistakes);
    let mut tightening = compiled.policy;
    if !own::states_default(&document.tree) {
        tightening.rules.default = Decision::Allow;
    }
    if !document.config.mcp.suppressions.is_empty() {
        not_in_force.push(NotInForce {
            key: "mcp.suppressions".to_owned(),
            cause: Cause::OfBundle,
        });
    }
    // Servers of the bundle need not be declared again.
    tightening.servers.extend(policy.servers.iter().cloned());
    document
        .mistakes
        .unless_any(Some(policy.tightened_by(&tightening)))
}
