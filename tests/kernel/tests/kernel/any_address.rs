//! The unspecified address, which reaches this host in every form in which it is written.

use std::{
    io::IoSlice,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd as _,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{
    address::Form,
    event::{Action, Counter},
};
use mcpmon_kernel_tests::{
    attempt::{Means, Outcome, Path, Peer, Target, Written},
    child::Child,
    lab::{Lab, agent_entry, rule},
    netns::{DENIED4, Space},
    sys::{Device, set_option},
};
use mcpmon_policy::{RuleAction, Scope};
use nix::{
    errno::Errno,
    libc,
    net::if_::if_nametoindex,
    sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg},
};

const PORT: u16 = 21_000;
const MEANS: [Means; 5] = [
    Means::Tcp,
    Means::FastOpenSend,
    Means::UdpConnect,
    Means::UdpSend,
    Means::RingConnect,
];

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const ANY_MAPPED: IpAddr = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());

/// The addresses of a workload's attempt: destination and source.
#[derive(Clone, Copy, Debug)]
struct Route {
    to: IpAddr,
    from: Option<IpAddr>,
}

const fn to(to: IpAddr) -> Route {
    Route { to, from: None }
}

pub(crate) fn loopback_refused(lab: &mut Lab) -> Result<()> {
    for to_any in [to(ANY4), to(ANY6), to(ANY_MAPPED)] {
        expect(lab, "127.0.0.1", to_any, Outcome::Refused)?;
    }
    expect(lab, "127.0.0.2", to(ANY4), Outcome::Reached)?;
    expect(lab, "127.0.0.2", to(ANY_MAPPED), Outcome::Reached)
}

pub(crate) fn loopback6_refused(lab: &mut Lab) -> Result<()> {
    expect(lab, "::1", to(ANY6), Outcome::Refused)?;
    expect(lab, "::1", to(ANY4), Outcome::Reached)?;
    expect(lab, "fd00:99::9", to(ANY6), Outcome::Reached)
}

/// From a bound socket, the unspecified address leads to the address that the socket is bound to.
pub(crate) fn bound_address_refused(lab: &mut Lab) -> Result<()> {
    let bound = |to, from| Route { to, from: Some(from) };
    let mapped = IpAddr::V6(DENIED4.to_ipv6_mapped());
    expect(lab, "127.0.9.9", bound(ANY4, DENIED4.into()), Outcome::Refused)?;
    expect(lab, "127.0.9.9", bound(ANY_MAPPED, mapped), Outcome::Refused)?;
    expect(lab, "127.0.9.9", to(ANY4), Outcome::Reached)?;
    expect(lab, "127.0.9.8", bound(ANY4, DENIED4.into()), Outcome::Reached)
}

/// The address of a device, in the range for benchmarks between networks.
const OF_DEVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 99, 9);
/// Paths that need no reply, because replies arrive at another device than the one that the socket is bound to.
const ONE_WAY: [Means; 4] = [
    Means::UdpConnect,
    Means::UdpSend,
    Means::UdpMessage,
    Means::RingSend,
];

/// From a socket bound to a device, the unspecified address leads to the device's own address, which no program sees.
pub(crate) fn device_address_not_reached(lab: &mut Lab) -> Result<()> {
    let own = OF_DEVICE.to_string();
    for (listed, to, expected) in [
        ("127.0.0.1", OF_DEVICE.into(), Outcome::Reached),
        (&own, OF_DEVICE.into(), Outcome::Refused),
        ("127.0.0.1", ANY4, Outcome::Refused),
        ("127.0.0.1", ANY_MAPPED, Outcome::Refused),
    ] {
        let Some(found) = from_device(lab, listed, to)? else {
            lab.lacks("not tried: the kernel has no pairs of devices");
            return Ok(());
        };
        ensure!(
            found == [expected; ONE_WAY.len()],
            "{ONE_WAY:?} to {to} from a device with {listed} refused: {found:?}"
        );
    }
    for to in [ANY4, ANY6, ANY_MAPPED] {
        let found = from_device(lab, &own, to)?.context("the devices are gone")?;
        ensure!(
            found
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Lost | Outcome::Failed(_))),
            "{ONE_WAY:?} to {to} from a device with its address refused: {found:?}"
        );
    }
    Ok(())
}

/// Ways of naming a device that do not bind the socket.
#[derive(Clone, Copy, Debug)]
enum Named {
    /// `IP_PKTINFO` in the call that sends the datagram.
    WithTheCall,
    /// `IP_UNICAST_IF` on the socket, which connect(2) observes too.
    OnTheSocket,
}

/// The same if the device is named in the call or on the socket.
pub(crate) fn named_device_not_reached(lab: &mut Lab) -> Result<()> {
    for named in [Named::WithTheCall, Named::OnTheSocket] {
        let own = OF_DEVICE.to_string();
        for (listed, reached) in [(None, true), (Some(own.as_str()), false)] {
            let Some(found) = from_named_device(lab, named, listed)? else {
                lab.lacks("not tried: the kernel has no pairs of devices");
                return Ok(());
            };
            ensure!(found == reached, "{named:?} with {listed:?} refused: {found}");
        }
    }
    Ok(())
}

/// Returns whether a datagram to the unspecified address arrives.
fn from_named_device(lab: &mut Lab, named: Named, listed: Option<&str>) -> Result<Option<bool>> {
    let listed = listed.map(|listed| rule(RuleAction::Deny, Scope::Agents, &[listed], &[PORT]));
    lab.install_rules(listed.into_iter().collect::<Result<_>>()?)?;
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        match Device::make_pair() {
            Err(Errno::EOPNOTSUPP) => return Ok(None),
            made => made?,
        }
        Device::PAIR.set_address(OF_DEVICE)?;
        Device::PAIR.raise()?;
        let index = if_nametoindex(Device::PAIR.name())?;
        let peer = Peer::listen(PORT)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let device = libc::in_pktinfo {
            ipi_ifindex: index.cast_signed(),
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        let control = match named {
            Named::WithTheCall => vec![ControlMessage::Ipv4PacketInfo(&device)],
            Named::OnTheSocket => {
                set_option(&socket, libc::IPPROTO_IP, IP_UNICAST_IF, &index.to_be_bytes())?;
                Vec::new()
            }
        };
        let to = SockaddrStorage::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)));
        let content = [IoSlice::new(b"wanted")];
        let sent = sendmsg(
            socket.as_raw_fd(),
            &content,
            &control,
            MsgFlags::empty(),
            Some(&to),
        );
        UdpSocket::bind((Ipv6Addr::LOCALHOST, 0))?.send_to(b"mark", (Ipv6Addr::LOCALHOST, PORT))?;
        Ok(Some(sent.is_ok() && peer.receives_before(b"wanted", b"mark")))
    })?;
    lab.sensor.processes.set(workload.pid(), agent_entry())?;
    workload.proceed()?;
    workload.join()
}

/// `IP_UNICAST_IF` of linux/in.h.
const IP_UNICAST_IF: i32 = 50;

/// Returns the outcome of each of [`ONE_WAY`] for an agent to which `listed` is refused; `None` if the kernel has no
/// such devices.
fn from_device(lab: &mut Lab, listed: &str, to: IpAddr) -> Result<Option<Vec<Outcome>>> {
    lab.install_rules(vec![rule(RuleAction::Deny, Scope::Agents, &[listed], &[PORT])?])?;
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        match Device::make_pair() {
            Err(Errno::EOPNOTSUPP) => return Ok(None),
            made => made?,
        }
        Device::PAIR.set_address(OF_DEVICE)?;
        Device::PAIR.raise()?;
        let peer = Peer::listen(PORT)?;
        let mark = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), PORT);
        let target = Target {
            address: SocketAddr::new(to, PORT),
            aside: mark,
            peer: &peer,
            source: None,
            device: Some(Device::PAIR),
        };
        let attempt = |means| {
            let written = Written::V4;
            Path { means, written }.attempt_within_host(target, mark)
        };
        Ok(Some(ONE_WAY.map(attempt).to_vec()))
    })?;
    lab.sensor.processes.set(workload.pid(), agent_entry())?;
    workload.proceed()?;
    workload.join()
}

/// Refuses `listed` to an agent, and lets the agent try `route` by every means.
fn expect(lab: &mut Lab, listed: &str, route: Route, outcome: Outcome) -> Result<()> {
    // Refused to agents only, so that the machine's own loopback traffic is not affected.
    lab.install_rules(vec![rule(RuleAction::Deny, Scope::Agents, &[listed], &[PORT])?])?;
    let denied_before = lab.count(Counter::Denied)?;
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        let peer = Peer::listen(PORT)?;
        let address = SocketAddr::new(route.to, PORT);
        let target = Target {
            address,
            aside: address,
            peer: &peer,
            source: route.from,
            device: None,
        };
        // The form of the address does not matter here, because the target is the address itself.
        Ok(MEANS
            .map(|means| {
                Path {
                    means,
                    written: Written::V4,
                }
                .attempt(target)
            })
            .to_vec())
    })?;
    let pid = workload.pid();
    lab.sensor.processes.set(pid, agent_entry())?;
    workload.proceed()?;
    let outcomes = workload.join()?;
    for (means, found) in MEANS.into_iter().zip(outcomes) {
        ensure!(
            found == outcome,
            "{means:?} along {route:?} with {listed} refused: {found:?}"
        );
    }
    let mut records = lab.connections()?;
    records.retain(|record| record.record.process.pid == pid);
    let denied = usize::try_from(lab.count(Counter::Denied)? - denied_before)?;
    if outcome == Outcome::Reached {
        ensure!(records.is_empty(), "{route:?} is reported: {records:#?}");
        return Ok(());
    }
    ensure!(
        records.len() == MEANS.len() && denied >= MEANS.len(),
        "{} records of {denied}",
        records.len()
    );
    for record in records {
        let said = (record.action, record.form, record.address.to_string());
        ensure!(
            said == (Action::Deny, Form::Any, listed.to_owned()),
            "{route:?} is reported as {record:#?}"
        );
        ensure!(
            record.given.is_unspecified() || record.given == ANY_MAPPED,
            "{record:#?}"
        );
    }
    Ok(())
}
