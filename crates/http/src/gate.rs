//! Gate for connections: a user with many connections leaves as many to others, and is told so.

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

/// Connections that are told at a time why they are not served; others just end.
const MOST_TOLD: usize = 64;
/// The longest time to send that message.
const HEARING: Duration = Duration::from_secs(1);
/// Longest answer to one of which nothing is known, bytes that are read of it.
const LONGEST_UNREAD: u64 = 64 << 10;

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionGate {
    slots: Quota,
    told: Arc<Semaphore>,
    refusals: QuotaRefusals,
    mcp: Option<Weak<mcp::Proxy>>,
}

impl ConnectionGate {
    /// For so many connections; `mcp` has who records that they are too few.
    pub(super) fn new(most: usize, mcp: Option<Weak<mcp::Proxy>>) -> Self {
        Self {
            slots: Quota::new(most),
            told: Arc::new(Semaphore::new(MOST_TOLD)),
            refusals: QuotaRefusals::default(),
            mcp,
        }
    }

    /// A slot for a connection of `owner`; without one it is answered, and over.
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

/// Says why, before anything is asked.
async fn tell<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, cause: &str) -> std::io::Result<()> {
    let body = error_body(503, cause);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nretry-after: 5\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // What is not read before the end makes the kernel take back what was said.
    tokio::io::copy(&mut stream.take(LONGEST_UNREAD), &mut tokio::io::sink()).await?;
    Ok(())
}
