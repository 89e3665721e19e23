//! The programs of the object: where each is attached, and what is lost without it.

use super::links::Hook;

/// The program for packets. It is attached while a rule refuses addresses, and while a self-test runs.
pub const EGRESS: &str = "egress";
/// The component that reserves addresses.
pub const RESERVED: &str = "reserved addresses";
/// The program for starts of checked programs.
pub const START_CHECK: &str = "start_check";
/// Its hook.
pub(super) const SECURITY_HOOK: &str = "bprm_check_security";

/// A program of the object.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) hook: Hook,
    pub(super) loss: Loss,
}

/// The loss if the kernel refuses a program.
pub(super) enum Loss {
    /// Nothing works without it.
    Everything,
    /// A part of the enforcement: component and consequence.
    Part(&'static str, &'static str),
    /// A way to enforce what is enforced in another way, too.
    Way,
}

const fn needed(name: &'static str, hook: Hook) -> Entry {
    Entry {
        name,
        hook,
        loss: Loss::Everything,
    }
}

const fn reserving(name: &'static str, hook: u32) -> Entry {
    Entry {
        name,
        hook: Hook::Cgroup(hook),
        loss: Loss::Part(
            RESERVED,
            "any user can take the port of the proxy while the daemon is away",
        ),
    }
}

/// All programs. The sensor also runs without the last six: if a kernel refuses one of them, that is reported. The
/// numbers are those of `enum bpf_attach_type`.
pub(super) const PROGRAMS: [Entry; 14] = [
    needed("process_exec", Hook::Tracepoint("sched_process_exec")),
    needed("process_fork", Hook::Tracepoint("sched_process_fork")),
    needed("process_exit", Hook::Tracepoint("sched_process_exit")),
    needed("process_signal", Hook::Tracepoint("signal_generate")),
    needed("connect4", Hook::Cgroup(10)),
    needed("connect6", Hook::Cgroup(11)),
    needed("sendmsg4", Hook::Cgroup(14)),
    needed("sendmsg6", Hook::Cgroup(15)),
    Entry {
        name: "sock_create",
        hook: Hook::Cgroup(2),
        loss: Loss::Part(
            "new sockets",
            "sockets of protocols that no hook judges (SCTP, L2TP/IP) reach refused addresses",
        ),
    },
    Entry {
        name: "sock_release",
        hook: Hook::Cgroup(34),
        loss: Loss::Part(
            "closed connections",
            "nobody tells when connections of servers end, and how many bytes they carried",
        ),
    },
    reserving("bind4", 8),
    reserving("bind6", 9),
    Entry {
        name: EGRESS,
        hook: Hook::Cgroup(1),
        loss: Loss::Part(
            "packets",
            "refused addresses are reached by raw and ping sockets, routing headers, and on connections that were there before",
        ),
    },
    Entry {
        name: START_CHECK,
        hook: Hook::Security(SECURITY_HOOK),
        loss: Loss::Way,
    },
];
