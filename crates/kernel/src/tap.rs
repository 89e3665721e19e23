//! The tap: the standard input and output of servers, copied by programs in an object of its own. Nothing is pinned:
//! dropping [`TapRing`] detaches everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{HashMap, MapData, MapError, RingBuf},
    programs::{Program, ProgramError},
};
use mcpmon_common::tap::{TapCount, TapEntry, TapFile, TapRecord, TapStream};
use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        stat::fstat,
    },
    unistd::pipe,
};

use super::{
    btf::{BtfError, kernel_tap_offsets},
    preflight,
    sensor::{SensorError, take},
    sys,
};

/// The object this binary was built with.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mcpmon-tap"));

/// Most processes of one server that are tapped at first; processes that they start later count against their user's
/// share.
const MAX_FIRST_PROCESSES: usize = 16;

/// Attempts to write an entry that the kernel creates or removes at the same moment.
const MAX_RACES: usize = 3;
/// Flags of bpf(2) for an entry that must not exist yet, or must exist.
const BPF_NOEXIST: u64 = 1;
const BPF_EXIST: u64 = 2;

/// The programs, and the raw tracepoints that they are attached to.
const PROGRAMS: [(&str, &str); 3] = [
    ("tap_fork", "sched_process_fork"),
    ("tap_exit", "sched_process_exit"),
    ("tap_call", "sys_exit"),
];

/// The reason why nothing can be tapped.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The kernel's type information cannot be used.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The object cannot be loaded.
    #[error("failed to load the programs of the tap")]
    Load(#[source] aya::EbpfError),
    /// A map is missing.
    #[error(transparent)]
    Map(#[from] SensorError),
    /// A program was refused.
    #[error("failed to {step} the program `{program}` of the tap")]
    Program {
        /// Its name.
        program: &'static str,
        /// `load` or `attach`.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: Box<ProgramError>,
    },
}

/// A direction of a server's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TapSide {
    /// The server read them.
    Input,
    /// The server wrote them.
    Output,
}

impl TapSide {
    const fn stream(self, instance: u32) -> TapStream {
        let side = match self {
            Self::Input => TapStream::INPUT,
            Self::Output => TapStream::OUTPUT,
        };
        TapStream { instance, side }
    }
}

/// A part of the bytes that one call read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapPart<'r> {
    /// Nanoseconds since boot, suspended time included.
    pub time: u64,
    /// Number of the server instance.
    pub instance: u32,
    /// Their direction.
    pub side: TapSide,
    /// The calling thread.
    pub thread: u32,
    /// Number of earlier bytes in this direction that were lost.
    pub lost: u64,
    /// True if this is the last part of the call.
    pub is_last: bool,
    /// The bytes.
    pub bytes: &'r [u8],
}

impl<'r> TapPart<'r> {
    /// Parses a record. Returns `None` if it is invalid.
    fn parse(record: &'r [u8]) -> Option<Self> {
        let head: TapRecord = sys::read_unaligned(record)?;
        let bytes = record.get(size_of::<TapRecord>()..)?;
        Some(Self {
            time: head.time,
            instance: head.instance,
            side: match head.side {
                TapStream::INPUT => TapSide::Input,
                TapStream::OUTPUT => TapSide::Output,
                _ => return None,
            },
            thread: head.thread,
            lost: head.lost,
            is_last: head.remaining == 0,
            bytes: bytes.get(..head.length as usize)?,
        })
    }
}

/// The kind of a stream that can be tapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// An unnamed pipe.
    Pipe,
    /// A socket.
    Socket,
}

impl StreamKind {
    /// Returns the kernel's number of the file system with all streams of this kind. Returns `None` if no stream can be
    /// opened to find out.
    fn device(self) -> Option<u32> {
        static PIPES: OnceLock<u32> = OnceLock::new();
        static SOCKETS: OnceLock<u32> = OnceLock::new();
        let (known, open): (_, fn() -> nix::Result<OwnedFd>) = match self {
            Self::Pipe => (&PIPES, || Ok(pipe()?.0)),
            Self::Socket => (&SOCKETS, || {
                let kind = SockType::Stream;
                Ok(socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?.0)
            }),
        };
        if let Some(device) = known.get() {
            return Some(*device);
        }
        let device = fstat(open().ok()?).ok()?.st_dev;
        // `MKDEV` of the kernel: the minor number has 20 bits.
        let device = (libc::major(device) << 20) | libc::minor(device);
        Some(*known.get_or_init(|| device))
    }

    fn file(self, inode: u64) -> Option<TapFile> {
        Some(TapFile {
            inode,
            device: self.device()?,
            reserved: 0,
        })
    }
}

/// The pipes or sockets of a process's standard input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardStreams {
    input: TapFile,
    output: TapFile,
}

impl StandardStreams {
    /// Returns streams of one kind with these inodes. Returns `None` if this process cannot open a stream of this kind.
    pub fn new(kind: StreamKind, input: u64, output: u64) -> Option<Self> {
        Some(Self {
            input: kind.file(input)?,
            output: kind.file(output)?,
        })
    }

    /// Returns the streams of a living process. Returns `None` if the process has ended, or if one of the streams is a
    /// terminal, a file or closed.
    pub fn of(pid: u32) -> Option<Self> {
        let stream = |descriptor: u32| {
            // The link is enough: examining the file itself could block on the file's file system.
            let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
            let (kind, number) = link.to_str()?.strip_suffix(']')?.split_once(":[")?;
            let kind = match kind {
                "pipe" => StreamKind::Pipe,
                "socket" => StreamKind::Socket,
                _ => return None,
            };
            kind.file(number.parse().ok()?)
        };
        Some(Self {
            input: stream(0)?,
            output: stream(1)?,
        })
    }
}

/// The ring of copies, with the attached programs.
pub struct TapRing {
    ring: RingBuf<MapData>,
    /// The attached programs; dropping this detaches them.
    _attached: Ebpf,
    malformed: u64,
}

impl fmt::Debug for TapRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapRing").finish_non_exhaustive()
    }
}

/// The tapped processes. Clones share them.
#[derive(Clone)]
pub struct TappedProcesses(Arc<Mutex<Tables>>);

struct Tables {
    /// The users of the tapped servers, by instance.
    owners: BTreeMap<u32, u32>,
    entries: HashMap<MapData, u32, TapEntry>,
    inherited: HashMap<MapData, u32, u64>,
    counts: HashMap<MapData, TapStream, TapCount>,
}

impl fmt::Debug for TappedProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TappedProcesses").finish_non_exhaustive()
    }
}

/// Loads and attaches the programs. No process is tapped yet.
///
/// # Errors
/// Returns an error if the kernel lacks a tracepoint, or refuses a program.
pub fn start() -> Result<(TapRing, TappedProcesses), TapError> {
    preflight::raise_memory_limit();
    let offsets = kernel_tap_offsets()?;
    let mut loader = EbpfLoader::new();
    loader.override_global("TAP_OFFSETS", &offsets, true);
    let mut ebpf = loader.load(OBJECT).map_err(TapError::Load)?;
    let ring = take(&mut ebpf, "TAP_RECORDS", RingBuf::try_from)?;
    let tables = Tables {
        owners: BTreeMap::new(),
        inherited: take(&mut ebpf, "TAP_INHERITED", HashMap::try_from)?,
        entries: take(&mut ebpf, "TAP_ENTRIES", HashMap::try_from)?,
        counts: take(&mut ebpf, "TAP_COUNTS", HashMap::try_from)?,
    };
    attach(&mut ebpf)?;
    let ring = TapRing {
        ring,
        _attached: ebpf,
        malformed: 0,
    };
    Ok((ring, TappedProcesses(Arc::new(Mutex::new(tables)))))
}

fn attach(ebpf: &mut Ebpf) -> Result<(), TapError> {
    for (name, tracepoint) in PROGRAMS {
        let Some(Program::RawTracePoint(program)) = ebpf.program_mut(name) else {
            return Err(failed(name, "load", ProgramError::UnexpectedProgramType));
        };
        program.load().map_err(|source| failed(name, "load", source))?;
        let attached = program.attach(tracepoint).map(drop);
        attached.map_err(|source| failed(name, "attach", source))?;
    }
    Ok(())
}

fn failed(program: &'static str, step: &'static str, source: ProgramError) -> TapError {
    TapError::Program {
        program,
        step,
        source: Box::new(source),
    }
}

impl TapRing {
    /// Waits until there is much to read, at most for `timeout`.
    ///
    /// # Errors
    /// Returns an error if poll(2) fails for another reason than a signal.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut ring = [PollFd::new(self.ring.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        match poll(&mut ring, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `take` with at most `limit` of the parts in the ring. Returns whether those were all.
    pub fn drain(&mut self, limit: usize, mut take: impl FnMut(TapPart<'_>)) -> bool {
        for _ in 0..limit {
            let Some(record) = self.ring.next() else {
                return true;
            };
            match TapPart::parse(&record) {
                Some(part) => take(part),
                None => self.malformed += 1,
            }
        }
        false
    }

    /// Returns the number of records that could not be parsed.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }
}

impl TappedProcesses {
    /// Taps processes of a server of that user, and processes that they start later, as long as the user's share is not
    /// used up.
    ///
    /// # Errors
    /// Returns an error if the kernel's tables are full.
    pub fn tap(
        &self,
        instance: u32,
        owner: u32,
        streams: StandardStreams,
        pids: &[u32],
    ) -> Result<(), MapError> {
        let mut tables = self.tables();
        tables.owners.insert(instance, owner);
        if tables.inherited.get(&owner, 0).is_err() {
            tables.inherited.insert(owner, 0, BPF_NOEXIST)?;
        }
        for side in [TapSide::Input, TapSide::Output] {
            let stream = side.stream(instance);
            if tables.counts.get(&stream, 0).is_err() {
                let left_out = match side {
                    TapSide::Input => pids.len().saturating_sub(MAX_FIRST_PROCESSES) as u64,
                    TapSide::Output => 0,
                };
                let count = TapCount {
                    left_out,
                    ..TapCount::default()
                };
                tables.counts.insert(stream, count, BPF_NOEXIST)?;
            }
        }
        for pid in pids.iter().take(MAX_FIRST_PROCESSES) {
            tables.put(
                *pid,
                TapEntry {
                    input: streams.input,
                    output: streams.output,
                    instance,
                    owner,
                    is_inherited: 0,
                    reserved: 0,
                },
            )?;
        }
        Ok(())
    }

    /// Stops tapping a server. Entries that its processes inherited have no effect without the server; they are removed
    /// with the process, because only the kernel counts them.
    pub fn release(&self, instance: u32) {
        let mut tables = self.tables();
        let mut of_it = BTreeSet::new();
        for (pid, entry) in tables.entries.iter().flatten() {
            if entry.instance == instance && entry.is_inherited == 0 {
                of_it.insert(pid);
            }
        }
        for pid in of_it {
            // The process may have ended in between.
            drop(tables.entries.remove(&pid));
        }
        for side in [TapSide::Input, TapSide::Output] {
            drop(tables.counts.remove(&side.stream(instance)));
        }
        tables.owners.remove(&instance);
        tables.forget_owners();
    }

    /// Returns the number of processes of a server that are not tapped, because its user or all users together have too
    /// many.
    pub fn left_out(&self, instance: u32) -> u64 {
        let input = TapSide::Input.stream(instance);
        self.tables()
            .counts
            .get(&input, 0)
            .map_or(0, |count| count.left_out)
    }

    /// Returns the number of bytes in one direction of a server, and the number of those that were not copied.
    pub fn counted(&self, instance: u32, side: TapSide) -> (u64, u64) {
        let count = self.tables().counts.get(&side.stream(instance), 0);
        count.map_or((0, 0), |count| (count.bytes, count.lost))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A poisoned lock is used anyway: no code that holds it can leave the tables half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Writes the entry of a process, although the kernel may change it at the same moment. An inherited entry still
    /// counts against the share from which it was taken.
    fn put(&mut self, pid: u32, entry: TapEntry) -> Result<(), MapError> {
        let mut refused = Ok(());
        for _ in 0..MAX_RACES {
            let (entry, flags) = match self.entries.get(&pid, 0) {
                Ok(before) if before.is_inherited != 0 => {
                    let (owner, is_inherited) = (before.owner, before.is_inherited);
                    (
                        TapEntry {
                            owner,
                            is_inherited,
                            ..entry
                        },
                        BPF_EXIST,
                    )
                }
                Ok(_) => (entry, BPF_EXIST),
                Err(_) => (entry, BPF_NOEXIST),
            };
            refused = self.entries.insert(pid, entry, flags);
            if refused.is_ok() {
                break;
            }
        }
        refused
    }

    /// Removes users who have neither servers nor processes that servers started.
    fn forget_owners(&mut self) {
        let owners: BTreeSet<u32> = self.owners.values().copied().collect();
        let known: Vec<(u32, u64)> = self.inherited.iter().flatten().collect();
        for (owner, inherited) in known {
            if inherited.cast_signed() <= 0 && !owners.contains(&owner) {
                drop(self.inherited.remove(&owner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn record(side: u32, length: u32, remaining: u32, bytes: &[u8]) -> Vec<u8> {
        let words = [7_u64, 3].map(u64::to_ne_bytes).concat();
        let rest = [5, side, 11, length, remaining, 0].map(u32::to_ne_bytes).concat();
        [words, rest, bytes.to_vec()].concat()
    }

    #[test]
    fn a_part_is_what_its_record_says() {
        let bytes = record(TapStream::OUTPUT, 2, 0, b"ab\0\0");
        let part = TapPart::parse(&bytes).expect("a part");
        assert_eq!((part.time, part.instance, part.thread, part.lost), (7, 5, 11, 3));
        assert_eq!(
            (part.side, part.is_last, part.bytes),
            (TapSide::Output, true, &b"ab"[..])
        );
    }

    #[test_case(&record(9, 2, 0, b"ab"); "no side")]
    #[test_case(&record(0, 3, 0, b"ab"); "longer than it is")]
    #[test_case(&record(0, u32::MAX, 0, b""); "much longer")]
    #[test_case(&record(0, 0, 0, b"")[..39]; "cut")]
    fn what_is_no_record_is_none(bytes: &[u8]) {
        assert_eq!(TapPart::parse(bytes), None);
    }

    #[test]
    fn files_and_terminals_are_no_streams() {
        assert_eq!(StandardStreams::of(u32::MAX), None, "nobody");
    }
}
