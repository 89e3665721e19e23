//! Answers of DNS servers to processes of the host: the programs that copy them, and the parsed content.
//!
//! The programs are in an object of their own, which is loaded while answers are wanted, and removed with its owner.

mod message;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{HashMap, MapData, MapError, PerCpuArray, RingBuf},
};
use hickory_resolver::system_conf::read_system_conf;
use mcpmon_common::dns::{AnswerRecord, DnsCounter, MAX_NAMES, name_hash};
use mcpmon_policy::{HostName, network::followed::DnsAnswer};
use tokio::io::unix::AsyncFd;

use super::{
    cgroup::CgroupRoot,
    preflight,
    sensor::{SensorError, failed, load, system_error, take},
    sys::{awaited, link_to_cgroup, read_unaligned},
};

pub use self::message::answer;

/// The object this binary was built with.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mcpmon-dns"));

/// The programs, each with the number of its hook in `enum bpf_attach_type`. The program for answers is attached last:
/// no answer is expected before a question was recorded.
const PROGRAMS: [(&str, u32); 2] = [("dns_question", 1), ("dns_answer", 0)];

/// Answers that are read before other tasks get their turn.
const BATCH: usize = 64;

/// The copied answers to questions of the whole host. Dropping this detaches the programs.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct AnswerTap {
    ring: AsyncFd<RingBuf<MapData>>,
    followed: HashMap<MapData, u64, u32>,
    counters: PerCpuArray<MapData, u64>,
    ebpf: Ebpf,
    _links: Vec<OwnedFd>,
}

/// The reason why answers cannot be seen.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// The programs cannot be used.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// Waiting for the ring failed.
    #[error("failed to wait for answers of DNS servers")]
    Wait(#[source] io::Error),
    /// The kernel's table of names is full.
    #[error("failed to tell the kernel the names whose answers are followed: at most {MAX_NAMES} fit")]
    Names(#[source] MapError),
}

impl AnswerTap {
    /// Loads the programs and attaches them to the root cgroup. Has to be called within a runtime.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses them.
    pub fn open() -> Result<Self, DnsError> {
        preflight::raise_memory_limit();
        let root = CgroupRoot::find().map_err(SensorError::from)?;
        let mut ebpf = EbpfLoader::new().load(OBJECT).map_err(SensorError::Load)?;
        let ring = take(&mut ebpf, "ANSWERS", RingBuf::try_from)?;
        let followed = take(&mut ebpf, "FOLLOWED", HashMap::try_from)?;
        let counters = take(&mut ebpf, "DNS_COUNTERS", PerCpuArray::try_from)?;
        let mut links = Vec::new();
        for (name, hook) in PROGRAMS {
            let code = load(&mut ebpf, name)?;
            let link = link_to_cgroup(code.as_fd(), root.directory.as_fd(), hook)
                .map_err(|error| failed(name, "attach", system_error("bpf")(error)))?;
            links.push(link);
        }
        Ok(Self {
            ring: awaited(ring).map_err(DnsError::Wait)?,
            followed,
            counters,
            ebpf,
            _links: links,
        })
    }

    /// Sets the names whose answers are copied.
    ///
    /// # Errors
    /// Returns an error if the kernel does not accept a name.
    pub fn follow(&mut self, names: &BTreeSet<HostName>) -> Result<(), DnsError> {
        let wanted: BTreeSet<u64> = names.iter().map(|name| name_hash(name.as_str())).collect();
        let known: BTreeSet<u64> = self.followed.keys().filter_map(Result::ok).collect();
        for hash in known.difference(&wanted) {
            drop(self.followed.remove(hash));
        }
        for hash in wanted.difference(&known) {
            self.followed.insert(hash, 0, 0).map_err(DnsError::Names)?;
        }
        Ok(())
    }

    /// Waits for answers and returns them. Dropping the future loses no answer.
    ///
    /// # Errors
    /// Returns an error if waiting for the ring fails.
    pub async fn answers(&mut self) -> Result<Vec<DnsAnswer>, DnsError> {
        let mut ready = self.ring.readable_mut().await.map_err(DnsError::Wait)?;
        let (found, is_all) = drain(ready.get_inner_mut());
        if is_all {
            ready.clear_ready();
        }
        Ok(found)
    }

    /// Returns the answers that are in the ring, without waiting.
    pub fn waiting(&mut self) -> Vec<DnsAnswer> {
        let mut all = Vec::new();
        loop {
            let (found, is_all) = drain(self.ring.get_mut());
            all.extend(found);
            if is_all {
                return all;
            }
        }
    }

    /// Returns the number of answers that were lost because the ring was full.
    ///
    /// # Errors
    /// Returns an error if the counter cannot be read.
    pub fn lost(&self) -> io::Result<u64> {
        self.count(DnsCounter::Lost)
    }

    /// Returns a counter, summed over CPUs.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn count(&self, counter: DnsCounter) -> io::Result<u64> {
        let values = self
            .counters
            .get(&(counter as u32), 0)
            .map_err(io::Error::other)?;
        Ok(values.iter().sum())
    }

    /// Returns the number of instructions that the verifier processed for each program; `None` if the kernel does not
    /// report it.
    pub fn verified_instructions(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.ebpf.programs().map(|(name, program)| {
            let info = program.info().ok();
            (name, info.and_then(|info| info.verified_instruction_count()))
        })
    }

    /// Returns the number of runs of each program and their total time, while the kernel keeps such statistics.
    pub fn runs(&self) -> impl Iterator<Item = (&str, u64, Duration)> {
        self.ebpf.programs().filter_map(|(name, program)| {
            let info = program.info().ok()?;
            Some((name, info.run_count(), info.run_time()))
        })
    }
}

/// Returns the addresses of this host's interfaces and of its configured DNS servers, as far as they can be read.
pub fn own_addresses() -> BTreeSet<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let own = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
    });
    let configured = read_system_conf().map(|(config, _)| config);
    let servers = configured.into_iter().flat_map(|config| {
        let servers = config.name_servers().iter().map(|server| server.ip);
        servers.collect::<Vec<_>>()
    });
    own.chain(servers).collect()
}

/// Returns some of the answers in the ring, and whether those were all.
fn drain(ring: &mut RingBuf<MapData>) -> (Vec<DnsAnswer>, bool) {
    let mut found = Vec::new();
    for _ in 0..BATCH {
        let Some(item) = ring.next() else {
            return (found, true);
        };
        found.extend(read(&item));
    }
    (found, false)
}

/// Parses a record of the ring. Returns `None` if it contains no address.
fn read(bytes: &[u8]) -> Option<DnsAnswer> {
    let record: AnswerRecord = read_unaligned(bytes)?;
    let message = bytes.get(size_of::<AnswerRecord>()..)?;
    let message = message.get(..record.length.try_into().ok()?)?;
    answer(message, server(&record)?)
}

fn server(record: &AnswerRecord) -> Option<IpAddr> {
    let [first, second, third, fourth] = record.server.map(u32::from_be);
    match record.family {
        4 => Some(Ipv4Addr::from_bits(first).into()),
        6 => {
            let words = [first, second, third, fourth].map(u128::from);
            let bits = words.iter().fold(0, |bits, word| bits << 32 | word);
            Some(Ipv6Addr::from_bits(bits).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_both_families() {
        let of = |server: [u8; 16], family| {
            let word =
                |at: usize| u32::from_ne_bytes([server[at], server[at + 1], server[at + 2], server[at + 3]]);
            let record = AnswerRecord {
                server: [word(0), word(4), word(8), word(12)],
                family,
                length: 0,
            };
            super::server(&record).map(|address| address.to_string())
        };
        let v6: Ipv6Addr = "2001:db8::53".parse().expect("an address");
        assert_eq!(of(v6.octets(), 6).as_deref(), Some("2001:db8::53"));
        let mut v4 = [0; 16];
        v4[..4].copy_from_slice(&[192, 0, 2, 53]);
        assert_eq!(of(v4, 4).as_deref(), Some("192.0.2.53"));
        assert_eq!(of(v4, 0), None);
    }

    #[test]
    fn records_that_are_cut_short_tell_nothing() {
        let bytes = [0; 64];
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None);
        }
        let mut longer = [0; 64];
        longer[16..24].copy_from_slice(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(read(&longer), None);
    }
}
