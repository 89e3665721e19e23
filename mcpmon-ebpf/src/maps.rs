//! All maps, and the functions that read them.

use aya_ebpf::{
    Global,
    bindings::{BPF_F_CLONE, BPF_F_NO_PREALLOC, bpf_map_type::BPF_MAP_TYPE_SK_STORAGE},
    btf_maps::SkStorage,
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_map, map},
    maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf, lpm_trie::Key},
};
use mcpmon_common::{
    event::{Counter, ExecBuffer, OpenedConnection},
    gate::{AcceptedDigest, AcceptedStart, CheckedProgram, Gate, GateKey, Hold},
    limits::{
        ACCEPTED_DIGESTS as ACCEPTED_DIGESTS_MAX, AGENT_NAMES as AGENT_NAMES_MAX,
        CHECKED_PROGRAMS as CHECKED_PROGRAMS_MAX, COMM_LEN, CONNECTION_RING, GATE_NAMES, HELD_PROCESSES,
        MULTIPATH_SOCKETS, NETWORK_ENTRIES, PORT_ENTRIES, PROCESS_ENTRIES, PROCESS_RING, REFUSED_EXECUTABLES,
        RESERVED_ADDRESSES as RESERVED_ADDRESSES_MAX,
    },
    offsets::Offsets,
    process::{FileKey, ProcessEntry, SocketOwner},
    reserved::ReservedAddress,
    state::{ALL_PAGES, Heartbeat, MAX_PROCESSORS, ReadPosition, SEQUENCES as SEQUENCE_COUNT, StatePage},
    watch::{Control, Key4, Key6, LIST_BITS, NetworkEntry, PortKey},
};

/// Its name states the ABI that the object was built for; the loader looks for that name.
#[map]
pub(crate) static ABI_V10: Array<u32> = Array::with_max_entries(1, 0);

#[map]
pub(crate) static CONTROL: Array<Control> = Array::with_max_entries(1, 0);

// Each address table exists twice: one copy is in force while the other one is filled, and one store of the control
// word swaps them.
#[map]
pub(crate) static NETWORK4_A: LpmTrie<Key4, NetworkEntry> = LpmTrie::with_max_entries(NETWORK_ENTRIES, 0);
#[map]
pub(crate) static NETWORK4_B: LpmTrie<Key4, NetworkEntry> = LpmTrie::with_max_entries(NETWORK_ENTRIES, 0);
#[map]
pub(crate) static NETWORK6_A: LpmTrie<Key6, NetworkEntry> = LpmTrie::with_max_entries(NETWORK_ENTRIES, 0);
#[map]
pub(crate) static NETWORK6_B: LpmTrie<Key6, NetworkEntry> = LpmTrie::with_max_entries(NETWORK_ENTRIES, 0);
#[map]
pub(crate) static PORTS_A: HashMap<PortKey, NetworkEntry> =
    HashMap::with_max_entries(PORT_ENTRIES, BPF_F_NO_PREALLOC);
#[map]
pub(crate) static PORTS_B: HashMap<PortKey, NetworkEntry> =
    HashMap::with_max_entries(PORT_ENTRIES, BPF_F_NO_PREALLOC);

// Allocated completely at load. A child must get its entry, and a changed file its refusal, even when no memory can be
// allocated for the daemon (its memory cgroup is full, or it is stopped).
#[map]
pub(crate) static PROCESSES: HashMap<u32, ProcessEntry> = HashMap::with_max_entries(PROCESS_ENTRIES, 0);
#[map]
pub(crate) static AGENT_NAMES: HashMap<[u8; COMM_LEN], u32> = HashMap::with_max_entries(AGENT_NAMES_MAX, 0);
#[map]
pub(crate) static REFUSED: HashMap<FileKey, u32> = HashMap::with_max_entries(REFUSED_EXECUTABLES, 0);

#[map]
pub(crate) static RESERVED_ADDRESSES: HashMap<ReservedAddress, u32> =
    HashMap::with_max_entries(RESERVED_ADDRESSES_MAX, 0);

// The exec gate: until when it is open, the names it stops, and the stopped processes.
#[map]
pub(crate) static GATE: Array<Gate> = Array::with_max_entries(1, 0);
#[map]
pub(crate) static GATED: HashMap<GateKey, u32> = HashMap::with_max_entries(GATE_NAMES, 0);
#[map]
pub(crate) static HOLDS: HashMap<u32, Hold> = HashMap::with_max_entries(HELD_PROCESSES, 0);

// Checked programs with their accepted digests, and starts that passed the check, by thread group.
// Preallocated: before 6.1, programs that may sleep can use no other maps.
#[map]
pub(crate) static CHECKED_PROGRAMS: HashMap<CheckedProgram, u32> =
    HashMap::with_max_entries(CHECKED_PROGRAMS_MAX, 0);
#[map]
pub(crate) static ACCEPTED_DIGESTS: HashMap<AcceptedDigest, u32> =
    HashMap::with_max_entries(ACCEPTED_DIGESTS_MAX, 0);
#[map]
pub(crate) static VERIFIED: LruHashMap<u32, AcceptedStart> = LruHashMap::with_max_entries(HELD_PROCESSES, 0);

/// The state of a search for names in arguments. It is not kept in registers, because the verifier would track it there,
/// and check the rest of the search once for each state.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Scan {
    /// Hash and kind of the current name, and 1 if a name was found.
    pub(crate) progress: [u64; 3],
    /// The user in the keys of the names.
    pub(crate) uid: u64,
    /// The bit of the match if a name is found.
    pub(crate) bit: u64,
    /// The bits of the match.
    pub(crate) found: u64,
}

#[map]
pub(crate) static GATE_SCRATCH: PerCpuArray<Scan> = PerCpuArray::with_max_entries(1, 0);

/// The owner of each socket, stored with the socket.
#[btf_map]
pub(crate) static SOCKET_OWNERS: ClonedStorage<SocketOwner> = ClonedStorage {
    r#type: core::ptr::null(),
    key: core::ptr::null(),
    value: core::ptr::null(),
    max_entries: core::ptr::null(),
    map_flags: core::ptr::null(),
};

/// The connection that a process of a server requested, stored with its socket. Accepted sockets do not inherit it.
#[btf_map]
pub(crate) static OPENED_CONNECTIONS: SkStorage<OpenedConnection> = SkStorage::new();

/// The owners of Multipath TCP sockets, keyed by cookie: the kernel opens further subflows for them on its own, with
/// other sockets.
#[map]
pub(crate) static MULTIPATH_OWNERS: LruHashMap<u64, SocketOwner> =
    LruHashMap::with_max_entries(MULTIPATH_SOCKETS, 0);

/// Socket storage that accepted sockets inherit from the listening one; aya's type for it has no flags.
#[repr(C)]
pub(crate) struct ClonedStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_SK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; (BPF_F_NO_PREALLOC | BPF_F_CLONE) as usize],
}

// SAFETY: the fields describe the map to the loader and are never read.
unsafe impl<T> Sync for ClonedStorage<T> {}

#[map]
pub(crate) static CONNECTION_RECORDS: RingBuf = RingBuf::with_byte_size(CONNECTION_RING, 0);
#[map]
pub(crate) static PROCESS_RECORDS: RingBuf = RingBuf::with_byte_size(PROCESS_RING, 0);
#[map]
pub(crate) static SEQUENCES: PerCpuArray<u64> = PerCpuArray::with_max_entries(SEQUENCE_COUNT, 0);
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);
/// The daemon's notes for the next one, and the numbers of records that it has read; no program uses them.
#[map]
pub(crate) static NOTES: Array<StatePage> = Array::with_max_entries(ALL_PAGES, 0);
#[map]
pub(crate) static READ_POSITIONS: Array<ReadPosition> =
    Array::with_max_entries(SEQUENCE_COUNT * MAX_PROCESSORS, 0);
#[map]
pub(crate) static HEARTBEAT: Array<Heartbeat> = Array::with_max_entries(1, 0);
#[map]
pub(crate) static EXEC_SCRATCH: PerCpuArray<ExecBuffer> = PerCpuArray::with_max_entries(1, 0);

/// Patched by the loader with offsets from the running kernel's BTF, then frozen: they are constants to the verifier.
#[unsafe(no_mangle)]
pub(crate) static OFFSETS: Global<Offsets> = Global::new(Offsets {
    task_tgid: 0,
    task_pid: 0,
    task_real_parent: 0,
    task_group_leader: 0,
    task_start_boottime: 0,
    task_mm: 0,
    task_signal: 0,
    task_exit_code: 0,
    signal_live: 0,
    signal_group_exit_code: 0,
    signal_pids: 0,
    mm_arg_start: 0,
    mm_arg_end: 0,
    bprm_file: 0,
    bprm_filename: 0,
    file_path: 0,
    file_inode: 0,
    inode_ino: 0,
    inode_sb: 0,
    inode_size: 0,
    inode_ctime_sec: 0,
    inode_ctime_nsec: 0,
    inode_nlink: 0,
    inode_uid: 0,
    sb_dev: 0,
    task_comm: 0,
    skb_sk: 0,
    sock_lock_owned: 0,
    sock_max_ack_backlog: 0,
    sock_is_kernel_bit: 0,
    sock_cookie: 0,
    tcp_is_mptcp_bit: 0,
    connection_ulp_data: 0,
    subflow_connection: 0,
    sock_addr_sk: 0,
    sock_flags: 0,
    tcp_bytes_sent: 0,
    tcp_bytes_retrans: 0,
    tcp_bytes_acked: 0,
    tcp_bytes_received: 0,
    tcp_write_seq: 0,
    tcp_snd_nxt: 0,
});

/// Reads one field of [`OFFSETS`] without copying the rest.
macro_rules! offset {
    ($field:ident) => {{
        let offsets = (&raw const $crate::maps::OFFSETS).cast::<mcpmon_common::offsets::Offsets>();
        // SAFETY: Global is transparent over Offsets; volatile, because the loader patches the section.
        unsafe { core::ptr::read_volatile(&raw const (*offsets).$field) as usize }
    }};
}
pub(crate) use offset;

/// Returns the control word in force.
#[inline(always)]
pub(crate) fn control() -> u64 {
    CONTROL.get(0).map_or(0, |control| control.word)
}

/// Returns the rules for an IPv4 address in `list`.
#[inline(always)]
pub(crate) fn network4(control: u64, list: u32, address: [u8; 4]) -> Option<NetworkEntry> {
    let key = Key::new(
        LIST_BITS + 32,
        Key4 {
            list: list.to_be_bytes(),
            address,
        },
    );
    let table = if control & Control::TABLE_B == 0 {
        &NETWORK4_A
    } else {
        &NETWORK4_B
    };
    table.get(&key).copied()
}

/// Returns the rules for an IPv6 address in `list`; the address is in words of network order.
#[inline(always)]
pub(crate) fn network6(control: u64, list: u32, address: [u32; 4]) -> Option<NetworkEntry> {
    let key = Key::new(
        LIST_BITS + 128,
        Key6 {
            list: list.to_be_bytes(),
            // SAFETY: both types have the same size, and every bit pattern is valid.
            address: unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(address) },
        },
    );
    let table = if control & Control::TABLE_B == 0 {
        &NETWORK6_A
    } else {
        &NETWORK6_B
    };
    table.get(&key).copied()
}

/// Returns the entry for `port` within a range.
#[inline(always)]
pub(crate) fn at_port(control: u64, entry: NetworkEntry, port: u16) -> NetworkEntry {
    if entry.ports == 0 {
        return entry;
    }
    let key = PortKey {
        set: entry.ports,
        port,
        reserved: 0,
    };
    let table = if control & Control::TABLE_B == 0 {
        &PORTS_A
    } else {
        &PORTS_B
    };
    // SAFETY: entries of the table in force are never written; the copy is taken at once.
    unsafe { table.get(key) }.copied().unwrap_or(entry)
}

/// Returns whether the daemon has given a sign of life recently.
#[inline(always)]
pub(crate) fn is_attended() -> bool {
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    HEARTBEAT.get(0).is_none_or(|beat| beat.is_fresh(now))
}

/// Returns the entry by which a process's connections are judged now.
#[inline(always)]
pub(crate) fn in_force(entry: ProcessEntry) -> ProcessEntry {
    if entry.needs_daemon() && !is_attended() {
        entry.without_daemon()
    } else {
        entry
    }
}

/// Returns the entry of a process.
#[inline(always)]
pub(crate) fn process(pid: u32) -> Option<ProcessEntry> {
    entry(pid).copied()
}

/// Returns a reference to the entry of a process.
#[inline(always)]
pub(crate) fn entry(pid: u32) -> Option<&'static ProcessEntry> {
    // SAFETY: a concurrent update by the daemon may tear between fields; each field is one word and is read on its
    // own.
    unsafe { PROCESSES.get(pid) }
}
