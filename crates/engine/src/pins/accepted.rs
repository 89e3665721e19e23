//! Differences that are accepted without approval.

use mcpmon_model::{Action, ChangeCause, FileChange, Part, PinState, PinnedFile, ServerFiles};
use mcpmon_policy::{FileEffect, Mode, Pinning};

use super::{AcceptanceGround, NewPins, PackagePin, PinMismatch, PinVerdict, Pins, on_change};

/// Returns the verdict on pinned files that another launcher starts than before.
pub(super) fn with_launcher(pins: &Pins, launcher: &PinnedFile, policy: Pinning, mode: Mode) -> PinVerdict {
    if !policy.auto_trust_first {
        return PinVerdict::of(PinState::NotPinned, on_change(policy, mode));
    }
    PinVerdict {
        store: Some(NewPins {
            pins: Pins {
                launcher: Some(launcher.clone()),
                ..pins.clone()
            },
            ground: AcceptanceGround::NewLauncher,
        }),
        ..PinVerdict::of(PinState::Match, Action::Allow)
    }
}

/// Returns the pins with the files as they are now, if every difference is of a kind that is accepted: the interpreter,
/// the launcher and dependencies of the operating system, which only root can have changed, the start-up code of an
/// environment that was not used before, or what the policy accepts.
///
/// The behaviour of a server is in its script and package. A program that has neither is a server itself, and an
/// upgrade of the system does not explain a change of it.
pub(super) fn accepted_change(
    pins: &Pins,
    actual: &ServerFiles,
    verdict: &PinVerdict,
    policy: Pinning,
) -> Option<NewPins> {
    if verdict.mismatches.is_empty() || !verdict.unhashed.is_empty() {
        return None;
    }
    let is_repinned = |change: &FileChange| policy.effect(change.cause) == FileEffect::Repin;
    let ground = |mismatch: &PinMismatch| {
        let by_policy = mismatch.changes.iter().all(is_repinned);
        mismatch
            .ground
            .or_else(|| by_policy.then_some(AcceptanceGround::Policy))
    };
    let grounds: Vec<AcceptanceGround> = verdict.mismatches.iter().map(ground).collect::<Option<_>>()?;
    let is_new = grounds.contains(&AcceptanceGround::NewEnvironment);
    let blocks = policy.effect(ChangeCause::Dependency) == FileEffect::Block;
    if is_new && (blocks || !policy.auto_trust_first) {
        return None;
    }
    let launcher = actual
        .launcher
        .as_ref()
        .and_then(|launcher| launcher.file.hashed());
    let package = actual.package.as_ref().and_then(Part::hashed).cloned();
    let script = actual.script.as_ref().and_then(Part::hashed);
    let is_by_policy = grounds.contains(&AcceptanceGround::Policy);
    Some(NewPins {
        pins: Pins {
            script: script.filter(|_| is_by_policy).or(pins.script.as_ref()).cloned(),
            executable: actual.executable.hashed()?.clone(),
            package: package.map(PackagePin::from),
            launcher: launcher.or(pins.launcher.as_ref()).cloned(),
        },
        ground: match (is_new, is_by_policy) {
            (true, _) => AcceptanceGround::NewEnvironment,
            (false, true) => AcceptanceGround::Policy,
            (false, false) => AcceptanceGround::SystemUpgrade,
        },
    })
}
