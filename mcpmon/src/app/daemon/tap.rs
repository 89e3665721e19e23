//! The tap of the daemon: on while the policy says `exec.unwrapped: observe`, and off otherwise.

use std::time::{Duration, Instant};

use mcpmon_policy::Unwrapped;
use mcpmon_session::{HostedParts, Policies};

use super::{Daemon, llm::with_causes};
use crate::app::{
    engine::EngineMessage,
    tap::{Tap, TapStatus},
};

/// The name of this component in events and `mcpmon status`.
const TAP: &str = "tap";
/// The interval at which the start of a failed tap is tried again.
const RETRY: Duration = Duration::from_secs(30);
const NOT_LISTENED: &str = "servers without a wrapper are not listened to";

/// The tap, if it is on, and what it needs.
pub(super) struct DaemonTap {
    hosting: HostedParts,
    policies: Policies,
    switch: TapSwitch<Tap>,
}

/// The state of the tap. It is on only if the engine has its handle, because the engine decides which servers are
/// tapped; it is off only when the engine has dropped the handle.
struct TapSwitch<T> {
    running: Option<T>,
    /// The time of the last attempt to start it.
    tried: Option<Instant>,
}

/// A change of the switch.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing changed.
    Unchanged,
    /// The tap is on now.
    On,
    /// The tap is off now.
    Off,
    /// The tap could not be switched, for this reason.
    Failed(String),
}

impl DaemonTap {
    pub(super) const fn new(hosting: HostedParts, policies: Policies) -> Self {
        Self {
            hosting,
            policies,
            switch: TapSwitch {
                running: None,
                tried: None,
            },
        }
    }

    pub(super) fn status(&self) -> Option<TapStatus> {
        self.switch.running.as_ref().map(Tap::status)
    }
}

impl<T> TapSwitch<T> {
    /// Starts the tap, unless an attempt has just failed. `tell` gives the engine the handle; it returns false if the
    /// engine did not take it.
    fn turn_on(
        &mut self,
        now: Instant,
        start: impl FnOnce() -> Result<T, String>,
        tell: impl FnOnce(Option<&T>) -> bool,
    ) -> Turn {
        let is_early = |tried| now.saturating_duration_since(tried) < RETRY;
        if self.running.is_some() || self.tried.is_some_and(is_early) {
            return Turn::Unchanged;
        }
        match start() {
            Ok(tap) if tell(Some(&tap)) => {
                self.running = Some(tap);
                self.tried = None;
                Turn::On
            }
            // Tried again at the next call: the engine takes messages again soon, or never.
            Ok(_) => Turn::Failed(format!(
                "{NOT_LISTENED}: the engine is behind, and does not know of it"
            )),
            Err(cause) => {
                self.tried = Some(now);
                Turn::Failed(format!("{NOT_LISTENED}: {cause}"))
            }
        }
    }

    /// Drops a tap that has ended unexpectedly; the next one is started later.
    fn let_go(&mut self, now: Instant, tell: impl FnOnce(Option<&T>) -> bool) -> Turn {
        let turn = self.turn_off(tell);
        self.tried = Some(now);
        turn
    }

    fn turn_off(&mut self, tell: impl FnOnce(Option<&T>) -> bool) -> Turn {
        self.tried = None;
        if self.running.is_none() {
            return Turn::Unchanged;
        }
        if !tell(None) {
            return Turn::Failed(
                "it is still on: the engine is behind, and does not know of its end".to_owned(),
            );
        }
        self.running = None;
        Turn::Off
    }
}

impl Daemon {
    /// Switches the tap as the policy says. Is called about once a second, and when the policy changed.
    pub(super) fn look_after_tap(&mut self) {
        let sender = &self.engine.sender;
        let tell = |tap: Option<&Tap>| sender.try_send(EngineMessage::Tap(tap.map(Tap::handle))).is_ok();
        let DaemonTap {
            hosting,
            policies,
            switch,
        } = &mut self.tap;
        let has_ended = switch.running.as_ref().is_some_and(|tap| !tap.is_running());
        let is_wanted = self.loaded.policy.exec.unwrapped == Unwrapped::Observe;
        let turn = if has_ended {
            switch.let_go(Instant::now(), tell)
        } else if is_wanted {
            let start = || Tap::start(hosting.clone(), policies.clone()).map_err(|error| with_causes(&error));
            switch.turn_on(Instant::now(), start, tell)
        } else {
            switch.turn_off(tell)
        };
        let is_as_wanted = !has_ended && switch.running.is_some() == is_wanted;
        if has_ended {
            self.note(TAP, Some("its thread ended by itself".to_owned()));
        }
        match turn {
            Turn::On => tracing::info!("the tap is on: servers without a wrapper are listened to"),
            Turn::Off => tracing::info!("the tap is off"),
            Turn::Failed(cause) => self.note(TAP, Some(cause)),
            Turn::Unchanged => {}
        }
        if is_as_wanted {
            self.note(TAP, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: TapSwitch<()> = TapSwitch {
        running: None,
        tried: None,
    };

    #[test]
    fn a_tap_that_the_engine_does_not_know_of_is_not_on() {
        let mut switch = OFF;
        let now = Instant::now();
        let turn = switch.turn_on(now, || Ok(()), |_| false);
        assert!(
            matches!(&turn, Turn::Failed(cause) if cause.contains("the engine is behind")),
            "{turn:?}"
        );
        assert_eq!(switch.running, None);
        assert_eq!(
            switch.turn_on(now, || Ok(()), |tap| tap.is_some()),
            Turn::On,
            "at once"
        );
        assert_eq!(
            switch.turn_on(now, || panic!("it is on"), |_| true),
            Turn::Unchanged
        );
    }

    #[test]
    fn a_tap_that_the_engine_still_uses_is_not_off() {
        let mut switch = TapSwitch {
            running: Some(()),
            ..OFF
        };
        assert!(matches!(switch.turn_off(|_| false), Turn::Failed(_)));
        assert_eq!(switch.running, Some(()));
        assert_eq!(switch.turn_off(|tap| tap.is_none()), Turn::Off);
        assert_eq!(switch.turn_off(|_| panic!("it is off")), Turn::Unchanged);
    }

    #[test]
    fn the_engine_is_told_of_a_tap_that_ended_by_itself_and_the_next_comes_later() {
        let mut switch = TapSwitch {
            running: Some(()),
            ..OFF
        };
        let now = Instant::now();
        assert!(matches!(switch.let_go(now, |_| false), Turn::Failed(_)));
        assert_eq!(switch.running, Some(()), "the engine is told again");
        assert_eq!(switch.let_go(now, |tap| tap.is_none()), Turn::Off);
        assert_eq!(
            switch.turn_on(now, || panic!("at once"), |_| true),
            Turn::Unchanged
        );
        assert_eq!(switch.turn_on(now + RETRY, || Ok(()), |_| true), Turn::On);
    }

    #[test]
    fn a_kernel_that_refuses_is_asked_again_later() {
        let mut switch = OFF;
        let now = Instant::now();
        let turn = switch.turn_on(now, || Err("refused".to_owned()), |_| true);
        assert_eq!(turn, Turn::Failed(format!("{NOT_LISTENED}: refused")));
        assert_eq!(switch.turn_on(now, || Ok(()), |_| true), Turn::Unchanged);
        assert_eq!(switch.turn_on(now + RETRY, || Ok(()), |_| true), Turn::On);
    }
}
