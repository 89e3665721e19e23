//! Requirements of the kernel sensor, checked before any program is loaded.

use std::{fmt, fs, path::Path};

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use super::btf::KERNEL_BTF;

/// A requirement of the kernel sensor that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Capabilities, by name.
    Capabilities(Vec<&'static str>),
    /// A kernel older than [`MINIMUM`].
    Kernel(String),
    /// The kernel's type information (BTF).
    Btf,
}

/// Oldest kernel that has everything: ring buffers (5.8), cgroup links (5.7), raw tracepoint links.
pub const MINIMUM: (u32, u32) = (5, 10);

/// The required capabilities with their bits, as in capabilities(7).
const CAPABILITIES: [(&str, u32); 4] = [
    ("CAP_BPF", 39),
    ("CAP_PERFMON", 38),
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_PTRACE", 19),
];
const CAP_SYS_ADMIN: u32 = 21;
const CAP_KILL: u32 = 5;
const CAP_LEASE: u32 = 28;
/// Capabilities that `CAP_SYS_ADMIN` implies.
const ADMIN_COVERS: [u32; 2] = [39, 38];

/// Returns everything that is missing on this host; empty if the sensor can start.
pub fn missing() -> Vec<Missing> {
    let mut missing = Vec::new();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lacking = lacking_capabilities(&status);
    if !lacking.is_empty() {
        missing.push(Missing::Capabilities(lacking));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if parse_release(&release).is_none_or(|version| version < MINIMUM) {
        missing.push(Missing::Kernel(release.trim().to_owned()));
    }
    if !Path::new(KERNEL_BTF).exists() {
        missing.push(Missing::Btf);
    }
    missing
}

/// Returns whether this process may signal the processes of all users.
pub fn can_signal_everyone() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    has(&status, CAP_KILL)
}

/// Returns whether this process may take leases of the files of all users.
#[must_use]
pub fn can_lease_everything() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    has(&status, CAP_LEASE)
}

/// Describes each missing requirement, with its remedy.
pub fn describe(missing: &[Missing]) -> String {
    let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities(names) => {
                write!(f, "missing privileges: {}", names.join(", "))?;
                f.write_str(" (run as root, for example with sudo, or grant these capabilities)")
            }
            Self::Kernel(release) => {
                let (major, minor) = MINIMUM;
                write!(
                    f,
                    "kernel {release} is too old: {major}.{minor} or newer is needed"
                )
            }
            Self::Btf => write!(
                f,
                "{KERNEL_BTF} is missing: use a kernel with CONFIG_DEBUG_INFO_BTF, and in a container mount the host's /sys/kernel/btf"
            ),
        }
    }
}

/// Lifts the locked-memory limit, against which kernels before 5.11 charge maps. Later kernels ignore it for maps.
pub fn raise_memory_limit() {
    if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
        tracing::debug!(%error, "the locked-memory limit stays as it is");
    }
}

fn lacking_capabilities(status: &str) -> Vec<&'static str> {
    let is_covered = |bit| ADMIN_COVERS.contains(&bit) && has(status, CAP_SYS_ADMIN);
    CAPABILITIES
        .into_iter()
        .filter(|&(_, bit)| !(has(status, bit) || is_covered(bit)))
        .map(|(name, _)| name)
        .collect()
}

/// Returns whether a capability is effective, by its bit.
fn has(status: &str, bit: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> bit & 1 == 1)
}

pub(super) fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("CapEff:\t000001ffffffffff\n" => Vec::<&str>::new(); "root")]
    #[test_case("CapEff:\t0000000000000000\n" => vec!["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"]; "nobody")]
    #[test_case("CapEff:\t0000000000281000\n" => Vec::<&str>::new(); "the older SYS_ADMIN in place of BPF and PERFMON")]
    #[test_case("CapEff:\t000000c000001000\n" => vec!["CAP_SYS_PTRACE"]; "all but one")]
    #[test_case("" => vec!["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"]; "unreadable")]
    fn capabilities(status: &str) -> Vec<&'static str> {
        lacking_capabilities(status)
    }

    #[test_case("CapEff:\t000001ffffffffff\n" => true; "root")]
    #[test_case("CapEff:\t000001ffffffffdf\n" => false; "all but that one")]
    #[test_case("" => false; "not told")]
    fn signals(status: &str) -> bool {
        has(status, CAP_KILL)
    }

    #[test_case("6.1.0-28-amd64\n" => Some((6, 1)))]
    #[test_case("5.4.0" => Some((5, 4)))]
    #[test_case("6.18-rc1" => Some((6, 18)))]
    #[test_case("unknown" => None)]
    fn releases(release: &str) -> Option<(u32, u32)> {
        parse_release(release)
    }
}
