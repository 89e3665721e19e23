//! Reading of both rings, that of processes first. Sequence numbers show which records are missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::Duration,
};

use aya::maps::{Array, MapData, RingBuf};
use mcpmon_common::{
    event::ProcessKey,
    process::FileKey,
    state::{MAX_PROCESSORS, ReadPosition, SEQUENCES},
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::records::{Record, RecordError};

/// Both rings of a loaded sensor.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Rings {
    processes: RingBuf<MapData>,
    connections: RingBuf<MapData>,
    /// The positions up to which the daemons have read.
    positions: Array<MapData, ReadPosition>,
    gaps: Gaps,
    doubles: Doubles,
    malformed: u64,
}

/// The time in which the programs of an earlier daemon and those of this one may both have been attached: an exec may
/// have been recorded twice then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    since: u64,
    until: u64,
}

impl Overlap {
    /// Nanoseconds that the kernel may take to end a detached program that is running.
    const SLACK: u64 = 1_000_000_000;

    /// The time from the attachment of the first new program until the detachment of the last old one, by the boot
    /// clock.
    pub(super) const fn new(since: u64, until: u64) -> Self {
        Self {
            since,
            until: until.saturating_add(Self::SLACK),
        }
    }
}

/// The longest time that a record waits if it does not wake the reader.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Connections that are read before the ring of processes is read again.
const BATCH: usize = 256;
/// Batches that are read before the caller gets its turn.
const MAX_BATCHES: usize = 16;
/// Records of processes that are read before the caller gets its turn, so that a flood of new processes does not keep
/// it from other work.
const MAX_PROCESSES: usize = 256;

impl Rings {
    pub(super) fn new(
        processes: RingBuf<MapData>,
        connections: RingBuf<MapData>,
        positions: Array<MapData, ReadPosition>,
        overlap: Option<Overlap>,
    ) -> Self {
        Self {
            processes,
            connections,
            gaps: Gaps::of(&positions),
            positions,
            doubles: Doubles {
                overlap,
                latest: BTreeMap::new(),
            },
            malformed: 0,
        }
    }

    /// Waits until there is something to read, in the rings or from `other`, at most for [`POLL_INTERVAL`].
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

    /// Calls `take` with the records in the rings: with all of processes before each batch of connections. Returns
    /// after a limited number of either, so that a flood leaves the caller time for other work. Returns whether all
    /// records of processes were read.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) -> bool {
        let Self {
            processes,
            connections,
            positions,
            gaps,
            doubles,
            malformed,
        } = self;
        let is_complete = drain(|ring| {
            let item = match ring {
                Ring::Processes => processes.next(),
                Ring::Connections => connections.next(),
            };
            let Some(item) = item else { return RingRead::Empty };
            accept(Record::parse(&item), gaps, doubles, malformed, &mut take);
            RingRead::One
        });
        gaps.write(positions);
        is_complete
    }

    /// Returns the number of records that were written or attempted but never read, according to the sequence numbers.
    pub fn missing(&self) -> u64 {
        self.gaps.missing()
    }

    /// Returns the number of records that could not be parsed.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }
}

/// One of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Processes,
    Connections,
}

/// The outcome of a read: one record or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingRead {
    One,
    Empty,
}

/// Returns whether the ring of processes was read to its end.
fn drain(mut read: impl FnMut(Ring) -> RingRead) -> bool {
    let mut of_processes = 0;
    for _ in 0..MAX_BATCHES {
        while of_processes < MAX_PROCESSES && read(Ring::Processes) == RingRead::One {
            of_processes += 1;
        }
        // Connections are not reported before the starts that precede them.
        if of_processes == MAX_PROCESSES {
            return false;
        }
        if (0..BATCH).any(|_| read(Ring::Connections) == RingRead::Empty) {
            return true;
        }
    }
    true
}

fn accept(
    record: Result<Record, RecordError>,
    gaps: &mut Gaps,
    doubles: &mut Doubles,
    malformed: &mut u64,
    take: &mut impl FnMut(Record),
) {
    match record {
        Ok(record) => {
            let header = record.header();
            gaps.note(header.ring, header.cpu, header.sequence);
            if !doubles.is_one(&record) {
                take(record);
            }
        }
        Err(error) => {
            *malformed += 1;
            tracing::warn!(%error, "dropped a malformed record from the kernel");
        }
    }
}

/// Sequence numbers that were seen, by ring and CPU.
#[derive(Debug, Default)]
struct Gaps {
    seen: BTreeMap<(u16, u32), ReadPosition>,
    /// Numbers that are not written to the kernel's map yet.
    changed: BTreeSet<(u16, u32)>,
}

impl Gaps {
    /// The numbers that earlier daemons left.
    fn of(positions: &Array<MapData, ReadPosition>) -> Self {
        let sequences = (0u16..).take(SEQUENCES as usize);
        let keys = sequences.flat_map(|sequence| (0..MAX_PROCESSORS).map(move |cpu| (sequence, cpu)));
        let position = |key: (u16, u32)| {
            let index = ReadPosition::index(key.0, key.1)?;
            let position = positions.get(&index, 0).ok()?;
            (position != ReadPosition::default()).then_some((key, position))
        };
        Self {
            seen: keys.filter_map(position).collect(),
            changed: BTreeSet::new(),
        }
    }

    fn note(&mut self, ring: u16, cpu: u32, sequence: u64) {
        let position = self.seen.entry((ring, cpu)).or_default();
        position.highest = sequence.max(position.highest);
        position.read += 1;
        self.changed.insert((ring, cpu));
    }

    /// Numbering starts at 1 when the maps are created.
    fn missing(&self) -> u64 {
        self.seen
            .values()
            .map(|position| position.highest.saturating_sub(position.read))
            .sum()
    }

    fn write(&mut self, positions: &mut Array<MapData, ReadPosition>) {
        for key in std::mem::take(&mut self.changed) {
            let position = self.seen.get(&key).copied();
            if let Some((index, position)) = ReadPosition::index(key.0, key.1).zip(position)
                && let Err(error) = positions.set(index, position, 0)
            {
                tracing::debug!(%error, "the kernel does not take how far records were read");
            }
        }
    }
}

/// Detects starts that were recorded by two programs.
#[derive(Debug)]
struct Doubles {
    overlap: Option<Overlap>,
    /// The latest start on each CPU, with its sequence number.
    latest: BTreeMap<u32, (u64, ProcessKey, FileKey)>,
}

impl Doubles {
    /// Returns whether the preceding record of that CPU, by the sequence number, is of the same start.
    fn is_one(&mut self, record: &Record) -> bool {
        let (Some(overlap), Record::Exec(exec)) = (self.overlap, record) else {
            return false;
        };
        let header = record.header();
        if header.time > overlap.until {
            self.overlap = None;
            return false;
        }
        if header.time < overlap.since {
            return false;
        }
        let (process, file) = (exec.record.process, exec.record.file);
        let before = self.latest.insert(header.cpu, (header.sequence, process, file));
        before == Some((header.sequence.wrapping_sub(1), process, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads rings with this many records. Returns the runs of records that were read, and whether all of processes
    /// were.
    fn drained(mut processes: usize, mut connections: usize) -> (Vec<(Ring, usize)>, bool) {
        let mut runs: Vec<(Ring, usize)> = Vec::new();
        let is_complete = drain(|ring| {
            let left = match ring {
                Ring::Processes => &mut processes,
                Ring::Connections => &mut connections,
            };
            if *left == 0 {
                return RingRead::Empty;
            }
            *left -= 1;
            match runs.last_mut().filter(|(last, _)| *last == ring) {
                Some((_, length)) => *length += 1,
                None => runs.push((ring, 1)),
            }
            RingRead::One
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
                RingRead::One
            } else {
                RingRead::Empty
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

    #[test]
    fn two_records_with_the_number_of_the_later_one_are_no_gap() {
        let mut gaps = Gaps::default();
        for sequence in [1, 3, 3] {
            gaps.note(3, 0, sequence);
        }
        assert_eq!(gaps.missing(), 0);
        // One of the next two is lost.
        gaps.note(3, 0, 5);
        assert_eq!(gaps.missing(), 1);
    }
}
