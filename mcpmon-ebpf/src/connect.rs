//! Connections and addressed datagrams: finds out the real destination, and judges it.

use aya_ebpf::{
    bindings::bpf_sock_addr, helpers::generated::bpf_get_socket_cookie, programs::SockAddrContext,
};
use mcpmon_common::{
    address::{Form, LOOPBACK4, LOOPBACK6, Target6, classify6, words},
    event::{Action, Hook},
    process::ProcessEntry,
    watch::{Control, LIST_HOST, PROBE_MARK, RULE_CANARY},
};

use crate::{
    emit::Sequence,
    judge::{Judge, Rules, Subject, Tried, name_caller, name_owner},
    maps::{control, entry, in_force, network4, network6},
    opened,
    socket::{self, NO_SUBFLOW},
    task::{Caller, forgotten},
};

/// `SOCK_STREAM`.
pub(crate) const STREAM: u32 = 1;

/// Judges an IPv4 destination; true refuses it.
#[inline(always)]
pub(crate) fn try_v4(ctx: &SockAddrContext, hook: Hook) -> bool {
    let sock_addr = ctx.sock_addr;
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    let (given, port) = unsafe { destination4(sock_addr, hook) };
    let call = Call::get();
    if given != [0; 4] && call.concerns_nobody() && network4(call.control, LIST_HOST, given).is_none() {
        return false;
    }
    let Some(asker) = Asker::get(ctx, hook, call) else {
        return true;
    };
    let judge = asker.judge(port);
    let (form, address) = if given == [0; 4] {
        // SAFETY: as above.
        (Form::Any, unsafe { meant_by_any(sock_addr, hook) })
    } else {
        (Form::Plain, given)
    };
    let rules = judge.rules4(address);
    if matches!(form, Form::Any) && judge.control & Control::DENY != 0 {
        // A bound device could lead to another address, so the judged address replaces the given one.
        // SAFETY: as above; the field may be written.
        unsafe { (*sock_addr).user_ip4 = u32::from_ne_bytes(address) };
    }
    let tried = Tried::v4(address);
    conclude(ctx, &judge, &asker, hook, rules, (tried, form, Tried::v4(given)))
}

/// Judges an IPv6 destination, with the IPv4 address it may stand for; true refuses it.
#[inline(always)]
pub(crate) fn try_v6(ctx: &SockAddrContext, hook: Hook) -> bool {
    let sock_addr = ctx.sock_addr;
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    let (given, port) = unsafe { destination6(sock_addr, hook) };
    let mut target = classify6(given);
    let call = Call::get();
    let is_plain = matches!(target.form, Form::Plain);
    if is_plain && call.concerns_nobody() && network6(call.control, LIST_HOST, given).is_none() {
        return false;
    }
    let Some(asker) = Asker::get(ctx, hook, call) else {
        return true;
    };
    let judge = asker.judge(port);
    let v6 = if matches!(target.form, Form::Any) {
        words(LOOPBACK6)
    } else {
        given
    };
    if matches!(target.form, Form::Any) && !target.try6 {
        // `::ffff:0.0.0.0`, as `0.0.0.0`.
        // SAFETY: as above.
        target.v4 = unsafe { meant_by_any(sock_addr, Hook::Connect) };
        if judge.control & Control::DENY != 0 {
            // SAFETY: as above; the field may be written, in words.
            unsafe {
                let ip6 = &raw mut (*sock_addr).user_ip6;
                core::ptr::write_volatile(ip6.cast::<u32>().add(3), u32::from_ne_bytes(target.v4));
            }
        }
    }
    let (rules, tried) = rules6(&judge, v6, target);
    conclude(
        ctx,
        &judge,
        &asker,
        hook,
        rules,
        (tried, target.form, Tried::v6(given)),
    )
}

/// Returns the rules for an IPv6 address and for the IPv4 address inside, and the one of the two that they matched.
#[inline(always)]
fn rules6(judge: &Judge, v6: [u32; 4], target: Target6) -> (Rules, Tried) {
    let mut rules = Rules::default();
    let mut tried = Tried::v6(v6);
    if target.try6 {
        rules = judge.rules6(v6);
    }
    if target.try4 && rules.deny == 0 {
        let inner = judge.rules4(target.v4);
        if inner.deny != 0 || rules.watch == 0 {
            if inner.deny != 0 || inner.watch != 0 || !target.try6 {
                tried = Tried::v4(target.v4);
            }
            rules = inner;
        }
    }
    (rules, tried)
}

/// The process that makes a call, and the control word.
#[derive(Clone, Copy)]
struct Call {
    control: u64,
    caller: Caller,
    entry: Option<&'static ProcessEntry>,
}

impl Call {
    #[inline(always)]
    fn get() -> Self {
        let caller = Caller::get();
        Self {
            control: control(),
            caller,
            entry: entry(caller.pid),
        }
    }

    /// Returns whether only the rules for everyone can apply to the call, and no server makes it. This holds for most
    /// calls, and most of them go to addresses without a rule: this check is all that they cost.
    #[inline(always)]
    const fn concerns_nobody(&self) -> bool {
        self.control & Control::DENY_SOME == 0 && self.entry.is_none()
    }
}

/// The process that a call is judged for, and the rules for it.
#[derive(Clone, Copy)]
struct Asker {
    control: u64,
    entry: ProcessEntry,
    caller: Caller,
    /// The Multipath TCP connection for which the kernel itself connects, or [`NO_SUBFLOW`]. Not an `Option`, because
    /// older verifiers do not accept one whose content is not set.
    subflow: u64,
}

impl Asker {
    #[inline(always)]
    fn get(ctx: &SockAddrContext, hook: Hook, call: Call) -> Option<Self> {
        let subflow = match hook {
            Hook::Connect => socket::kernels_subflow(ctx, call.control),
            Hook::Send | Hook::Socket | Hook::Packet => NO_SUBFLOW,
        };
        let entry = match subflow {
            NO_SUBFLOW => call.entry.copied().unwrap_or_default(),
            cookie => socket::multipath_entry(cookie),
        };
        let entry = in_force(entry);
        forgotten(&Self {
            control: call.control,
            entry,
            caller: call.caller,
            subflow,
        })
    }

    #[inline(always)]
    const fn judge(&self, port: u16) -> Judge {
        Judge {
            control: self.control,
            entry: self.entry,
            port,
        }
    }
}

/// Decides, notes the socket's owner, and reports what rules or servers require; returns true to refuse.
#[inline(always)]
fn conclude(
    ctx: &SockAddrContext,
    judge: &Judge,
    asker: &Asker,
    hook: Hook,
    rules: Rules,
    (address, form, given): (Tried, Form, Tried),
) -> bool {
    // SAFETY: the context is what the accesses want.
    if rules.deny == RULE_CANARY && unsafe { is_probe(ctx) } {
        return false;
    }
    let action = judge.action(rules);
    // SAFETY: the context is what the accesses want.
    let (kind, protocol) = unsafe { ((*ctx.sock_addr).type_, (*ctx.sock_addr).protocol) };
    let refused = matches!(action, Action::Deny);
    if rules.watch != 0 || judge.entry.instance != 0 || !matches!(action, Action::Allow) {
        let subject = Subject {
            address,
            form: form as u8,
            given,
            hook,
            protocol: protocol as u8,
            // SAFETY: the context is what the helper wants.
            cookie: unsafe { bpf_get_socket_cookie(ctx.sock_addr.cast()) },
        };
        judge.report(Sequence::Connections, action, rules, subject, |record| {
            // SAFETY: the record lies in the ring.
            unsafe {
                match asker.subflow {
                    NO_SUBFLOW => name_caller(record, asker.caller),
                    cookie => name_owner(record, socket::multipath_owner(cookie)),
                }
            }
        });
    }
    if !refused && matches!(hook, Hook::Connect) && judge.entry.instance != 0 && asker.subflow == NO_SUBFLOW {
        // SAFETY: the verifier checks the socket.
        unsafe {
            opened::note(
                ctx,
                asker.caller,
                &judge.entry,
                &address,
                judge.port,
                protocol as u8,
            )
        };
    }
    if !refused && matches!(hook, Hook::Connect) && kind == STREAM && judge.control & Control::DENY_SOME != 0
    {
        // SAFETY: the verifier checks the socket.
        unsafe { socket::own_connected(ctx, asker.caller, &judge.entry, asker.subflow) };
    }
    refused
}

/// Returns whether the self-test wants to test the packet hook as well: then the call to its address is let through,
/// and only its packets are refused.
///
/// # Safety
/// `ctx` is the context that the kernel passed, which the verifier checks.
#[inline(always)]
unsafe fn is_probe(ctx: &SockAddrContext) -> bool {
    // SAFETY: by contract.
    unsafe {
        let socket = (*ctx.sock_addr).__bindgen_anon_1.sk;
        !socket.is_null() && core::ptr::read_volatile(&raw const (*socket).mark) == PROBE_MARK
    }
}

/// Returns the IPv4 address and port that a call is about. A datagram without an address goes to the socket's peer; if
/// it has a control message, the hook is called all the same. A named port is never 0.
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn destination4(sock_addr: *const bpf_sock_addr, hook: Hook) -> ([u8; 4], u16) {
    // SAFETY: by contract; the verifier checks the socket pointer.
    unsafe {
        let port = port(sock_addr);
        if matches!(hook, Hook::Send) && port == 0 {
            let socket = (*sock_addr).__bindgen_anon_1.sk;
            if !socket.is_null() {
                let address = core::ptr::read_volatile(&raw const (*socket).dst_ip4);
                return (address.to_ne_bytes(), connected_port(socket));
            }
        }
        ((*sock_addr).user_ip4.to_ne_bytes(), port)
    }
}

/// Returns the IPv6 address and port that a call is about; the address is in words of network order.
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn destination6(sock_addr: *const bpf_sock_addr, hook: Hook) -> ([u32; 4], u16) {
    // SAFETY: by contract; the verifier checks the socket pointer. Field by field: it allows 4- and 8-byte loads of a
    // context only.
    unsafe {
        let port = port(sock_addr);
        if matches!(hook, Hook::Send) && port == 0 {
            let socket = (*sock_addr).__bindgen_anon_1.sk;
            if !socket.is_null() {
                let ip6 = (&raw const (*socket).dst_ip6).cast::<u32>();
                return (four_words(ip6), connected_port(socket));
            }
        }
        (four_words((&raw const (*sock_addr).user_ip6).cast::<u32>()), port)
    }
}

/// # Safety
/// Four words lie at `first`, each of which may be read.
#[inline(always)]
pub(crate) unsafe fn four_words(first: *const u32) -> [u32; 4] {
    // SAFETY: by contract.
    let word = |index: usize| unsafe { core::ptr::read_volatile(first.add(index)) };
    [word(0), word(1), word(2), word(3)]
}

/// Returns the destination port in host order; the context has it in network order in the low half of a word.
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
pub(crate) unsafe fn port(sock_addr: *const bpf_sock_addr) -> u16 {
    // SAFETY: by contract.
    u16::from_be(unsafe { (*sock_addr).user_port } as u16)
}

/// Returns the port that the socket is connected to, in host order.
///
/// # Safety
/// `socket` is a socket by the verifier's leave.
#[inline(always)]
unsafe fn connected_port(socket: *const aya_ebpf::bindings::bpf_sock) -> u16 {
    // SAFETY: by contract.
    u16::from_be(unsafe { core::ptr::read_volatile(&raw const (*socket).dst_port) })
}

/// Returns the IPv4 address that the unspecified address leads to: the source address given with the datagram, the
/// address that the socket is bound to, or the loopback address.
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn meant_by_any(sock_addr: *const bpf_sock_addr, hook: Hook) -> [u8; 4] {
    // SAFETY: by contract; the verifier checks the socket pointer.
    let own = unsafe {
        let source = if matches!(hook, Hook::Send) {
            (*sock_addr).msg_src_ip4
        } else {
            0
        };
        let socket = (*sock_addr).__bindgen_anon_1.sk;
        if source == 0 && !socket.is_null() {
            (*socket).src_ip4
        } else {
            source
        }
    };
    if own == 0 { LOOPBACK4 } else { own.to_ne_bytes() }
}
