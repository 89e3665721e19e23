//! The kernel sensor: loads the programs, checks their maps, patches offsets, and attaches them. Dropping it detaches
//! them.

use std::{
    error::Error as _,
    fmt, io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use aya::{
    Btf, Ebpf, EbpfLoader,
    maps::{Array, HashMap, Map, MapError, PerCpuArray, RingBuf},
    programs::{Program, ProgramError},
    sys::SyscallError,
};
use mcpmon_common::{ABI_VERSION, state::Heartbeat};

use super::{
    addresses::AddressTables,
    btf::kernel_offsets,
    cgroup::{CgroupError, CgroupRoot},
    gate::{self, ExecGate},
    kernel_log::KernelLog,
    layout::NamedMaps,
    links::{Hook, Link, Links},
    notes::{Notes, Pulse},
    pinned::{PinDirectory, PinError, PinnedSet},
    preflight,
    processes::{AgentNames, ProcessTable, RefusedFiles},
    programs::{EGRESS, Entry, Loss, PROGRAMS, RESERVED, SECURITY_HOOK},
    reserved::ReservedAddresses,
    rings::{Overlap, Rings},
    starts::{self, StartCanary, StartTables, Unproved},
    sys::{self, clocks},
};

pub use super::{counters::Counters, sensor_error::SensorError};

/// The object this binary was built with.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mcpmon-ebpf"));

/// A loaded and attached kernel sensor. Its parts are used by different threads.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Sensor {
    /// The rings of records.
    pub rings: Rings,
    /// The address lists.
    pub addresses: AddressTables,
    /// The tracked processes.
    pub processes: ProcessTable,
    /// The refused executables.
    pub refused: RefusedFiles,
    /// The names of agents.
    pub agents: AgentNames,
    /// The exec gate.
    pub gate: ExecGate,
    /// The reserved addresses; `None` if the kernel refused a program for them.
    pub reserved: Option<ReservedAddresses>,
    /// The checked programs.
    pub starts: StartTables,
    /// The counters.
    pub counters: Counters,
    /// The notes for the next daemon.
    pub notes: Notes,
    /// The heartbeat.
    pub pulse: Pulse,
    /// The programs' own log; `None` if the object was built without one, as for every release.
    pub log: Option<KernelLog>,
    /// The programs and links: dropping this detaches what is not pinned.
    pub attached: Attached,
    /// The state taken over from an earlier daemon; `None` if there was none.
    pub adopted: Option<Adopted>,
}

/// The state taken over from an earlier daemon. Its tables remain in force until they are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The last heartbeat of the earlier daemon.
    pub last_beat: Heartbeat,
}

impl Sensor {
    /// Loads the embedded object and attaches it to the root cgroup. Nothing is refused yet. The programs are detached
    /// when this process ends.
    ///
    /// # Errors
    /// Returns an error if a privilege or a kernel feature is missing. The message says which, and gives the remedy.
    pub fn start(agent_names: &[String]) -> Result<Self, SensorError> {
        Self::start_object(OBJECT, None, agent_names)
    }

    /// Starts with what an earlier process pinned in `pins`: its tables remain in force, and its programs are replaced
    /// so that one is attached at any time. Call [`Attached::keep`] once the tables are filled.
    ///
    /// # Errors
    /// Returns the errors of [`Sensor::start`]. What was pinned remains in force then.
    pub fn resume(pins: PinDirectory, agent_names: &[String]) -> Result<Self, SensorError> {
        Self::start_object(OBJECT, Some(pins), agent_names)
    }

    /// Starts with another object.
    ///
    /// # Errors
    /// Returns the errors of [`Sensor::start`], and an error if the object has another ABI.
    pub fn start_object(
        object: &[u8],
        pins: Option<PinDirectory>,
        agent_names: &[String],
    ) -> Result<Self, SensorError> {
        let missing = preflight::missing();
        if !missing.is_empty() {
            return Err(SensorError::Missing(missing));
        }
        preflight::raise_memory_limit();
        let root = CgroupRoot::find()?;
        let offsets = kernel_offsets()?;
        let names = NamedMaps::of(object)?;
        let set = match &pins {
            Some(pins) => pins.current()?.filter(|set| names.fit(set)),
            None => None,
        };
        let mut loader = EbpfLoader::new();
        loader.override_global("OFFSETS", &offsets, true);
        if let Some(set) = &set {
            for name in names.iter() {
                loader.map_pin_path(name, set.map(name));
            }
        }
        let mut ebpf = loader.load(object).map_err(SensorError::Load)?;
        let log = KernelLog::take(&mut ebpf);

        let marker = format!("ABI_V{ABI_VERSION}");
        let mut copies = Vec::new();
        for name in names.iter() {
            copies.push((name.to_owned(), descriptor(&ebpf, name)?));
        }
        take(&mut ebpf, &marker, Array::<_, u32>::try_from)?;
        let mut agents = AgentNames::new(take(&mut ebpf, "AGENT_NAMES", HashMap::try_from)?);
        let (processes, connections, positions) = (
            take(&mut ebpf, "PROCESS_RECORDS", RingBuf::try_from)?,
            take(&mut ebpf, "CONNECTION_RECORDS", RingBuf::try_from)?,
            take(&mut ebpf, "READ_POSITIONS", Array::try_from)?,
        );
        let mut addresses = AddressTables::take(&mut ebpf)?;
        let process_table = ProcessTable::new(take(&mut ebpf, "PROCESSES", HashMap::try_from)?);
        let refused = RefusedFiles::new(take(&mut ebpf, "REFUSED", HashMap::try_from)?);
        let reserved = take(&mut ebpf, "RESERVED_ADDRESSES", HashMap::try_from)?;
        let gate = ExecGate::take(&mut ebpf)?;
        let starts = StartTables::new(
            take(&mut ebpf, "CHECKED_PROGRAMS", HashMap::try_from)?,
            take(&mut ebpf, "ACCEPTED_DIGESTS", HashMap::try_from)?,
        );
        let counters = Counters {
            values: take(&mut ebpf, "COUNTERS", PerCpuArray::try_from)?,
        };
        let notes = Notes::new(take(&mut ebpf, "NOTES", Array::try_from)?);
        let pulse = Pulse::new(take(&mut ebpf, "HEARTBEAT", Array::try_from)?);
        let adopted = set.as_ref().map(|_| Adopted {
            last_beat: pulse.last(),
        });
        let (attached, overlap) = Attached::attach(ebpf, root, copies, pins, set)?;
        addresses.attach_packets_by(attached.links().clone());
        // This comes last, so that a failed start changes nothing that an earlier process left.
        agents.replace(agent_names).map_err(SensorError::Agents)?;
        Ok(Self {
            rings: Rings::new(processes, connections, positions, overlap),
            addresses,
            processes: process_table,
            refused,
            agents,
            gate,
            reserved: (!attached.lacks(RESERVED)).then(|| ReservedAddresses::new(reserved)),
            starts,
            counters,
            notes,
            pulse,
            log,
            attached,
            adopted,
        })
    }
}

/// Returns another descriptor of a map of the object.
pub(super) fn descriptor(ebpf: &Ebpf, name: &str) -> Result<OwnedFd, SensorError> {
    let absent = || SensorError::Abi {
        what: format!("map `{name}`"),
        source: None,
    };
    let map = ebpf.map(name).ok_or_else(absent)?;
    let (Map::Array(data)
    | Map::PerCpuArray(data)
    | Map::HashMap(data)
    | Map::LruHashMap(data)
    | Map::LpmTrie(data)
    | Map::RingBuf(data)
    | Map::SkStorage(data)
    | Map::Unsupported(data)) = map
    else {
        return Err(absent());
    };
    data.fd()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|source| SensorError::Descriptor {
            map: name.to_owned(),
            source,
        })
}

/// Takes a map out of the object; the conversion checks its kind and the sizes of key and value.
pub(super) fn take<T>(
    ebpf: &mut Ebpf,
    name: &str,
    convert: impl FnOnce(Map) -> Result<T, MapError>,
) -> Result<T, SensorError> {
    let map = ebpf.take_map(name).ok_or_else(|| SensorError::Abi {
        what: format!("map `{name}`"),
        source: None,
    })?;
    convert(map).map_err(|source| SensorError::Abi {
        what: format!("fitting map `{name}`"),
        source: Some(source),
    })
}

/// The attached programs.
#[derive(Debug)]
pub struct Attached {
    ebpf: Ebpf,
    root: CgroupRoot,
    links: Links,
    gaps: Vec<Gap>,
    /// The reason why starts are not checked by their digest; `None` if the program for it is attached.
    unchecked: Option<String>,
    /// All maps with a name.
    maps: Vec<(String, OwnedFd)>,
    pins: Option<PinDirectory>,
    /// The set in which everything is pinned, if it is.
    set: Option<PinnedSet>,
}

/// A program that the kernel refused, while the others work.
#[derive(Debug)]
pub struct Gap {
    /// The part of the enforcement that is missing.
    pub component: &'static str,
    consequence: &'static str,
    error: SensorError,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; until that works, {}", self.error, self.consequence)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Attached {
    fn attach(
        mut ebpf: Ebpf,
        root: CgroupRoot,
        maps: Vec<(String, OwnedFd)>,
        pins: Option<PinDirectory>,
        set: Option<PinnedSet>,
    ) -> Result<(Self, Option<Overlap>), SensorError> {
        // All are loaded before the first one replaces an earlier program.
        let mut gaps = Vec::new();
        let mut loaded = Vec::new();
        let mut unchecked = starts::unsupported();
        let is_wanted = |entry: &&Entry| !(matches!(entry.loss, Loss::Way) && unchecked.is_some());
        for entry in PROGRAMS.iter().filter(is_wanted).collect::<Vec<_>>() {
            match load(&mut ebpf, entry.name) {
                Ok(code) => loaded.push((entry, code)),
                Err(error) => entry.lose(error, &mut gaps, &mut unchecked)?,
            }
        }
        let (_, since) = clocks();
        let mut links = Vec::new();
        for (entry, code) in loaded {
            match attach(entry, code, &root, set.as_ref()) {
                Ok(link) => links.push(link),
                Err(error) => entry.lose(error, &mut gaps, &mut unchecked)?,
            }
        }
        let overlap = set.as_ref().map(|_| Overlap::new(since, clocks().1));
        let cgroup = root.directory.try_clone().map_err(|source| CgroupError::Open {
            path: root.path.clone(),
            source,
        })?;
        let links = Links::new(links, cgroup);
        if let Some(set) = &set {
            links.are_pinned_in(set.clone());
        }
        let attached = Self {
            ebpf,
            root,
            links,
            gaps,
            unchecked,
            maps,
            pins,
            set,
        };
        Ok((attached, overlap))
    }

    /// Pins everything, in place of what earlier processes pinned, so that it stays in the kernel when this process
    /// ends. Does nothing if there is no directory.
    ///
    /// # Errors
    /// Returns an error if something cannot be pinned; what earlier processes pinned remains in force besides this
    /// process's programs then.
    pub fn keep(&mut self) -> Result<(), PinError> {
        let Some(pins) = &self.pins else { return Ok(()) };
        if let Some((_, holds)) = self.maps.iter().find(|(name, _)| name == "HOLDS") {
            gate::adopt(pins, self.set.as_ref(), holds.as_fd())?;
        }
        if self.set.is_some() {
            return pins.remove_others();
        }
        let mut links: Vec<(&'static str, OwnedFd)> = Vec::new();
        self.links
            .each(|program, link| link.try_clone_to_owned().map(|link| links.push((program, link))))
            .map_err(|source| PinError::Io {
                action: "hold the links of",
                path: pins.path().to_owned(),
                source,
            })?;
        let maps = self.maps.iter().map(|(name, map)| (name.as_str(), map.as_fd()));
        let links = links.iter().map(|(program, link)| (*program, link.as_fd()));
        let set = pins.replace_all(maps, links)?;
        self.links.are_pinned_in(set.clone());
        self.set = Some(set);
        Ok(())
    }

    /// Returns whether there is a directory for pins.
    pub const fn can_keep(&self) -> bool {
        self.pins.is_some()
    }

    /// Returns the directory in which everything is pinned; `None` if nothing is.
    pub fn kept_in(&self) -> Option<&PinDirectory> {
        self.set.as_ref().and(self.pins.as_ref())
    }

    /// Returns the links that hold the programs.
    pub const fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the features that this kernel lacks and the sensor runs without.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns whether a part of the enforcement is missing.
    fn lacks(&self, component: &str) -> bool {
        self.gaps.iter().any(|gap| gap.component == component)
    }

    /// Returns a proof that starts are checked by their digest.
    ///
    /// # Errors
    /// Returns why they are not, if no program for it could be attached, or its tables cannot be opened.
    pub fn start_canary(&self) -> Result<StartCanary, Unproved> {
        match &self.unchecked {
            Some(cause) => Err(Unproved::Absent(cause.clone())),
            None => StartCanary::open(&self.maps).map_err(|error| Unproved::Failed(error.to_string())),
        }
    }

    /// Returns the cgroup the connection programs are attached to.
    pub const fn root(&self) -> &CgroupRoot {
        &self.root
    }

    /// Returns the number of instructions that the verifier processed for each program; `None` before Linux 5.16.
    pub fn verified_instructions(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.ebpf.programs().map(|(name, program)| {
            (
                name,
                program
                    .info()
                    .ok()
                    .and_then(|info| info.verified_instruction_count()),
            )
        })
    }

    /// Returns the number of runs of `program` and their total time, for the time in which the kernel kept such
    /// statistics (`BPF_ENABLE_STATS`, from 5.8).
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such program, or the kernel does not report it.
    pub fn runs(&self, program: &str) -> io::Result<(u64, Duration)> {
        let program = self
            .ebpf
            .program(program)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no program `{program}`")))?;
        let info = program.info().map_err(io::Error::other)?;
        Ok((info.run_count(), info.run_time()))
    }
}

impl Entry {
    /// Notes what is lost, because this program failed.
    ///
    /// # Errors
    /// Returns `error` if nothing works without the program.
    fn lose(
        &self,
        error: SensorError,
        gaps: &mut Vec<Gap>,
        unchecked: &mut Option<String>,
    ) -> Result<(), SensorError> {
        match self.loss {
            Loss::Everything => return Err(error),
            Loss::Part(component, consequence) => gaps.push(Gap {
                component,
                consequence,
                error,
            }),
            Loss::Way => *unchecked = Some(with_causes(&error)),
        }
        Ok(())
    }
}

fn with_causes(error: &SensorError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// Loads a program into the kernel, where the verifier checks it.
pub(super) fn load(ebpf: &mut Ebpf, name: &'static str) -> Result<OwnedFd, SensorError> {
    let program = ebpf.program_mut(name).ok_or_else(|| SensorError::Abi {
        what: format!("program `{name}`"),
        source: None,
    })?;
    let loaded = load_any(program);
    let code = loaded.and_then(|()| program.fd()?.try_clone().map_err(system_error("dup")));
    let code = code.map_err(|source| failed(name, "load", source))?;
    code.as_fd()
        .try_clone_to_owned()
        .map_err(|error| failed(name, "load", system_error("dup")(error)))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the object has programs of these kinds only"
)]
fn load_any(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::RawTracePoint(program) => program.load(),
        Program::CgroupSockAddr(program) => program.load(),
        Program::CgroupSock(program) => program.load(),
        Program::CgroupSkb(program) => program.load(),
        Program::Lsm(program) => program.load(SECURITY_HOOK, &Btf::from_sys_fs()?),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

/// Attaches a program, in place of the one that an earlier process attached and pinned. The program for packets is left
/// detached where no earlier process needed it.
fn attach(
    entry: &Entry,
    code: OwnedFd,
    root: &CgroupRoot,
    set: Option<&PinnedSet>,
) -> Result<Link, SensorError> {
    let name = entry.name;
    let failed = |error| failed(name, "attach", system_error("bpf")(error));
    let pinned = match set {
        Some(set) => set.link(name).map_err(failed)?,
        None => None,
    };
    // The program of a tracepoint's link cannot be replaced.
    let updated = pinned.filter(|link| {
        matches!(entry.hook, Hook::Cgroup(_)) && sys::update_link(link.as_fd(), code.as_fd()).is_ok()
    });
    let link = match updated {
        Some(link) => link,
        None if name == EGRESS => return Ok(Link::detached(name, entry.hook, code)),
        None => {
            let link = entry.hook.attach(code.as_fd(), &root.directory).map_err(failed)?;
            if let Some(set) = set {
                set.replace_link(name, link.as_fd())?;
            }
            link
        }
    };
    Ok(Link::attached(name, entry.hook, code, link))
}

pub(super) fn system_error(call: &'static str) -> impl FnOnce(io::Error) -> ProgramError {
    move |io_error| SyscallError { call, io_error }.into()
}

pub(super) fn failed(program: &'static str, step: &'static str, source: ProgramError) -> SensorError {
    SensorError::Program {
        program,
        step,
        source: Box::new(source),
    }
}
