//! Effects of judgements, carried out: the process table, signals, pins, refusals.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use mcpmon_common::process::{FileKey, ProcessEntry};
use mcpmon_detect::starter::{Ancestor, starter};
use mcpmon_engine::{Judgement, KernelEffect, Observation, ServerClient, all_of, runs_on};
use mcpmon_model::{FileId, Fork, InstanceId, ProcessId, ServerId, SessionId};
use mcpmon_session::{clock, pins};
use mcpmon_stdio::tree::descendants;
use mcpmon_store::new_event_id;
use nix::sys::signal::Signal;

use super::{Core, observe::instance};
use crate::agent::{hashing::HashJob, host};

/// Looks at the process table for one kill: what forks between two of them is found by the next.
const KILL_PASSES: usize = 3;
/// The same for a session that is entered.
const ENTRY_PASSES: usize = 3;

impl Core {
    pub(super) fn carry_out(&mut self, judgement: Judgement, entry: Option<ProcessEntry>) {
        self.carry_out_about(None, judgement, entry);
    }

    /// The same of a judgement about one server.
    pub(super) fn carry_out_about(
        &mut self,
        about: Option<InstanceId>,
        mut judgement: Judgement,
        entry: Option<ProcessEntry>,
    ) {
        judgement.name_refusal(new_event_id);
        let Judgement {
            mut events,
            kernel_effects,
            ..
        } = judgement;
        // What is killed cannot be described any more.
        for event in &mut events {
            let process = event.process.as_ref();
            if let Some(process) = process.and_then(|process| host::identify(process.pid)) {
                self.describer.describe(event, process, None);
            }
        }
        let mut failure = None;
        for effect in kernel_effects {
            if let Err(cause) = self.carry_out_effect(effect, entry) {
                failure.get_or_insert(cause);
            }
        }
        // An event says what happened, which is known by now.
        for mut event in events {
            if let Some(cause) = &failure {
                runs_on(&mut event, cause);
            }
            self.tell_in_order(event, about);
        }
    }

    /// # Errors
    /// Returns the reason why a process that was to be killed still runs.
    fn carry_out_effect(&mut self, effect: KernelEffect, entry: Option<ProcessEntry>) -> Result<(), String> {
        match effect {
            KernelEffect::Track {
                process,
                instance,
                egress,
            } => self.track(process, instance, egress),
            KernelEffect::EnterSession { process, list } => self.enter_session(process, list),
            KernelEffect::Settle { process } => self.settle(process, entry),
            KernelEffect::MarkStarter { process, instance } => self.mark_starter(process, instance),
            KernelEffect::Hold { process } => self.hold(process),
            KernelEffect::Release { process } => self.release(process),
            KernelEffect::Hash {
                instance,
                process,
                launcher,
                uid,
                attempt,
                stage,
                loaded,
                since,
                watch,
            } => {
                self.starts.descent.serves(instance, process);
                self.hashes.push(HashJob {
                    instance,
                    process,
                    uid,
                    attempt,
                    stage,
                    loaded,
                    handed: self.handed.remove(&process),
                    launcher,
                    since,
                    watch,
                });
            }
            KernelEffect::StorePins { added, ground } => {
                if pins::store(&self.recorder, clock::now(), &added, pins::by(ground)).is_err() {
                    let server = added.set.key.server;
                    tracing::error!(%server, "a pin could not be stored; it holds until the daemon ends");
                }
            }
            KernelEffect::Cut(order) => self.order_cut(*order),
            KernelEffect::Terminate { instance } => return self.terminate(instance),
            KernelEffect::Kill { instance, denial } => {
                let processes = self.starts.descent.above(instance).processes;
                self.denials.note(Instant::now(), processes, denial);
                return self.kill(instance);
            }
            KernelEffect::KillProcess { process, denial } => {
                let processes = self.starts.descent.line(process);
                self.denials.note(Instant::now(), processes, denial);
                return self.signal(process, Signal::SIGKILL);
            }
            KernelEffect::Refuse { server, file } => {
                let key = file_key(&file);
                let number = self.handover.number(&server);
                self.has_news = true;
                match self.refused.refuse(key, number) {
                    Ok(()) => self.refusals.entry(server).or_default().push(key),
                    Err(error) => {
                        tracing::error!(%server, %error, "a changed executable could not be refused")
                    }
                }
            }
        }
        Ok(())
    }

    fn track(&mut self, process: ProcessId, instance: InstanceId, egress: [u32; 2]) {
        let doomed = self.doomed.contains(&instance);
        self.has_news |= !self.handover.knows(instance);
        let before = self.processes.get(process.pid).unwrap_or_default();
        let entry = ProcessEntry {
            instance: instance.0,
            egress: all_of(
                self.lists_of_forgotten(process, instance)
                    .into_iter()
                    .chain(egress),
            ),
            flags: ProcessEntry::FLAG_AGENT | if doomed { ProcessEntry::FLAG_DOOMED } else { 0 },
            exec: 0,
            session: before.session,
        };
        if !self.set(process, entry) {
            return;
        }
        if before.instance == entry.instance && before.egress != entry.egress {
            self.reviews.ask(); // other lists hold for a server that runs
        }
        // What it started before the entry was there did not inherit it; what it starts now does.
        for pid in descendants(process.pid) {
            let known = self
                .processes
                .get(pid)
                .is_some_and(|known| self.is_followed(known));
            let Some(child) = host::identify(pid).filter(|_| !known) else {
                continue;
            };
            if self.set(child, entry) {
                let fork = Fork {
                    process: child,
                    parent: process,
                    instance: Some(instance),
                };
                // It is tracked already.
                drop(self.monitor.observe(clock::now(), Observation::Fork(fork)));
            }
        }
        if doomed {
            self.kill_doomed(); // it was forked before the others were killed, and heard of after
        }
    }

    /// Lists the kernel still holds a process to for a server that is not followed any more, because records of it
    /// were lost: what it starts must not get away from them.
    fn lists_of_forgotten(&self, process: ProcessId, joins: InstanceId) -> [u32; 2] {
        let known = self.processes.get(process.pid).unwrap_or_default();
        match instance(known) {
            Some(before) if before != joins && !self.monitor.follows(before) => known.egress,
            Some(_) | None => [0; 2],
        }
    }

    /// Writes an entry, and takes it back where the process ended meanwhile: its number may be reused.
    pub(super) fn set(&mut self, process: ProcessId, entry: ProcessEntry) -> bool {
        if !host::is_alive(process) {
            return false; // before it overwrites the entry of another process
        }
        if let Err(error) = self.processes.set(process.pid, entry) {
            tracing::error!(%error, pid = process.pid, "a process could not be tracked");
            return false;
        }
        if !host::is_alive(process) {
            self.forget(process.pid);
            return false;
        }
        true
    }

    /// Takes out the entry of a process that ended. Where its number was given to another one meanwhile, that
    /// one gets what it inherited from its parent.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(pid);
        let Some(stat) = host::stat(pid) else { return };
        if self.processes.get(pid).is_none()
            && let Some(inherited) = self.processes.get(stat.parent)
            && let Err(error) = self.processes.set(pid, inherited)
        {
            tracing::error!(%error, pid, "a process could not be tracked");
        }
    }

    /// Lets a process go that is no server, and what it forked before this was known.
    fn settle(&mut self, process: ProcessId, entry: Option<ProcessEntry>) {
        let Some(current) = self.processes.get(process.pid) else {
            return;
        };
        if entry.is_some_and(|seen| seen.exec != current.exec) {
            return; // it has become another program, which is judged next
        }
        self.let_go(process, current);
        for pid in descendants(process.pid) {
            let waits = |child: &ProcessEntry| {
                child.has(ProcessEntry::FLAG_PENDING) && child.instance == 0 && child.exec == current.exec
            };
            if let Some(child) = self.processes.get(pid).filter(waits)
                && let Some(process) = host::identify(pid)
            {
                self.let_go(process, child);
            }
        }
    }

    fn let_go(&mut self, process: ProcessId, mut entry: ProcessEntry) {
        entry.flags &= !ProcessEntry::FLAG_PENDING;
        if entry.flags == 0 && entry.instance == 0 && entry.session == 0 {
            self.processes.remove(process.pid);
        } else {
            self.set(process, entry);
        }
    }

    /// Lets refused files of a server run again.
    pub(super) fn accept_files(&mut self, server: &ServerId) {
        for file in self.refusals.remove(server).unwrap_or_default() {
            self.refused.accept(&file);
        }
    }

    /// Marks who started a server, and what that already started. A starter that is marked passes the mark on
    /// by itself, so that its tree is walked once and not at every launch.
    fn mark_starter(&mut self, parent: ProcessId, instance: InstanceId) {
        let ancestors = host::ancestors(parent);
        let Some(agent) = starter(&ancestors) else {
            return;
        };
        let client = ancestors.into_iter().find(|ancestor| ancestor.process == agent);
        if let Some(Ancestor { process, comm, .. }) = client {
            let started = Observation::StartedBy(instance, ServerClient { process, comm });
            // Nothing follows from it yet.
            drop(self.monitor.observe(clock::now(), started));
        }
        if !self.mark_agent(agent) {
            return;
        }
        for process in descendants(agent.pid).into_iter().filter_map(host::identify) {
            self.mark_agent(process);
        }
    }

    /// Returns whether the process was not marked before, and is now.
    pub(super) fn mark_agent(&mut self, process: ProcessId) -> bool {
        let mut entry = self.processes.get(process.pid).unwrap_or_default();
        if entry.has(ProcessEntry::FLAG_AGENT) {
            return false;
        }
        entry.flags |= ProcessEntry::FLAG_AGENT;
        if !self.set(process, entry) {
            return false;
        }
        // The kernel may have written in between what it had read before: then the mark is lost.
        if let Some(mut current) = self.processes.get(process.pid)
            && !current.has(ProcessEntry::FLAG_AGENT)
        {
            current.flags |= ProcessEntry::FLAG_AGENT;
            return self.set(process, current);
        }
        true
    }

    /// Holds a process, and what it started before this, to the list of its session. Whoever is in one is an agent.
    fn enter_session(&mut self, process: ProcessId, list: u32) {
        if !self.hold_to_session(process, list) {
            return;
        }
        // What was started while this is done is found by another look.
        for _ in 0..ENTRY_PASSES {
            let outside: Vec<ProcessId> = descendants(process.pid)
                .into_iter()
                .filter(|pid| self.processes.get(*pid).unwrap_or_default().session != list)
                .filter_map(host::identify)
                .collect();
            if outside.is_empty() {
                return;
            }
            for process in outside {
                self.hold_to_session(process, list);
            }
        }
    }

    /// Returns whether it is held to the list now.
    fn hold_to_session(&mut self, process: ProcessId, list: u32) -> bool {
        // The kernel may write in between what it had read before: then it has to be said again.
        for _ in 0..ENTRY_PASSES {
            let mut entry = self.processes.get(process.pid).unwrap_or_default();
            if entry.session == list && entry.has(ProcessEntry::FLAG_AGENT) {
                return true;
            }
            entry.flags |= ProcessEntry::FLAG_AGENT;
            entry.session = list;
            if !self.set(process, entry) {
                return false;
            }
        }
        true
    }

    pub(super) fn tell_repeats(&mut self, now: Instant) {
        for event in self.coalescer.over(now) {
            self.recorder.push(event);
        }
    }

    /// A session is over, as its run says.
    pub(super) fn session_over(&mut self, session: SessionId) {
        let over = Observation::SessionOver(session);
        let judgement = self.monitor.observe(clock::now(), over);
        self.carry_out(judgement, None);
    }

    /// Finds the clients of servers that have ended since the last look.
    pub(super) fn look_for_ended_clients(&mut self) {
        for client in self.monitor.clients() {
            if !host::is_alive(client) {
                let judgement = self.monitor.observe(clock::now(), Observation::Gone(client));
                self.carry_out(judgement, None);
            }
        }
    }

    /// Asks every process of a server to end.
    ///
    /// # Errors
    /// Returns the reason why one of them could not be asked.
    fn terminate(&mut self, number: InstanceId) -> Result<(), String> {
        let server = self.monitor.running().find(|server| server.instance == number);
        let members = server.map(|server| server.members).unwrap_or_default();
        let asked = members
            .into_iter()
            .map(|process| self.signal(process, Signal::SIGTERM));
        asked.fold(Ok(()), Result::and)
    }

    /// Kills every process of a server. The mark lets the kernel kill what forks or executes meanwhile.
    ///
    /// # Errors
    /// Returns the reason why one of them still runs.
    pub(super) fn kill(&mut self, instance: InstanceId) -> Result<(), String> {
        self.doomed.insert(instance);
        match self.kill_doomed().remove(&instance) {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }

    /// Signals a process; one that was gone before needs no signal.
    ///
    /// # Errors
    /// Returns the reason why it could not be signalled, which degrades the daemon.
    pub(super) fn signal(&mut self, process: ProcessId, signal: Signal) -> Result<(), String> {
        let Err(error) = host::signal(process, signal) else {
            return Ok(());
        };
        if error.raw_os_error() == Some(nix::libc::ESRCH) {
            tracing::debug!(%error, pid = process.pid, %signal, "a process was gone before its signal");
            return Ok(());
        }
        let pid = process.pid;
        let remedy = match error.raw_os_error() {
            // A missing capability is another error.
            Some(nix::libc::EACCES) => "its profile of AppArmor or SELinux is to let the daemon signal it",
            _ => "the daemon needs CAP_KILL",
        };
        let cause = format!("process {pid} cannot be sent {signal}: {error}; {remedy}");
        self.troubles.note(Instant::now(), "server kills", &cause);
        Err(cause)
    }

    /// Marks and kills what is left of servers that are being stopped; forgets those that are not followed any
    /// more. Until then a process may come that one of them forked and nobody has heard of. Gives back why any of them
    /// runs on.
    pub(super) fn kill_doomed(&mut self) -> BTreeMap<InstanceId, String> {
        let mut failures = BTreeMap::new();
        let mut left = BTreeSet::new();
        for _ in 0..KILL_PASSES {
            let doomed: Vec<(u32, InstanceId)> = self
                .processes
                .iter()
                .filter_map(|(pid, entry)| Some((pid, instance(entry)?)))
                .filter(|(_, number)| self.doomed.contains(number))
                .collect();
            left = doomed.iter().map(|(_, number)| *number).collect();
            for (pid, number) in doomed {
                let Some(process) = host::identify(pid) else {
                    continue;
                };
                // Looked up again: the number may belong to another process by now.
                let current = self.processes.get(pid);
                let Some(mut entry) = current.filter(|entry| instance(*entry) == Some(number)) else {
                    continue;
                };
                entry.flags |= ProcessEntry::FLAG_DOOMED;
                if self.set(process, entry)
                    && let Err(cause) = self.signal(process, Signal::SIGKILL)
                {
                    failures.insert(number, cause);
                }
            }
            if left.is_empty() {
                break;
            }
        }
        let monitor = &self.monitor;
        self.doomed
            .retain(|number| left.contains(number) || monitor.follows(*number));
        failures
    }
}

const fn file_key(id: &FileId) -> FileKey {
    FileKey {
        device: id.device,
        inode: id.inode,
        size: id.size,
        ctime: id.ctime,
        reserved: 0,
    }
}
