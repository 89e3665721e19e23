//! Connections and addressed datagrams: normalise, look up, refuse, report.

use core::mem::MaybeUninit;

use aya_ebpf::{
    bindings::bpf_sock_addr,
    helpers::{
        bpf_get_current_uid_gid,
        generated::{bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_socket_cookie},
    },
    programs::SockAddrContext,
};
use mcpmon_common::{
    address::{Form, LOOPBACK4, LOOPBACK6, classify6, words},
    event::{Action, ConnectRecord, Counter, Header, Hook, Kind},
    limits::COMM_LEN,
    process::ProcessEntry,
    watch::{Control, LIST_HOST, LIST_PENDING, NetworkEntry, RULE_CANARY},
};

use crate::{
    emit::{Ring, count, emit, header},
    maps::{at_port, control, network4, network6, process},
    task::{self, Caller},
};

/// Rules that matched an address; 0 for none.
#[derive(Clone, Copy, Default)]
struct Rules {
    deny: u32,
    watch: u32,
}

/// An address the rules were tried on, in words of network order: as bytes it would be copied one by one.
#[derive(Clone, Copy)]
struct Tried {
    words: [u32; 4],
    family: u8,
}

/// Who asks, and what is in force: read once, so that one connection is judged by one list.
struct Judge {
    control: u64,
    caller: Caller,
    entry: ProcessEntry,
    port: u16,
}

/// Judges an IPv4 destination; true refuses it.
#[inline(always)]
pub(crate) fn try_v4(ctx: &SockAddrContext, hook: Hook) -> bool {
    let sock_addr = ctx.sock_addr;
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    let (given, port) = unsafe { ((*sock_addr).user_ip4.to_ne_bytes(), port(sock_addr)) };
    let judge = Judge::new(port);
    let (form, mut address) = if given == [0; 4] {
        (Form::Any, LOOPBACK4)
    } else {
        (Form::Plain, given)
    };
    let mut rules = judge.rules4(address);
    if matches!(form, Form::Any) && rules.deny == 0 {
        // From a bound socket the unspecified address leads to the socket's own address.
        // SAFETY: as above.
        let own = unsafe { bound4(sock_addr, hook) };
        // SAFETY: as above.
        let on_device = unsafe { is_bound_to_device(sock_addr) };
        if own != [0; 4] {
            address = own;
            rules = judge.rules4(own);
        } else if on_device {
            // There it would lead to the device's address, which is not known here: dialled is what was judged.
            // SAFETY: as above; the field may be written.
            unsafe { (*sock_addr).user_ip4 = u32::from_ne_bytes(LOOPBACK4) };
        }
    }
    judge.conclude(ctx, hook, rules, Tried::v4(address), form, Tried::v4(given))
}

/// Judges an IPv6 destination, with the IPv4 address it may stand for; true refuses it.
#[inline(always)]
pub(crate) fn try_v6(ctx: &SockAddrContext, hook: Hook) -> bool {
    let sock_addr = ctx.sock_addr;
    // SAFETY: the context is valid for the program's run. Field by field: the verifier allows 4- and
    // 8-byte loads of a context only.
    let (given, port) = unsafe {
        let ip6 = &raw const (*sock_addr).user_ip6;
        let word = |index: usize| core::ptr::read_volatile(ip6.cast::<u32>().add(index));
        ([word(0), word(1), word(2), word(3)], port(sock_addr))
    };
    let judge = Judge::new(port);
    let target = classify6(given);
    let v6 = if matches!(target.form, Form::Any) {
        words(LOOPBACK6)
    } else {
        given
    };
    let mut rules = Rules::default();
    let mut tried = Tried::v6(v6);
    if target.try6 {
        rules = judge.rules6(v6);
    }
    if target.try4 && rules.deny == 0 {
        let mut v4 = target.v4;
        let mut inner = judge.rules4(v4);
        if matches!(target.form, Form::Any) && !target.try6 && inner.deny == 0 {
            // `::ffff:0.0.0.0` from a socket bound to a mapped address.
            // SAFETY: as above.
            let own = unsafe { bound4(sock_addr, Hook::Connect) };
            // SAFETY: as above.
            let on_device = unsafe { is_bound_to_device(sock_addr) };
            if own != [0; 4] {
                v4 = own;
                inner = judge.rules4(own);
            } else if on_device {
                // SAFETY: as above; the field may be written, in words.
                unsafe {
                    let ip6 = &raw mut (*sock_addr).user_ip6;
                    core::ptr::write_volatile(ip6.cast::<u32>().add(3), u32::from_ne_bytes(LOOPBACK4));
                }
            }
        }
        if inner.deny != 0 || rules.watch == 0 {
            if inner.deny != 0 || inner.watch != 0 || !target.try6 {
                tried = Tried::v4(v4);
            }
            rules = inner;
        }
    }
    judge.conclude(ctx, hook, rules, tried, target.form, Tried::v6(given))
}

impl Judge {
    #[inline(always)]
    fn new(port: u16) -> Self {
        let caller = Caller::get();
        Self {
            control: control(),
            caller,
            entry: process(caller.pid).unwrap_or_default(),
            port,
        }
    }

    #[inline(always)]
    fn rules4(&self, address: [u8; 4]) -> Rules {
        self.rules(|list| network4(self.control, list, address))
    }

    #[inline(always)]
    fn rules6(&self, address: [u32; 4]) -> Rules {
        self.rules(|list| network6(self.control, list, address))
    }

    /// The host list for everyone, the egress lists of the servers the process belongs to, the list of its session;
    /// the first that refuses ends the search, which keeps the paths few that the verifier walks.
    #[inline(always)]
    fn rules(&self, look_up: impl Fn(u32) -> Option<NetworkEntry>) -> Rules {
        let mut watch = 0;
        if let Some(entry) = look_up(LIST_HOST) {
            let entry = at_port(self.control, entry, self.port);
            watch = entry.watch;
            if entry.deny_host != 0 {
                return Rules {
                    deny: entry.deny_host,
                    watch,
                };
            }
            if self.entry.has(ProcessEntry::FLAG_AGENT) && entry.deny_agents != 0 {
                return Rules {
                    deny: entry.deny_agents,
                    watch,
                };
            }
        }
        for list in self.egress_lists() {
            if list != LIST_HOST
                && let Some(entry) = look_up(list)
            {
                let deny = at_port(self.control, entry, self.port).deny_host;
                if deny != 0 {
                    return Rules { deny, watch };
                }
            }
        }
        if self.entry.session != LIST_HOST
            && let Some(entry) = look_up(self.entry.session)
        {
            let entry = at_port(self.control, entry, self.port);
            // It says more than what is reported of everyone.
            if entry.watch != 0 {
                watch = entry.watch;
            }
            return Rules {
                deny: entry.deny_host,
                watch,
            };
        }
        Rules { deny: 0, watch }
    }

    #[inline(always)]
    fn egress_lists(&self) -> [u32; 2] {
        if self.entry.has(ProcessEntry::FLAG_PENDING) && self.control & Control::EGRESS != 0 {
            [LIST_PENDING, LIST_HOST]
        } else {
            self.entry.egress
        }
    }

    /// Refuses or not, counts, and reports what concerns MCP; true refuses.
    #[inline(always)]
    fn conclude(
        &self,
        ctx: &SockAddrContext,
        hook: Hook,
        rules: Rules,
        address: Tried,
        form: Form,
        given: Tried,
    ) -> bool {
        let enforced = self.control & Control::ENFORCE != 0 || rules.deny == RULE_CANARY;
        let action = match (rules.deny, enforced) {
            (_, true) if self.entry.has(ProcessEntry::FLAG_DOOMED) => Action::Deny,
            (0, _) => Action::Allow,
            (_, true) => Action::Deny,
            (_, false) => Action::WouldDeny,
        };
        let refused = matches!(action, Action::Deny);
        if !refused && rules.watch == 0 && self.entry.instance == 0 && matches!(action, Action::Allow) {
            return false;
        }
        count(Counter::ConnectSeen);
        let lost = match action {
            Action::Deny => {
                count(Counter::Denied);
                Counter::DeniedLost
            }
            Action::WouldDeny => {
                count(Counter::WouldDeny);
                Counter::ConnectLost
            }
            Action::Allow => Counter::ConnectLost,
        };
        let rule = if rules.deny == 0 { rules.watch } else { rules.deny };
        let header = header(Kind::Connect, Ring::Connections);
        emit(Ring::Connections, lost, |slot| {
            self.fill(slot, header, ctx, (rule, action, hook), (address, form, given));
        });
        refused
    }

    /// Writes the record field by field: one that is put together on the stack is copied in single bytes.
    #[inline(always)]
    fn fill(
        &self,
        slot: &mut MaybeUninit<ConnectRecord>,
        header: Header,
        ctx: &SockAddrContext,
        (rule, action, hook): (u32, Action, Hook),
        (address, form, given): (Tried, Form, Tried),
    ) {
        let record = slot.as_mut_ptr();
        // SAFETY: the slot is in the ring and as large as a record, and every field of it is written; the
        // context is what the helpers want.
        unsafe {
            (*record).header = header;
            (*record).process = task::current_key(self.caller);
            (*record).entry = self.entry;
            (*record).cgroup = bpf_get_current_cgroup_id();
            (*record).cookie = bpf_get_socket_cookie(ctx.sock_addr.cast());
            (&raw mut (*record).address)
                .cast::<[u32; 4]>()
                .write(address.words);
            (&raw mut (*record).given).cast::<[u32; 4]>().write(given.words);
            (*record).rule = rule;
            (*record).uid = bpf_get_current_uid_gid() as u32;
            (*record).port = self.port;
            (*record).family = address.family;
            (*record).given_family = given.family;
            (*record).form = form as u8;
            (*record).protocol = (*ctx.sock_addr).protocol as u8;
            (*record).action = action as u8;
            (*record).hook = hook as u8;
            // It clears the name where there is none.
            bpf_get_current_comm((&raw mut (*record).comm).cast(), COMM_LEN as u32);
        }
    }
}

impl Tried {
    #[inline(always)]
    const fn v4(address: [u8; 4]) -> Self {
        Self {
            words: [u32::from_ne_bytes(address), 0, 0, 0],
            family: 4,
        }
    }

    #[inline(always)]
    const fn v6(words: [u32; 4]) -> Self {
        Self { words, family: 6 }
    }
}

/// Destination port in host order; the context keeps it in network order in the low half of a word.
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn port(sock_addr: *const bpf_sock_addr) -> u16 {
    // SAFETY: by contract.
    u16::from_be(unsafe { (*sock_addr).user_port } as u16)
}

/// Address the socket is bound to (or the source named with the datagram).
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn bound4(sock_addr: *const bpf_sock_addr, hook: Hook) -> [u8; 4] {
    // SAFETY: by contract; the verifier checks the socket pointer.
    unsafe {
        if matches!(hook, Hook::Send) {
            let source = (*sock_addr).msg_src_ip4;
            if source != 0 {
                return source.to_ne_bytes();
            }
        }
        let socket = (*sock_addr).__bindgen_anon_1.sk;
        if socket.is_null() {
            [0; 4]
        } else {
            (*socket).src_ip4.to_ne_bytes()
        }
    }
}

/// Whether the socket is bound to a network device (`SO_BINDTODEVICE`).
///
/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn is_bound_to_device(sock_addr: *const bpf_sock_addr) -> bool {
    // SAFETY: by contract; the verifier checks the socket pointer.
    unsafe {
        let socket = (*sock_addr).__bindgen_anon_1.sk;
        !socket.is_null() && (*socket).bound_dev_if != 0
    }
}
