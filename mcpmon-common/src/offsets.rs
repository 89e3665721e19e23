//! Offsets of kernel structure fields, read from the running kernel's BTF and patched in at load.

use crate::{assert_layout, pod};

/// Byte offsets inside kernel structures. [`Offsets::ABSENT`] marks a field this kernel does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.real_parent`
    pub task_real_parent: u32,
    /// `task_struct.group_leader`
    pub task_group_leader: u32,
    /// `task_struct.start_boottime` (`real_start_time` before 5.5)
    pub task_start_boottime: u32,
    /// `task_struct.mm`
    pub task_mm: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
    /// `signal_struct.group_exit_code`
    pub signal_group_exit_code: u32,
    /// `signal_struct.pids`
    pub signal_pids: u32,
    /// `mm_struct.arg_start`
    pub mm_arg_start: u32,
    /// `mm_struct.arg_end`
    pub mm_arg_end: u32,
    /// `linux_binprm.file`
    pub bprm_file: u32,
    /// `linux_binprm.filename`
    pub bprm_filename: u32,
    /// `file.f_path` (`__f_path` where that is a constant alias)
    pub file_path: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `inode.i_ino`
    pub inode_ino: u32,
    /// `inode.i_sb`
    pub inode_sb: u32,
    /// `inode.i_size`
    pub inode_size: u32,
    /// Seconds of the change time: `i_ctime_sec`, or the first half of `i_ctime`/`__i_ctime`.
    pub inode_ctime_sec: u32,
    /// Nanoseconds of the change time.
    pub inode_ctime_nsec: u32,
    /// `inode.i_nlink`
    pub inode_nlink: u32,
    /// `inode.i_uid`
    pub inode_uid: u32,
    /// `super_block.s_dev`
    pub sb_dev: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `sk_buff.sk`
    pub skb_sk: u32,
    /// `sock.sk_lock.owned`
    pub sock_lock_owned: u32,
    /// `sock.sk_max_ack_backlog`
    pub sock_max_ack_backlog: u32,
    /// `sock.sk_kern_sock`, in bits: it is a bit field.
    pub sock_is_kernel_bit: u32,
    /// `sock_common.skc_cookie`, with which every `sock` begins.
    pub sock_cookie: u32,
    /// `tcp_sock.is_mptcp`, in bits: a boolean or a bit field. Absent without Multipath TCP.
    pub tcp_is_mptcp_bit: u32,
    /// `inet_connection_sock.icsk_ulp_data`
    pub connection_ulp_data: u32,
    /// `mptcp_subflow_context.conn`. Absent without Multipath TCP.
    pub subflow_connection: u32,
    /// `bpf_sock_addr_kern.sk`
    pub sock_addr_sk: u32,
    /// `sock_common.skc_flags`
    pub sock_flags: u32,
    /// `tcp_sock.bytes_sent`
    pub tcp_bytes_sent: u32,
    /// `tcp_sock.bytes_retrans`
    pub tcp_bytes_retrans: u32,
    /// `tcp_sock.bytes_acked`
    pub tcp_bytes_acked: u32,
    /// `tcp_sock.bytes_received`
    pub tcp_bytes_received: u32,
    /// `tcp_sock.write_seq`
    pub tcp_write_seq: u32,
    /// `tcp_sock.snd_nxt`
    pub tcp_snd_nxt: u32,
}

impl Offsets {
    /// Stands for a field that the kernel does not have.
    pub const ABSENT: u32 = u32::MAX;
}

assert_layout!(Offsets, size 168, mm_arg_start at 44, sb_dev at 96, sock_max_ack_backlog at 112);
pod!(Offsets);
