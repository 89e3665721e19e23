//! Effects of judgements on the host: the process table, signals, pins, refused files.

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
use crate::app::{hashing::HashJob, host};

/// Passes over the process table for one kill: each pass finds the processes that were forked during the one before.
const KILL_PASSES: usize = 3;
/// Passes over the processes of a session that is entered, for the same reason.
const ENTRY_PASSES: usize = 3;

impl Core {
    pub(super) fn carry_out(&mut self, judgement: Judgement, entry: Option<ProcessEntry>) {
        self.carry_out_about(None, judgement, entry);
    }

    /// Carries out a judgement about the server `about`.
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
        // Killed processes cannot be described any more, so events are described first.
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
        // Events are recorded last, because they say whether the effects succeeded.
        for mut event in events {
            if let Some(cause) = &failure {
                runs_on(&mut event, cause);
            }
            self.tell_in_order(event, about);
        }
    }

    /// Carries out one effect.
    ///
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
            self.reviews.ask(); // the server runs, and other lists apply to it now
        }
        // Processes that it started before the entry was written have no entry; later ones inherit it.
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
                // The process has its entry already.
                drop(self.monitor.observe(clock::now(), Observation::Fork(fork)));
            }
        }
        if doomed {
            self.kill_doomed(); // it was forked before the others were killed, and reported after that
        }
    }

    /// Returns the lists to which the kernel still holds a process for a server that is not followed any more, because
    /// records were lost: processes that it starts must not escape from these lists.
    fn lists_of_forgotten(&self, process: ProcessId, joins: InstanceId) -> [u32; 2] {
        let known = self.processes.get(process.pid).unwrap_or_default();
        match instance(known) {
            Some(before) if before != joins && !self.monitor.follows(before) => known.egress,
            Some(_) | None => [0; 2],
        }
    }

    /// Writes an entry. Removes it again if the process has ended meanwhile, because its number may be used again.
    pub(super) fn set(&mut self, process: ProcessId, entry: ProcessEntry) -> bool {
        if !host::is_alive(process) {
            return false; // checked first, so that the entry of another process is not overwritten
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

    /// Removes the entry of a process that ended. If its number was given to another process meanwhile, that process
    /// gets the entry of its parent.
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

    /// Stops restricting a process that is no server, and the processes that it forked before this was known.
    fn settle(&mut self, process: ProcessId, entry: Option<ProcessEntry>) {
        let Some(current) = self.processes.get(process.pid) else {
            return;
        };
        if entry.is_some_and(|seen| seen.exec != current.exec) {
            return; // it has executed another program, which is judged next
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

    pub(super) fn let_go(&mut self, process: ProcessId, mut entry: ProcessEntry) {
        entry.flags &= !ProcessEntry::FLAG_PENDING;
        if entry.flags == 0 && entry.instance == 0 && entry.session == 0 {
            self.processes.remove(process.pid);
        } else {
            self.set(process, entry);
        }
    }

    /// Lets the refused files of a server run again.
    pub(super) fn accept_files(&mut self, server: &ServerId) {
        for file in self.refusals.remove(server).unwrap_or_default() {
            self.refused.accept(&file);
        }
    }

    /// Marks the process that started a server, and all its descendants, as an agent's. Processes inherit the mark, so
    /// the descendants are searched once and not at every launch.
    fn mark_starter(&mut self, parent: ProcessId, instance: InstanceId) {
        let ancestors = host::ancestors(parent);
        let Some(agent) = starter(&ancestors) else {
            return;
        };
        let client = ancestors.into_iter().find(|ancestor| ancestor.process == agent);
        if let Some(Ancestor { process, comm, .. }) = client {
            let started = Observation::StartedBy(instance, ServerClient { process, comm });
            // The observation has no effects yet.
            drop(self.monitor.observe(clock::now(), started));
        }
        if !self.mark_agent(agent) {
            return;
        }
        for process in descendants(agent.pid).into_iter().filter_map(host::identify) {
            self.mark_agent(process);
        }
    }

    /// Marks a process as an agent's. Returns true unless it was marked before, or cannot be marked.
    pub(super) fn mark_agent(&mut self, process: ProcessId) -> bool {
        let mut entry = self.processes.get(process.pid).unwrap_or_default();
        if entry.has(ProcessEntry::FLAG_AGENT) {
            return false;
        }
        entry.flags |= ProcessEntry::FLAG_AGENT;
        if !self.set(process, entry) {
            return false;
        }
        // The kernel may have written back an entry that it had read before: the mark is lost then.
        if let Some(mut current) = self.processes.get(process.pid)
            && !current.has(ProcessEntry::FLAG_AGENT)
        {
            current.flags |= ProcessEntry::FLAG_AGENT;
            return self.set(process, current);
        }
        true
    }

    /// Holds a process and its descendants to the list of its session. Every process of a session is an agent's.
    fn enter_session(&mut self, process: ProcessId, list: u32) {
        if !self.hold_to_session(process, list) {
            return;
        }
        // Processes that are started meanwhile are found by the next pass.
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

    /// Holds a process to the list of its session. Returns whether the list applies now.
    fn hold_to_session(&mut self, process: ProcessId, list: u32) -> bool {
        // The kernel may write back an entry that it had read before: it has to be set again then.
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

    /// Notes the end of a session that its `mcpmon run` reports.
    pub(super) fn session_over(&mut self, session: SessionId) {
        let over = Observation::SessionOver(session);
        let judgement = self.monitor.observe(clock::now(), over);
        self.carry_out(judgement, None);
    }

    /// Reports the clients of servers that have ended since the last check.
    pub(super) fn look_for_ended_clients(&mut self) {
        for client in self.monitor.clients() {
            if !host::is_alive(client) {
                let judgement = self.monitor.observe(clock::now(), Observation::Gone(client));
                self.carry_out(judgement, None);
            }
        }
    }

    /// Asks every process of a server to end, by SIGTERM.
    ///
    /// # Errors
    /// Returns the reason why one of them could not be signalled.
    fn terminate(&mut self, number: InstanceId) -> Result<(), String> {
        let server = self.monitor.running().find(|server| server.instance == number);
        let members = server.map(|server| server.members).unwrap_or_default();
        let asked = members
            .into_iter()
            .map(|process| self.signal(process, Signal::SIGTERM));
        asked.fold(Ok(()), Result::and)
    }

    /// Kills every process of a server. It is also marked, so that the kernel programs kill processes that fork or
    /// execute meanwhile.
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

    /// Signals a process. That the process has ended is not an error.
    ///
    /// # Errors
    /// Returns the reason why it could not be signalled; this degrades the daemon.
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
            // A missing capability gives another error.
            Some(nix::libc::EACCES) => "its profile of AppArmor or SELinux is to let the daemon signal it",
            _ => "the daemon needs CAP_KILL",
        };
        let cause = format!("process {pid} cannot be sent {signal}: {error}; {remedy}");
        self.troubles.note(Instant::now(), "server kills", &cause);
        Err(cause)
    }

    /// Marks and kills the remaining processes of servers that are being stopped. A server that is followed stays
    /// marked, because a process may appear that was forked before and not reported. Returns the reasons why some
    /// processes still run.
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
                // Read again: the number may belong to another process now.
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
