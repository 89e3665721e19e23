//! Loads the programs, checks their maps, patches offsets, attaches; detached when dropped.

use std::{error::Error as _, fmt, io, time::Duration};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
    programs::{
        CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, CgroupSock, CgroupSockAddr, ProgramError,
        RawTracePoint,
    },
};
use mcpmon_common::{ABI_VERSION, event::Counter, limits::AGENT_NAMES};

use super::{
    addresses::AddressTables,
    btf::{BtfError, kernel_offsets},
    cgroup::{CgroupError, CgroupRoot},
    links::CgroupLinks,
    preflight::{self, Missing},
    processes::{AgentNames, ProcessTable, RefusedFiles},
    rings::Rings,
};

/// The object this binary was built with.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mcpmon-ebpf"));

/// A loaded and attached kernel sense. The parts are used by different threads.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Sensor {
    /// Records.
    pub rings: Rings,
    /// Address lists.
    pub addresses: AddressTables,
    /// Tracked processes.
    pub processes: ProcessTable,
    /// Refused executables.
    pub refused: RefusedFiles,
    /// Names of agents.
    pub agents: AgentNames,
    /// Counters.
    pub counters: Counters,
    /// Holds programs and links: dropping it detaches.
    pub attached: Attached,
}

/// The reason why the sensor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// The system lacks something.
    #[error("{}", preflight::describe(.0))]
    Missing(Vec<Missing>),
    /// Kernel type information.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// Nothing to attach to.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The object cannot be loaded at all.
    #[error("failed to load the kernel programs")]
    Load(#[source] aya::EbpfError),
    /// There are too many.
    #[error(
        "failed to tell the kernel the names of agents: at most {AGENT_NAMES} fit; shorten network.agents"
    )]
    Agents(#[source] MapError),
    /// The object is for another version of this program.
    #[error(
        "the kernel object has no {what}; it was built for another ABI than version {ABI_VERSION}: rebuild it with `cargo xtask build-ebpf`"
    )]
    Abi {
        /// The object that is missing or differs.
        what: String,
        /// The difference, if the object exists.
        #[source]
        source: Option<MapError>,
    },
    /// One program was refused.
    #[error("failed to {step} the kernel program `{program}`{}", verifier_tail(.source))]
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

/// The part of a verifier log that names the cause is its end.
fn verifier_tail(error: &ProgramError) -> String {
    let ProgramError::LoadError { verifier_log, .. } = error else {
        return String::new();
    };
    let log = verifier_log.to_string();
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n  ");
    if tail.is_empty() {
        tail
    } else {
        format!("; the verifier says:\n  {tail}")
    }
}

const SOCKET_PROGRAMS: [&str; 4] = ["connect4", "connect6", "sendmsg4", "sendmsg6"];
const SOCK_CREATE: &str = "sock_create";
/// The program for packets.
pub const EGRESS: &str = "egress";
const TRACE_PROGRAMS: [(&str, &str); 3] = [
    ("process_exec", "sched_process_exec"),
    ("process_fork", "sched_process_fork"),
    ("process_exit", "sched_process_exit"),
];

impl Sensor {
    /// Loads the embedded object and attaches it at the root cgroup. Nothing is refused yet.
    ///
    /// # Errors
    /// Returns an error if a privilege or a kernel feature is missing; the message says which, and the
    /// remedy.
    pub fn start(agent_names: &[String]) -> Result<Self, SensorError> {
        Self::start_object(OBJECT, agent_names)
    }

    /// The same with an object of the caller's.
    ///
    /// # Errors
    /// As [`Sensor::start`], and where the object is for another ABI.
    pub fn start_object(object: &[u8], agent_names: &[String]) -> Result<Self, SensorError> {
        let missing = preflight::missing();
        if !missing.is_empty() {
            return Err(SensorError::Missing(missing));
        }
        preflight::raise_memory_limit();
        let root = CgroupRoot::find()?;
        let offsets = kernel_offsets()?;
        let mut ebpf = EbpfLoader::new()
            .override_global("OFFSETS", &offsets, true)
            .load(object)
            .map_err(SensorError::Load)?;

        take(
            &mut ebpf,
            &format!("ABI_V{ABI_VERSION}"),
            Array::<_, u32>::try_from,
        )?;
        let mut agents = AgentNames::new(take(&mut ebpf, "AGENT_NAMES", HashMap::try_from)?);
        agents.replace(agent_names).map_err(SensorError::Agents)?;
        let rings = Rings::new(
            take(&mut ebpf, "PROCESS_RECORDS", RingBuf::try_from)?,
            take(&mut ebpf, "CONNECTION_RECORDS", RingBuf::try_from)?,
        );
        let addresses = AddressTables::take(&mut ebpf)?;
        let processes = ProcessTable::new(take(&mut ebpf, "PROCESSES", HashMap::try_from)?);
        let refused = RefusedFiles::new(take(&mut ebpf, "REFUSED", HashMap::try_from)?);
        let counters = Counters {
            values: take(&mut ebpf, "COUNTERS", PerCpuArray::try_from)?,
        };
        let attached = Attached::attach(ebpf, root)?;
        Ok(Self {
            rings,
            addresses,
            processes,
            refused,
            agents,
            counters,
            attached,
        })
    }
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
    links: CgroupLinks,
    gaps: Vec<Gap>,
}

/// A program that the kernel refuses, while the others work.
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
    fn attach(mut ebpf: Ebpf, root: CgroupRoot) -> Result<Self, SensorError> {
        for (name, tracepoint) in TRACE_PROGRAMS {
            let program: &mut RawTracePoint = program(&mut ebpf, name)?;
            program.load().map_err(|source| failed(name, "load", source))?;
            program
                .attach(tracepoint)
                .map_err(|source| failed(name, "attach", source))?;
        }
        for name in SOCKET_PROGRAMS {
            let program: &mut CgroupSockAddr = program(&mut ebpf, name)?;
            program.load().map_err(|source| failed(name, "load", source))?;
            // With a bpf_link, `Single` passes no flags, and a link always allows others beside it.
            program
                .attach(&root.directory, CgroupAttachMode::Single)
                .map_err(|source| failed(name, "attach", source))?;
        }
        let mut gaps = Vec::new();
        // What these close is documented as open elsewhere: a kernel that refuses one is served without it, and told.
        gaps.extend(attach_sock_create(&mut ebpf, &root).err().map(|error| Gap {
            component: "new sockets",
            consequence: "sockets of protocols that no hook judges (SCTP, L2TP/IP) reach refused addresses",
            error,
        }));
        gaps.extend(attach_egress(&mut ebpf, &root).err().map(|error| Gap {
            component: "packets",
            consequence: "refused addresses are reached by raw and ping sockets, routing headers, and on connections that were there before",
            error,
        }));
        let links = CgroupLinks::find(cgroup_programs(&ebpf));
        Ok(Self {
            ebpf,
            root,
            links,
            gaps,
        })
    }

    /// Returns the links that hold the connection, socket and packet programs in their cgroup.
    #[must_use]
    pub const fn links(&self) -> &CgroupLinks {
        &self.links
    }

    /// Returns the features that this kernel lacks and the sensor runs without.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the cgroup the connection programs are attached to.
    #[must_use]
    pub const fn root(&self) -> &CgroupRoot {
        &self.root
    }

    /// Instructions the verifier walked through for each program; `None` before 5.16.
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

    /// Returns the number of runs of `program` and their total time, for the time in which the kernel kept
    /// such statistics (`BPF_ENABLE_STATS`, from 5.8).
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such program, or the kernel does not tell.
    pub fn runs(&self, program: &str) -> io::Result<(u64, Duration)> {
        let program = self
            .ebpf
            .program(program)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no program `{program}`")))?;
        let info = program.info().map_err(io::Error::other)?;
        Ok((info.run_count(), info.run_time()))
    }
}

/// The programs that are to be attached to a cgroup, with their ids. One that the kernel refused has none.
fn cgroup_programs(ebpf: &Ebpf) -> Vec<(&'static str, u32)> {
    let names = SOCKET_PROGRAMS.into_iter().chain([SOCK_CREATE, EGRESS]);
    let id = |name| ebpf.program(name)?.info().ok().map(|info| (name, info.id()));
    names.filter_map(id).collect()
}

fn attach_sock_create(ebpf: &mut Ebpf, root: &CgroupRoot) -> Result<(), SensorError> {
    const NAME: &str = SOCK_CREATE;
    let program: &mut CgroupSock = program(ebpf, NAME)?;
    program.load().map_err(|source| failed(NAME, "load", source))?;
    program
        .attach(&root.directory, CgroupAttachMode::Single)
        .map(drop)
        .map_err(|source| failed(NAME, "attach", source))
}

fn attach_egress(ebpf: &mut Ebpf, root: &CgroupRoot) -> Result<(), SensorError> {
    const NAME: &str = EGRESS;
    let program: &mut CgroupSkb = program(ebpf, NAME)?;
    program.load().map_err(|source| failed(NAME, "load", source))?;
    program
        .attach(
            &root.directory,
            CgroupSkbAttachType::Egress,
            CgroupAttachMode::Single,
        )
        .map(drop)
        .map_err(|source| failed(NAME, "attach", source))
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, SensorError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    ebpf.program_mut(name)
        .ok_or_else(|| SensorError::Abi {
            what: format!("program `{name}`"),
            source: None,
        })?
        .try_into()
        .map_err(|source| failed(name, "load", source))
}

fn failed(program: &'static str, step: &'static str, source: ProgramError) -> SensorError {
    SensorError::Program {
        program,
        step,
        source: Box::new(source),
    }
}

/// The kernel's counters, summed over CPUs.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Counters {
    values: PerCpuArray<MapData, u64>,
}

impl Counters {
    /// One counter.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn get(&self, counter: Counter) -> io::Result<u64> {
        let values = self.values.get(&(counter as u32), 0).map_err(io::Error::other)?;
        Ok(values.iter().sum())
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn all(&self) -> io::Result<Vec<(&'static str, u64)>> {
        (0u32..)
            .zip(Counter::NAMES)
            .map(|(index, name)| {
                let values = self.values.get(&index, 0).map_err(io::Error::other)?;
                Ok((name, values.iter().sum()))
            })
            .collect()
    }
}
