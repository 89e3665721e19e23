//! Reports of the daemon about itself: self-test, status, and answers to clients.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use super::{Daemon, DaemonError, SELF_TEST_INTERVAL, policy::enforcement};
use crate::app::{
    approval::{ApprovalDecision, ApprovalSubject},
    control::{ControlRequest, DaemonAnswer, DaemonRequest},
    engine::{EngineMessage, EngineSnapshot},
    notify::Notifier,
    resources::Processes,
    rungs,
    sandboxes::RunningSandboxes,
    selftest::{self, Component, SelfTestCheck},
    status::{
        EnforcementState, FollowedAddress, NetworkStatus, PolicyStatus, RunningServer, Status, StoreStatus,
    },
};
use mcpmon_engine::pins::PinnedFile;
use mcpmon_kernel::{
    addresses::Enforcement,
    links::{Fault, LinkState, Mended},
};
use mcpmon_model::{Kills, ServerId};
use mcpmon_policy::HostName;
use mcpmon_session::{clock, pins};
use mcpmon_store::{StoreEntry, StoreReader, Urgency, json};

/// The name of this component in events and `mcpmon status`.
const KERNEL_LINKS: &str = "kernel links";
/// The time for which the collected state is shown to users.
const SHOWN: Duration = Duration::from_secs(1);
/// Self-tests that may fail to end before this is reported.
const SELF_TESTS_MISSED: u32 = 3;

impl Daemon {
    pub(super) fn start_self_test(&mut self) {
        if self.testing {
            return;
        }
        self.testing = true;
        let (engine, checked) = (self.engine.sender.clone(), self.checked.clone());
        let (links, canary) = (self.links.clone(), Arc::clone(&self.canary));
        let proof = Arc::clone(&canary);
        let test = tokio::task::spawn_blocking(move || {
            let mut canary = canary.lock().unwrap_or_else(PoisonError::into_inner);
            selftest::run(&engine, &links, &mut canary)
        });
        tokio::spawn(async move {
            let checks = test.await.unwrap_or_else(|error| {
                let canary = proof.lock().unwrap_or_else(PoisonError::into_inner);
                selftest::impossible(&error.to_string(), &canary)
            });
            // The receiver is gone when the daemon stops; the result is not needed then.
            drop(checked.send(checks).await);
        });
    }

    pub(super) fn take_checks(&mut self, checks: Vec<SelfTestCheck>) {
        let first = self.checked_at.is_none();
        self.testing = false;
        self.tested = Instant::now();
        self.checked_at = Some(jiff::Timestamp::now().to_string());
        self.note("network gate", selftest::cause(&checks, Component::NetworkGate));
        self.note("packet gate", selftest::cause(&checks, Component::PacketGate));
        self.note("exec sensor", selftest::cause(&checks, Component::ExecSensor));
        self.note("pins", selftest::cause(&checks, Component::Pins));
        self.note("exec gate", selftest::cause(&checks, Component::ExecGate));
        self.note("start check", selftest::cause(&checks, Component::StartCheck));
        for reply in self.waiting.drain(..) {
            drop(reply.send(DaemonAnswer::Checks(checks.clone())));
        }
        self.checks = checks;
        self.tell_effective();
        if first {
            tracing::info!(state = self.state().as_str(), "self-test done");
            self.notify(Notifier::ready);
        }
        let state = self.state().as_str();
        self.notify(|notifier| notifier.status(state));
    }

    /// Attaches and pins again what another process detached or removed. Starts a self-test at once if the state of a
    /// program changed.
    pub(super) fn look_after_links(&mut self) {
        let mut unmended = None;
        for mended in self.links.mend() {
            match mended {
                Ok(Mended { program, fault }) => {
                    let cause = match fault {
                        Fault::Detached => format!("another process detached the program `{program}`"),
                        Fault::NotAttached => {
                            format!("the kernel had refused to attach the program `{program}`")
                        }
                        Fault::Unpinned => {
                            format!("another process removed `{program}` from where it is kept")
                        }
                        Fault::NotPinned => format!("the program `{program}` could not be pinned before"),
                    };
                    self.note(KERNEL_LINKS, Some(cause));
                    self.note(KERNEL_LINKS, None);
                }
                Err(error) => unmended = Some(told(&error)),
            }
        }
        self.note(KERNEL_LINKS, unmended);
        let states: Vec<LinkState> = self.links.states().map(|(_, state)| state).collect();
        if !self.testing && states != self.link_states {
            self.link_states = states;
            self.start_self_test();
        }
    }

    /// Checks that self-tests still end.
    pub(super) fn look_after_self_test(&mut self) {
        let cause = overdue(self.tested.elapsed());
        self.note("self-test", cause.map(str::to_owned));
    }

    /// Starts or stops the metrics endpoint as the policy says.
    pub(super) fn look_after_metrics(&mut self) {
        if let Some(trouble) = self.metrics.follow(self.loaded.settings.metrics) {
            self.note("metrics endpoint", trouble);
        }
    }

    pub(super) async fn answer(&mut self, asked: ControlRequest) {
        let answer = match asked.request {
            DaemonRequest::Status => match self.status_for(asked.own).await {
                Ok(status) => DaemonAnswer::Status(Box::new(status)),
                Err(error) => DaemonAnswer::Error(error.to_string()),
            },
            DaemonRequest::SelfTest => {
                self.waiting.push(asked.reply);
                self.start_self_test();
                return;
            }
            DaemonRequest::ResetPins { server } => self.reset_pins(server).await,
            DaemonRequest::TrustPins { server } => self.trust_pins(server).await,
            DaemonRequest::TrustExecutable { path, digest } => {
                self.trust_executable(PinnedFile { path, digest }).await
            }
            DaemonRequest::Decide { subject, word } => self.decide(subject, word, asked.own).await,
            DaemonRequest::AnswerCall { id, answer } => {
                match self.wrappers.answer_call(id, answer, asked.own).await {
                    Ok(subject) => DaemonAnswer::Decided(vec![subject]),
                    Err(error) => DaemonAnswer::Error(error),
                }
            }
            DaemonRequest::Kill { word } => self.kill(word).await,
            // The control socket handles these itself.
            DaemonRequest::Wrap { .. }
            | DaemonRequest::Records { .. }
            | DaemonRequest::Fate { .. }
            | DaemonRequest::OwnRecords
            | DaemonRequest::Run { .. } => DaemonAnswer::Error("it keeps its connection".to_owned()),
        };
        // The client may have left.
        drop(asked.reply.send(answer));
    }

    async fn decide(
        &self,
        subject: ApprovalSubject,
        word: ApprovalDecision,
        own: Option<u32>,
    ) -> DaemonAnswer {
        match self.wrappers.decide(subject, word, own).await {
            Ok(done) => DaemonAnswer::Decided(done),
            Err(error) => DaemonAnswer::Error(error),
        }
    }

    async fn reset_pins(&self, server: ServerId) -> DaemonAnswer {
        let forget = |reply| EngineMessage::ForgetPins {
            server: server.clone(),
            reply,
        };
        let had_pins = match self.ask(forget).await {
            Ok(had_pins) => had_pins,
            Err(error) => return DaemonAnswer::Error(error.to_string()),
        };
        let done = had_pins.then(|| server.to_string());
        match self
            .recorder
            .put(StoreEntry::DeletePins(server), Urgency::InOrder)
        {
            Ok(()) => DaemonAnswer::Decided(done.into_iter().collect()),
            Err(_) => not_stored(),
        }
    }

    async fn trust_pins(&self, server: ServerId) -> DaemonAnswer {
        let trust = |reply| EngineMessage::TrustRefused {
            server: server.clone(),
            reply,
        };
        match self.ask(trust).await {
            Ok(Some(added)) => {
                if pins::store(&self.recorder, clock::now(), &added, pins::APPROVED).is_err() {
                    return not_stored();
                }
                DaemonAnswer::Trusted {
                    name: added.set.key.name,
                    uid: added.set.key.uid,
                }
            }
            Ok(None) => DaemonAnswer::Error(format!(
                "`{server}` was not refused since the daemon started, or a part of it could not be hashed: start it once and see `mcpmon events --server {server}`"
            )),
            Err(error) => DaemonAnswer::Error(error.to_string()),
        }
    }

    async fn trust_executable(&self, executable: PinnedFile) -> DaemonAnswer {
        let trust = |reply| EngineMessage::TrustExecutable { executable, reply };
        let added = match self.ask(trust).await {
            Ok(added) => added,
            Err(error) => return DaemonAnswer::Error(error.to_string()),
        };
        let stored = added
            .iter()
            .map(|added| pins::store(&self.recorder, clock::now(), added, pins::APPROVED));
        if stored.filter(Result::is_err).count() > 0 {
            return not_stored();
        }
        DaemonAnswer::TrustedExecutable { sets: added.len() }
    }

    /// Returns the followed addresses that a rule refuses.
    fn followed(&self) -> BTreeMap<String, Vec<FollowedAddress>> {
        let is_refused = |address: &IpAddr| {
            let mut rules = self.tables.rules.values();
            rules.any(|rule| rule.remote_names.contains_key(address))
        };
        let of_name = |name: &HostName| {
            let followed = self.resolved.followed(name);
            let refused = followed.filter(|(address, _)| is_refused(address));
            let told = refused.map(|(address, seen)| FollowedAddress {
                address,
                server: seen.server,
                since: json::rfc3339(seen.at),
            });
            (name.to_string(), told.collect::<Vec<_>>())
        };
        let names = self.resolved.sightings().keys().map(of_name);
        names.filter(|(_, told)| !told.is_empty()).collect()
    }

    /// Returns the state as a user may see it; `None` sees the whole host. For users it is collected once in
    /// [`SHOWN`], so that their requests do not keep the daemon busy.
    async fn status_for(&mut self, own: Option<u32>) -> Result<Status, DaemonError> {
        let Some(uid) = own else {
            return self.status().await;
        };
        if let Some((at, status)) = &self.shown
            && at.elapsed() < SHOWN
        {
            return Ok(status.of_user(uid));
        }
        let status = self.status().await?;
        let own = status.of_user(uid);
        self.shown = Some((Instant::now(), status));
        Ok(own)
    }

    async fn status(&self) -> Result<Status, DaemonError> {
        let EngineSnapshot {
            running,
            without_room,
            counters,
            missing,
            malformed,
            tracked,
            coverage,
            kept,
        } = self.ask(EngineMessage::Snapshot).await?;
        let store = self.recorder.status();
        let sandboxes = sandboxes(&self.location.path());
        let processes = Processes::read();
        let unresolved = self.tables.unresolved.iter().map(|name| {
            let cause = self.failures.get(name).map_or("not resolved yet", String::as_str);
            (name.to_string(), cause.to_owned())
        });
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            only_of: None,
            pid: std::process::id(),
            uptime: self.started.elapsed().as_secs(),
            state: self.state(),
            degraded: self.health.degraded().clone(),
            policy: PolicyStatus {
                sources: self.sources(),
                hash: self.loaded.hash.to_string(),
                not_in_force: self.loaded.not_in_force.iter().map(ToString::to_string).collect(),
                rejected: self.rejected.clone(),
                bundle: self.bundle_status(),
            },
            network: NetworkStatus {
                rules: self.tables.rules.len(),
                entries: self.tables.v4.len() + self.tables.v6.len(),
                egress_lists: self.tables.egress.len(),
                unresolved: unresolved.collect(),
                followed: self.followed(),
            },
            checks: self.checks.clone(),
            checked_at: self.checked_at.clone(),
            exec_gate: rungs::in_force(&self.loaded.policy, &self.checks),
            kills: self.kills.clone(),
            servers: running
                .into_iter()
                .map(|server| RunningServer {
                    server_id: server.server.to_string(),
                    uid: server.uid,
                    pid: server.process.pid,
                    serving: server.serving,
                    processes: server.members.len(),
                    sandbox: sandboxes.of(server.process.pid, &processes),
                })
                .collect(),
            coverage,
            wrappers: self.wrappers.len(),
            refused_wrappers: self.wrappers.refused(clock::now()),
            proxy: self.proxy.status(),
            tap: self.tap.status(),
            runs: self.runs.status(),
            code_sessions: self.wrappers.sessions_with_code(),
            not_pinned: without_room.iter().map(ToString::to_string).collect(),
            tracked_processes: tracked,
            counters: counters
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            missing_records: missing,
            malformed_records: malformed,
            store: StoreStatus {
                path: self.location.path(),
                written: store.written,
                lost: store.lost,
                queued: store.queued,
                last_error: store.last_error,
                size: self.recorder.size(),
                oldest: oldest_event(&self.location.path()),
            },
            cgroup: self.cgroup.clone(),
            kept,
        })
    }

    /// Sets the exporter's attribute that everything works; called before the exporter gets the event about the change.
    pub(super) fn tell_effective(&self) {
        let is_effective = match self.state() {
            EnforcementState::Enforcing | EnforcementState::Observing => true,
            EnforcementState::Starting | EnforcementState::Degraded => false,
        };
        self.effective.set_enforcement_effective(is_effective);
    }

    fn state(&self) -> EnforcementState {
        let is_degraded = !self.health.degraded().is_empty();
        let is_tested = self.checked_at.is_some();
        state(
            is_degraded,
            is_tested,
            enforcement(&self.loaded, &Kills::default()),
        )
    }
}

const fn state(is_degraded: bool, is_tested: bool, enforcement: Enforcement) -> EnforcementState {
    match (is_degraded, is_tested, enforcement) {
        (true, _, _) => EnforcementState::Degraded,
        (false, false, _) => EnforcementState::Starting,
        (false, true, Enforcement::Enforce) => EnforcementState::Enforcing,
        (false, true, Enforcement::Observe) => EnforcementState::Observing,
    }
}

/// Returns the recorded sandboxes; none if the store cannot be read, which is reported elsewhere.
fn sandboxes(store: &Path) -> RunningSandboxes {
    let reader = StoreReader::open(store).ok();
    let read = reader.and_then(|reader| RunningSandboxes::read(&reader).ok());
    read.unwrap_or_default()
}

/// Returns the time of the oldest event in the store. Returns `None` if there is none, or the store cannot be read.
fn oldest_event(store: &Path) -> Option<String> {
    let oldest = StoreReader::open(store).ok()?.oldest_event().ok()?;
    oldest.map(json::rfc3339)
}

/// Formats an error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn not_stored() -> DaemonAnswer {
    DaemonAnswer::Error("the store takes no more changes: see `mcpmon status`".to_owned())
}

/// Returns the problem if no self-test has ended for too long; `since` is the time since the last one ended, or since
/// the start.
fn overdue(since: Duration) -> Option<&'static str> {
    (since > SELF_TESTS_MISSED * SELF_TEST_INTERVAL).then_some(
        "the self-test does not end: nothing proves that the enforcement works; restart the daemon",
    )
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(false, false, Enforcement::Enforce => EnforcementState::Starting; "before the first self-test")]
    #[test_case(false, false, Enforcement::Observe => EnforcementState::Starting; "before it, observing")]
    #[test_case(true, false, Enforcement::Enforce => EnforcementState::Degraded; "before it, and something fails already")]
    #[test_case(false, true, Enforcement::Enforce => EnforcementState::Enforcing; "it passed")]
    #[test_case(false, true, Enforcement::Observe => EnforcementState::Observing; "it passed, observing")]
    #[test_case(true, true, Enforcement::Enforce => EnforcementState::Degraded; "it failed")]
    fn nothing_is_enforced_before_that_is_proved(
        is_degraded: bool,
        is_tested: bool,
        enforcement: Enforcement,
    ) -> EnforcementState {
        state(is_degraded, is_tested, enforcement)
    }

    #[test]
    fn a_self_test_that_hangs_is_noticed() {
        assert_eq!(overdue(SELF_TEST_INTERVAL), None);
        assert_eq!(overdue(3 * SELF_TEST_INTERVAL), None);
        let late = overdue(3 * SELF_TEST_INTERVAL + Duration::from_secs(1));
        assert!(late.is_some_and(|cause| cause.contains("does not end")));
    }
}
