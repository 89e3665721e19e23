//! Lines of a connected wrapper, read within the limits of its user: a rate, and a number of long lines in memory.

use std::time::{Duration, Instant};

use mcpmon_http::shares::{QuotaOwner, QuotaPermit};
use mcpmon_session::protocol::MAX_SAID;
use mcpmon_store::SessionMember;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::UnixStream,
    time::sleep,
};

use super::Wrappers;
use crate::app::owners;

/// Longest line, bytes, that needs no permit.
const SHORT: u64 = 64 << 10;
/// The interval at which a permit for a long line is tried again, and the longest wait for one.
const RETRY: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the lines of one connection.
pub(super) struct Lines<'a> {
    wrappers: &'a Wrappers,
    owner: u32,
    line: Vec<u8>,
    /// Given back with the next line, when the memory of this one is free.
    permit: Option<QuotaPermit>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(wrappers: &'a Wrappers, member: &SessionMember) -> Self {
        Self {
            wrappers,
            owner: owners::owner(member.identity.uid),
            line: Vec::new(),
            permit: None,
        }
    }

    /// Reads the next line. Returns `None` if there is none.
    pub(super) async fn next(&mut self, stream: &mut BufReader<UnixStream>) -> Option<&[u8]> {
        if self.permit.is_some() {
            self.line = Vec::new();
            self.permit = None;
        }
        self.line.clear();
        self.read(stream, SHORT).await?;
        if self.line.len() as u64 == SHORT && !self.is_whole() {
            self.permit = Some(self.permit().await?);
            self.read(stream, MAX_SAID as u64 - SHORT).await?;
        }
        if !self.is_whole() {
            return None;
        }
        while let Err(wait) = self.wrappers.0.rates.take(self.owner, Instant::now()) {
            sleep(wait).await;
        }
        Some(&self.line)
    }

    /// Returns the line that was read, to be handled by another thread.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    fn is_whole(&self) -> bool {
        self.line.last() == Some(&b'\n')
    }

    async fn read(&mut self, stream: &mut BufReader<UnixStream>, most: u64) -> Option<()> {
        let read = stream.take(most).read_until(b'\n', &mut self.line).await;
        read.inspect_err(|error| tracing::debug!(%error, "a wrapper broke off"))
            .ok()
            .map(drop)
    }

    /// Waits for a permit for a long line.
    async fn permit(&self) -> Option<QuotaPermit> {
        let owner = QuotaOwner::User(self.owner);
        let since = Instant::now();
        loop {
            match self.wrappers.0.long_lines.take(owner) {
                Ok(permit) => return Some(permit),
                Err(_scarce) if since.elapsed() < TIMEOUT => sleep(RETRY).await,
                Err(_scarce) => {
                    tracing::warn!(%owner, "a wrapper is let go: its user has too many long lines in memory");
                    return None;
                }
            }
        }
    }
}
