//! New sockets: those of protocols that no hook judges are refused while a rule refuses addresses to their process,
//! and others keep whose they are, for the packets that leave by them.

use aya_ebpf::{
    bindings::{BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    btf_maps::SkStorage,
    helpers::generated::{bpf_get_current_comm, bpf_get_socket_cookie, bpf_sk_storage_get},
    programs::{SockAddrContext, SockContext},
};
use mcpmon_common::{
    address::Form,
    event::{Action, Hook},
    limits::COMM_LEN,
    process::{ProcessEntry, SocketOwner},
    watch::{Control, RULE_PROTOCOL},
};

use crate::{
    emit::Sequence,
    judge::{Judge, Rules, Subject, Tried, name_caller},
    maps::{SOCKET_OWNERS, control, process},
    task::{self, Caller},
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

/// Judges a new socket of IPv4 or IPv6; true refuses it.
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
        entry: process(caller.pid).unwrap_or_default(),
        port: 0,
    };
    let is_plain = is_plain(kind, protocol);
    if is_plain || is_judged_by_packet(kind, protocol) {
        if !is_plain || control & Control::DENY_SOME != 0 && is_listed(&judge.entry) {
            // SAFETY: the context of this program is a socket.
            unsafe { own(ctx.sock, caller, &judge.entry) };
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

/// Protocols whose connections and datagrams are judged by the address that the caller names.
#[inline(always)]
const fn is_plain(kind: u32, protocol: u32) -> bool {
    matches!((kind, protocol), (STREAM, TCP | MPTCP) | (DATAGRAM, UDP))
}

/// Those that can be used without a judged call: what they send is judged by packet.
#[inline(always)]
const fn is_judged_by_packet(kind: u32, protocol: u32) -> bool {
    matches!((kind, protocol), (DATAGRAM, UDP_LITE | ICMP | ICMP6) | (RAW, _))
}

/// Whether anything but the rules for everyone can hold for it.
#[inline(always)]
const fn is_listed(entry: &ProcessEntry) -> bool {
    entry.egress[0] != 0 || entry.egress[1] != 0 || entry.session != 0 || entry.flags != 0
}

/// Notes that a socket is the caller's.
///
/// # Safety
/// `socket` is a socket, or the context of a program about one.
#[inline(always)]
unsafe fn own(socket: *mut bpf_sock, caller: Caller, entry: &ProcessEntry) {
    // SAFETY: by contract; the verifier checks the pointers.
    unsafe {
        let owner = bpf_sk_storage_get(
            storage(),
            socket.cast(),
            core::ptr::null_mut(),
            BPF_SK_STORAGE_GET_F_CREATE.into(),
        );
        let owner = owner.cast::<SocketOwner>();
        if owner.is_null() {
            return;
        }
        (*owner).process = task::current_key(caller);
        (*owner).entry = *entry;
        // Whatever it is waiting for is over when a packet leaves without it.
        (*owner).entry.flags = entry.flags & !ProcessEntry::FLAG_PENDING;
        bpf_get_current_comm((&raw mut (*owner).comm).cast(), COMM_LEN as u32);
    }
}

/// The same for the socket of a connection: it may have been opened by another process, or before there were rules.
///
/// # Safety
/// As the verifier says of the context.
#[inline(always)]
pub(crate) unsafe fn own_connected(ctx: &SockAddrContext, caller: Caller, entry: &ProcessEntry) {
    if !is_listed(entry) {
        return;
    }
    // SAFETY: by contract.
    unsafe {
        let socket = (*ctx.sock_addr).__bindgen_anon_1.sk;
        if !socket.is_null() {
            own(socket, caller, entry);
        }
    }
}

/// Whose a socket is, where that was noted.
///
/// # Safety
/// `socket` is a full socket.
#[inline(always)]
pub(crate) unsafe fn owner(socket: *mut bpf_sock) -> Option<SocketOwner> {
    // SAFETY: by contract; the entry is written by its socket's own calls and copied at once.
    unsafe {
        let owner =
            bpf_sk_storage_get(storage(), socket.cast(), core::ptr::null_mut(), 0).cast::<SocketOwner>();
        if owner.is_null() { None } else { Some(*owner) }
    }
}

#[inline(always)]
fn storage() -> *mut core::ffi::c_void {
    let storage: &'static SkStorage<SocketOwner> = &SOCKET_OWNERS;
    core::ptr::from_ref(storage).cast_mut().cast()
}
