//! Observations from kernel records, and from processes that are found in `/proc`.

use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use mcpmon_common::{
    event::{Action, CloseRecord, ExecRecord, Hook},
    process::{FileKey, ProcessEntry},
    watch::RULE_CANARY,
};
use mcpmon_detect::launch::LaunchRules;
use mcpmon_engine::{Judgement, KernelEffect, Observation, proxied};
use mcpmon_kernel::{
    records::{self, Record},
    sockets,
};
use mcpmon_model::{
    Checkpoint, ClosedConnection, Connection, ConnectionOutcome, ConnectionTraffic, Direction, Event,
    EventKind, Exec, Exit, FileId, Fork, InstanceId, IpProtocol, ProcessId, Timestamp,
};
use mcpmon_pins::Process;
use mcpmon_session::clock;
use mcpmon_stdio::tree::descendants;

use super::{Core, MAX_HANDED};
use crate::app::{
    hashing::{HandedFiles, HandedProgram},
    host,
    linked::CommandFiles,
};

/// Most bytes of a running process's arguments that are read.
const ARGUMENT_LIMIT: u64 = 64 << 10;

impl Core {
    pub(super) fn record(&mut self, record: Record) {
        let header = record.header();
        let now = self.wall(header.time);
        match record {
            Record::Exec(exec) => self.exec(now, &exec),
            Record::Fork(fork) => {
                let observed = Fork {
                    process: host::process_id(fork.process),
                    parent: host::process_id(fork.parent),
                    instance: instance(fork.entry),
                };
                self.starts.descent.forked(observed.process, observed.parent);
                let judgement = self.monitor.observe(now, Observation::Fork(observed));
                self.carry_out(judgement, None);
                if fork.entry.has(ProcessEntry::FLAG_DOOMED) {
                    self.kill_doomed();
                }
            }
            Record::Exit(exit) => {
                let exit = Exit {
                    process: host::process_id(exit.process),
                    instance: InstanceId(exit.entry.instance),
                    status: Some(exit.status),
                };
                let judgement = self.monitor.observe(now, Observation::Exit(exit));
                self.carry_out(judgement, None);
            }
            Record::RefusedStart(start) => self.refused_start(now, &start),
            Record::Resume(resume) => self.resumed(&resume),
            Record::Connect(connect) => self.connect(now, &connect),
            Record::Close(close) => self.close(now, &close),
        }
    }

    fn exec(&mut self, now: Timestamp, exec: &records::ExecReport) {
        let record = &exec.record;
        let process = host::process_id(record.process);
        self.describer.executed(process, record.cgroup);
        if let Some(probe) = &mut self.probe {
            probe.see_exec(exec);
        }
        // The kernel copies a bounded part of the arguments; all of them can be read while the process lives.
        let argv = match exec.is_cut() {
            true => completed(&exec.argv, host::arguments(process.pid, ARGUMENT_LIMIT)),
            false => exec.argv.clone(),
        };
        let files = self.look_at_files(process.pid, record.entry, &argv);
        let mut observed = Exec {
            process,
            parent: host::process_id(record.parent),
            instance: instance(record.entry),
            pending: record.entry.has(ProcessEntry::FLAG_PENDING),
            linked: files.linked,
            package: files.package,
            directory: directory(process.pid, &argv, &exec.filename),
            argv,
            filename: exec.filename.clone(),
            comm: exec.comm.clone(),
            uid: record.uid,
            file: file_id(&record.file),
            links: record.links,
            owner: Some(record.owner),
            loader: files.loader,
            killed: record.flags & ExecRecord::FLAG_KILLED != 0,
            held: record.flags & ExecRecord::FLAG_HELD != 0,
            verified: record.flags & ExecRecord::FLAG_VERIFIED != 0,
            is_wrapper: false,
            wrapped_as: None,
            wrapper_id: None,
        };
        self.claim(&mut observed);
        let judgement = self.judge_exec(now, &observed);
        self.carry_out(judgement, Some(record.entry));
        // What is reached by a path alone is for the order to hash that this start gave.
        if observed.verified && observed.wrapped_as.is_none() {
            self.handed.remove(&process);
        }
        self.look_for_ended();
    }

    /// Checks whether some remembered processes still live, if there are many: more than one for each process that is
    /// started, so that entries of ended processes are removed in time.
    fn look_for_ended(&mut self) {
        const MAX_LOOKS: usize = 2;
        for process in self.monitor.next_to_check(MAX_LOOKS) {
            if !host::is_alive(process) {
                let gone = Observation::Gone(process);
                let judgement = self.monitor.observe(clock::now(), gone);
                self.carry_out(judgement, None);
            }
        }
    }

    /// Returns what the files of a command say about it. Returns nothing if the process's file system does not answer:
    /// the command is looked at again when it does. Only below agents and servers a program is looked at.
    fn look_at_files(&mut self, pid: u32, entry: ProcessEntry, argv: &[String]) -> CommandFiles {
        let is_below = entry.instance != 0 || entry.has(ProcessEntry::FLAG_AGENT);
        self.links.look(pid, argv, is_below).unwrap_or_else(|error| {
            tracing::debug!(%error, "the command is looked at again later");
            CommandFiles::default()
        })
    }

    /// Looks again at commands whose file systems have answered late. One that still hangs degrades a component.
    pub(super) fn look_again(&mut self, now: Instant) {
        let late = self.links.review(now);
        for process in late.answered.into_iter().filter_map(host::identify) {
            self.look_at(process);
        }
        if let Some(error) = late.hanging {
            self.troubles.note(now, "links in commands", &error.to_string());
        }
    }

    /// Adds what is known of wrappers: whether the process is one, the claim of the wrapper that started it, and the id
    /// that this wrapper was given. Keeps the path to the process's files: what the wrapper held open, or the path by which
    /// a program was executed that the kernel does not stop.
    fn claim(&mut self, exec: &mut Exec) {
        exec.is_wrapper = self.wrappers.is_wrapper(exec.process, exec.file.size);
        // A wrapper executes by descriptor, and a process that was found running has no path. No other program's parent is
        // looked at, because its file system may not answer.
        if exec.filename.is_empty() || exec.filename.starts_with("/dev/fd/") {
            exec.wrapper_id = self.wrappers.given_id(exec.parent);
        }
        let program = match self.wrappers.started_by(exec.parent) {
            Some((server, start)) => {
                exec.wrapped_as = Some(server);
                start.map(HandedProgram::Held)
            }
            None if exec.verified && exec.filename.starts_with('/') => {
                Some(HandedProgram::At(PathBuf::from(&exec.filename)))
            }
            None => None,
        };
        if let Some(program) = program {
            let handed = HandedFiles {
                since: Instant::now(),
                program,
                file: exec.file,
                name: exec.argv.first().cloned().unwrap_or_default(),
            };
            if self.handed.len() < MAX_HANDED {
                self.handed.insert(exec.process, handed);
            }
        }
    }

    fn judge_exec(&mut self, now: Timestamp, exec: &Exec) -> Judgement {
        let judgement = self.monitor.observe(now, Observation::Exec(exec));
        let descent = &mut self.starts.descent;
        descent.executes(exec);
        let mut launched = None;
        for effect in &judgement.kernel_effects {
            if let KernelEffect::Track {
                process, instance, ..
            } = effect
                && *process == exec.process
            {
                descent.launches(*instance, exec);
                launched = Some(*instance);
            }
        }
        if let Some(instance) = launched {
            // A process that was found running has no file here.
            self.consider_tapping(instance, exec.file != FileId::default());
        }
        judgement
    }

    fn connect(&mut self, now: Timestamp, connect: &records::Connect) {
        let record = &connect.record;
        if record.rule == RULE_CANARY {
            if let Some(probe) = &mut self.probe {
                probe.see_connection(connect);
            }
            return;
        }
        // When a connection is cut, the kernel notifies the peer in the name of this process; that packet is refused
        // like every other.
        let is_of_cut = record.process.pid == std::process::id() && connect.comm == sockets::THREAD;
        if is_of_cut && connect.hook == Hook::Packet {
            return;
        }
        let process = host::process_id(record.process);
        let connection = Connection {
            process,
            comm: connect.comm.clone(),
            uid: record.uid,
            instance: instance(record.entry),
            cgroup: record.cgroup,
            rule: Some(record.rule).filter(|rule| *rule != 0),
            address: connect.address,
            given: connect.given,
            port: record.port,
            transport: transport(record.protocol),
            protocol: record.protocol,
            socket: is_followed(connect).then_some(record.cookie),
            checkpoint: match connect.hook {
                Hook::Connect | Hook::Send => Checkpoint::Call,
                Hook::Socket => Checkpoint::Socket,
                Hook::Packet => Checkpoint::Packet,
            },
            outcome: match connect.action {
                Action::Allow => ConnectionOutcome::Passed,
                Action::Deny => ConnectionOutcome::Refused,
                Action::WouldDeny => ConnectionOutcome::WouldRefuse,
            },
        };
        let judgement = self.monitor.observe(now, Observation::Connection(&connection));
        for event in judgement.events {
            self.tell_connection(process, Some(record.cgroup), event);
        }
    }

    /// Reports the close of a socket whose connection was reported before.
    fn close(&mut self, now: Timestamp, close: &records::Close) {
        let record = &close.record;
        let connection = &record.connection;
        let process = host::process_id(connection.process);
        let traffic = ConnectionTraffic {
            sent: record.sent,
            received: record.received,
        };
        let closed = ClosedConnection {
            process,
            comm: close.comm.clone(),
            uid: connection.uid,
            instance: Some(InstanceId(connection.instance)),
            socket: record.cookie,
            remote: SocketAddr::new(close.address, connection.port),
            transport: transport(connection.protocol),
            established: record.flags & CloseRecord::FLAG_ESTABLISHED != 0,
            duration: Duration::from_nanos(record.header.time.saturating_sub(connection.time)),
            traffic: (record.flags & CloseRecord::FLAG_COUNTED != 0).then_some(traffic),
        };
        let judgement = self.monitor.observe(now, Observation::Closed(&closed));
        for event in judgement.events {
            self.tell_connection(process, None, event);
        }
    }

    fn tell_connection(&mut self, process: ProcessId, cgroup: Option<u64>, mut event: Event) {
        if is_to_server(&event) && self.wrappers.may_cover(&[process]) {
            proxied(&mut event);
        }
        self.describer.describe(&mut event, process, cgroup);
        if let Some(event) = self.coalescer.admit(Instant::now(), process, event) {
            self.recorder.push(event);
        }
    }

    /// Searches agents and servers that were started before this daemon.
    pub(super) fn scan(&mut self) {
        for process in host::all() {
            // The entry is read first: `settle` must not act on a program that the process executed after it was looked
            // at.
            let seen = self.processes.get(process.pid);
            let Some(found) = ProcProcess::look(process) else {
                continue; // a kernel thread, or it has ended
            };
            self.inherit_agent(&found);
            let entry = seen.unwrap_or_default();
            if self.is_followed(entry) {
                continue; // a descendant of a process that was found before
            }
            self.judge_found(&found, entry);
        }
    }

    /// Looks at a process that a wrapper started, unless it is followed already: its record was lost, or it runs longer
    /// than this daemon.
    pub(super) fn look_at(&mut self, process: ProcessId) {
        let entry = self.processes.get(process.pid).unwrap_or_default();
        if !self.is_followed(entry)
            && let Some(found) = ProcProcess::look(process)
        {
            self.judge_found(&found, entry);
        }
    }

    fn judge_found(&mut self, found: &ProcProcess, entry: ProcessEntry) {
        let files = self.look_at_files(found.process.pid, entry, &found.argv);
        let mut exec = found.exec(entry, files);
        self.claim(&mut exec);
        let judgement = self.judge_exec(clock::now(), &exec);
        let launched = judgement
            .kernel_effects
            .iter()
            .any(|effect| matches!(effect, KernelEffect::Track { .. }));
        self.carry_out(judgement, Some(entry));
        if launched {
            self.adopt(found.process.pid);
        }
    }

    /// Reports the descendants of a server that already runs to the Monitor, in order.
    fn adopt(&mut self, launcher: u32) {
        for pid in descendants(launcher) {
            let entry = self.processes.get(pid).unwrap_or_default();
            let Some(found) = host::identify(pid).and_then(ProcProcess::look) else {
                continue;
            };
            let files = self.look_at_files(found.process.pid, entry, &found.argv);
            let mut exec = found.exec(entry, files);
            self.claim(&mut exec);
            let judgement = self.judge_exec(clock::now(), &exec);
            self.carry_out(judgement, Some(entry));
        }
    }

    /// Judges processes that the kernel still holds to every egress list. Their exec record was lost, or they were
    /// forked from a process that was not judged itself and have left its tree.
    pub(super) fn judge_pending(&mut self) {
        let waiting: Vec<(u32, ProcessEntry)> = self
            .processes
            .iter()
            .filter(|(_, entry)| entry.has(ProcessEntry::FLAG_PENDING) && entry.instance == 0)
            .collect();
        for (pid, entry) in waiting {
            if let Some(found) = host::identify(pid).and_then(ProcProcess::look) {
                let files = self.look_at_files(found.process.pid, entry, &found.argv);
                let mut exec = found.exec(entry, files);
                self.claim(&mut exec);
                let judgement = self.judge_exec(clock::now(), &exec);
                self.carry_out(judgement, Some(entry));
            }
        }
    }

    /// Marks a process as an agent's if its name or its parent says so.
    fn inherit_agent(&mut self, found: &ProcProcess) {
        let of_parent = self.processes.get(found.parent.pid);
        let is_agent = self.agents.contains(&found.comm)
            || of_parent.is_some_and(|parent| parent.has(ProcessEntry::FLAG_AGENT));
        if is_agent {
            self.mark_agent(found.process);
        }
    }

    fn wall(&self, boot: u64) -> Timestamp {
        Timestamp(
            i64::try_from(boot)
                .unwrap_or(i64::MAX)
                .saturating_add(self.boot_to_wall),
        )
    }
}

/// A process as `/proc` shows it.
struct ProcProcess {
    process: ProcessId,
    parent: ProcessId,
    comm: String,
    argv: Vec<String>,
    uid: u32,
}

impl ProcProcess {
    fn look(process: ProcessId) -> Option<Self> {
        let stat = host::stat(process.pid)?;
        let argv = host::arguments(process.pid, ARGUMENT_LIMIT);
        let uid = host::uid(process.pid)?;
        (!argv.is_empty()).then(|| Self {
            process,
            parent: host::identify(stat.parent).unwrap_or_default(),
            comm: stat.comm,
            argv,
            uid,
        })
    }

    /// Returns the process in the form of an exec that happened just now.
    fn exec(&self, entry: ProcessEntry, files: CommandFiles) -> Exec {
        Exec {
            process: self.process,
            parent: self.parent,
            instance: instance(entry),
            pending: entry.has(ProcessEntry::FLAG_PENDING),
            directory: directory(self.process.pid, &self.argv, ""),
            argv: self.argv.clone(),
            linked: files.linked,
            package: files.package,
            filename: String::new(),
            comm: self.comm.clone(),
            uid: self.uid,
            file: FileId::default(),
            links: 0,
            owner: None,
            loader: files.loader,
            killed: false,
            held: false,
            verified: false,
            is_wrapper: false,
            wrapped_as: None,
            wrapper_id: None,
        }
    }
}

/// Returns the working directory of a process if the path that it executes is relative.
fn directory(pid: u32, argv: &[String], filename: &str) -> Option<String> {
    LaunchRules::executed_file(argv, filename).filter(|file| !file.starts_with('/'))?;
    let directory = Process::open(pid).and_then(|process| process.working_directory());
    directory.ok()?.into_os_string().into_string().ok()
}

/// Returns whether the kernel programs report the close of a connection's socket.
const fn is_followed(connect: &records::Connect) -> bool {
    let passed = matches!(connect.action, Action::Allow | Action::WouldDeny);
    passed && matches!(connect.hook, Hook::Connect) && connect.record.entry.instance != 0
}

/// Returns whether a connection goes to a declared server.
const fn is_to_server(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::NetworkConnection {
            direction: Direction::AgentToServer,
            ..
        }
    )
}

/// Returns the kernel's copy of the arguments, completed by those in `/proc`; if the two disagree, the copy alone. The
/// process can overwrite its arguments in `/proc`, and they are gone when it has ended.
fn completed(copied: &[String], told: Vec<String>) -> Vec<String> {
    let agrees = match copied.split_last() {
        None => true,
        Some((last, whole)) => {
            // The copy may end within a character.
            let last = last.trim_end_matches(char::REPLACEMENT_CHARACTER);
            told.get(..whole.len()) == Some(whole)
                && told.get(whole.len()).is_some_and(|told| told.starts_with(last))
        }
    };
    if agrees && !told.is_empty() {
        told
    } else {
        copied.to_vec()
    }
}

pub(super) const fn instance(entry: ProcessEntry) -> Option<InstanceId> {
    if entry.instance == 0 {
        None
    } else {
        Some(InstanceId(entry.instance))
    }
}

const fn file_id(key: &FileKey) -> FileId {
    FileId {
        device: key.device,
        inode: key.inode,
        size: key.size,
        ctime: key.ctime,
    }
}

/// Maps `IPPROTO_*` of a socket. MPTCP reports itself as TCP or 262, which does not fit a byte.
const fn transport(protocol: u8) -> IpProtocol {
    match protocol {
        6 => IpProtocol::Tcp,
        17 | 136 => IpProtocol::Udp,
        _ => IpProtocol::Other,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&["npx", "-y", "@a/b"], &["npx", "-y", "@a/bc", "/home"] => vec!["npx", "-y", "@a/bc", "/home"]; "the rest is added")]
    #[test_case(&["npx", "-y", "@a/b"], &[] => vec!["npx", "-y", "@a/b"]; "the process is gone")]
    #[test_case(&["npx", "-y", "@a/b"], &["sleep", "-y", "@a/b"] => vec!["npx", "-y", "@a/b"]; "overwritten")]
    #[test_case(&["npx", "-y", "@a/b"], &["npx", "-y", "@a/c"] => vec!["npx", "-y", "@a/b"]; "overwritten where it was cut")]
    #[test_case(&["npx", "-y", "@a/b"], &["npx", "-y"] => vec!["npx", "-y", "@a/b"]; "shortened")]
    #[test_case(&["npx", "\u{e9}\u{fffd}"], &["npx", "\u{e9}\u{e9}"] => vec!["npx", "\u{e9}\u{e9}"]; "cut within a character")]
    #[test_case(&[], &["npx"] => vec!["npx"]; "nothing was copied")]
    #[test_case(&[], &[] => Vec::<&str>::new(); "nothing is known")]
    fn long_arguments(copied: &[&str], told: &[&str]) -> Vec<String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        completed(&owned(copied), owned(told))
    }
}
