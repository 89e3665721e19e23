//! The tap: records what servers without a wrapper read and write. The kernel copies it, and it is judged here by the
//! same filter and rules as a wrapper's. Nothing can be stopped, because the servers do not wait for the judgement.
//!
//! A separate thread reads the ring. If it is slower than the servers, the kernel counts what it drops.

mod conversation;
mod departed;
mod share;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcpmon_kernel::tap::{self, StandardStreams, TapError, TapPart, TapRing, TapSide, TappedProcesses};
use mcpmon_model::{InstanceId, ProcessRef, Timestamp};
use mcpmon_session::{HostedParts, Policies, clock};
use serde::{Deserialize, Serialize};

pub(crate) use self::conversation::TappedServer;
use self::{
    conversation::{LostPart, TapContext, TapConversation, TapLosses},
    departed::DepartedServers,
    share::HeldBytes,
};
use super::host;

/// Most messages that wait for the thread.
const INBOX: usize = 1024;
/// The longest time that a copy waits to be read.
const POLL: Duration = Duration::from_millis(10);
/// Parts that are read before messages are read again.
const BATCH: usize = 256;
/// The interval at which losses are reported and conversations are ticked.
const TICK: Duration = Duration::from_secs(1);
/// The time for which the ring is read after the tap was told to end: servers continue to write meanwhile.
const LAST: Duration = Duration::from_secs(1);

/// The state of the tap, for `mcpmon status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapStatus {
    /// The servers that are tapped.
    pub servers: Vec<TappedStatus>,
    /// Bytes that are not recorded, since the tap is on.
    pub lost: u64,
    /// Servers and processes of servers that are not tapped because their user has too many.
    #[serde(default)]
    pub left_out: u64,
}

/// A tapped server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TappedStatus {
    /// The name.
    pub server_id: String,
    /// The serving process, or the launcher.
    pub pid: u32,
    /// Bytes that it read.
    pub read: u64,
    /// Bytes that it wrote.
    pub written: u64,
    /// Bytes of both that are not recorded.
    pub lost: u64,
}

impl fmt::Display for TapStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.servers.iter().map(|server| {
            let TappedStatus {
                server_id,
                pid,
                read,
                written,
                lost,
            } = server;
            format!("{server_id} (pid {pid}, {read} bytes read, {written} written, {lost} lost)")
        });
        let servers = match self.servers.is_empty() {
            true => "no server without a wrapper runs".to_owned(),
            false => servers.collect::<Vec<_>>().join(", "),
        };
        write!(f, "on: {servers}; {} bytes lost in all; ", self.lost)?;
        if self.left_out > 0 {
            write!(
                f,
                "{} servers or processes left out, for their user has too many; ",
                self.left_out
            )?;
        }
        f.write_str("nothing of it can be stopped")
    }
}

/// The running tap. Dropping it detaches the programs.
#[derive(Debug)]
pub(crate) struct Tap {
    handle: TapHandle,
    status: Arc<Mutex<TapStatus>>,
    thread: Option<JoinHandle<()>>,
}

/// The engine's handle to choose which servers are tapped. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct TapHandle {
    processes: TappedProcesses,
    sender: SyncSender<TapMessage>,
}

#[derive(Debug)]
enum TapMessage {
    Serve(Box<TappedServer>),
    ServedBy(InstanceId, ProcessRef),
    Over(InstanceId),
    Claimed(InstanceId),
    LeftOut(Box<TappedServer>),
    Stop,
}

/// The result of a request to tap a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The server is tapped.
    Tapped,
    /// The server has no streams that can be tapped, or has ended.
    Untappable,
    /// The server is not tapped because its user has too many.
    LeftOut,
}

/// The reason why the tap cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TapStartError {
    /// The kernel programs cannot be loaded.
    #[error(transparent)]
    Kernel(#[from] TapError),
    /// The thread cannot be started.
    #[error("failed to start a thread for the tap")]
    Thread(#[source] std::io::Error),
}

impl Tap {
    /// Attaches the programs and starts the thread.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a program.
    pub(crate) fn start(hosting: HostedParts, policies: Policies) -> Result<Self, TapStartError> {
        let (ring, processes) = tap::start()?;
        let (sender, inbox) = sync_channel(INBOX);
        let status = Arc::new(Mutex::new(TapStatus::default()));
        let mut reader = TapThread {
            processes: processes.clone(),
            inbox,
            servers: Servers {
                context: TapContext { hosting, policies },
                conversations: BTreeMap::new(),
                held: HeldBytes::default(),
                departed: DepartedServers::default(),
                left_out: 0,
                is_stopping: false,
            },
            gone: TapLosses::default(),
            status: Arc::clone(&status),
        };
        let thread = thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || reader.run(ring))
            .map_err(TapStartError::Thread)?;
        Ok(Self {
            handle: TapHandle { processes, sender },
            status,
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> TapHandle {
        self.handle.clone()
    }

    pub(crate) fn status(&self) -> TapStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether its thread still runs.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // If the inbox is full, the thread is emptying it, or has ended.
        let stopped = self.handle.sender.send(TapMessage::Stop);
        if let Some(thread) = self.thread.take()
            && (thread.join().is_err() || stopped.is_err())
        {
            tracing::error!("the thread of the tap had ended by itself");
        }
    }
}

impl TapHandle {
    /// Taps a server through these processes of it, unless its user has no share left.
    ///
    /// # Errors
    /// Returns the obstacle, as a sentence.
    pub(crate) fn tap(
        &self,
        server: TappedServer,
        pids: &[u32],
        has_share: bool,
    ) -> Result<Admission, String> {
        let Some(streams) = pids.iter().copied().find_map(StandardStreams::of) else {
            return Ok(Admission::Untappable);
        };
        if !has_share {
            self.send(TapMessage::LeftOut(Box::new(server)))?;
            return Ok(Admission::LeftOut);
        }
        let (instance, owner) = (server.instance, server.identity.uid);
        // Sent first, so that the thread knows the server before the ring has parts of it.
        self.send(TapMessage::Serve(Box::new(server)))?;
        if let Err(error) = self.processes.tap(instance.0, owner, streams, pids) {
            // All entries of the server are removed, because the kernel's tables are shared by all users.
            self.processes.release(instance.0);
            self.release(instance)?;
            return Err(format!(
                "the kernel's table of tapped processes takes no more: {error}"
            ));
        }
        Ok(Admission::Tapped)
    }

    /// Reports the process that serves.
    pub(crate) fn served_by(&self, instance: InstanceId, process: ProcessRef) -> Result<(), String> {
        self.send(TapMessage::ServedBy(instance, process))
    }

    /// Reports that a wrapper has claimed a server.
    pub(crate) fn claimed(&self, instance: InstanceId) -> Result<(), String> {
        self.send(TapMessage::Claimed(instance))
    }

    /// Reports that a server has ended.
    pub(crate) fn release(&self, instance: InstanceId) -> Result<(), String> {
        self.send(TapMessage::Over(instance))
    }

    fn send(&self, message: TapMessage) -> Result<(), String> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => {
                "the tap is behind: servers start and end faster than it takes".to_owned()
            }
            TrySendError::Disconnected(_) => "the thread of the tap has ended".to_owned(),
        })
    }
}

struct TapThread {
    processes: TappedProcesses,
    inbox: Receiver<TapMessage>,
    servers: Servers,
    /// Losses of servers that have ended.
    gone: TapLosses,
    status: Arc<Mutex<TapStatus>>,
}

struct Servers {
    context: TapContext,
    conversations: BTreeMap<u32, TapConversation>,
    /// The users' shares of unfinished lines.
    held: HeldBytes,
    /// Servers that are not tapped any more.
    departed: DepartedServers,
    /// Number of servers that are not tapped because their user has too many.
    left_out: u64,
    is_stopping: bool,
}

impl TapThread {
    fn run(&mut self, mut ring: TapRing) {
        let mut next_tick = Instant::now() + TICK;
        let mut ends = None;
        loop {
            self.wait(&ring);
            let Self { inbox, servers, .. } = self;
            servers.hear(inbox);
            let offset = host::boot_to_wall();
            let is_all = ring.drain(BATCH, |part| {
                // A server is reported before its first part is in the ring, but maybe after messages were read above.
                if !servers.conversations.contains_key(&part.instance) {
                    servers.hear(inbox);
                }
                let time = i64::try_from(part.time).unwrap_or(i64::MAX);
                servers.take(Timestamp(time.saturating_add(offset)), &part);
            });
            self.forget_ended(is_all);
            if Instant::now() >= next_tick || self.servers.is_stopping {
                next_tick = Instant::now() + TICK;
                self.tick();
            }
            let now = Instant::now();
            let is_over = self.servers.is_stopping && (is_all || now >= *ends.get_or_insert(now + LAST));
            if is_over {
                let now = clock::now();
                let mut left = std::mem::take(&mut self.servers.conversations);
                left.values_mut().for_each(|conversation| conversation.leave(now));
                return;
            }
        }
    }

    /// Waits for copies; if no server is tapped, waits for a message.
    fn wait(&mut self, ring: &TapRing) {
        if !self.servers.conversations.is_empty() {
            if let Err(error) = ring.wait(POLL) {
                tracing::error!(%error, "failed to wait for what the kernel copies");
                thread::sleep(TICK);
            }
            return;
        }
        match self.inbox.recv_timeout(TICK) {
            Ok(message) => self.servers.message(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.servers.is_stopping = true,
        }
    }

    /// Ends the tapping of servers that have ended and whose last parts were read.
    fn forget_ended(&mut self, is_all: bool) {
        let now = Instant::now();
        let ended = self
            .servers
            .conversations
            .extract_if(.., |_, conversation| conversation.is_over(is_all, now));
        let now = clock::now();
        for (instance, mut conversation) in ended.collect::<Vec<_>>() {
            self.tell_lost(now, instance, &mut conversation);
            let lost = self.lost(instance);
            self.gone.bytes += conversation.all_lost(lost.bytes);
            self.gone.processes += lost.processes;
            self.processes.release(instance);
            let owner = conversation.server().identity.uid;
            self.servers.held.changed(owner, conversation.held(), 0);
            conversation.leave(now);
            let (server, is_wrapped) = conversation.into_departed();
            self.servers.departed.add(server, is_wrapped);
        }
    }

    fn tick(&mut self) {
        let now = clock::now();
        let mut conversations = std::mem::take(&mut self.servers.conversations);
        for event in self.servers.departed.tell_late(now) {
            self.servers.context.hosting.recorder().push(event);
        }
        let mut status = TapStatus {
            servers: Vec::new(),
            lost: self.gone.bytes + self.servers.departed.late(),
            left_out: self.gone.processes + self.servers.left_out,
        };
        for (instance, conversation) in &mut conversations {
            conversation.tick(now, &self.servers.context);
            self.tell_lost(now, *instance, conversation);
            let of_kernel = self.lost(*instance);
            let lost = conversation.all_lost(of_kernel.bytes);
            status.lost += lost;
            status.left_out += of_kernel.processes;
            status.servers.push(TappedStatus {
                server_id: conversation.server().identity.server.to_string(),
                pid: conversation.server().process.pid,
                read: self.processes.counted(*instance, TapSide::Input).0,
                written: self.processes.counted(*instance, TapSide::Output).0,
                lost,
            });
        }
        self.servers.conversations = conversations;
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn tell_lost(&self, now: Timestamp, instance: u32, conversation: &mut TapConversation) {
        for event in conversation.tell_lost(now, self.lost(instance)) {
            self.servers.context.hosting.recorder().push(event);
        }
    }

    /// Returns the losses of the kernel programs for one server.
    fn lost(&self, instance: u32) -> TapLosses {
        let lost = |side| self.processes.counted(instance, side).1;
        TapLosses {
            bytes: lost(TapSide::Input) + lost(TapSide::Output),
            processes: self.processes.left_out(instance),
        }
    }
}

impl Servers {
    /// Gives a part to its conversation. Parts of servers that are not tapped any more are counted.
    fn take(&mut self, now: Timestamp, part: &TapPart<'_>) {
        let Some(conversation) = self.conversations.get_mut(&part.instance) else {
            return self.departed.count(part);
        };
        let owner = conversation.server().identity.uid;
        let before = conversation.held();
        let room = self.held.room(owner, before);
        conversation.take(now, part, room, &self.context);
        self.held.changed(owner, before, conversation.held());
    }

    /// Handles all waiting messages.
    fn hear(&mut self, inbox: &Receiver<TapMessage>) {
        loop {
            match inbox.try_recv() {
                Ok(message) => self.message(message),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_stopping = true;
                    return;
                }
            }
        }
    }

    fn message(&mut self, message: TapMessage) {
        match message {
            TapMessage::Serve(server) => {
                let conversation = TapConversation::new(*server);
                self.conversations
                    .entry(conversation.server().instance.0)
                    .or_insert(conversation);
            }
            TapMessage::ServedBy(instance, process) => {
                if let Some(conversation) = self.conversations.get_mut(&instance.0) {
                    conversation.serves(process);
                }
            }
            TapMessage::Over(instance) => {
                if let Some(conversation) = self.conversations.get_mut(&instance.0) {
                    conversation.ends(Instant::now());
                }
            }
            TapMessage::Claimed(instance) => {
                if let Some(conversation) = self.conversations.get_mut(&instance.0) {
                    conversation.is_claimed(Instant::now());
                }
            }
            TapMessage::LeftOut(server) => {
                self.left_out += 1;
                let event = LostPart::Server.event(clock::now(), &server, 1);
                self.context.hosting.recorder().push(event);
            }
            TapMessage::Stop => self.is_stopping = true,
        }
    }
}
