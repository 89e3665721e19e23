//! Connections of servers: noted when a process requests them, and reported with their bytes when the socket is closed.

use aya_ebpf::{
    bindings::{BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    helpers::{
        bpf_get_current_uid_gid,
        generated::{bpf_get_current_comm, bpf_get_socket_cookie, bpf_ktime_get_boot_ns, bpf_sk_storage_get},
    },
    programs::{SockAddrContext, SockContext},
};
use mcpmon_common::{
    event::{CloseRecord, Counter, Kind, OpenedConnection},
    limits::COMM_LEN,
    process::ProcessEntry,
};

use crate::{
    emit::{Ring, Sequence, count, emit, header},
    judge::Tried,
    maps::{OPENED_CONNECTIONS, offset},
    task::{self, Address, Caller, read},
};

const TCP: u32 = 6;
/// `TCP_CLOSE`.
const CLOSED: u32 = 7;
/// Bit of `sk_flags` (`SOCK_DONE`): the peer has closed its half, which counts as a received byte.
const DONE: u64 = 1 << 1;

/// Notes with the socket that a process of a server connects it. Of several calls, the last one counts.
///
/// # Safety
/// `ctx` is the context that the kernel passed, which the verifier checks.
#[inline(always)]
pub(crate) unsafe fn note(
    ctx: &SockAddrContext,
    caller: Caller,
    entry: &ProcessEntry,
    address: &Tried,
    port: u16,
    protocol: u8,
) {
    // SAFETY: by contract; the helpers write into the storage's own fields.
    unsafe {
        let socket = (*ctx.sock_addr).__bindgen_anon_1.sk;
        if socket.is_null() {
            return;
        }
        let opened = kept(socket, BPF_SK_STORAGE_GET_F_CREATE.into());
        if opened.is_null() {
            return;
        }
        (*opened).time = bpf_ktime_get_boot_ns();
        (*opened).process = task::current_key(caller);
        (&raw mut (*opened).address)
            .cast::<[u32; 4]>()
            .write(address.words);
        bpf_get_current_comm((&raw mut (*opened).comm).cast(), COMM_LEN as u32);
        (*opened).instance = entry.instance;
        (*opened).uid = bpf_get_current_uid_gid() as u32;
        (*opened).port = port;
        (*opened).family = address.family;
        (*opened).protocol = protocol;
    }
}

/// Reports the close of a socket, if a process of a server connected it.
#[inline(always)]
pub(crate) fn try_release(ctx: &SockContext) {
    // SAFETY: the context of this program is a socket, and what the helper wants.
    let Some(opened) = (unsafe { kept(ctx.sock, 0).as_ref() }) else {
        return;
    };
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    let (protocol, state) = unsafe { ((*ctx.sock).protocol, (*ctx.sock).state) };
    let (sent, received, flags) = if protocol == TCP {
        // The context is the kernel's own structure.
        counted(ctx.sock as Address, state)
    } else {
        (0, 0, CloseRecord::FLAG_ESTABLISHED)
    };
    // SAFETY: the context is what the helper wants.
    let cookie = unsafe { bpf_get_socket_cookie(ctx.sock.cast()) };
    count(Counter::CloseSeen);
    let header = header(Kind::Close, Sequence::Connections);
    emit(Ring::Connections, Counter::CloseLost, |slot| {
        let record: *mut CloseRecord = slot.as_mut_ptr();
        // SAFETY: the slot is in the ring and as large as a record; all of it is written.
        unsafe {
            (*record).header = header;
            (*record).connection = *opened;
            (*record).cookie = cookie;
            (*record).sent = sent;
            (*record).received = received;
            (*record).flags = flags;
            (*record).reserved = 0;
        }
    });
}

/// Returns the payload bytes of a TCP connection, those still queued included, and the flags that describe them.
#[inline(always)]
fn counted(socket: Address, state: u32) -> (u64, u64, u32) {
    let long = |field| read::<u64>(socket, field).unwrap_or(0);
    let word = |field| read::<u32>(socket, field).unwrap_or(0);
    let left = long(offset!(tcp_bytes_sent)).wrapping_sub(long(offset!(tcp_bytes_retrans)));
    // Bytes that were dropped with the connection were never sent.
    let queued = if state == CLOSED {
        0
    } else {
        word(offset!(tcp_write_seq)).wrapping_sub(word(offset!(tcp_snd_nxt)))
    };
    let end = u64::from(long(offset!(sock_flags)) & DONE != 0);
    let received = long(offset!(tcp_bytes_received)).saturating_sub(end);
    // The answer to the first segment is counted as an acknowledged byte.
    let answered = long(offset!(tcp_bytes_acked)) != 0;
    let established = if answered {
        CloseRecord::FLAG_ESTABLISHED
    } else {
        0
    };
    (
        left + u64::from(queued),
        received,
        CloseRecord::FLAG_COUNTED | established,
    )
}

/// Returns the note that is stored with a socket; null if there is none.
///
/// # Safety
/// `socket` is a socket, or the context of a program about one.
#[inline(always)]
unsafe fn kept(socket: *mut bpf_sock, flags: u64) -> *mut OpenedConnection {
    let storage = core::ptr::from_ref(&OPENED_CONNECTIONS).cast_mut().cast();
    // SAFETY: by contract; the verifier checks the pointers.
    unsafe { bpf_sk_storage_get(storage, socket.cast(), core::ptr::null_mut(), flags).cast() }
}
