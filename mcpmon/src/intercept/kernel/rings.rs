//! Reads both rings, that of processes first, and proves from sequence numbers what is missing.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::Duration,
};

use aya::maps::{MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::records::{Record, RecordError};

/// Both rings of a loaded sensor.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Rings {
    processes: RingBuf<MapData>,
    connections: RingBuf<MapData>,
    gaps: Gaps,
    malformed: u64,
}

/// How long a record that wakes nobody may wait.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Connections read before the ring of processes is looked at again.
const BATCH: usize = 256;
/// Batches read before the caller gets its turn.
const MAX_BATCHES: usize = 16;

impl Rings {
    pub(super) fn new(processes: RingBuf<MapData>, connections: RingBuf<MapData>) -> Self {
        Self {
            processes,
            connections,
            gaps: Gaps::default(),
            malformed: 0,
        }
    }

    /// Waits until there is something to read, here or on `other`, at most [`POLL_INTERVAL`].
    ///
    /// # Errors
    /// Where poll(2) fails for another reason than a signal.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let own = [&self.processes, &self.connections].map(|ring| ring.as_fd());
        let mut descriptors: Vec<PollFd<'_>> = own
            .into_iter()
            .chain(other)
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        let timeout = PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO);
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the records that are there to `take`: all of processes before each batch of connections. Returns
    /// after some batches, so that a flood leaves the caller time for other work.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) {
        for _ in 0..MAX_BATCHES {
            while let Some(item) = self.processes.next() {
                accept(
                    Record::parse(&item),
                    &mut self.gaps,
                    &mut self.malformed,
                    &mut take,
                );
            }
            let mut left = BATCH;
            while left > 0
                && let Some(item) = self.connections.next()
            {
                accept(
                    Record::parse(&item),
                    &mut self.gaps,
                    &mut self.malformed,
                    &mut take,
                );
                left -= 1;
            }
            if left > 0 {
                return;
            }
        }
    }

    /// Records that were written or attempted but never read, as the sequence numbers show.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.gaps.missing()
    }

    /// Records that could not be parsed.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }
}

fn accept(
    record: Result<Record, RecordError>,
    gaps: &mut Gaps,
    malformed: &mut u64,
    take: &mut impl FnMut(Record),
) {
    match record {
        Ok(record) => {
            let header = record.header();
            gaps.note(header.ring, header.cpu, header.sequence);
            take(record);
        }
        Err(error) => {
            *malformed += 1;
            tracing::warn!(%error, "dropped a malformed record from the kernel");
        }
    }
}

/// Sequence numbers seen, per ring and CPU.
#[derive(Debug, Default)]
struct Gaps {
    /// Highest number, and how many were read.
    seen: BTreeMap<(u16, u32), (u64, u64)>,
}

impl Gaps {
    fn note(&mut self, ring: u16, cpu: u32, sequence: u64) {
        let (highest, read) = self.seen.entry((ring, cpu)).or_default();
        *highest = sequence.max(*highest);
        *read += 1;
    }

    /// Numbering starts at 1 when the programs are loaded.
    fn missing(&self) -> u64 {
        self.seen
            .values()
            .map(|(highest, read)| highest.saturating_sub(*read))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_per_ring_and_cpu() {
        let mut gaps = Gaps::default();
        for (ring, cpu, sequence) in [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (0, 0, 5), (1, 0, 3)] {
            gaps.note(ring, cpu, sequence);
        }
        assert_eq!(gaps.missing(), 2 + 1);
    }
}
