//! The start of the server behind a wrapper: it is compared with its pins, recorded, and reported to the daemon. If
//! there is a daemon, its kernel sensor sees the start, and the daemon compares and records it instead.

use std::{ffi::OsString, fs::File, sync::Arc};

use mcpmon_detect::mask::mask_arguments;
use mcpmon_engine::{
    Judgement,
    pins::{
        AcceptedSets, NewPins, PinBook, PinSet, PinVerdict, Pins, ServerFiles, compare, compare_launcher,
    },
};
use mcpmon_guard::{Absence, FAIL_CLOSED};
use mcpmon_model::{Action, Denial, Event, EventKind, ProcessRef, ServerType, Severity, Timestamp, Verdict};
use mcpmon_policy::{Gate, Mode, Pinning};
use mcpmon_store::{PendingEvent, REFUSED_SET, StoreEntry, Urgency};

use super::{
    Session,
    comparison::{Comparison, ComparisonOutcome, MAX_COMPARISON},
    pins, process,
};

/// The rule that compares files with pins.
const RULE: &str = "mcp.version_pinning";

/// A server that was started.
#[derive(Clone, Debug)]
pub struct StartedServer {
    /// The process that serves.
    pub process: ProcessRef,
    /// Its program, as the client named it.
    pub command: String,
    /// Its arguments, unchanged; secrets are masked when the start is recorded.
    pub arguments: Vec<String>,
    /// The files it runs from.
    pub files: ServerFiles,
    /// Names of the variables in its environment.
    pub environment: Vec<String>,
}

/// The place in which files are compared with pins.
#[derive(Debug)]
pub(super) enum PinHolder {
    /// In the daemon, when its kernel sensor sees the start.
    ByDaemon,
    /// In this process, with the pins of this server from the user's own store.
    Here(PinBook),
}

impl Session {
    /// Returns whether the server's files can prevent its start: they have to be compared first then.
    pub fn compares_first(&self) -> bool {
        let PinHolder::Here(book) = &self.launch else {
            return false;
        };
        if self.is_remote() {
            return false;
        }
        self.can_refuse_start()
            && (book.knows(&self.guard.conversation().identity) || !self.policy().pinning.auto_trust_first)
    }

    /// Returns whether changed files can prevent a start.
    fn can_refuse_start(&self) -> bool {
        let policy = self.policy();
        policy.pinning.can_block() && policy.mode == Mode::Enforce && policy.exec.gate == Gate::Auto
    }

    /// Compares the files from which the server would start with its pins. A block means that it must not be started.
    pub fn compare_first(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        let PinHolder::Here(book) = &self.launch else {
            return Verdict::Allow;
        };
        let policy = self.policy();
        let identity = &self.guard.conversation().identity;
        let verdict = book.compare(
            identity,
            book.accepted(identity),
            launch.files.clone(),
            policy.pinning,
            policy.mode,
        );
        if verdict.action != Action::Block || policy.exec.gate == Gate::Off {
            return Verdict::Allow;
        }
        self.tell_mismatches(now, &verdict);
        let files = Pins::try_from(launch.files.clone()).ok();
        self.deny(now, files, &verdict)
    }

    /// Compares the files of the launcher with the server's pins, for a server whose own files are unknown until it
    /// runs. A block means that it must not be started.
    pub fn compare_launcher(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        let PinHolder::Here(book) = &self.launch else {
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

    /// Reports to the daemon that the server is about to be started from `program`. From then on, the daemon considers
    /// each child of this process a server, whatever its name is, and it can read the program's file even if the
    /// process ends at once. The variables `places` are sent too, because files of the server are found by them.
    pub fn starts(
        &mut self,
        now: Timestamp,
        program: &File,
        environment: &[(OsString, OsString)],
        places: &[&str],
    ) {
        if let Err(error) = self.host.shared.starts(program, environment, places) {
            self.host.tell_away(now, self.guard.policy(), &error.to_string());
        }
    }

    /// Handles the end of the serving process; `is_killed` means by `SIGKILL`. A block means that the daemon killed it, or what it
    /// had started, and gives the reason.
    pub fn ended(&mut self, now: Timestamp, is_killed: bool) -> Verdict {
        let fate = self.served.map(|process| self.host.shared.fate(process));
        match fate.unwrap_or(Ok(None)) {
            Ok(Some(denial)) => Verdict::Block(denial),
            // Nothing is recorded: another process can have killed it.
            Ok(None) if is_killed && self.host.is_beside_daemon => Verdict::Block(Denial {
                rule: Denial::FAULT.to_owned(),
                reason: "the server was killed; a daemon runs that does not serve this wrapper, and may have refused the server"
                    .to_owned(),
                remedy: Some("mcpmon status".to_owned()),
                event: None,
            }),
            Ok(None) => Verdict::Allow,
            Err(error) => {
                self.host.tell_away(now, self.guard.policy(), &error.to_string());
                Verdict::Allow
            }
        }
    }

    /// Returns the question to the daemon whether the server may continue, if its pins can prevent that. To be called
    /// after [`serves`](Self::serves); the answer goes to [`compared`](Self::compared).
    pub fn comparison(&self) -> Option<Comparison> {
        let process = self.served.filter(|_| self.can_refuse_start())?;
        self.host.shared.comparison(process)
    }

    /// Returns the verdict on the daemon's comparison of the server's files. A block means that the server must not
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

    /// Records that the server runs: later events name this process, and the daemon learns which client it belongs to.
    pub fn serves(&mut self, now: Timestamp, process: ProcessRef) {
        let pid = process.pid;
        self.host.child = Some(Arc::new(process));
        self.tell_daemon(now, pid);
    }

    /// Returns whether the server's files are compared by this process. Otherwise the daemon does it, when its kernel
    /// sensor sees the start.
    pub const fn compares(&self) -> bool {
        matches!(self.launch, PinHolder::Here(_)) && !self.is_remote()
    }

    /// Returns whether the server runs on another host: it has no files on this one then, and no kernel sees its start.
    const fn is_remote(&self) -> bool {
        match self.guard.conversation().server_type {
            ServerType::Stdio => false,
            ServerType::Http | ServerType::Sse => true,
        }
    }

    /// Compares the files of a started server. A block means that it must not continue. To be called once its files are
    /// hashed.
    pub fn started(&mut self, now: Timestamp, launch: &StartedServer) -> Verdict {
        self.judge_start(now, launch, |verdict| verdict)
    }

    /// Compares the files of a server that has ended, as far as they are known. A difference is recorded and its files
    /// can be accepted; what could not be compared in time refused nothing.
    pub fn started_and_ended(&mut self, now: Timestamp, launch: &StartedServer) {
        let _refusal = self.judge_start(now, launch, PinVerdict::for_ended);
    }

    fn judge_start(
        &mut self,
        now: Timestamp,
        launch: &StartedServer,
        adjust: impl FnOnce(PinVerdict) -> PinVerdict,
    ) -> Verdict {
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
        let PinHolder::Here(book) = &self.launch else {
            return Verdict::Allow;
        };
        let policy = self.policy();
        let identity = &self.guard.conversation().identity;
        let mut verdict = book.compare(
            identity,
            book.accepted(identity),
            launch.files.clone(),
            policy.pinning,
            policy.mode,
        );
        verdict = adjust(verdict);
        if verdict.action == Action::Block && policy.exec.gate == Gate::Off {
            verdict.action = Action::Audit;
        }
        self.tell_start(now, launch, &verdict);
        let awaits_approval = verdict.awaits_approval();
        if let Some(new) = verdict.store.take() {
            self.accept(now, new);
        }
        if verdict.action != Action::Block {
            if awaits_approval && let Ok(files) = Pins::try_from(launch.files.clone()) {
                self.remember_refused(now, files);
            }
            return Verdict::Allow;
        }
        let files = Pins::try_from(launch.files.clone()).ok();
        self.deny(now, files, &verdict)
    }

    /// Records the end of the server; `status` is the result of `wait(2)`.
    pub fn exited(&mut self, now: Timestamp, started: Timestamp, status: LaunchEnd) {
        if !matches!(self.launch, PinHolder::Here(_)) && !self.is_remote() {
            return; // the kernel sensor saw it
        }
        let kind = EventKind::ServerExited {
            exit_status: status.code(),
            signal: status.signal(),
            duration_ms: u64::try_from(now.since(started).as_millis()).unwrap_or(u64::MAX),
        };
        self.host
            .push(Event::new(now, self.guard.conversation().layer, kind));
    }

    /// Reports the serving process to the daemon, so that the kernel sensor knows which client it belongs to.
    fn tell_daemon(&mut self, now: Timestamp, pid: u32) {
        let Some(process) = process::identify(pid) else {
            return; // it ended at once
        };
        self.served = Some(process);
        if let Err(error) = self.host.shared.serves(process) {
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
            package_path: package.map(|package| package.root().to_owned()),
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
            if !verdict.ended {
                event.severity = Severity::Medium;
            }
            event.reason = verdict.reason(&self.guard.conversation().identity.server);
        }
        let command = [&launch.command].into_iter().chain(&launch.arguments);
        let command: Vec<String> = command.cloned().collect();
        // Masking secrets takes time, so the writer's thread does it.
        let event = PendingEvent::from(event);
        self.host
            .push(event.completed_by(move |event| add_masked_command(event, &command)));
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
                changes: mismatch.changes.clone(),
            };
            let mut event = Event::new(now, self.guard.conversation().layer, kind);
            event.action = verdict.action;
            event.severity = match verdict.action {
                Action::Allow => Severity::Low,
                Action::Audit if verdict.is_accepted_upgrade() => Severity::Medium,
                Action::Audit => Severity::High,
                Action::WouldAsk | Action::WouldBlock | Action::Block => Severity::Critical,
            };
            event.rule = Some(RULE.to_owned());
            event.reason = verdict.reason(&self.guard.conversation().identity.server);
            event.remedy = verdict.remedy(&self.guard.conversation().identity.server);
            self.host.push(event);
        }
    }

    /// Refuses a start, and records it; `files` are those that a person can accept.
    fn deny(&mut self, now: Timestamp, files: Option<Pins>, verdict: &PinVerdict) -> Verdict {
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
            // The recorded denial has the id of its event.
            Verdict::Block(recorded) => recorded,
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Ask(_) => denial,
        }
    }

    /// Returns whether no daemon enforces the policy in the kernel.
    pub fn is_without_daemon(&self) -> bool {
        !self.host.shared.enforces_in_kernel()
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
        let PinHolder::Here(book) = &mut self.launch else {
            return;
        };
        let added = book.add(self.guard.conversation().identity.clone(), new.pins);
        if pins::store(&self.host.recorder, now, &added, pins::by(new.ground)).is_err() {
            tracing::error!("a pin could not be stored; it holds until this process ends");
        }
    }

    /// Stores refused files, so that a person can accept them.
    fn remember_refused(&self, now: Timestamp, files: Pins) {
        let set = PinSet {
            key: self.guard.conversation().identity.clone(),
            number: REFUSED_SET,
            pins: files,
        };
        let forgotten = self.host.recorder.put(
            StoreEntry::DeletePinSet(set.key.clone(), set.number),
            Urgency::InOrder,
        );
        if forgotten.is_ok() {
            self.keep(now, &set, pins::REFUSED);
        }
    }

    fn keep(&self, now: Timestamp, set: &PinSet, by: &str) {
        for pin in pins::to_rows(set, now, by) {
            if self
                .host
                .recorder
                .put(StoreEntry::PutPin(pin), Urgency::InOrder)
                .is_err()
            {
                tracing::error!("a pin could not be stored; it holds until this process ends");
            }
        }
    }
}

/// Adds the command of a started server to its event, with secrets masked.
fn add_masked_command(event: &mut Event, given: &[String]) {
    if let EventKind::ServerStarted { command, args, .. } = &mut event.kind {
        let mut masked = mask_arguments(given).into_iter();
        *command = masked.next().unwrap_or_default();
        *args = masked.collect();
    }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchEnd {
    /// The process exited with this status.
    Exited(i32),
    /// The process was killed by this signal.
    Killed(i32),
    /// The end was not observed.
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
