//! Starts of servers that the kernel reported: detection of those by a wrapper, and the treatment of the others.

use std::time::{Duration, Instant};

use mcpmon_detect::{session::session, starter::Ancestor};
use mcpmon_engine::{Observation, runs_on};
use mcpmon_model::{Action, Event, EventKind, InstanceId, Severity};
use mcpmon_policy::{Mode, Unwrapped};
use mcpmon_session::clock;
use serde::{Deserialize, Serialize};

use super::{
    Core,
    descent::{Descent, ServerAncestors},
};
use crate::app::host;

/// The time for which a start below this program waits for the wrapper's claim. The wrapper connects while its server
/// starts, and again when a daemon was restarted.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Most starts that wait; beyond that the oldest is recorded at once.
const MAX_WAITING: usize = 1024;
/// Most ancestors whose names are recorded.
const MAX_CHAIN: usize = 16;
/// The rule in events about servers without a wrapper.
const RULE: &str = "exec.unwrapped";

/// Numbers of starts that the kernel reported, and of those by a wrapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// All starts since the daemon's start.
    pub seen: u64,
    /// The starts by a wrapper.
    pub wrapped: u64,
}

/// Starts, with those that may still turn out to be by a wrapper.
#[derive(Debug, Default)]
pub(super) struct Starts {
    pub(super) descent: Descent,
    waiting: Vec<WaitingWrapper>,
    pub(super) coverage: Coverage,
}

#[derive(Debug)]
struct WaitingWrapper {
    since: Instant,
    event: Event,
    above: ServerAncestors,
    /// The event of the server's end, if it has ended meanwhile: it is recorded after the start.
    end: Option<Event>,
}

impl Core {
    /// Records an event, which is `about` that server if it is known. A start is recorded as wrapped or not. A start
    /// that may still turn out to be wrapped waits, and the event of its end with it.
    pub(super) fn tell_in_order(&mut self, event: Event, about: Option<InstanceId>) {
        if let EventKind::ServerStarted { .. } = &event.kind {
            let above = about.map(|instance| self.starts.descent.above(instance));
            return self.tell_start(above.unwrap_or_default(), event);
        }
        if let Some(event) = self.starts.hold_end(event) {
            self.tell(event);
        }
    }

    fn tell_start(&mut self, above: ServerAncestors, event: Event) {
        let event = self.of_session(event, &above);
        if self.wrappers.cover(&above.processes) {
            return self.tell_wrapped(event);
        }
        if !self.wrappers.may_cover(&above.processes) {
            return self.tell_unwrapped(event, &above.ancestors);
        }
        self.starts.waiting.push(WaitingWrapper {
            since: Instant::now(),
            event,
            above,
            end: None,
        });
        if self.starts.waiting.len() > MAX_WAITING {
            let oldest = self.starts.waiting.remove(0);
            self.tell_settled(oldest);
        }
    }

    /// Records the starts that a wrapper has claimed, and those that have waited long enough.
    pub(super) fn tell_waiting(&mut self, now: Instant) {
        for waiting in std::mem::take(&mut self.starts.waiting) {
            let is_due = now.duration_since(waiting.since) >= TIMEOUT;
            if is_due || self.wrappers.cover(&waiting.above.processes) {
                self.tell_settled(waiting);
            } else {
                self.starts.waiting.push(waiting);
            }
        }
    }

    /// Records all waiting starts as they are known now, because the engine ends.
    pub(super) fn tell_all_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.starts.waiting) {
            self.tell_settled(waiting);
        }
    }

    fn tell_settled(&mut self, mut waiting: WaitingWrapper) {
        if let Some(session) = self.wrappers.session_of(&waiting.above.processes) {
            waiting.event.session_id = Some(session);
            waiting.event = self.of_session(waiting.event, &waiting.above);
        }
        match self.wrappers.cover(&waiting.above.processes) {
            true => self.tell_wrapped(waiting.event),
            false => self.tell_unwrapped(waiting.event, &waiting.above.ancestors),
        }
        if let Some(end) = waiting.end {
            self.tell(end);
        }
    }

    /// Adds the session to a start, and reports it to the Monitor: the session that the wrapper names, or else that of
    /// the ancestors.
    fn of_session(&mut self, mut event: Event, above: &ServerAncestors) -> Event {
        let told = self.wrappers.session_of(&above.processes);
        let by_root = || session(above.ancestors.get(1..)?, None, &host::boot()).map(|session| session.id);
        let Some(session) = event.session_id.take().or(told).or_else(by_root) else {
            return event;
        };
        let pid = event.process.as_ref().map(|process| process.pid);
        if let Some(instance) = pid.and_then(|pid| self.instance_of(pid)) {
            let of_session = Observation::SessionOf(instance, session.clone());
            let judgement = self.monitor.observe(clock::now(), of_session);
            self.carry_out(judgement, None);
        }
        event.session_id = Some(session);
        event
    }

    fn tell_wrapped(&mut self, mut event: Event) {
        if let EventKind::ServerStarted { wrapped, .. } = &mut event.kind {
            *wrapped = true;
        }
        self.starts.coverage.seen += 1;
        self.starts.coverage.wrapped += 1;
        self.tell(event);
    }

    fn tell_unwrapped(&mut self, event: Event, ancestors: &[Ancestor]) {
        self.starts.coverage.seen += 1;
        let policy = self.monitor.policy();
        let told = unwrapped(&event, ancestors, policy.exec.unwrapped, policy.mode);
        let process = event.process.as_ref().map(|process| process.pid);
        if let Some(instance) = process.and_then(|pid| self.instance_of(pid)) {
            self.tap(instance, false);
            self.tapped_serves(instance, event.process.as_ref());
        }
        self.tell(event);
        let Some(mut told) = told else { return };
        if told.action == Action::Block
            && let Some(instance) = process.and_then(|pid| self.instance_of(pid))
            && let Err(cause) = self.kill(instance)
        {
            runs_on(&mut told, &cause);
        }
        self.tell(told);
    }

    fn instance_of(&self, pid: u32) -> Option<InstanceId> {
        self.monitor
            .running()
            .find(|server| server.process.pid == pid)
            .map(|server| server.instance)
    }
}

impl Starts {
    /// Keeps the event of a server's end if its start waits. Returns every other event.
    fn hold_end(&mut self, event: Event) -> Option<Event> {
        if let EventKind::ServerExited { .. } = &event.kind
            && let Some(waiting) = self.of_same_process(&event)
        {
            waiting.end = Some(event);
            return None;
        }
        Some(event)
    }

    fn of_same_process(&mut self, end: &Event) -> Option<&mut WaitingWrapper> {
        let pid = |event: &Event| event.process.as_ref().map(|process| process.pid);
        let ended = pid(end)?;
        let is_it =
            |waiting: &&mut WaitingWrapper| waiting.end.is_none() && pid(&waiting.event) == Some(ended);
        self.waiting.iter_mut().find(is_it)
    }
}

/// Builds the event about a start without a wrapper; `None` if the policy allows it.
fn unwrapped(start: &Event, ancestors: &[Ancestor], policy: Unwrapped, mode: Mode) -> Option<Event> {
    let EventKind::ServerStarted {
        command,
        args,
        matched_pattern,
        launcher_pid,
        ..
    } = &start.kind
    else {
        return None;
    };
    let launcher = ancestors
        .iter()
        .position(|ancestor| ancestor.process.pid == *launcher_pid);
    let (action, severity) = match (policy, mode) {
        (Unwrapped::Allow, _) => return None,
        (Unwrapped::Alert | Unwrapped::Observe, _) => (Action::Audit, Severity::Medium),
        (Unwrapped::Deny, Mode::Enforce) => (Action::Block, Severity::High),
        (Unwrapped::Deny, Mode::Observe) => (Action::WouldBlock, Severity::Medium),
    };
    let kind = EventKind::ServerUnwrapped {
        command: mcpmon_store::command_line(command, args),
        parent_chain: ancestors
            .iter()
            .skip(launcher.unwrap_or_default() + 1)
            .take(MAX_CHAIN)
            .map(|ancestor| ancestor.comm.clone())
            .collect(),
        matched_pattern: matched_pattern.clone(),
        config_source: None,
    };
    let mut event = Event::new(start.timestamp, start.layer, kind);
    event.server_id = start.server_id.clone();
    event.session_id = start.session_id.clone();
    event.process = start.process.clone();
    event.container = start.container.clone();
    event.action = action;
    event.severity = severity;
    event.rule = Some(RULE.to_owned());
    let consequence = match policy {
        Unwrapped::Observe => "the tap records its messages and stops none",
        Unwrapped::Allow | Unwrapped::Alert | Unwrapped::Deny => "its messages are not seen",
    };
    event.reason = Some(format!(
        "no wrapper started it, so that {consequence}: start it with `mcpmon wrap -- COMMAND`"
    ));
    Some(event)
}

#[cfg(test)]
mod tests {
    use mcpmon_detect::starter::Terminal;
    use mcpmon_model::{ProcessId, Timestamp};
    use mcpmon_store::sample;
    use test_case::test_case;

    use super::*;

    fn chain() -> Vec<Ancestor> {
        ["npx", "sh", "claude", "systemd"]
            .map(|comm| Ancestor {
                process: ProcessId::default(),
                comm: comm.to_owned(),
                terminal: Terminal::Other,
            })
            .to_vec()
    }

    #[test_case(Unwrapped::Allow, Mode::Enforce => None; "allow")]
    #[test_case(Unwrapped::Alert, Mode::Enforce => Some(Action::Audit); "alert")]
    #[test_case(Unwrapped::Alert, Mode::Observe => Some(Action::Audit); "alert, observing")]
    #[test_case(Unwrapped::Observe, Mode::Enforce => Some(Action::Audit); "observe")]
    #[test_case(Unwrapped::Deny, Mode::Enforce => Some(Action::Block); "deny")]
    #[test_case(Unwrapped::Deny, Mode::Observe => Some(Action::WouldBlock); "deny, observing")]
    fn what_follows(policy: Unwrapped, mode: Mode) -> Option<Action> {
        unwrapped(&sample::started("files", 100), &chain(), policy, mode).map(|event| event.action)
    }

    #[test]
    fn an_end_waits_for_its_start() {
        let waiting = |pid| WaitingWrapper {
            since: Instant::now(),
            event: sample::started("files", pid),
            above: ServerAncestors::default(),
            end: None,
        };
        let mut starts = Starts {
            waiting: vec![waiting(100), waiting(200)],
            ..Starts::default()
        };
        let end = sample::exited("files", 200, 0);
        assert_eq!(starts.hold_end(end.clone()), None);
        assert_eq!(starts.waiting[1].end, Some(end.clone()));
        assert_eq!(
            starts.hold_end(end.clone()),
            Some(end),
            "of another that had its number"
        );
        let stranger = sample::exited("files", 300, 0);
        assert_eq!(starts.hold_end(stranger.clone()), Some(stranger));
        let start = sample::started("files", 100);
        assert_eq!(starts.hold_end(start.clone()), Some(start));
    }

    #[test]
    fn the_chain_goes_from_the_launchers_parent_up() {
        let start = sample::started("files", 100);
        let event = unwrapped(&start, &chain(), Unwrapped::Alert, Mode::Enforce).expect("an event");
        assert_eq!(
            (event.timestamp, event.server_id),
            (Timestamp(sample::NOON), start.server_id)
        );
        let EventKind::ServerUnwrapped {
            command,
            parent_chain,
            ..
        } = event.kind
        else {
            panic!("{:?}", event.kind)
        };
        assert_eq!(command, "npx -y @modelcontextprotocol/server-filesystem /home/me");
        assert_eq!(parent_chain, ["sh", "claude", "systemd"]);
    }
}
