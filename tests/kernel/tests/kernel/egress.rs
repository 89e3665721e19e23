//! Egress lists of servers: they apply to the server's process tree, and to no other process.

use std::{
    io::IoSlice,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd as _,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{event::Action, process::ProcessEntry, state::Heartbeat, watch::LIST_PENDING};
use mcpmon_kernel::addresses::Enforcement;
use mcpmon_kernel_tests::{
    attempt::Peer,
    child::Child,
    lab::Lab,
    netns::{ALLOWED4, ALLOWED6, DENIED4, DENIED6, Space},
    probe::{self, REACHED, REFUSED},
};
use mcpmon_model::ServerId;
use mcpmon_policy::{
    Egress, EgressDefault, Policy, SandboxPolicy, Server, Transport, network::table::Tables,
};
use nix::{
    libc,
    sys::socket::{ControlMessage, MsgFlags, sendmsg},
};

pub(crate) const PORT: u16 = 25_000;
const OTHER_PORT: u16 = 25_001;

pub(crate) fn allowed_only(lab: &mut Lab) -> Result<()> {
    let egress = Egress {
        default: EgressDefault::Deny,
        allow: vec!["127.0.8.0/24".parse()?, "127.0.7.7:25000".parse()?],
        deny: vec!["127.0.8.5".parse()?],
    };
    let list = list(
        &install_without_pending(lab, vec![server("only", egress)?])?,
        "only",
    )?;
    let mapped = Ipv4Addr::new(127, 0, 9, 9).to_ipv6_mapped();
    let refused: [SocketAddr; 6] = [
        (DENIED4, PORT).into(),
        (DENIED6, PORT).into(),
        (Ipv6Addr::LOCALHOST, PORT).into(),
        (mapped, PORT).into(),
        (Ipv4Addr::new(127, 0, 8, 5), PORT).into(),
        (Ipv4Addr::new(127, 0, 7, 7), OTHER_PORT).into(),
    ];
    let reached: [SocketAddr; 4] = [
        (ALLOWED4, PORT).into(),
        (ALLOWED4.to_ipv6_mapped(), PORT).into(),
        (Ipv4Addr::new(127, 0, 8, 255), OTHER_PORT).into(),
        (Ipv4Addr::new(127, 0, 7, 7), PORT).into(),
    ];
    lab.hold(entry(list), &refused, &reached)
}

pub(crate) fn all_but(lab: &mut Lab) -> Result<()> {
    let list = list(
        &install_without_pending(lab, vec![server("all-but", all_but_9()?)?])?,
        "all-but",
    )?;
    lab.hold(
        entry(list),
        &[(DENIED4, PORT).into()],
        &[(ALLOWED4, PORT).into(), (DENIED6, PORT).into()],
    )
}

pub(crate) fn each_its_own(lab: &mut Lab) -> Result<()> {
    let first = all_but_9()?;
    let second = Egress {
        deny: vec!["127.0.8.0/24".parse()?],
        ..Egress::default()
    };
    let lists = install_without_pending(lab, vec![server("first", first)?, server("second", second)?])?;
    let (nine, eight) = ([(DENIED4, PORT).into()], [(ALLOWED4, PORT).into()]);
    lab.hold(entry(list(&lists, "first")?), &nine, &eight)?;
    lab.hold(entry(list(&lists, "second")?), &eight, &nine)?;
    lab.hold(ProcessEntry::default(), &[], &[nine[0], eight[0]])
}

/// A new process that is not judged yet is bound by all lists at once; after its judgement, by its own list.
pub(crate) fn pending(lab: &mut Lab) -> Result<()> {
    let tables = lab.install(&policy(vec![server("all-but", all_but_9()?)?]))?;
    let target = (DENIED4, PORT).into();
    let mut workload = Child::start_in(Space::Network, |test| {
        let before = probe::connect(target)?;
        let program = probe::run("/proc/self/exe".as_ref(), target)?;
        ensure!((before, program) == (REACHED, REACHED), "{before}, {program}");
        test.say(&())?;
        // Marked as pending, judged to belong to the server, judged to belong to no server.
        for expected in [REFUSED, REFUSED, REACHED] {
            test.wait()?;
            let found = probe::connect(target)?;
            ensure!(found == expected, "{found}, not {expected}");
            test.say(&())?;
        }
        Ok(())
    })?;
    workload.hear::<()>()?;
    let pending = ProcessEntry {
        flags: ProcessEntry::FLAG_PENDING,
        ..ProcessEntry::default()
    };
    for judged in [pending, entry(list(&tables, "all-but")?), ProcessEntry::default()] {
        lab.sensor.processes.set(workload.pid(), judged)?;
        workload.proceed()?;
        workload.hear::<()>()?;
    }
    workload.join()
}

/// While no daemon runs, nothing judges new processes: they are released, except those that an agent started. Processes
/// that were judged stay bound by their list.
pub(crate) fn pending_in_silence(lab: &mut Lab) -> Result<()> {
    let tables = lab.install(&policy(vec![server("all-but", all_but_9()?)?]))?;
    let of_server = entry(list(&tables, "all-but")?);
    let target: [SocketAddr; 1] = [(DENIED4, PORT).into()];
    let pending = |flags| ProcessEntry {
        flags: ProcessEntry::FLAG_PENDING | flags,
        ..ProcessEntry::default()
    };
    let (of_host, of_agent) = (pending(0), pending(ProcessEntry::FLAG_AGENT));
    let stale = Duration::from_nanos(Heartbeat::STALE_AFTER);
    lab.silent(stale / 2, |lab| {
        [of_host, of_agent, of_server]
            .into_iter()
            .try_for_each(|held| lab.hold(held, &target, &[]))
    })?;
    lab.silent(stale, |lab| {
        lab.hold(of_host, &[], &target)?;
        lab.hold(of_agent, &target, &[])?;
        lab.hold(of_server, &target, &[])
    })
}

/// A process that was not judged is not restricted if no server has a list.
pub(crate) fn pending_without_lists(lab: &mut Lab) -> Result<()> {
    let pending = ProcessEntry {
        flags: ProcessEntry::FLAG_PENDING,
        ..ProcessEntry::default()
    };
    lab.hold(pending, &[], &[(DENIED4, PORT).into()])
}

/// A server inside another one is bound by the lists of both.
pub(crate) fn both(lab: &mut Lab) -> Result<()> {
    let only_v6 = Egress {
        deny: vec!["fd00:99::/64".parse()?],
        ..Egress::default()
    };
    let tables = install_without_pending(
        lab,
        vec![server("outer", all_but_9()?)?, server("inner", only_v6)?],
    )?;
    let nested = ProcessEntry {
        egress: [list(&tables, "outer")?, list(&tables, "inner")?],
        ..entry(0)
    };
    let refused = [(DENIED4, PORT).into(), (DENIED6, PORT).into()];
    lab.hold(nested, &refused, &[(ALLOWED4, PORT).into()])
}

/// A process of a server that is being stopped can connect nowhere, and does not survive a fork.
pub(crate) fn doomed(lab: &mut Lab) -> Result<()> {
    let doomed = ProcessEntry {
        flags: ProcessEntry::FLAG_DOOMED,
        ..entry(0)
    };
    let mut connecting = Child::start_in(Space::Network, |test| {
        test.wait()?;
        probe::connect((ALLOWED4, PORT).into())
    })?;
    lab.sensor.processes.set(connecting.pid(), doomed)?;
    connecting.proceed()?;
    ensure!(connecting.join()? == REFUSED, "it connected");

    let mut forking = Child::start(|test| {
        test.wait()?;
        Ok(std::process::Command::new("/bin/true").status().is_ok())
    })?;
    lab.sensor.processes.set(forking.pid(), doomed)?;
    forking.proceed()?;
    ensure!(forking.join().is_err(), "it forked and lived");
    Ok(())
}

/// Datagrams without an address, sent on a connected socket, are judged by the socket's address, also with a control
/// message, for which the kernel calls the hook.
pub(crate) fn connected_datagrams(lab: &mut Lab) -> Result<()> {
    let egress = Egress {
        default: EgressDefault::Deny,
        allow: vec!["127.0.8.0/24".parse()?, "fd00:98::/64".parse()?],
        deny: Vec::new(),
    };
    let mapped = |address: Ipv4Addr| address.to_ipv6_mapped();
    let pairs: [(IpAddr, IpAddr); 3] = [
        (ALLOWED4.into(), DENIED4.into()),
        (ALLOWED6.into(), DENIED6.into()),
        (mapped(ALLOWED4).into(), mapped(DENIED4).into()),
    ];
    for (allowed, denied) in pairs {
        let list = install_one(lab, egress.clone())?;
        lab.connections()?;
        let mut workload = Child::start_in(Space::Network, |test| {
            let peer = Peer::listen(PORT)?;
            let sockets = [allowed, denied].map(|address| connected_to((address, PORT).into()));
            test.say(&())?;
            test.wait()?;
            let mut outcomes = Vec::new();
            for (socket, address) in sockets.into_iter().zip([allowed, denied]) {
                outcomes.extend(with_control_messages(&socket?, address));
            }
            Ok((outcomes, peer.receives(b"told")))
        })?;
        workload.hear::<()>()?;
        let pid = workload.pid();
        lab.sensor.processes.set(pid, entry(list))?;
        workload.proceed()?;
        let (outcomes, received) = workload.join()?;
        ensure!(
            outcomes == [0, 0, 0, libc::EPERM, libc::EPERM, libc::EPERM] && received,
            "{allowed} and {denied}: {outcomes:?}"
        );
        let mut records = lab.connections()?;
        records.retain(|record| record.record.process.pid == pid && record.action == Action::Deny);
        ensure!(
            !records.is_empty()
                && records
                    .iter()
                    .all(|record| { (record.address, record.record.port) == (denied.to_canonical(), PORT) }),
            "{records:#?}"
        );
    }
    Ok(())
}

fn connected_to(address: SocketAddr) -> Result<UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket)
}

/// Returns the error numbers of sending without an address: with a traffic class, with an unspecified source address,
/// and without a control message.
fn with_control_messages(socket: &UdpSocket, to: IpAddr) -> [i32; 3] {
    // A source address of the family that is really used.
    let unspecified = match to.to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED,
    };
    let (source4, source6) = (
        libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: 0 },
        },
        libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr {
                s6_addr: unspecified.octets(),
            },
            ipi6_ifindex: 0,
        },
    );
    let (service, source) = if to.is_ipv4() {
        (
            ControlMessage::Ipv4Tos(&4),
            ControlMessage::Ipv4PacketInfo(&source4),
        )
    } else {
        (
            ControlMessage::Ipv6TClass(&4),
            ControlMessage::Ipv6PacketInfo(&source6),
        )
    };
    let send = |control: &[ControlMessage<'_>]| {
        let content = [IoSlice::new(b"told")];
        sendmsg::<()>(socket.as_raw_fd(), &content, control, MsgFlags::empty(), None)
            .map_or_else(|error| error as i32, |_| 0)
    };
    [send(&[service]), send(&[source]), send(&[])]
}

/// Every connection of a server's process is reported, whether listed or not.
pub(crate) fn servers_are_reported(lab: &mut Lab) -> Result<()> {
    let of_server = ProcessEntry {
        instance: 5,
        ..ProcessEntry::default()
    };
    lab.hold(of_server, &[], &[(ALLOWED4, PORT).into()])?;
    let mut records = lab.connections()?;
    records.retain(|record| record.record.port == PORT);
    ensure!(
        records.len() == probe::RELATIVES.len(),
        "{} records",
        records.len()
    );
    for record in records {
        let said = (record.action, record.record.rule, record.record.entry.instance);
        ensure!(said == (Action::Allow, 0, 5), "{record:#?}");
    }
    Ok(())
}

/// Returns the kernel's entry for a process of a server with this list.
pub(crate) fn entry(list: u32) -> ProcessEntry {
    ProcessEntry {
        instance: 1,
        egress: [list, 0],
        ..ProcessEntry::default()
    }
}

fn all_but_9() -> Result<Egress> {
    Ok(Egress {
        deny: vec!["127.0.9.0/24".parse()?],
        ..Egress::default()
    })
}

fn server(id: &str, egress: Egress) -> Result<Server> {
    Ok(Server {
        on_change: None,
        id: ServerId::new(id)?,
        transport: Transport::Stdio {
            command: id.to_owned(),
            args: Vec::new(),
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        processes: None,
        egress: Some(egress),
        sandbox: SandboxPolicy::default(),
    })
}

fn policy(servers: Vec<Server>) -> Policy {
    Policy {
        servers,
        ..Policy::default()
    }
}

/// Installs one list, with which candidates are restricted.
pub(crate) fn install_all_but_9(lab: &mut Lab) -> Result<Tables> {
    lab.install(&policy(vec![server("all-but", all_but_9()?)?]))
}

/// Installs one list as [`install_without_pending`] does, and returns its number.
pub(crate) fn install_one(lab: &mut Lab, egress: Egress) -> Result<u32> {
    list(
        &install_without_pending(lab, vec![server("one", egress)?])?,
        "one",
    )
}

/// Installs lists without binding every new process of this machine by them, because a test must not cut off other
/// programs here.
fn install_without_pending(lab: &mut Lab, servers: Vec<Server>) -> Result<Tables> {
    let compiled = lab.compile(&policy(servers))?;
    let mut tables = compiled.clone();
    tables.v4.retain(|(list, ..), _| *list != LIST_PENDING);
    tables.v6.retain(|(list, ..), _| *list != LIST_PENDING);
    tables.egress.clear();
    lab.sensor.addresses.install(&tables, Enforcement::Enforce)?;
    Ok(compiled)
}

/// Returns the number of a server's list.
fn list(tables: &Tables, id: &str) -> Result<u32> {
    tables
        .egress
        .get(&ServerId::new(id)?)
        .copied()
        .with_context(|| format!("{id} has no list"))
}
