//! The tap of the daemon: on while the policy says `exec.unwrapped: observe`, and off otherwise.

use std::time::{Duration, Instant};

use mcpmon_policy::Unwrapped;
use mcpmon_session::{HostedParts, Policies};

use super::{Daemon, llm::with_causes};
use crate::agent::{
    engine::EngineMessage,
    tap::{Tap, TapStatus},
};

/// The name of this component in events and `mcpmon status`.
const TAP: &str = "tap";
/// The interval at which the start of a failed tap is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The tap, where it is on.
pub(super) struct DaemonTap {
    hosting: HostedParts,
    policies: Policies,
    running: Option<Tap>,
    /// The time of the last attempt to start it.
    tried: Option<Instant>,
}

impl DaemonTap {
    pub(super) const fn new(hosting: HostedParts, policies: Policies) -> Self {
        Self {
            hosting,
            policies,
            running: None,
            tried: None,
        }
    }

    pub(super) fn status(&self) -> Option<TapStatus> {
        self.running.as_ref().map(Tap::status)
    }
}

impl Daemon {
    /// To be called about once a second, and when the policy changed.
    pub(super) fn look_after_tap(&mut self) {
        let is_wanted = self.loaded.policy.exec.unwrapped == Unwrapped::Observe;
        let is_running = self.tap.running.as_ref().is_some_and(Tap::is_running);
        if !is_wanted {
            self.tap.tried = None;
            if self.tap.running.is_some() {
                self.tell_engine_of_tap(None);
                self.tap.running = None;
                tracing::info!("the tap is off");
            }
            self.note(TAP, None);
            return;
        }
        if self.tap.running.take_if(|tap| !tap.is_running()).is_some() {
            self.note(TAP, Some("its thread ended by itself".to_owned()));
        }
        if is_running || self.tap.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return;
        }
        self.tap.tried = Some(Instant::now());
        match Tap::start(self.tap.hosting.clone(), self.tap.policies.clone()) {
            Ok(tap) => {
                self.tell_engine_of_tap(Some(&tap));
                self.tap.running = Some(tap);
                self.note(TAP, None);
                tracing::info!("the tap is on: servers without a wrapper are listened to");
            }
            Err(error) => {
                let cause = with_causes(&error);
                self.note(
                    TAP,
                    Some(format!("servers without a wrapper are not listened to: {cause}")),
                );
            }
        }
    }

    fn tell_engine_of_tap(&mut self, tap: Option<&Tap>) {
        let message = EngineMessage::Tap(tap.map(Tap::handle));
        if self.engine.sender.try_send(message).is_err() {
            self.note(TAP, Some("the engine does not take messages".to_owned()));
            self.tap.tried = None;
        }
    }
}
