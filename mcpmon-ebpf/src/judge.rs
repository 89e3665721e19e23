//! Judging of one address for one process: looks up the rules, decides, and reports.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::{
    bpf_get_current_uid_gid,
    generated::{bpf_get_current_cgroup_id, bpf_get_current_comm},
};
use mcpmon_common::{
    event::{Action, ConnectRecord, Counter, Header, Hook, Kind, ProcessKey},
    limits::COMM_LEN,
    process::{ProcessEntry, SocketOwner},
    watch::{Control, LIST_HOST, LIST_PENDING, NetworkEntry, RULE_CANARY},
};

use crate::{
    emit::{Ring, Sequence, count, emit, header},
    maps::{at_port, network4, network6},
    task::{self, Caller},
};

/// The rules that matched an address; 0 for none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    pub(crate) deny: u32,
    pub(crate) watch: u32,
}

/// The address that the rules were tried on, in words of network order: bytes would be copied one by one.
#[derive(Clone, Copy)]
pub(crate) struct Tried {
    pub(crate) words: [u32; 4],
    pub(crate) family: u8,
}

/// The rules in force for a process; read once, so that one connection is judged by one state of the tables.
pub(crate) struct Judge {
    pub(crate) control: u64,
    pub(crate) entry: ProcessEntry,
    pub(crate) port: u16,
}

/// The judged connection, as its record describes it.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) address: Tried,
    pub(crate) form: u8,
    pub(crate) given: Tried,
    pub(crate) hook: Hook,
    pub(crate) protocol: u8,
    pub(crate) cookie: u64,
}

impl Judge {
    #[inline(always)]
    pub(crate) fn rules4(&self, address: [u8; 4]) -> Rules {
        self.rules(|list| network4(self.control, list, address))
    }

    #[inline(always)]
    pub(crate) fn rules6(&self, address: [u32; 4]) -> Rules {
        self.rules(|list| network6(self.control, list, address))
    }

    /// Looks up the host list, the egress lists of the process's servers, and the list of its session. The search ends
    /// at the first refusal, which keeps the number of paths low that the verifier checks.
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
            // The session's watch rule is more specific than that of the host list.
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

    /// Returns the rule that refuses an IPv4 address, 0 for none; watch rules are ignored.
    #[inline(always)]
    pub(crate) fn refusal4(&self, address: [u8; 4]) -> u32 {
        self.refusal(|list| network4(self.control, list, address))
    }

    /// Returns the rule that refuses an IPv6 address, 0 for none; watch rules are ignored.
    #[inline(always)]
    pub(crate) fn refusal6(&self, address: [u32; 4]) -> u32 {
        self.refusal(|list| network6(self.control, list, address))
    }

    /// Does the same as [`Judge::rules`] without the watch rules, which halves the paths for the verifier.
    #[inline(always)]
    fn refusal(&self, look_up: impl Fn(u32) -> Option<NetworkEntry>) -> u32 {
        if let Some(entry) = look_up(LIST_HOST) {
            let entry = at_port(self.control, entry, self.port);
            if entry.deny_host != 0 {
                return entry.deny_host;
            }
            if self.entry.has(ProcessEntry::FLAG_AGENT) && entry.deny_agents != 0 {
                return entry.deny_agents;
            }
        }
        let [first, second] = self.egress_lists();
        for list in [first, second, self.entry.session] {
            if list != LIST_HOST
                && let Some(entry) = look_up(list)
            {
                let deny = at_port(self.control, entry, self.port).deny_host;
                if deny != 0 {
                    return deny;
                }
            }
        }
        0
    }

    #[inline(always)]
    fn egress_lists(&self) -> [u32; 2] {
        if self.entry.has(ProcessEntry::FLAG_PENDING) && self.control & Control::EGRESS != 0 {
            [LIST_PENDING, LIST_HOST]
        } else {
            self.entry.egress
        }
    }

    /// Returns the action for the rules that matched.
    #[inline(always)]
    pub(crate) fn action(&self, rules: Rules) -> Action {
        let enforced = self.control & Control::ENFORCE != 0 || rules.deny == RULE_CANARY;
        match (rules.deny, enforced) {
            (_, true) if self.entry.has(ProcessEntry::FLAG_DOOMED) => Action::Deny,
            (0, _) => Action::Allow,
            (_, true) => Action::Deny,
            (_, false) => Action::WouldDeny,
        }
    }

    /// Counts the connection and writes its record; `who` fills in the process, its group, its user and its name.
    #[inline(always)]
    pub(crate) fn report(
        &self,
        sequence: Sequence,
        action: Action,
        rules: Rules,
        subject: Subject,
        who: impl FnOnce(*mut ConnectRecord),
    ) {
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
        let header = header(Kind::Connect, sequence);
        emit(Ring::Connections, lost, |slot| {
            self.fill(slot, header, rule, action, subject);
            who(slot.as_mut_ptr());
        });
    }

    /// Writes the record field by field: a record built on the stack would be copied in single bytes.
    #[inline(always)]
    fn fill(
        &self,
        slot: &mut MaybeUninit<ConnectRecord>,
        header: Header,
        rule: u32,
        action: Action,
        subject: Subject,
    ) {
        let record = slot.as_mut_ptr();
        // SAFETY: the slot is in the ring and as large as a record; the caller writes the other fields.
        unsafe {
            (*record).header = header;
            (*record).entry = self.entry;
            (*record).cookie = subject.cookie;
            (&raw mut (*record).address)
                .cast::<[u32; 4]>()
                .write(subject.address.words);
            (&raw mut (*record).given)
                .cast::<[u32; 4]>()
                .write(subject.given.words);
            (*record).rule = rule;
            (*record).port = self.port;
            (*record).family = subject.address.family;
            (*record).given_family = subject.given.family;
            (*record).form = subject.form;
            (*record).protocol = subject.protocol;
            (*record).action = action as u8;
            (*record).hook = subject.hook as u8;
        }
    }
}

/// Fills in the current process.
///
/// # Safety
/// `record` is a record in a ring.
#[inline(always)]
pub(crate) unsafe fn name_caller(record: *mut ConnectRecord, caller: Caller) {
    // SAFETY: by contract; the helpers write into the record's own fields.
    unsafe {
        (*record).process = task::current_key(caller);
        (*record).cgroup = bpf_get_current_cgroup_id();
        (*record).uid = bpf_get_current_uid_gid() as u32;
        // The helper clears the name if it has none.
        bpf_get_current_comm((&raw mut (*record).comm).cast(), COMM_LEN as u32);
    }
}

/// Fills in the owner of a socket; zeros if the owner is not known.
///
/// # Safety
/// `record` is a record in a ring.
#[inline(always)]
pub(crate) unsafe fn name_owner(record: *mut ConnectRecord, owner: Option<&SocketOwner>) {
    // SAFETY: by contract.
    unsafe {
        match owner {
            Some(owner) => {
                (*record).process = owner.process;
                (*record).cgroup = owner.cgroup;
                (*record).uid = owner.uid;
                (*record).comm = owner.comm;
            }
            None => {
                (*record).process = ProcessKey::default();
                (*record).cgroup = 0;
                (*record).uid = 0;
                (*record).comm = [0; COMM_LEN];
            }
        }
    }
}

impl Tried {
    #[inline(always)]
    pub(crate) const fn v4(address: [u8; 4]) -> Self {
        Self {
            words: [u32::from_ne_bytes(address), 0, 0, 0],
            family: 4,
        }
    }

    #[inline(always)]
    pub(crate) const fn v6(words: [u32; 4]) -> Self {
        Self { words, family: 6 }
    }
}
