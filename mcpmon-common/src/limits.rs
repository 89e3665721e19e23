//! Limits of what the kernel programs copy and keep; in bytes if no other unit is given.

/// Most bytes of the argument vector in an exec record; the record also has its true length.
pub const ARGV_MAX: usize = 4096;
/// Bytes of the path given to `execve`, NUL included.
pub const FILENAME_MAX: usize = 256;
/// Bytes of a task's command name (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;

/// Size of the ring of connections, refused ones too: a flood of them displaces no record of a process.
pub const CONNECTION_RING: u32 = 4 << 20;
/// Size of the ring of execs, forks and exits. Those of tracked processes wake the reader at once.
pub const PROCESS_RING: u32 = 4 << 20;

/// Entries of one address table (of each of its two copies).
pub const NETWORK_ENTRIES: u32 = 1 << 17;
/// Entries of one port table (of each of its two copies).
pub const PORT_ENTRIES: u32 = 1 << 17;
/// Tracked processes. A full table is counted, and reported as degraded enforcement.
pub const PROCESS_ENTRIES: u32 = 1 << 18;
/// Multipath TCP sockets whose owner is remembered. The least recently used one is forgotten first; every list applies
/// to its later subflows then.
pub const MULTIPATH_SOCKETS: u32 = 1 << 14;
/// Keys of reserved addresses.
pub const RESERVED_ADDRESSES: u32 = 256;
/// Command names of agents.
pub const AGENT_NAMES: u32 = 256;
/// Executables refused at exec.
pub const REFUSED_EXECUTABLES: u32 = 1 << 14;
/// Names by which the exec gate recognises starts of pinned servers.
pub const GATE_NAMES: u32 = 1 << 14;
/// Most of them that belong to one user.
pub const GATE_NAMES_OF_USER: usize = 1 << 12;
/// Processes that are stopped until their files are compared; if there are more, the kernel does not stop them.
pub const HELD_PROCESSES: u32 = 1 << 13;
/// Bytes of the argument vector in which the exec gate looks for names.
pub const GATE_ARGV_MAX: usize = 256;
/// Paths of programs whose digest is checked when they are started, by user.
pub const CHECKED_PROGRAMS: u32 = 1 << 12;
/// Most of them that belong to one user.
pub const CHECKED_PROGRAMS_OF_USER: usize = 1 << 10;
/// Their accepted digests.
pub const ACCEPTED_DIGESTS: u32 = 1 << 14;
/// Most of them that belong to one user.
pub const ACCEPTED_DIGESTS_OF_USER: usize = 1 << 12;
