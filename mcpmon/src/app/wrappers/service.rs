//! The service of one connected wrapper: it is verified, then served until it leaves.

use std::{io, sync::Arc};

use mcpmon_model::{ProcessId, SessionId};
use mcpmon_session::{
    Hello, clock,
    protocol::{Hear, Say, SharedSessionState},
    shared,
};
use mcpmon_store::{SessionMember, StoreEntry, StoreError, Urgency};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use super::{ConnectedWrapper, FLUSH, Wrappers, handshake, lines::Lines, lock, records};
use crate::app::{host, owners};

/// The reason why a wrapper is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceRefusal {
    /// The process runs another program.
    #[error(
        "this process does not run the daemon's own program; start it with the mcpmon that runs as the daemon"
    )]
    Stranger,
    /// The connection brings records of a wrapper that has not introduced itself.
    #[error("this process is not the wrapper of this server: it has to introduce itself first")]
    NotJoined,
    /// The wrapper claims to be another user's.
    #[error("a wrapper speaks for its own user")]
    OtherUser,
    /// Too many wrappers are connected.
    #[error("too many wrappers are connected")]
    TooMany,
    /// The connection failed.
    #[error("the conversation broke off")]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Serves the wrapper that introduced itself with `hello`, until it leaves.
pub(super) async fn serve(wrappers: Wrappers, mut stream: UnixStream, hello: Hello) {
    let (server, uid) = (
        hello.identity.server.clone(),
        stream.peer_cred().map(|peer| peer.uid()),
    );
    let outcome = admit(&wrappers, &mut stream, hello).await;
    match outcome {
        Ok((number, member, state)) => {
            let mut stream = BufReader::new(stream);
            if answer(&mut stream, &Hear::State(Box::new(state))).await.is_ok() {
                converse(&wrappers, &mut stream, number, &member).await;
            }
            leave(&wrappers, number, member);
        }
        Err(refusal) => {
            if let Ok(uid) = uid {
                wrappers.note_refused(clock::now(), owners::owner(uid), server, &refusal);
            }
            refuse(stream, &refusal).await;
        }
    }
}

/// Stores the records of a wrapper that introduced itself with `hello` before, until it leaves.
pub(super) async fn serve_records(wrappers: Wrappers, mut stream: UnixStream, hello: Hello) {
    let outcome = recognised(&wrappers, &mut stream, &hello).await;
    match outcome {
        Ok(member) => {
            let mut stream = BufReader::new(stream);
            if answer(&mut stream, &Hear::Done).await.is_ok() {
                records::take(&wrappers, &mut stream, &member).await;
            }
        }
        Err(refusal) => refuse(stream, &refusal).await,
    }
}

/// Answers a wrapper that introduced itself with `hello` before, why `process` must not run; stops if the wrapper
/// leaves first.
pub(super) async fn serve_fate(wrappers: Wrappers, mut stream: UnixStream, hello: Hello, process: ProcessId) {
    let member = match recognised(&wrappers, &mut stream, &hello).await {
        Ok(member) => member,
        Err(refusal) => return refuse(stream, &refusal).await,
    };
    let mut stream = BufReader::new(stream);
    let heard = tokio::select! {
        fate = wrappers.fate(process, member.process) => match fate {
            Some(fate) => Hear::Fate(fate),
            None => Hear::Error("the engine does not run: see `mcpmon status`".to_owned()),
        },
        // Nothing more may be sent: a wrapper that gives up closes the connection.
        _ = stream.fill_buf() => return,
    };
    if let Err(error) = answer(&mut stream, &heard).await {
        tracing::debug!(%error, "a wrapper left before it was answered");
    }
}

/// Returns the member to which this connection belongs.
async fn recognised(
    wrappers: &Wrappers,
    stream: &mut UnixStream,
    hello: &Hello,
) -> Result<SessionMember, ServiceRefusal> {
    let peer = peer_of(wrappers, stream, hello).await?;
    let is_meant = |member: &SessionMember| {
        let session = hello.session.as_ref();
        member.process == peer
            && member.identity == hello.identity
            && session.is_none_or(|session| *session == member.session)
    };
    let connected = lock(&wrappers.0.connected);
    let mut members = connected.values().map(|known| &known.member);
    let meant = members.find(|member| is_meant(member));
    meant.cloned().ok_or(ServiceRefusal::NotJoined)
}

/// Returns the process at the other end, which must be of the user that it claims.
async fn peer_of(
    wrappers: &Wrappers,
    stream: &mut UnixStream,
    hello: &Hello,
) -> Result<ProcessId, ServiceRefusal> {
    if hello.identity.uid != stream.peer_cred()?.uid() {
        return Err(ServiceRefusal::OtherUser);
    }
    Ok(wrappers.verified(stream).await?.0)
}

/// Sends a wrapper the reason why it is not served.
pub(super) async fn refuse(stream: UnixStream, refusal: &ServiceRefusal) {
    tracing::warn!(%refusal, "a wrapper is refused");
    let told = answer(&mut BufReader::new(stream), &Hear::Error(refusal.to_string())).await;
    if let Err(error) = told {
        tracing::debug!(%error, "it left before it was told");
    }
}

async fn admit(
    wrappers: &Wrappers,
    stream: &mut UnixStream,
    hello: Hello,
) -> Result<(u64, SessionMember, SharedSessionState), ServiceRefusal> {
    let peer = peer_of(wrappers, stream, &hello).await?;
    let session = hello
        .session
        .unwrap_or_else(|| SessionId::new(format!("pid-{}", peer.pid)));
    let member = SessionMember {
        session,
        agent: hello.agent,
        identity: hello.identity,
        process: peer,
    };
    let child = hello
        .child
        .map(ProcessId::from)
        .filter(|child| is_child(*child, peer));
    let number = wrappers.add(ConnectedWrapper {
        member: member.clone(),
        starts_server: hello.starts_server,
        start: None,
        child,
    });
    if let Some(child) = child {
        wrappers.look_at(child).await;
    }
    let joined = in_the_background(wrappers, {
        let member = member.clone();
        move |wrappers| {
            lock(&wrappers.0.store).join(clock::now(), &member)?;
            wrappers.state(&member, None)
        }
    });
    match joined.await {
        Ok(state) => Ok((number, member, state)),
        Err(refusal) => {
            leave(wrappers, number, member);
            Err(refusal)
        }
    }
}

async fn converse(
    wrappers: &Wrappers,
    stream: &mut BufReader<UnixStream>,
    number: u64,
    member: &SessionMember,
) {
    let mut lines = Lines::new(wrappers, member);
    while let Some(line) = lines.next(stream).await {
        let heard = match serde_json::from_slice::<Say>(line) {
            Ok(say) => hear(wrappers, say, number, member).await,
            Err(error) => misunderstood(&error),
        };
        if answer(stream, &heard).await.is_err() {
            return;
        }
    }
}

pub(super) fn misunderstood(error: &serde_json::Error) -> Hear {
    Hear::Error(format!("it is not understood: {error}"))
}

async fn hear(wrappers: &Wrappers, say: Say, number: u64, member: &SessionMember) -> Hear {
    match say {
        Say::Keep { .. } => Hear::Error("what is to be kept has a connection of its own".to_owned()),
        Say::Check { call } if call.server != member.identity.server || !call.is_bounded() => {
            Hear::Error("a wrapper speaks for its own server".to_owned())
        }
        Say::Check { call } => {
            let checked = wrappers.0.sessions.check(clock::now(), member, *call);
            Hear::Checked(Box::new(checked))
        }
        Say::State { policy } => {
            let member = member.clone();
            let state = in_the_background(wrappers, move |wrappers| wrappers.state(&member, Some(policy)));
            match state.await {
                Ok(state) => Hear::State(Box::new(state)),
                Err(refusal) => Hear::Error(refusal.to_string()),
            }
        }
        Say::Serves { process } => {
            let child = ProcessId::from(process);
            if !host::is_alive(child) {
                return Hear::Done; // it has ended: the kernel's records describe it, and its end
            }
            if !is_child(child, member.process) {
                return Hear::Error("that process is no child of this wrapper".to_owned());
            }
            if let Some(connected) = lock(&wrappers.0.connected).get_mut(&number) {
                connected.child = Some(child);
            }
            wrappers.look_at(child).await;
            Hear::Done
        }
        Say::Starts {
            program,
            variables,
            names,
        } => {
            // A file system may be slow, and the requests of all other wrappers wait for this thread.
            let wrappers = wrappers.clone();
            let hold = move || wrappers.hold(number, program, variables, names);
            let held = tokio::task::spawn_blocking(hold).await;
            // The process itself can still be read, unless it ends at once.
            if let Err(cause) = held.unwrap_or_else(|error| Err(error.to_string())) {
                tracing::warn!(cause, "what a wrapper starts cannot be held");
            }
            Hear::Done
        }
        Say::Repeat { .. } => Hear::Error("nothing was asked".to_owned()),
    }
}

fn is_child(child: ProcessId, parent: ProcessId) -> bool {
    host::is_alive(child) && host::stat(child.pid).is_some_and(|stat| stat.parent == parent.pid)
}

fn leave(wrappers: &Wrappers, number: u64, member: SessionMember) {
    wrappers.remove(number);
    if wrappers
        .0
        .recorder
        .put(StoreEntry::Leave(clock::now(), member), Urgency::InOrder)
        .is_err()
    {
        tracing::warn!("a session does not hear that a server left");
    }
}

pub(super) async fn answer(stream: &mut BufReader<UnixStream>, heard: &Hear) -> io::Result<()> {
    let mut line = serde_json::to_vec(heard)?;
    line.push(b'\n');
    stream.get_mut().write_all(&line).await
}

/// Does `work` with the store on another thread than the main task's.
async fn in_the_background<T: Send + 'static>(
    wrappers: &Wrappers,
    work: impl FnOnce(&Wrappers) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ServiceRefusal> {
    let wrappers = wrappers.clone();
    match tokio::task::spawn_blocking(move || work(&wrappers)).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(io::Error::other(error).into()),
    }
}

impl Wrappers {
    /// Returns the process at the other end and its user, after verifying that it runs this same program and is the one
    /// that speaks.
    pub(crate) async fn verified(&self, stream: &mut UnixStream) -> Result<(ProcessId, u32), ServiceRefusal> {
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        let peer = pid.and_then(host::identify).ok_or(ServiceRefusal::Stranger)?;
        let shared = Arc::clone(&self.0);
        let runs_ours = tokio::task::spawn_blocking(move || shared.own.is_run_by(peer)).await;
        if !runs_ours.unwrap_or(false) {
            return Err(ServiceRefusal::Stranger);
        }
        handshake::challenge(stream, peer).await?;
        Ok((peer, credentials.uid()))
    }

    /// Waits until all entries so far are in the store.
    pub(crate) async fn settle(&self) {
        let recorder = self.0.recorder.clone();
        let settled = tokio::task::spawn_blocking(move || recorder.flush(FLUSH)).await;
        if !matches!(settled, Ok(Ok(()))) {
            tracing::warn!("the latest events are not in the store yet");
        }
    }

    fn add(&self, wrapper: ConnectedWrapper) -> u64 {
        let mut connected = lock(&self.0.connected);
        let number = connected.last_key_value().map_or(1, |(last, _)| last + 1);
        connected.insert(number, wrapper);
        number
    }

    pub(super) fn state(
        &self,
        member: &SessionMember,
        held: Option<mcpmon_model::Digest>,
    ) -> Result<SharedSessionState, StoreError> {
        // Records that other wrappers sent a moment ago are included. If the writer is slow, the state is read without
        // them.
        if let Err(unsettled) = self.0.recorder.flush(FLUSH) {
            tracing::warn!(%unsettled, "a wrapper may not hear the latest");
        }
        let (generation, changes) = {
            let store = lock(&self.0.store);
            (store.generation(), store.changes())
        };
        let policy = {
            let policy = lock(&self.0.policy);
            (held != Some(policy.0)).then(|| policy.1.parts().to_vec())
        };
        let members: Vec<SessionMember> = lock(&self.0.connected)
            .values()
            .map(|wrapper| wrapper.member.clone())
            .chain(lock(&self.0.hosted).iter().cloned())
            .filter(|other| {
                other.session.is_of_same_root(&member.session) && other.identity.uid == member.identity.uid
            })
            .collect();
        let state =
            lock(&self.0.store).read(|reader| shared::read_state(reader, member, members, |_| true))?;
        Ok(SharedSessionState {
            policy,
            generation,
            changes,
            ..state
        })
    }
}
