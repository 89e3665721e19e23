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

/// The longest time that a record waits if it does not wake the reader.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Connections read before the ring of processes is looked at again.
const BATCH: usize = 256;
/// Batches read before the caller gets its turn.
const MAX_BATCHES: usize = 16;
/// Records of processes read before the caller gets its turn: whoever starts programs faster than they are
/// judged must not keep it from everything else.
const MAX_PROCESSES: usize = 256;

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
    /// Returns an error if poll(2) fails for another reason than a signal.
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
    /// after some of either, so that a flood leaves the caller time for other work, and then whether those of
    /// processes were all read.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) -> bool {
        let Self {
            processes,
            connections,
            gaps,
            malformed,
        } = self;
        drain(|ring| {
            let item = match ring {
                Ring::Processes => processes.next(),
                Ring::Connections => connections.next(),
            };
            let Some(item) = item else { return Read::Empty };
            accept(Record::parse(&item), gaps, malformed, &mut take);
            Read::One
        })
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

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Processes,
    Connections,
}

/// The outcome of a read: one record or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    One,
    Empty,
}

/// Returns whether the ring of processes was read to its end.
fn drain(mut read: impl FnMut(Ring) -> Read) -> bool {
    let mut of_processes = 0;
    for _ in 0..MAX_BATCHES {
        while of_processes < MAX_PROCESSES && read(Ring::Processes) == Read::One {
            of_processes += 1;
        }
        // Connections are not told before the starts that came before them.
        if of_processes == MAX_PROCESSES {
            return false;
        }
        if (0..BATCH).any(|_| read(Ring::Connections) == Read::Empty) {
            return true;
        }
    }
    true
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

    /// Reads rings with this many records; what was read, in runs, and whether that was all of processes.
    fn drained(mut processes: usize, mut connections: usize) -> (Vec<(Ring, usize)>, bool) {
        let mut runs: Vec<(Ring, usize)> = Vec::new();
        let is_complete = drain(|ring| {
            let left = match ring {
                Ring::Processes => &mut processes,
                Ring::Connections => &mut connections,
            };
            if *left == 0 {
                return Read::Empty;
            }
            *left -= 1;
            match runs.last_mut().filter(|(last, _)| *last == ring) {
                Some((_, length)) => *length += 1,
                None => runs.push((ring, 1)),
            }
            Read::One
        });
        (runs, is_complete)
    }

    #[test]
    fn processes_come_first_and_no_flood_keeps_the_caller() {
        use Ring::{Connections, Processes};
        assert_eq!(drained(0, 0), (vec![], true));
        assert_eq!(drained(3, 2), (vec![(Processes, 3), (Connections, 2)], true));
        let flood = vec![(Connections, MAX_BATCHES * BATCH)];
        assert_eq!(drained(0, usize::MAX), (flood, true));
        assert_eq!(drained(usize::MAX, 9), (vec![(Processes, MAX_PROCESSES)], false));
    }

    #[test]
    fn a_process_is_read_before_the_next_batch_of_connections() {
        let mut read = Vec::new();
        drain(|ring| {
            read.push(ring);
            // One start comes after the first batch.
            let starts = ring == Ring::Processes && read.len() == 2 + BATCH;
            let connects = ring == Ring::Connections && read.len() <= 2 + BATCH;
            if starts || connects {
                Read::One
            } else {
                Read::Empty
            }
        });
        assert_eq!(read.get(2 + BATCH - 1), Some(&Ring::Processes));
        assert_eq!(read.last(), Some(&Ring::Connections));
    }

    #[test]
    fn gaps_are_counted_per_ring_and_cpu() {
        let mut gaps = Gaps::default();
        for (ring, cpu, sequence) in [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (0, 0, 5), (1, 0, 3)] {
            gaps.note(ring, cpu, sequence);
        }
        assert_eq!(gaps.missing(), 2 + 1);
    }
}
