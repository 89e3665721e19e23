//! Sockets: new ones of protocols that no hook judges are refused if a rule restricts their process. Other sockets keep
//! their owner, for packets that leave without a call of that process.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    helpers::{
        bpf_get_current_uid_gid,
        generated::{
            bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_socket_cookie, bpf_sk_storage_get,
        },
    },
    programs::{SockAddrContext, SockContext},
};
use mcpmon_common::{
    address::Form,
    event::{Action, Hook},
    limits::COMM_LEN,
    offsets::Offsets,
    process::{ProcessEntry, SocketOwner},
    watch::{Control, RULE_PROTOCOL},
};

use crate::{
    emit::Sequence,
    judge::{Judge, Rules, Subject, Tried, name_caller},
    maps::{MULTIPATH_OWNERS, SOCKET_OWNERS, control, in_force, offset, process},
    task::{self, Address, Caller, read},
};

const INET: u32 = 2;
const STREAM: u32 = 1;
const DATAGRAM: u32 = 2;
const RAW: u32 = 3;
const ICMP: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const ICMP6: u32 = 58;
const UDP_LITE: u32 = 136;
const MPTCP: u32 = 262;

/// Judges a new IPv4 or IPv6 socket; returns true to refuse it.
#[inline(always)]
pub(crate) fn try_create(ctx: &SockContext) -> bool {
    let control = control();
    if control & Control::DENY == 0 {
        return false;
    }
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    let (family, kind, protocol) = unsafe {
        let socket = ctx.sock;
        ((*socket).family, (*socket).type_, (*socket).protocol)
    };
    let caller = Caller::get();
    let judge = Judge {
        control,
        entry: in_force(process(caller.pid).unwrap_or_default()),
        port: 0,
    };
    let is_plain = is_plain(kind, protocol);
    if is_plain || is_judged_by_packet(kind, protocol) {
        let depends = control & Control::DENY_SOME != 0;
        let is_multipath = depends && protocol == MPTCP;
        if !is_plain || is_multipath || depends && is_listed(&judge.entry) {
            // SAFETY: the context of this program is a socket, and what the helper wants.
            unsafe {
                let kept = kept(ctx.sock, BPF_SK_STORAGE_GET_F_CREATE.into());
                if kept.is_null() {
                    return false;
                }
                own(kept, caller, &judge.entry);
                if is_multipath {
                    own_multipath(bpf_get_socket_cookie(ctx.sock.cast()), kept);
                }
            }
        }
        return false;
    }
    if !Control::restricts(control, &judge.entry) {
        return false;
    }
    let rules = Rules {
        deny: RULE_PROTOCOL,
        watch: 0,
    };
    let action = judge.action(rules);
    let nowhere = if family == INET {
        Tried::v4([0; 4])
    } else {
        Tried::v6([0; 4])
    };
    let subject = Subject {
        address: nowhere,
        form: Form::Plain as u8,
        given: nowhere,
        hook: Hook::Socket,
        protocol: protocol as u8,
        // SAFETY: the context is what the helper wants.
        cookie: unsafe { bpf_get_socket_cookie(ctx.sock.cast()) },
    };
    judge.report(Sequence::Connections, action, rules, subject, |record| {
        // SAFETY: the record lies in the ring.
        unsafe { name_caller(record, caller) };
    });
    matches!(action, Action::Deny)
}

/// Returns whether connections and datagrams are judged by the address that the caller gives.
#[inline(always)]
const fn is_plain(kind: u32, protocol: u32) -> bool {
    matches!((kind, protocol), (STREAM, TCP | MPTCP) | (DATAGRAM, UDP))
}

/// Returns whether a socket can send without a judged call: then its packets are judged.
#[inline(always)]
const fn is_judged_by_packet(kind: u32, protocol: u32) -> bool {
    matches!((kind, protocol), (DATAGRAM, UDP_LITE | ICMP | ICMP6) | (RAW, _))
}

/// Returns whether other rules than those for everyone can apply to a process.
#[inline(always)]
const fn is_listed(entry: &ProcessEntry) -> bool {
    entry.egress[0] != 0 || entry.egress[1] != 0 || entry.session != 0 || entry.flags != 0
}

/// The cookie that stands for "no socket".
pub(crate) const NO_SUBFLOW: u64 = u64::MAX;

/// Stores the current process as the owner of a socket.
///
/// # Safety
/// `kept` is the storage of a socket.
#[inline(always)]
unsafe fn own(kept: *mut SocketOwner, caller: Caller, entry: &ProcessEntry) {
    // SAFETY: by contract; the helper writes only the name, and clears it if there is none.
    unsafe {
        (*kept).process = task::current_key(caller);
        (*kept).entry = *entry;
        // A packet that leaves without a call of the process does so after the process was judged.
        (*kept).entry.flags = entry.flags & !ProcessEntry::FLAG_PENDING;
        (*kept).cgroup = bpf_get_current_cgroup_id();
        (*kept).uid = bpf_get_current_uid_gid() as u32;
        (*kept).flags = 0;
        bpf_get_current_comm((&raw mut (*kept).comm).cast(), COMM_LEN as u32);
    }
}

/// Stores the owner of a Multipath TCP socket under its cookie.
///
/// # Safety
/// `owner` is the storage of a socket.
#[inline(always)]
unsafe fn own_multipath(cookie: u64, owner: *const SocketOwner) {
    // SAFETY: by contract.
    let owner = unsafe { &*owner };
    // An owner that cannot be stored counts as unknown, and every list applies to it.
    let _unknown = MULTIPATH_OWNERS.insert(cookie, owner, BPF_ANY.into());
}

/// Notes that a process connected a socket, which another process may have opened, or which is older than the rules.
/// `subflow` is the connection for which the kernel itself connects it, or [`NO_SUBFLOW`].
///
/// # Safety
/// `ctx` is the context that the kernel passed, which the verifier checks.
#[inline(always)]
pub(crate) unsafe fn own_connected(
    ctx: &SockAddrContext,
    caller: Caller,
    entry: &ProcessEntry,
    subflow: u64,
) {
    // SAFETY: by contract.
    unsafe {
        let socket = (*ctx.sock_addr).__bindgen_anon_1.sk;
        if socket.is_null() {
            return;
        }
        let is_subflow = subflow != NO_SUBFLOW;
        let multipath = if is_subflow { None } else { multipath_cookie(ctx) };
        let is_owned = is_subflow || multipath.is_some() || is_listed(entry);
        let create = if is_owned { BPF_SK_STORAGE_GET_F_CREATE } else { 0 };
        let kept = kept(socket, create.into());
        if kept.is_null() {
            return;
        }
        if is_subflow {
            match multipath_owner(subflow) {
                Some(owner) => *kept = *owner,
                // The owner is unknown, so every list applies.
                None => (*kept).entry = UNKNOWN,
            }
        } else if is_owned {
            own(kept, caller, entry);
        }
        (*kept).flags |= SocketOwner::FLAG_CONNECTED;
        if let Some(cookie) = multipath {
            own_multipath(cookie, kept);
        }
    }
}

/// Returns the cookie of the Multipath TCP connection for which the kernel itself opens a subflow (such as to an
/// address that the peer announced), or 0 if it is unknown. Returns [`NO_SUBFLOW`] for calls of a process.
#[inline(always)]
pub(crate) fn kernels_subflow(ctx: &SockAddrContext, control: u64) -> u64 {
    if control & Control::DENY_SOME == 0 {
        return NO_SUBFLOW;
    }
    // Kernel threads have no memory map.
    if !read::<Address>(task::current(), offset!(task_mm)).is_ok_and(|memory| memory == 0) {
        return NO_SUBFLOW;
    }
    match called_socket(ctx).filter(|socket| is_kernels(*socket) && is_subflow(*socket)) {
        Some(socket) => connection_cookie(socket).unwrap_or(0),
        None => NO_SUBFLOW,
    }
}

/// Returns the owner of a Multipath TCP connection, if it was recorded.
#[inline(always)]
pub(crate) fn multipath_owner(cookie: u64) -> Option<&'static SocketOwner> {
    // SAFETY: an entry is replaced as a whole, and is memory for as long as the program runs.
    unsafe { MULTIPATH_OWNERS.get(cookie) }
}

/// Returns the entry in force for a Multipath TCP connection: if its owner is unknown, the rules for agents
/// and every list apply.
#[inline(always)]
pub(crate) fn multipath_entry(cookie: u64) -> ProcessEntry {
    multipath_owner(cookie).map_or(UNKNOWN, current_entry)
}

/// The entry of an unknown process.
const UNKNOWN: ProcessEntry = ProcessEntry {
    instance: 0,
    egress: [0; 2],
    flags: ProcessEntry::FLAG_AGENT | ProcessEntry::FLAG_PENDING,
    exec: 0,
    session: 0,
};

/// Returns the current entry of a socket's owner; returns the stored one only if the process has no entry any
/// more.
#[inline(always)]
pub(crate) fn current_entry(owner: &SocketOwner) -> ProcessEntry {
    process(owner.process.pid).unwrap_or(owner.entry)
}

/// Returns the cookie of the Multipath TCP socket that a call connects, directly or by a subflow.
///
/// # Safety
/// `ctx` is the context that the kernel passed, which the verifier checks.
#[inline(always)]
unsafe fn multipath_cookie(ctx: &SockAddrContext) -> Option<u64> {
    // SAFETY: by contract.
    unsafe {
        if (*ctx.sock_addr).protocol == MPTCP {
            return Some(bpf_get_socket_cookie(ctx.sock_addr.cast()));
        }
    }
    let socket = called_socket(ctx).filter(|socket| is_kernels(*socket) && is_subflow(*socket))?;
    connection_cookie(socket)
}

/// Returns the cookie of the Multipath TCP socket to which a subflow belongs.
#[inline(always)]
fn connection_cookie(subflow: Address) -> Option<u64> {
    let data = read::<Address>(subflow, offset!(connection_ulp_data)).ok()?;
    let connection = read::<Address>(data, offset!(subflow_connection)).ok()?;
    read(connection, offset!(sock_cookie)).ok()
}

/// Returns the kernel address of the socket in a call.
#[inline(always)]
fn called_socket(ctx: &SockAddrContext) -> Option<Address> {
    // The context is the kernel's own structure.
    read(ctx.sock_addr as Address, offset!(sock_addr_sk)).ok()
}

/// Returns whether the kernel opened a socket for itself.
#[inline(always)]
pub(crate) fn is_kernels(socket: Address) -> bool {
    bit(socket, offset!(sock_is_kernel_bit))
}

/// Returns whether a TCP socket of the kernel is a subflow of Multipath TCP.
#[inline(always)]
pub(crate) fn is_subflow(socket: Address) -> bool {
    let position = offset!(tcp_is_mptcp_bit);
    position != Offsets::ABSENT as usize && bit(socket, position)
}

#[inline(always)]
fn bit(base: Address, position: usize) -> bool {
    read::<u8>(base, position / 8).is_ok_and(|byte| byte >> (position % 8) & 1 != 0)
}

/// Returns the owner of a socket, if it was recorded.
///
/// # Safety
///
/// `socket` is a full socket.
#[inline(always)]
pub(crate) unsafe fn owner(socket: *mut bpf_sock) -> Option<&'static SocketOwner> {
    // SAFETY: by contract; what is kept is memory for as long as the program runs.
    unsafe { kept(socket, 0).as_ref() }
}

/// Returns the storage of a socket; null if there is none.
///
/// # Safety
///
/// `socket` is a socket, or the context of a program about one.
#[inline(always)]
unsafe fn kept(socket: *mut bpf_sock, flags: u64) -> *mut SocketOwner {
    let storage = core::ptr::from_ref(&SOCKET_OWNERS).cast_mut().cast();
    // SAFETY: by contract; the verifier checks the pointers.
    unsafe { bpf_sk_storage_get(storage, socket.cast(), core::ptr::null_mut(), flags).cast() }
}
