//! The start of the server behind a wrapper: compared with its pins, recorded, told to the daemon. Where there is
//! a daemon its kernel sense sees the start itself, compares and records it.

use std::{ffi::OsString, fs::File, os::fd::AsRawFd as _, sync::Arc};

use mcpmon_detect::mask::mask_arguments;
use mcpmon_engine::{
    Judgement,
    pins::{
        AcceptedSets, NewPins, PinBook, PinSet, PinVerdict, Pins as Files, ServerFiles, compare,
        compare_launcher,
    },
};
use mcpmon_guard::{Absence, FAIL_CLOSED};
use mcpmon_model::{Action, Denial, Event, EventKind, ProcessRef, ServerType, Severity, Timestamp, Verdict};
use mcpmon_policy::{Gate, Mode, OnChange, Pinning};
use mcpmon_store::{REFUSED_SET, StoreEntry};

use super::{
    Session,
    comparison::{Comparison, ComparisonOutcome, MAX_COMPARISON},
    link::PATIENCE,
    pins, process,
    protocol::Say,
    shared::SharedState,
};

/// The rule that compares files with pins.
const RULE: &str = "mcp.version_pinning";

/// A server that was started.
#[derive(Clone, Debug)]
pub struct StartedServer {
    /// The process that serves.
    pub process: ProcessRef,
    /// Its program, as it was asked for.
    pub command: String,
    /// Its arguments, as they are; secrets are masked here.
    pub arguments: Vec<String>,
    /// The files it runs from.
    pub files: ServerFiles,
    /// Names of the variables that it gets.
    pub environment: Vec<String>,
}

/// The side that compares files with pins.
#[derive(Debug)]
pub(super) enum Pins {
    /// The daemon's kernel sense.
    ByDaemon,
    /// This process, with what the user's own store has of this server.
    Here(PinBook),
}

impl Session {
    /// Returns whether the server's files can keep it from running: then they are compared before it does.
    pub fn compares_first(&self) -> bool {
        let Pins::Here(book) = &self.launch else {
            return false;
        };
        if self.is_remote() {
            return false;
        }
        self.can_refuse_start()
            && (book.contains(&self.guard.conversation().identity) || !self.policy().pinning.auto_trust_first)
    }

    /// Returns whether a start can be refused for what the server's files are.
    fn can_refuse_start(&self) -> bool {
        let policy = self.policy();
        let pinning = policy.pinning;
        pinning.enabled
            && pinning.on_change == OnChange::Block
            && policy.mode == Mode::Enforce
            && policy.exec.gate == Gate::Auto
    }

    /// Compares what the server would be started from with its pins; a block says that it may not be.
    pub fn compare_first(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        let Pins::Here(book) = &self.launch else {
            return Verdict::Allow;
        };
        let policy = self.policy();
        let verdict = compare(
            book.accepted(&self.guard.conversation().identity),
            launch.files.clone(),
            policy.pinning,
            policy.mode,
        );
        if verdict.action != Action::Block || policy.exec.gate == Gate::Off {
            return Verdict::Allow;
        }
        self.tell_mismatches(now, &verdict);
        let files = Files::try_from(launch.files.clone()).ok();
        self.deny(now, files, &verdict)
    }

    /// Compares what would start the server with its pins, where the server itself is not known before it runs; a block
    /// says that it may not.
    pub fn compare_launcher(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        let Pins::Here(book) = &self.launch else {
            return Verdict::Allow;
        };
        let Some(launcher) = &launch.files.launcher else {
            return Verdict::Allow;
        };
        let policy = self.policy();
        let identity = &self.guard.conversation().identity;
        let accepted = book.accepted(identity);
        let verdict = compare_launcher(accepted, launcher, policy.pinning, policy.mode);
        if verdict.action != Action::Block || policy.exec.gate == Gate::Off {
            return Verdict::Allow;
        }
        let files = launcher
            .file
            .hashed()
            .and_then(|file| book.with_launcher(identity, file));
        self.tell_mismatches(now, &verdict);
        self.deny(now, files, &verdict)
    }

    /// The server is about to be started from `program`. A daemon takes what this process starts for a server from now
    /// on, whatever it is called, and can read what it runs from even if it ends at once. By the variables `places` its
    /// files are found.
    pub fn starts(
        &mut self,
        now: Timestamp,
        program: &File,
        environment: &[(OsString, OsString)],
        places: &[&str],
    ) {
        let SharedState::Daemon { link, .. } = &self.host.shared else {
            return;
        };
        let text = |text: &OsString| text.to_str().map(str::to_owned);
        let names = environment.iter().filter_map(|(name, _)| text(name)).collect();
        let is_place = |name: &OsString| places.iter().any(|place| name == place);
        let variables = environment.iter().filter(|(name, _)| is_place(name));
        let starts = Say::Starts {
            program: program.as_raw_fd(),
            variables: variables
                .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
                .collect(),
            names,
        };
        if let Err(error) = link.say(&starts) {
            self.host.tell_away(now, self.guard.policy(), &error.to_string());
        }
    }

    /// The process that served was killed: a block says that the daemon did it, and why.
    pub fn killed(&mut self, now: Timestamp) -> Verdict {
        let (SharedState::Daemon { link, .. }, Some(process)) = (&self.host.shared, self.served) else {
            return Verdict::Allow;
        };
        let process = process.into();
        match link.fate(process, PATIENCE) {
            Ok(Some(denial)) => Verdict::Block(denial),
            Ok(None) => Verdict::Allow,
            // It is still compared: whoever killed it was not the daemon.
            Err(error) if error.is_late() => Verdict::Allow,
            Err(error) => {
                self.host.tell_away(now, self.guard.policy(), &error.to_string());
                Verdict::Allow
            }
        }
    }

    /// Asks the daemon whether the server may go on, where its pins can keep it from that. To be called once it
    /// [`serves`](Self::serves); the answer is for [`compared`](Self::compared).
    pub fn comparison(&self) -> Option<Comparison> {
        let (SharedState::Daemon { link, .. }, Some(process)) = (&self.host.shared, self.served) else {
            return None;
        };
        self.can_refuse_start()
            .then(|| Comparison::new(link.clone(), process.into()))
    }

    /// Returns the verdict on the daemon's comparison of the server's files: a block means that it must not
    /// continue.
    pub fn compared(&mut self, now: Timestamp, outcome: ComparisonOutcome) -> Verdict {
        let denial = match outcome {
            ComparisonOutcome::Passed => return Verdict::Allow,
            // The daemon has recorded it.
            ComparisonOutcome::Refused(denial) => return Verdict::Block(denial),
            ComparisonOutcome::Unanswered(cause) => {
                self.host.tell_away(now, self.guard.policy(), &cause);
                if !self.policy().fail_closed {
                    return Verdict::Allow;
                }
                let Absence { reason, remedy } = self.host.shared.absence();
                Denial {
                    rule: FAIL_CLOSED.to_owned(),
                    reason: reason.to_owned(),
                    remedy: Some(remedy.to_owned()),
                    event: None,
                }
            }
            ComparisonOutcome::Late => Denial {
                rule: RULE.to_owned(),
                reason: format!(
                    "the daemon has not compared the files of `{}` with its pins within {} s",
                    self.guard.conversation().identity.server,
                    MAX_COMPARISON.as_secs()
                ),
                remedy: Some("mcpmon status".to_owned()),
                event: None,
            },
        };
        let reason = denial.reason.clone();
        self.refuse_start(now, reason.clone(), reason, denial)
    }

    /// The server runs: events are about this process from now on, and the daemon knows whose child it is.
    pub fn serves(&mut self, now: Timestamp, process: ProcessRef) {
        let pid = process.pid;
        self.host.child = Some(Arc::new(process));
        self.tell_daemon(now, pid);
    }

    /// Returns whether its files are compared here. Where they are not, the daemon's kernel sense does that.
    pub const fn compares(&self) -> bool {
        matches!(self.launch, Pins::Here(_)) && !self.is_remote()
    }

    /// Returns whether the server runs elsewhere: then no file of it is on this host, and no kernel sees it
    /// start.
    const fn is_remote(&self) -> bool {
        match self.guard.conversation().server_type {
            ServerType::Stdio => false,
            ServerType::Http | ServerType::Sse => true,
        }
    }

    /// The server was started: a block says that it may not go on. To be called once its files are hashed.
    pub fn started(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        if self.is_remote() {
            let policy = self.policy();
            let off = Pinning {
                enabled: false,
                ..policy.pinning
            };
            let verdict = compare(AcceptedSets::Nothing, launch.files.clone(), off, policy.mode);
            self.tell_start(now, launch, &verdict);
            return Verdict::Allow;
        }
        let Pins::Here(book) = &self.launch else {
            return Verdict::Allow;
        };
        let policy = self.policy();
        let mut verdict = compare(
            book.accepted(&self.guard.conversation().identity),
            launch.files.clone(),
            policy.pinning,
            policy.mode,
        );
        if verdict.action == Action::Block && policy.exec.gate == Gate::Off {
            verdict.action = Action::Audit;
        }
        self.tell_start(now, launch, &verdict);
        if let Some(new) = verdict.store.take() {
            self.accept(now, new);
        }
        if verdict.action != Action::Block {
            return Verdict::Allow;
        }
        let files = Files::try_from(launch.files.clone()).ok();
        self.deny(now, files, &verdict)
    }

    /// The server ended: `status` is what `wait(2)` gave.
    pub fn exited(&mut self, now: Timestamp, started: Timestamp, status: LaunchEnd) {
        if !matches!(self.launch, Pins::Here(_)) && !self.is_remote() {
            return; // the kernel sense saw it
        }
        let kind = EventKind::ServerExited {
            exit_status: status.code(),
            signal: status.signal(),
            duration_ms: u64::try_from(now.since(started).as_millis()).unwrap_or(u64::MAX),
        };
        self.host
            .push(Event::new(now, self.guard.conversation().layer, kind));
    }

    /// So that the kernel sense knows whose child it is.
    fn tell_daemon(&mut self, now: Timestamp, pid: u32) {
        let SharedState::Daemon { link, .. } = &self.host.shared else {
            return;
        };
        let Some(process) = process::identify(pid) else {
            return; // it ended at once
        };
        self.served = Some(process);
        if let Err(error) = link.serves(process.into()) {
            self.host.tell_away(now, self.guard.policy(), &error.to_string());
        }
    }

    fn tell_start(&self, now: Timestamp, launch: &StartedServer, verdict: &PinVerdict) {
        let executable = launch.files.executable.hashed();
        let script = launch.files.script.as_ref().and_then(|part| part.hashed());
        let package = launch.files.package.as_ref().and_then(|part| part.hashed());
        let kind = EventKind::ServerStarted {
            command: String::new(),
            args: Vec::new(),
            wrapped: true,
            exe_sha256: executable.map(|file| file.digest),
            script: script.map(|file| file.path.clone()),
            script_sha256: script.map(|file| file.digest),
            package: package.map(|package| package.root().to_owned()),
            package_sha256: package.map(|package| package.digest()),
            package_origin: package.and_then(|package| package.origin().cloned()),
            pin: verdict.state,
            launcher_pid: self.host.member.process.pid,
            matched_pattern: "wrapped".to_owned(),
            environment: launch.environment.clone(),
        };
        let mut event = Event::new(now, self.guard.conversation().layer, kind);
        event.action = verdict.action;
        if !verdict.unhashed.is_empty() || verdict.full.is_some() {
            event.severity = Severity::Medium;
            event.reason = verdict.reason(&self.guard.conversation().identity.server);
        }
        let command = [&launch.command].into_iter().chain(&launch.arguments);
        let command: Vec<String> = command.cloned().collect();
        // Nobody is to wait for what looks for secrets to be built.
        self.host.push_unworded(event, move |event| word(event, &command));
        self.tell_mismatches(now, verdict);
    }

    fn tell_mismatches(&self, now: Timestamp, verdict: &PinVerdict) {
        for mismatch in &verdict.mismatches {
            let kind = EventKind::BinaryMismatch {
                path: mismatch.path.clone(),
                expected_hash: mismatch.expected,
                actual_hash: mismatch.actual,
                part: mismatch.part,
                changed_files: mismatch.changed_files.clone(),
            };
            let mut event = Event::new(now, self.guard.conversation().layer, kind);
            event.action = verdict.action;
            event.severity = match verdict.action {
                Action::Allow => Severity::Low,
                Action::Audit => Severity::High,
                Action::WouldAsk | Action::WouldBlock | Action::Block => Severity::Critical,
            };
            event.rule = Some(RULE.to_owned());
            event.reason = verdict.reason(&self.guard.conversation().identity.server);
            event.remedy = verdict.remedy(&self.guard.conversation().identity.server);
            self.host.push(event);
        }
    }

    /// Refuses a start; `files` are those that a person can accept.
    fn deny(&mut self, now: Timestamp, files: Option<Files>, verdict: &PinVerdict) -> Verdict {
        let server = &self.guard.conversation().identity.server;
        let reason = verdict
            .reason(server)
            .unwrap_or_else(|| format!("`{server}` is not as it was pinned"));
        let (cause, denial) = (verdict.cause(), verdict.denial(server));
        let refused = self.refuse_start(now, cause, reason, denial);
        if let Some(files) = files {
            self.remember_refused(now, files);
        }
        refused
    }

    /// Refuses the start of a server for a reason of its host, and records it.
    pub fn refuse(&mut self, now: Timestamp, denial: Denial) -> Denial {
        let reason = denial.reason.clone();
        match self.refuse_start(now, reason.clone(), reason, denial.clone()) {
            // With the event by which it can be looked up.
            Verdict::Block(recorded) => recorded,
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Ask(_) => denial,
        }
    }

    /// Returns whether no daemon enforces the policy in the kernel.
    pub const fn is_without_daemon(&self) -> bool {
        !matches!(self.host.shared, SharedState::Daemon { .. })
    }

    /// Refuses a start, and records it.
    fn refuse_start(&mut self, now: Timestamp, cause: String, reason: String, denial: Denial) -> Verdict {
        let mut event = Event::new(
            now,
            self.guard.conversation().layer,
            EventKind::ServerDenied { cause },
        );
        event.action = Action::Block;
        event.severity = Severity::Critical;
        event.rule = Some(denial.rule.clone());
        event.reason = Some(reason);
        event.remedy.clone_from(&denial.remedy);
        self.conclude(Judgement::of(Verdict::Block(denial), event))
    }

    /// Pins what is accepted without approval.
    fn accept(&mut self, now: Timestamp, new: NewPins) {
        let Pins::Here(book) = &mut self.launch else {
            return;
        };
        let added = book.add(self.guard.conversation().identity.clone(), new.pins);
        if pins::store(&self.host.recorder, now, &added, pins::by(new.ground)).is_err() {
            tracing::error!("a pin could not be stored; it holds until this process ends");
        }
    }

    /// Keeps what was refused, so that a person can accept it.
    fn remember_refused(&self, now: Timestamp, files: Files) {
        let set = PinSet {
            key: self.guard.conversation().identity.clone(),
            number: REFUSED_SET,
            pins: files,
        };
        let forgotten = self
            .host
            .recorder
            .put(StoreEntry::DeletePinSet(set.key.clone(), set.number));
        if forgotten.is_ok() {
            self.keep(now, &set, pins::REFUSED);
        }
    }

    fn keep(&self, now: Timestamp, set: &PinSet, by: &str) {
        for pin in pins::to_rows(set, now, by) {
            if self.host.recorder.put_pin(pin).is_err() {
                tracing::error!("a pin could not be stored; it holds until this process ends");
            }
        }
    }
}

/// Tells with which command a server was started, without the secrets in it.
fn word(event: &mut Event, given: &[String]) {
    if let EventKind::ServerStarted { command, args, .. } = &mut event.kind {
        let mut masked = mask_arguments(given).into_iter();
        *command = masked.next().unwrap_or_default();
        *args = masked.collect();
    }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchEnd {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Nobody saw it.
    Unseen,
}

impl LaunchEnd {
    const fn code(self) -> Option<i32> {
        match self {
            Self::Exited(code) => Some(code),
            Self::Killed(_) | Self::Unseen => None,
        }
    }

    const fn signal(self) -> Option<i32> {
        match self {
            Self::Killed(signal) => Some(signal),
            Self::Exited(_) | Self::Unseen => None,
        }
    }
}
