//! Outgoing packets: the last check of the address that is reached, whatever call, option or socket leads there.
//!
//! A packet can leave while another process runs (an acknowledgement, a retransmission). So the running process is
//! judged only if it provably sends the packet, and the socket's owner otherwise.

use aya_ebpf::{
    bindings::{__sk_buff, bpf_sock},
    helpers::generated::{
        bpf_get_socket_cookie, bpf_get_socket_uid, bpf_sk_fullsock, bpf_skb_cgroup_id, bpf_skb_load_bytes,
    },
    programs::SkBuffContext,
};
use mcpmon_common::{
    address::{Form, classify6},
    event::{Action, ConnectRecord, Hook, ProcessKey},
    limits::COMM_LEN,
    process::{ProcessEntry, SocketOwner},
    watch::{Control, LIST_HOST, NetworkEntry, PROBE_MARK, RULE_CANARY},
};

use crate::{
    connect::four_words,
    emit::Sequence,
    judge::{Judge, Rules, Subject, Tried},
    maps::{control, in_force, network4, network6, offset, process},
    socket,
    task::{self, Caller, forgotten, read},
};

const ETHERNET_IPV4: u32 = 0x0800u16.to_be() as u32;
const ETHERNET_IPV6: u32 = 0x86ddu16.to_be() as u32;

const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMP6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// `SOCK_STREAM`.
const STREAM: u32 = 1;
/// `SOCK_DGRAM`.
const DATAGRAM: u32 = 2;
/// `SOCK_RAW`.
const RAW: u32 = 3;
/// `TCP_LISTEN`.
const LISTEN: u32 = 10;

/// Offsets of the destination in the headers.
const DESTINATION4: u32 = 16;
const DESTINATION6: u32 = 24;

/// IPv6 extension headers that are skipped to find the port; the kernel writes no more.
const MAX_EXTENSIONS: usize = 5;

/// The destination of a packet.
#[derive(Clone, Copy)]
struct Destination {
    /// Words in network order; an IPv4 address is in the first word.
    address: [u32; 4],
    port: u16,
    protocol: u8,
    is_v4: u8,
    is_discovery: u8,
}

/// The values that are needed to look up the rules.
#[derive(Clone, Copy)]
struct Question {
    control: u64,
    destination: Destination,
    entry: ProcessEntry,
}

/// The result of the look-up.
#[derive(Clone, Copy)]
struct Answer {
    /// The rule that refuses, 0 for none.
    deny: u32,
    /// The [`Form`] of the address.
    form: u32,
    tried: Tried,
}

/// The sender of a packet.
struct Sender {
    process: ProcessKey,
    entry: ProcessEntry,
    comm: [u8; COMM_LEN],
}

/// Judges a packet; returns true to drop it.
#[inline(always)]
pub(crate) fn try_egress(ctx: &SkBuffContext) -> bool {
    let control = control();
    let skb = ctx.skb.skb;
    // A refusal that is only observed was reported by the hook of the call, so packets need no second report.
    // SAFETY: the context is valid for the program's run.
    if !is_enforced(control) && unsafe { (*skb).mark } != PROBE_MARK {
        return false;
    }
    if concerns_nobody(skb, control) {
        return false;
    }
    let Some(destination) = destination(skb) else {
        return false;
    };
    let socket = full_socket(skb);
    let entry = if control & Control::DENY_SOME == 0 {
        ProcessEntry::default()
    } else {
        entry_in_force(skb, socket)
    };
    let question = Question {
        control,
        destination,
        entry: in_force(entry),
    };
    let Some(Question {
        control,
        destination,
        entry,
    }) = forgotten(&question)
    else {
        return false;
    };
    let judge = Judge {
        control,
        entry,
        port: destination.port,
    };
    let answer = answer(&judge, &destination);
    if answer.deny == 0 || destination.is_discovery != 0 && owner(socket).is_none() {
        return false;
    }
    let Some(answer) = forgotten(&answer) else {
        return false;
    };
    if !is_enforced(judge.control) && answer.deny != RULE_CANARY {
        return false;
    }
    report(skb, socket, &judge, &answer, &destination);
    true
}

/// Returns whether any rule refuses addresses, and refusals are carried out.
#[inline(always)]
const fn is_enforced(control: u64) -> bool {
    control & Control::DENY != 0 && control & Control::ENFORCE != 0
}

/// Returns whether only rules for everyone exist, and none refuses the packet's address: the packet passes then, whoever
/// sends it.
#[inline(always)]
fn concerns_nobody(skb: *mut __sk_buff, control: u64) -> bool {
    if control & Control::DENY_SOME != 0 {
        return false;
    }
    // SAFETY: the context is valid for the program's run.
    match unsafe { (*skb).protocol } {
        ETHERNET_IPV4 => load(skb, DESTINATION4)
            .is_some_and(|address: [u8; 4]| is_allowed(network4(control, LIST_HOST, address))),
        ETHERNET_IPV6 => load(skb, DESTINATION6).is_some_and(|address: [u32; 4]| {
            matches!(classify6(address).form, Form::Plain)
                && is_allowed(network6(control, LIST_HOST, address))
        }),
        _ => true,
    }
}

#[inline(always)]
fn is_allowed(entry: Option<NetworkEntry>) -> bool {
    entry.is_none_or(|entry| entry.is_allowed())
}

/// Returns the rule that refuses the destination, in whatever form it is written.
#[inline(always)]
fn answer(judge: &Judge, destination: &Destination) -> Answer {
    if destination.is_v4 != 0 {
        let address = destination.address[0].to_ne_bytes();
        return Answer {
            deny: judge.refusal4(address),
            form: Form::Plain as u32,
            tried: Tried::v4(address),
        };
    }
    let target = classify6(destination.address);
    let form = target.form as u32;
    let tried = Tried::v6(destination.address);
    let deny = if target.try6 {
        judge.refusal6(destination.address)
    } else {
        0
    };
    if deny != 0 || !target.try4 {
        return Answer { deny, form, tried };
    }
    Answer {
        deny: judge.refusal4(target.v4),
        form,
        tried: Tried::v4(target.v4),
    }
}

#[inline(always)]
fn report(
    skb: *mut __sk_buff,
    socket: *mut bpf_sock,
    judge: &Judge,
    answer: &Answer,
    destination: &Destination,
) {
    let subject = Subject {
        address: answer.tried,
        form: answer.form as u8,
        given: connected(socket, destination),
        hook: Hook::Packet,
        protocol: destination.protocol,
        // SAFETY: the context is what the helper wants.
        cookie: unsafe { bpf_get_socket_cookie(skb.cast()) },
    };
    let rules = Rules {
        deny: answer.deny,
        watch: 0,
    };
    judge.report(Sequence::Packets, Action::Deny, rules, subject, |record| {
        // SAFETY: the record lies in the ring, and the context is what the helpers want.
        unsafe {
            (*record).cgroup = bpf_skb_cgroup_id(skb);
            (*record).uid = bpf_get_socket_uid(skb);
            name_sender(record, skb, socket);
        }
    });
}

/// # Safety
/// `record` lies in a ring.
#[inline(always)]
unsafe fn name_sender(record: *mut ConnectRecord, skb: *mut __sk_buff, socket: *mut bpf_sock) {
    let sender = match sending(skb, socket) {
        Some(caller) => Some(Sender {
            process: task::current_key(caller),
            entry: process(caller.pid).unwrap_or_default(),
            comm: task::current_comm(),
        }),
        None => owner(socket).map(|owner| Sender {
            process: owner.process,
            entry: socket::current_entry(owner),
            comm: owner.comm,
        }),
    };
    // SAFETY: by contract.
    unsafe {
        if let Some(sender) = sender {
            (*record).process = sender.process;
            (*record).entry = sender.entry;
            (*record).comm = sender.comm;
        } else {
            (*record).process = ProcessKey::default();
            (*record).comm = [0; COMM_LEN];
        }
    }
}

/// Returns the entry in force for a packet: that of the process that sends it, or else of its socket's owner. For
/// answers to a peer that connected to this host, no egress lists apply, because they are not connections of the
/// process.
#[inline(always)]
fn entry_in_force(skb: *mut __sk_buff, socket: *mut bpf_sock) -> ProcessEntry {
    let running = process(task::running().pid).filter(|_| sending(skb, socket).is_some());
    let owner = owner(socket);
    let mut entry = match (running, owner) {
        (Some(entry), _) => entry,
        (None, Some(owner)) => socket::current_entry(owner),
        (None, None) => return ProcessEntry::default(),
    };
    if is_answer(skb, socket, owner) {
        entry.egress = [0; 2];
        entry.session = 0;
        entry.flags &= !ProcessEntry::FLAG_PENDING;
    }
    entry
}

/// Returns the running process if it sends the packet: it holds the lock of a stream's socket, or the socket is a
/// datagram or raw one, whose packets leave in the sender's call. Sockets of the kernel itself (NFS, answers to pings)
/// send during calls of unrelated processes; only subflows of Multipath TCP belong to a process.
#[inline(always)]
fn sending(skb: *mut __sk_buff, socket: *mut bpf_sock) -> Option<Caller> {
    if socket.is_null() {
        return None;
    }
    // SAFETY: the verifier has seen that it is a socket.
    let kind = unsafe { (*socket).type_ };
    let address = kernel_socket(skb)?;
    let sends = match kind {
        STREAM => {
            read::<u32>(address, offset!(sock_lock_owned)).is_ok_and(|owned| owned & 1 != 0)
                && (!socket::is_kernels(address) || socket::is_subflow(address))
        }
        DATAGRAM | RAW => !socket::is_kernels(address),
        _ => false,
    };
    sends.then(task::running)
}

/// Returns whether a packet belongs to a connection that another host opened: its socket listens, or was accepted from
/// one that does.
#[inline(always)]
fn is_answer(skb: *mut __sk_buff, socket: *mut bpf_sock, owner: Option<&SocketOwner>) -> bool {
    if socket.is_null() {
        return false;
    }
    // SAFETY: the verifier has seen that it is a socket.
    let (kind, state) = unsafe { ((*socket).type_, (*socket).state) };
    if kind != STREAM {
        return false;
    }
    if state == LISTEN {
        return true;
    }
    match owner {
        Some(owner) => owner.flags & SocketOwner::FLAG_CONNECTED == 0,
        // Its owner is not known. A listening socket's queue length is inherited; one that connected has none.
        None => kernel_socket(skb).is_some_and(|socket| {
            read::<u32>(socket, offset!(sock_max_ack_backlog)).is_ok_and(|length| length != 0)
        }),
    }
}

/// Returns the kernel address of the packet's socket.
#[inline(always)]
fn kernel_socket(skb: *mut __sk_buff) -> Option<usize> {
    // The context is the kernel's own structure.
    read::<usize>(skb as usize, offset!(skb_sk)).ok()
}

/// Returns the packet's socket; null if it has none.
#[inline(always)]
fn full_socket(skb: *mut __sk_buff) -> *mut bpf_sock {
    // SAFETY: the context is valid for the program's run, and the helper takes no null.
    unsafe {
        let socket = (*skb).__bindgen_anon_2.sk;
        if socket.is_null() {
            core::ptr::null_mut()
        } else {
            bpf_sk_fullsock(socket)
        }
    }
}

#[inline(always)]
fn owner(socket: *mut bpf_sock) -> Option<&'static SocketOwner> {
    if socket.is_null() {
        None
    } else {
        // SAFETY: a full socket.
        unsafe { socket::owner(socket) }
    }
}

/// Returns the address that a socket is connected to, or else the packet's own.
#[inline(always)]
fn connected(socket: *mut bpf_sock, destination: &Destination) -> Tried {
    let mut words = destination.address;
    if !socket.is_null() {
        // SAFETY: the verifier has seen that it is a socket; each word may be read.
        unsafe {
            if destination.is_v4 != 0 {
                let word = core::ptr::read_volatile(&raw const (*socket).dst_ip4);
                if word != 0 {
                    words[0] = word;
                }
            } else {
                let given = four_words((&raw const (*socket).dst_ip6).cast::<u32>());
                if given[0] | given[1] | given[2] | given[3] != 0 {
                    words = given;
                }
            }
        }
    }
    Tried {
        words,
        family: if destination.is_v4 != 0 { 4 } else { 6 },
    }
}

/// Returns whether a packet is neighbour or listener discovery. If the kernel sends it, it must pass, because without
/// it no address can be reached.
#[inline(always)]
fn is_discovery(skb: *mut __sk_buff, protocol: u8, payload: u32) -> bool {
    protocol == ICMP6 && matches!(load::<u8>(skb, payload), Some(130..=137 | 143))
}

#[inline(always)]
fn destination(skb: *mut __sk_buff) -> Option<Destination> {
    // SAFETY: the context is valid for the program's run.
    match unsafe { (*skb).protocol } {
        ETHERNET_IPV4 => destination4(skb),
        ETHERNET_IPV6 => destination6(skb),
        _ => None,
    }
}

#[inline(always)]
fn destination4(skb: *mut __sk_buff) -> Option<Destination> {
    let header = load::<[u32; 5]>(skb, 0)?;
    let first = header[0].to_ne_bytes();
    let second = header[1].to_ne_bytes();
    let third = header[2].to_ne_bytes();
    let protocol = third[1];
    let payload = u32::from(first[0] & 0x0f) * 4;
    let is_first = (u16::from_be_bytes([second[2], second[3]]) & 0x1fff) == 0;
    Some(Destination {
        address: [header[4], 0, 0, 0],
        port: port(skb, protocol, payload, is_first),
        protocol,
        is_v4: 1,
        is_discovery: 0,
    })
}

#[inline(always)]
fn destination6(skb: *mut __sk_buff) -> Option<Destination> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const OPTIONS: u8 = 60;
    let header = load::<[u32; 10]>(skb, 0)?;
    let mut protocol = header[1].to_ne_bytes()[2];
    let mut payload = 40;
    let mut is_first = true;
    for _ in 0..MAX_EXTENSIONS {
        if !matches!(
            protocol,
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | OPTIONS
        ) {
            break;
        }
        let Some(extension) = load::<u32>(skb, payload) else {
            break;
        };
        let [next, length, high, low] = extension.to_ne_bytes();
        payload += match protocol {
            FRAGMENT => 8,
            AUTHENTICATION => (u32::from(length) + 2) * 4,
            _ => (u32::from(length) + 1) * 8,
        };
        is_first &= protocol != FRAGMENT || u16::from_be_bytes([high, low]) & 0xfff8 == 0;
        protocol = next;
    }
    Some(Destination {
        address: [header[6], header[7], header[8], header[9]],
        port: port(skb, protocol, payload, is_first),
        protocol,
        is_v4: 0,
        is_discovery: u8::from(is_discovery(skb, protocol, payload)),
    })
}

/// Returns the destination port; 0 if the protocol has none. A later fragment has no port either: it is useless without
/// the first one, which has the port.
#[inline(always)]
fn port(skb: *mut __sk_buff, protocol: u8, payload: u32, is_first: bool) -> u16 {
    if is_first && matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) {
        load::<[u8; 2]>(skb, payload + 2).map_or(0, u16::from_be_bytes)
    } else {
        0
    }
}

/// Reads from the packet, which begins with the IP header.
#[inline(always)]
fn load<T: Copy>(skb: *mut __sk_buff, offset: u32) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes the whole value, or fails.
    unsafe {
        let failed = bpf_skb_load_bytes(
            skb.cast(),
            offset,
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
        );
        if failed == 0 {
            Some(value.assume_init())
        } else {
            None
        }
    }
}
