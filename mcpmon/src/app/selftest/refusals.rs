//! Connections and packets to addresses that must be refused, and what the kernel reported of them.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd as _, OwnedFd},
};

use mcpmon_common::{address::Form, event::Hook, watch::PROBE_MARK};
use mcpmon_policy::network::table::CANARY;
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, sendto, setsockopt, socket,
        sockopt,
    },
};

use super::{super::probe::Sightings, CheckOutcome, Component, SelfTestCheck};

/// The port does not matter: the canary's rule names none.
const PORT: u16 = 9;

/// The ways in which refused addresses are tried: name, kind of socket, the hook that must refuse, and the form and
/// family of the address.
const ATTEMPTS: [(&str, SockType, Hook, Form, IpAddr); 7] = {
    let [v4, v6] = CANARY;
    [
        ("TCP over IPv4", SockType::Stream, Hook::Connect, Form::Plain, v4),
        ("UDP over IPv4", SockType::Datagram, Hook::Send, Form::Plain, v4),
        (
            "TCP over an IPv4-mapped address",
            SockType::Stream,
            Hook::Connect,
            Form::Mapped,
            v4,
        ),
        ("TCP over IPv6", SockType::Stream, Hook::Connect, Form::Plain, v6),
        ("UDP over IPv6", SockType::Datagram, Hook::Send, Form::Plain, v6),
        (
            "a packet over IPv4",
            SockType::Datagram,
            Hook::Packet,
            Form::Plain,
            v4,
        ),
        (
            "a packet over IPv6",
            SockType::Datagram,
            Hook::Packet,
            Form::Plain,
            v6,
        ),
    ]
};

/// Tries every way to reach a refused address.
pub(super) fn attempts() -> Vec<Attempt> {
    ATTEMPTS
        .map(|(name, kind, hook, form, address)| {
            let target = match (form, address) {
                (Form::Mapped, IpAddr::V4(v4)) => IpAddr::V6(v4.to_ipv6_mapped()),
                (Form::Plain | Form::Mapped | Form::Any | Form::Nat64 | Form::SixToFour, other) => other,
            };
            Attempt {
                name: format!("{name} is refused"),
                address,
                form,
                hook,
                outcome: attempt(kind, hook, SocketAddr::new(target, PORT)),
            }
        })
        .into()
}

/// A try to reach a refused address.
pub(super) struct Attempt {
    name: String,
    address: IpAddr,
    form: Form,
    hook: Hook,
    outcome: nix::Result<()>,
}

impl Attempt {
    /// Returns whether the kernel refused it.
    pub(super) fn refused(&self) -> bool {
        self.outcome == Err(Errno::EPERM)
    }

    /// Returns whether it was refused and reported.
    pub(super) fn check(&self, seen: &Sightings) -> SelfTestCheck {
        let reported = seen.refusals.iter().any(|refusal| {
            refusal.address == self.address && refusal.form == self.form && refusal.hook == self.hook
        });
        let outcome = match self.outcome {
            Err(Errno::EPERM) if reported => CheckOutcome::Passed,
            Err(Errno::EPERM) => {
                CheckOutcome::Failed("refused, but no record of it arrived within a second".to_owned())
            }
            Err(Errno::EAFNOSUPPORT) => CheckOutcome::Skipped("this host has no IPv6".to_owned()),
            Err(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EADDRNOTAVAIL)
                if self.hook == Hook::Packet =>
            {
                CheckOutcome::Skipped("this host has no way there, and makes no packet".to_owned())
            }
            Ok(()) | Err(Errno::EINPROGRESS) => {
                CheckOutcome::Failed("a connection that must be refused was let through".to_owned())
            }
            Err(error) => CheckOutcome::Failed(format!("failed with {error} instead of EPERM")),
        };
        let component = match self.hook {
            Hook::Connect | Hook::Send | Hook::Socket => Component::NetworkGate,
            Hook::Packet => Component::PacketGate,
        };
        SelfTestCheck {
            component,
            name: self.name.clone(),
            outcome,
        }
    }
}

/// Returns whether a connection to the self-test's address is refused by the programs of any daemon.
pub(crate) fn is_refusing() -> bool {
    let target = SocketAddr::new(CANARY[0], PORT);
    attempt(SockType::Stream, Hook::Connect, target) == Err(Errno::EPERM)
}

/// Connects, or sends one byte, without blocking.
fn attempt(kind: SockType, hook: Hook, target: SocketAddr) -> nix::Result<()> {
    let family = if target.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let socket: OwnedFd = socket(
        family,
        kind,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    if hook == Hook::Packet {
        setsockopt(&socket, sockopt::Mark, &PROBE_MARK)?;
    }
    let target = SockaddrStorage::from(target);
    if kind == SockType::Datagram {
        sendto(socket.as_raw_fd(), b"?", &target, MsgFlags::empty()).map(drop)
    } else {
        connect(socket.as_raw_fd(), &target)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::probe::ObservedRefusal, *};

    #[test]
    fn packets_that_only_their_call_refuses_are_not_judged() {
        let attempt = Attempt {
            name: "x is refused".to_owned(),
            address: CANARY[0],
            form: Form::Plain,
            hook: Hook::Packet,
            outcome: Err(Errno::EPERM),
        };
        let outcome = |hook| {
            let seen = Sightings {
                refusals: vec![ObservedRefusal {
                    address: CANARY[0],
                    form: Form::Plain,
                    hook,
                }],
                exec: None,
            };
            let check = attempt.check(&seen);
            assert_eq!(check.component, Component::PacketGate);
            check.outcome
        };
        assert_eq!(outcome(Hook::Packet), CheckOutcome::Passed);
        assert!(matches!(outcome(Hook::Send), CheckOutcome::Failed(_)));
    }

    #[test]
    fn what_is_not_refused_fails_the_check() {
        let attempt = |outcome| Attempt {
            name: "x is refused".to_owned(),
            address: CANARY[0],
            form: Form::Plain,
            hook: Hook::Connect,
            outcome,
        };
        let failed = |outcome| {
            matches!(
                attempt(outcome).check(&Sightings::default()).outcome,
                CheckOutcome::Failed(_)
            )
        };
        assert!(
            failed(Err(Errno::EINPROGRESS))
                && failed(Ok(()))
                && failed(Err(Errno::EPERM))
                && failed(Err(Errno::ENETUNREACH))
        );
    }
}
