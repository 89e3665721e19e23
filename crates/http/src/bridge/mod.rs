//! Connects a client that speaks stdio to a remote server: its messages, one per line, are sent over HTTP, and the
//! answers are written back.
//!
//! Nothing is judged here: the program that runs the bridge puts a filter between the bridge and the client.

mod ask;
mod hear;
mod session;
mod waiting;

#[cfg(test)]
mod tests;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mcpmon_model::{Digest, RequestId};
use mcpmon_protocol::decode::lines::{LineOutcome, Lines};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, watch},
    task::AbortHandle,
    time::timeout,
};

use self::{session::BridgeSession, waiting::PendingBridgeRequests};
use super::client::{
    AnswerFault, ClientMessage, ClientMessageKind, ServerEndpoint, ServerTransport, ToolHeaders, Wire, error,
    of_session, with_error,
};

/// Bytes read at a time.
const BUFFER: usize = 64 << 10;
/// Lines that wait to be written.
const LINES: usize = 8;
/// The longest time that a message without an answer delays the next one, so that messages arrive in order.
const ORDER: Duration = Duration::from_secs(10);
/// The same time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// The time answers are awaited after the client's last message.
const LINGER: Duration = Duration::from_secs(30);
/// The longest time for the end of a session, and for writing the last lines.
const FAREWELL: Duration = Duration::from_millis(700);

/// Code of an error that is the bridge's own.
const OWN: i64 = -32_000;

/// The reason why a bridge ends before its client does.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The pipes to the client failed.
    #[error("the pipe to the client broke")]
    Client(#[source] io::Error),
    /// The server's stream of answers ended (transport of 2024-11-05).
    #[error("{url}: the stream of the server's answers ended: {cause}")]
    Ended {
        /// The server.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The connection to the server cannot be set up.
    #[error(transparent)]
    Start(AnswerFault),
}

/// Called with the fingerprint of a certificate that is not the pinned one.
pub type Refused = dyn Fn(&Digest) + Send + Sync;

/// Carries messages between a client and a server until one of them ends, or `end` does. `refused` is called with each
/// certificate that is not the pinned one; no message is sent to such a server.
///
/// # Errors
/// Returns an error if it has to end before the client does.
pub async fn bridge(
    asking: ServerEndpoint,
    way: ServerTransport,
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    refused: Box<Refused>,
    end: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    let (out, lines) = mpsc::channel(LINES);
    let (gone, mut is_gone) = watch::channel(None);
    let wire = Wire::new(asking).map_err(BridgeError::Start)?;
    let bridge = Arc::new(Bridge {
        lines: Mutex::new(Lines::new(wire.max_message())),
        wire,
        way,
        out,
        gone,
        session: Mutex::default(),
        renewal: tokio::sync::Mutex::default(),
        waiting: PendingBridgeRequests::default(),
        tools: Mutex::default(),
        listener: Mutex::default(),
        refused,
    });
    let writing = tokio::spawn(write(output, lines));
    let reading = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match input.read(&mut buffer).await.map_err(BridgeError::Client)? {
                0 => break,
                read => bridge.read(&buffer[..read]).await,
            }
        }
        // The client may still read answers to what it sent.
        drop(timeout(LINGER, bridge.waiting.none()).await);
        Ok(())
    };
    let ended = tokio::select! {
        read = reading => read,
        () = end => Ok(()),
        () = bridge.out.closed() => Ok(()),
        cause = gone_for(&mut is_gone) => Err(BridgeError::Ended {
            url: bridge.wire.address().shown(),
            cause,
        }),
    };
    bridge.close().await;
    drop(bridge);
    // Lines that are queued are still written, unless the client has stopped reading.
    match timeout(FAREWELL, writing).await {
        Ok(Ok(Err(error))) if error.kind() != io::ErrorKind::BrokenPipe => {
            ended.and(Err(BridgeError::Client(error)))
        }
        Ok(_) | Err(_) => ended,
    }
}

async fn gone_for(gone: &mut watch::Receiver<Option<String>>) -> String {
    loop {
        if let Some(cause) = gone.borrow_and_update().clone() {
            return cause;
        }
        if gone.changed().await.is_err() {
            // The sender is gone: no cause can come.
            return std::future::pending().await;
        }
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

struct Bridge {
    wire: Wire,
    way: ServerTransport,
    lines: Mutex<Lines>,
    /// Lines to the client.
    out: mpsc::Sender<Vec<u8>>,
    /// The reason why the server's stream ended, once it has.
    gone: watch::Sender<Option<String>>,
    session: Mutex<BridgeSession>,
    /// Locked while the session is negotiated anew, so that one task at a time does it.
    renewal: tokio::sync::Mutex<()>,
    waiting: PendingBridgeRequests,
    tools: Mutex<ToolHeaders>,
    /// The task that reads the server's unasked messages.
    listener: Mutex<Option<AbortHandle>>,
    refused: Box<Refused>,
}

impl Bridge {
    /// Reads bytes that the client wrote.
    async fn read(self: &Arc<Self>, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let line = {
                let mut lines = lock(&self.lines);
                match lines.next(&mut chunk) {
                    Some(LineOutcome::Whole(line)) => {
                        let line = line.to_vec();
                        lines.shrink();
                        line
                    }
                    Some(LineOutcome::TooLong(line)) => {
                        tracing::warn!(limit = self.wire.max_message(), id = ?line.id, "a message is too long");
                        continue;
                    }
                    None => return,
                }
            };
            let content = line.trim_ascii_end();
            if !content.is_empty() {
                self.take(content).await;
            }
        }
    }

    /// Sends on one line of the client.
    async fn take(self: &Arc<Self>, line: &[u8]) {
        let Some(outline) = ClientMessage::read(line, &lock(&self.tools)) else {
            tracing::warn!("what came from the client is no message, and goes nowhere");
            return;
        };
        if let Some(version) = &outline.version {
            lock(&self.session).revision = Some(version.clone());
        }
        match &outline.what {
            ClientMessageKind::Cancelled(id) if self.waiting.abandon(id) => return,
            ClientMessageKind::Handshake(params) => lock(&self.session).handshake = Some(params.clone()),
            ClientMessageKind::Cancelled(_)
            | ClientMessageKind::Ready
            | ClientMessageKind::Request
            | ClientMessageKind::Other
            | ClientMessageKind::Batch => {}
        }
        let holds_up = match (&outline.what, outline.requests.is_empty()) {
            (ClientMessageKind::Handshake(_), _) => Some(HANDSHAKE),
            (_, true) => Some(ORDER),
            (_, false) => None,
        };
        let is_ready = outline.what == ClientMessageKind::Ready;
        let ids = outline.requests.clone();
        if !self.waiting.has_room(ids.len()) {
            for id in &ids {
                self.fail(id, &error(OWN, "too many requests wait for their answers"))
                    .await;
            }
            return;
        }
        let (bridge, line) = (Arc::clone(self), line.to_vec());
        let (stateless, endless) = (
            outline.version.is_some(),
            outline.method.as_deref() == Some("subscriptions/listen"),
        );
        let task = self.waiting.start(&ids, stateless, endless, || {
            tokio::spawn(async move { bridge.carry(line, outline).await })
        });
        if let Some(holds_up) = holds_up {
            drop(timeout(holds_up, task).await);
        }
        if is_ready {
            self.listen();
        }
    }

    /// Answers a request of the client with an error object.
    async fn fail(&self, id: &RequestId, error: &str) {
        self.say(with_error(id, error).into_bytes()).await;
    }

    /// Returns the error object for a request that failed. The wrapper inspects it as a message of the server, so it
    /// does not name mcpmon.
    fn in_own_words(&self, fault: &AnswerFault) -> String {
        error(OWN, &format!("{}: {}", self.wire.address(), fault.in_own_words()))
    }

    /// Writes a line to the client. If the client has stopped reading, the line is lost, and the bridge ends soon.
    async fn say(&self, line: Vec<u8>) {
        drop(self.out.send(line).await);
    }

    /// Ends the session, and everything in progress.
    async fn close(&self) {
        if let Some(listener) = lock(&self.listener).take() {
            listener.abort();
        }
        self.waiting.abandon_all();
        let session = lock(&self.session).clone();
        if session.id.is_some() {
            let headers = of_session(session.version.as_ref(), session.id.as_ref());
            drop(timeout(FAREWELL, self.wire.end(headers)).await);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
