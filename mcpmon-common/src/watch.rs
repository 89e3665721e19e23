//! Keys and values of the address tables, and the one word that selects which copy is in force.
//!
//! A longest-prefix look-up returns one entry, so each entry contains every rule whose range covers its own: the
//! compiler of the tables merges them (see `mcpmon_policy::network`).

use crate::{assert_layout, pod, process::ProcessEntry};

/// List number of the host-wide rules; other numbers are egress lists of servers.
pub const LIST_HOST: u32 = 0;
/// Egress list that is the union of all others, for processes that are not judged yet.
pub const LIST_PENDING: u32 = 1;
/// First number of a server's own egress list.
pub const LIST_FIRST_SERVER: u32 = 2;
/// List of sessions that have a proxy: the addresses of models, which they must reach through it.
pub const LIST_PROXIED: u32 = u32::MAX - 1;

/// Rule number of the self-test's address: it is refused even if nothing else is enforced.
pub const RULE_CANARY: u32 = 1;
/// Mark of the socket with which the self-test sends to its address: calls to that address pass then, and packets are
/// judged even while no rule is enforced.
pub const PROBE_MARK: u32 = 0x6d63_706d;
/// First number of a configured rule.
pub const RULE_FIRST: u32 = 2;
/// Rule number of a refused socket: no hook judges its protocol, and a rule refuses addresses to its process.
pub const RULE_PROTOCOL: u32 = u32::MAX;

/// Bits of the list number in front of the address in a table key's prefix length.
pub const LIST_BITS: u32 = 32;

/// Key data of the IPv4 table; the trie's prefix length is [`LIST_BITS`] plus the address prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Key4 {
    /// List number, big-endian.
    pub list: [u8; 4],
    /// Address, network order.
    pub address: [u8; 4],
}

/// Key data of the IPv6 table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Key6 {
    /// List number, big-endian.
    pub list: [u8; 4],
    /// Address, network order.
    pub address: [u8; 16],
}

/// The rule numbers of an address range, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NetworkEntry {
    /// Rule that refuses it for every process of the host.
    pub deny_host: u32,
    /// Rule that refuses it for agents and their descendants.
    pub deny_agents: u32,
    /// Rule that reports it.
    pub watch: u32,
    /// Key into the port table if some ports have other rules; 0 if none has. With [`NetworkEntry::PORTS_ALLOWED`]
    /// none of these rules refuses.
    pub ports: u32,
}

impl NetworkEntry {
    /// Bit of the keys of port sets in which every port is allowed.
    pub const PORTS_ALLOWED: u32 = 1 << 31;

    /// Returns whether no rule for any port of the range refuses it.
    #[inline(always)]
    pub const fn is_allowed(&self) -> bool {
        let ports_allowed = self.ports == 0 || self.ports & Self::PORTS_ALLOWED != 0;
        self.deny_host == 0 && self.deny_agents == 0 && ports_allowed
    }
}

/// Key of the port table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortKey {
    /// [`NetworkEntry::ports`] of the range.
    pub set: u32,
    /// Port, host order.
    pub port: u16,
    /// Explicit padding.
    pub reserved: u16,
}

/// The control word: one aligned 64-bit store switches all of it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Control {
    /// The bits below.
    pub word: u64,
}

impl Control {
    /// The second copy of the tables is in force.
    pub const TABLE_B: u64 = 1;
    /// Refusals are carried out; without it they are only reported.
    pub const ENFORCE: u64 = 1 << 1;
    /// At least one server has an egress list: candidates start as pending.
    pub const EGRESS: u64 = 1 << 2;
    /// The host list refuses addresses to every process, besides the self-test's address.
    pub const DENY_HOST: u64 = 1 << 3;
    /// The host list refuses addresses to agents.
    pub const DENY_AGENTS: u64 = 1 << 4;
    /// At least one list of a server or session refuses addresses.
    pub const DENY_LISTS: u64 = 1 << 5;
    /// Flags of rules that refuse only some processes.
    pub const DENY_SOME: u64 = Self::DENY_AGENTS | Self::DENY_LISTS;
    /// At least one address is refused to a process: sockets and packets are judged, too.
    pub const DENY: u64 = Self::DENY_HOST | Self::DENY_SOME;

    /// Returns whether `control`, a control word, has rules that refuse addresses to a process with this
    /// entry.
    #[inline(always)]
    pub const fn restricts(control: u64, entry: &ProcessEntry) -> bool {
        if control & Self::DENY_HOST != 0 {
            return true;
        }
        let is_listed = entry.egress[0] != 0 || entry.egress[1] != 0 || entry.session != 0;
        control & Self::DENY_AGENTS != 0 && entry.has(ProcessEntry::FLAG_AGENT)
            || control & Self::DENY_LISTS != 0 && is_listed
            || control & Self::EGRESS != 0 && entry.has(ProcessEntry::FLAG_PENDING)
    }
}

assert_layout!(Key4, size 8, address at 4);
assert_layout!(Key6, size 20, address at 4);
assert_layout!(NetworkEntry, size 16, ports at 12);
assert_layout!(PortKey, size 8, port at 4);
assert_layout!(Control, size 8);
pod!(Key4, Key6, NetworkEntry, PortKey, Control);
