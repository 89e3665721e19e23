//! Connected sessions of `mcpmon run`: their tokens, and their processes in the kernel's tables.

mod group;
pub(crate) mod protocol;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mcpmon_detect::session::session;
use mcpmon_engine::ProxiedSession;
use mcpmon_http::shares::{Quota, QuotaOwner, QuotaPermit};
use mcpmon_model::{ProcessId, SessionId};
use mcpmon_store::StoreLocation;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::{oneshot, watch},
    time::timeout,
};

pub(crate) use self::group::Group;
use self::protocol::{ProxyOffer, Reach, RunHear, RunHello};
use super::{
    engine::{EngineMessage, TIMEOUT},
    host,
    inbox::Sender,
    owners,
    proxy::Tokens,
    wrappers::{ServiceRefusal, Wrappers},
};

/// Most sessions at a time, of the host and of one user.
const MAX_SESSIONS: usize = 256;
const MAX_OF_USER: usize = 64;
/// The longest wait for a proxy that is about to start.
const STARTING: Duration = Duration::from_secs(3);

/// The daemon's proxy, or the reason why there is none; `None` until the first attempt to start it.
pub(crate) type Offered = Option<Result<ProxyOffer, String>>;

/// The daemon's state of connected sessions. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Runs(Arc<RunsState>);

#[derive(Debug)]
struct RunsState {
    wrappers: Wrappers,
    tokens: Tokens,
    engine: Sender<EngineMessage>,
    offered: watch::Receiver<Offered>,
    store: StoreLocation,
    /// The root of the control group hierarchy.
    cgroups: PathBuf,
    connected: Mutex<BTreeMap<u64, ConnectedRun>>,
    places: Quota,
}

#[derive(Debug)]
struct ConnectedRun {
    status: RunStatus,
    token: Option<String>,
}

/// A session, for `mcpmon status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// The session.
    pub session: String,
    /// The process of `mcpmon run`.
    pub pid: u32,
    /// The user of that process.
    pub uid: u32,
    /// True if its proxy is the daemon's.
    pub behind_daemon: bool,
    /// True if its processes have a control group of their own.
    pub own_group: bool,
}

/// The reason why a session is refused.
#[derive(Debug, thiserror::Error)]
enum RunRefusal {
    #[error(transparent)]
    Unverified(#[from] ServiceRefusal),
    #[error("which session this is cannot be told: is /proc mounted?")]
    NoSession,
    #[error("the process that is named as the agent is no child of this one")]
    NoChild,
    #[error("the token belongs to another session")]
    Taken,
    #[error("too many sessions are connected")]
    TooMany,
    #[error("no token can be made")]
    Token(#[source] io::Error),
    #[error("the engine does not answer: see `mcpmon status`")]
    Engine,
}

impl Runs {
    /// Makes the state without any session.
    pub(crate) fn new(
        wrappers: Wrappers,
        tokens: Tokens,
        engine: Sender<EngineMessage>,
        offered: watch::Receiver<Offered>,
        store: StoreLocation,
        cgroups: PathBuf,
    ) -> Self {
        Self(Arc::new(RunsState {
            wrappers,
            tokens,
            engine,
            offered,
            store,
            cgroups,
            connected: Mutex::default(),
            places: Quota::of_each(MAX_SESSIONS, MAX_OF_USER),
        }))
    }

    /// Serves a `mcpmon run` that introduced itself, until it leaves.
    pub(crate) async fn serve(self, mut stream: UnixStream, hello: RunHello) {
        // The quota counts connections that are not verified yet, too, until they close.
        let place = self.place(&stream);
        let admitted = match place {
            Some(_) => self.admit(&mut stream, hello).await,
            None => Err(RunRefusal::TooMany),
        };
        match admitted {
            Ok((number, heard)) => {
                if answer(&mut stream, &heard).await.is_ok() && number.is_some() {
                    silence(&mut stream).await;
                }
                if let Some(number) = number {
                    if let Some(session) = self.leave(number) {
                        // If the engine has ended, it follows no servers whose sessions could end.
                        let _sent = self.0.engine.send(EngineMessage::SessionOver(session)).await;
                    }
                    // `mcpmon run` waits for the end of the connection, and reads then what was recorded.
                    self.0.wrappers.settle().await;
                }
            }
            Err(refusal) => {
                tracing::warn!(%refusal, "a session is not taken in");
                if let Err(error) = answer(&mut stream, &RunHear::Error(refusal.to_string())).await {
                    tracing::debug!(%error, "it left before it was told");
                }
            }
        }
    }

    /// Takes a place for the user at the other end of the connection.
    fn place(&self, stream: &UnixStream) -> Option<QuotaPermit> {
        let peer = stream.peer_cred().ok()?;
        self.0
            .places
            .take(QuotaOwner::User(owners::owner(peer.uid())))
            .ok()
    }

    /// Returns the connected sessions.
    pub(crate) fn status(&self) -> Vec<RunStatus> {
        self.lock().values().map(|run| run.status.clone()).collect()
    }

    async fn admit(
        &self,
        stream: &mut UnixStream,
        hello: RunHello,
    ) -> Result<(Option<u64>, RunHear), RunRefusal> {
        let (run, uid) = self.0.wrappers.verified(stream).await?;
        let ancestors = host::ancestors(run);
        let session =
            session(&ancestors, hello.name.as_deref(), &host::boot()).ok_or(RunRefusal::NoSession)?;
        let group = hello
            .group
            .as_deref()
            .and_then(|name| Group::find(&self.0.cgroups, run.pid, uid, name));
        let status = RunStatus {
            session: session.id.as_str().to_owned(),
            pid: run.pid,
            uid,
            behind_daemon: hello.agent.is_none(),
            own_group: group.is_some(),
        };
        let (root, token, heard) = match hello.agent.map(ProcessId::from) {
            Some(agent) if is_child(agent, run) => (agent, None, RunHear::Known(session.id.clone())),
            Some(_) => return Err(RunRefusal::NoChild),
            None => match self.offer().await {
                Ok(offer) => {
                    if let Some(misfit) = offer.misfit(&hello.providers) {
                        return Ok((None, RunHear::NoProxy(misfit)));
                    }
                    let token = self.token(hello.token, &session.id, uid)?;
                    let reach = Reach {
                        session: session.id.clone(),
                        token: token.clone(),
                        offer,
                        store: self.0.store.path(),
                    };
                    (run, Some(token), RunHear::Session(Box::new(reach)))
                }
                Err(cause) => return Ok((None, RunHear::NoProxy(cause))),
            },
        };
        let number = self.add(ConnectedRun { status, token });
        let proxied = ProxiedSession {
            session: session.id,
            root,
            cgroup: group.as_ref().map(|group| group.id),
        };
        // The session's processes are held to its list before the answer says that it is behind the proxy.
        match self.enter(proxied, group).await {
            Ok(()) => Ok((Some(number), heard)),
            Err(refusal) => {
                // A session that was not let in has no servers.
                let _session = self.leave(number);
                Err(refusal)
            }
        }
    }

    /// Returns the proxy, after waiting until it is known whether it runs.
    async fn offer(&self) -> Result<ProxyOffer, String> {
        let mut offered = self.0.offered.clone();
        let known = timeout(STARTING, offered.wait_for(Option::is_some)).await;
        let starting = || Err("it does not run yet".to_owned());
        match known {
            Ok(Ok(offered)) => offered.clone().unwrap_or_else(starting),
            Ok(Err(_)) | Err(_) => starting(),
        }
    }

    /// Makes the token valid that the session had before, or issues a new one.
    fn token(&self, had: Option<String>, session: &SessionId, uid: u32) -> Result<String, RunRefusal> {
        let tokens = &self.0.tokens;
        match had {
            Some(token) if !Tokens::is_one(&token) => Err(RunRefusal::Taken),
            Some(token) => match tokens.session(&token) {
                Some(other) if other != *session => Err(RunRefusal::Taken),
                Some(_) | None => {
                    tokens.admit(&token, session.clone(), uid);
                    Ok(token)
                }
            },
            None => tokens.issue(session.clone(), uid).map_err(RunRefusal::Token),
        }
    }

    async fn enter(&self, proxied: ProxiedSession, group: Option<Group>) -> Result<(), RunRefusal> {
        let (reply, entered) = oneshot::channel();
        let message = EngineMessage::EnterSession {
            proxied,
            group,
            reply,
        };
        let asked = async {
            self.0.engine.send(message).await.ok()?;
            entered.await.ok()
        };
        let entered = timeout(TIMEOUT, asked).await.ok().flatten();
        entered.ok_or(RunRefusal::Engine)
    }

    fn add(&self, run: ConnectedRun) -> u64 {
        let mut connected = self.lock();
        let number = connected.last_key_value().map_or(1, |(last, _)| last + 1);
        connected.insert(number, run);
        number
    }

    /// Removes a connection. Returns its session unless another connection belongs to the same one. The session's
    /// processes stay restricted by its list, so that a process that outlives the session does not escape it.
    fn leave(&self, number: u64) -> Option<SessionId> {
        let mut connected = self.lock();
        let left = connected.remove(&number)?;
        if let Some(token) = left.token {
            let is_held = connected.values().any(|run| run.token.as_ref() == Some(&token));
            if !is_held {
                self.0.tokens.revoke(&token);
            }
        }
        let session = left.status.session;
        let goes_on = connected.values().any(|run| run.status.session == session);
        (!goes_on).then(|| SessionId::new(session))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, ConnectedRun>> {
        // No operation leaves it half changed.
        self.0.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_child(child: ProcessId, parent: ProcessId) -> bool {
    host::is_alive(child) && host::stat(child.pid).is_some_and(|stat| stat.parent == parent.pid)
}

async fn answer(stream: &mut UnixStream, heard: &RunHear) -> io::Result<()> {
    let mut line = serde_json::to_vec(heard)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Waits for the end of the connection, which is the end of the session; nothing more may be sent on it.
async fn silence(stream: &mut UnixStream) {
    let mut byte = [0];
    match stream.read(&mut byte).await {
        Ok(0) => {}
        Ok(_) => tracing::warn!("a session says what nobody asked for, and is let go"),
        Err(error) => tracing::debug!(%error, "a session broke off"),
    }
}
