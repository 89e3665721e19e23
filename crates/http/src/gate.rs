//! Limits of connections. Of the connections of a listener, a user may have no more than remain for others; a refused
//! connection gets an answer that gives the reason.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mcpmon_protocol::filter::mcp_http::error_body;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Semaphore,
    time::timeout,
};

use super::{
    mcp::{self, Crowded},
    shares::{Quota, QuotaOwner, QuotaPermit, QuotaRefusals, Scarce},
};

/// Most refused connections that are answered at a time; others are closed without an answer.
const MAX_REFUSALS: usize = 64;
/// The longest time to send such an answer.
const HEARING: Duration = Duration::from_secs(1);
/// Most bytes that are read from a refused connection.
const MAX_UNREAD: u64 = 64 << 10;

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionGate {
    slots: Quota,
    told: Arc<Semaphore>,
    refusals: QuotaRefusals,
    mcp: Option<Weak<mcp::McpProxy>>,
}

impl ConnectionGate {
    /// A limit of `most` connections. `mcp` records that connections are refused.
    pub(super) fn new(most: usize, mcp: Option<Weak<mcp::McpProxy>>) -> Self {
        Self {
            slots: Quota::new(most),
            told: Arc::new(Semaphore::new(MAX_REFUSALS)),
            refusals: QuotaRefusals::default(),
            mcp,
        }
    }

    /// Returns a slot for a connection of `owner`. Without a free slot, the connection is answered with the reason and
    /// closed.
    pub(super) fn admit<S>(&mut self, stream: S, owner: QuotaOwner) -> Option<(S, QuotaPermit)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let scarce = match self.slots.take(owner) {
            Ok(slot) => return Some((stream, slot)),
            Err(scarce) => scarce,
        };
        let cause = cause(scarce);
        tracing::debug!(%owner, "a connection is refused: {cause}");
        if let Some(times) = self.refusals.count(Instant::now())
            && let Some(mcp) = self.mcp.as_ref().and_then(Weak::upgrade)
        {
            mcp.crowded(Crowded {
                server: None,
                cause: cause.clone(),
                times,
            });
        }
        if let Ok(told) = Arc::clone(&self.told).try_acquire_owned() {
            tokio::spawn(async move {
                drop(timeout(HEARING, tell(stream, &cause)).await);
                drop(told);
            });
        }
        None
    }
}

fn cause(scarce: Scarce) -> String {
    match scarce {
        Scarce::All(most) => format!("all {most} connections that mcpmon takes are open"),
        Scarce::Own(owner, own) => {
            format!("{own} connections of {owner} are open already, and mcpmon leaves as many to others")
        }
    }
}

/// Sends the reason, without reading the request first.
async fn tell<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, cause: &str) -> std::io::Result<()> {
    let body = error_body(503, cause);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nretry-after: 5\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // If unread bytes remained at the close, the kernel would reset the connection, and the answer could be lost.
    tokio::io::copy(&mut stream.take(MAX_UNREAD), &mut tokio::io::sink()).await?;
    Ok(())
}
