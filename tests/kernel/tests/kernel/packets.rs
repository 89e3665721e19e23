//! Ways to reach an address that no call names: packets are judged when they leave.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{
    event::{Action, Hook},
    process::ProcessEntry,
    watch::{PROBE_MARK, RULE_CANARY},
};
use mcpmon_kernel::{links::LinkState, programs::EGRESS, records::Connect};
use mcpmon_kernel_tests::{
    attempt::Peer,
    child::{Child, Test},
    lab::{Lab, agent_entry, deny, rule},
    netns::{ALLOWED4, ALLOWED6, DENIED4, DENIED6, Space, add_loopback},
    sys::{Fork, fork, set_option, socket},
};
use mcpmon_policy::{Egress, EgressDefault, RuleAction, Scope, network::table::CANARY};
use nix::{
    errno::Errno,
    libc,
    mount::{MsFlags, mount},
    poll::{PollFd, PollFlags, poll},
    sys::{
        signal::{Signal, kill},
        socket::{
            Backlog, MsgFlags, Shutdown, SockaddrStorage, bind, connect, listen, sendto, setsockopt,
            shutdown, sockopt,
        },
        wait::waitpid,
    },
};

use super::egress;

const PORT: u16 = 26_000;
/// The port of a client on a refused host.
const CLIENT_PORT: u16 = 26_100;
/// The longest time for an answer, on a slow emulated machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The port of a file server.
const FILE_SERVER: u16 = 2049;
/// Milliseconds within which a mount contacts its server, on a slow emulated machine.
const MOUNT_TIMEOUT: u16 = 10_000;

/// Returns a routing header by way of a refused host, for each type that the kernel writes. Each has: next header,
/// length in units of eight bytes, type, segments left, and the addresses. Type 4 (segment routing) has before the
/// addresses: last entry, flags, tag, and the last segment first, which the kernel fills in.
fn routing_headers() -> [(u8, Vec<u8>); 2] {
    let by_way = DENIED6.octets();
    [
        (4, [&[0u8, 4, 4, 1, 1, 0, 0, 0][..], &[0; 16], &by_way].concat()),
        (2, [&[0u8, 2, 2, 1, 0, 0, 0, 0][..], &by_way].concat()),
    ]
}

/// A datagram to an allowed host is refused if it goes by way of a refused one.
pub(crate) fn routing_header(lab: &mut Lab) -> Result<()> {
    for (kind, header) in routing_headers() {
        lab.reset()?;
        routed_by(lab, kind, &header)?;
    }
    Ok(())
}

fn routed_by(lab: &mut Lab, kind: u8, header: &[u8]) -> Result<()> {
    let send = || -> Result<(u32, Option<(i32, bool)>)> {
        let workload = Child::start_in(Space::Network, |_| {
            for device in ["all", "lo"] {
                let path = format!("/proc/sys/net/ipv6/conf/{device}/seg6_enabled");
                fs::write(&path, "1").with_context(|| format!("cannot write {path}"))?;
            }
            let peer = Peer::listen(PORT)?;
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
            match set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RTHDR, header) {
                Err(Errno::EINVAL) if kind != 4 => return Ok(None),
                set => set?,
            }
            let sent = socket.send_to(b"wanted", (ALLOWED6, PORT));
            let error = sent.err().and_then(|error| error.raw_os_error()).unwrap_or(0);
            // Only a mobile node accepts a header of type 2, so this shows only that the packet left.
            let arrived = if error == 0 && kind == 4 {
                peer.receives(b"wanted")
            } else {
                peer.has_received(b"wanted")
            };
            Ok(Some((error, arrived)))
        })?;
        Ok((workload.pid(), workload.join()?))
    };
    let (_, Some(found)) = send()? else {
        lab.lacks(format!("the kernel writes no routing header of type {kind}"));
        return Ok(());
    };
    ensure!(found == (0, kind == 4), "type {kind}, without rules {found:?}");
    lab.install_rules(vec![deny(&["fd00:99::9"], &[])?])?;
    let (pid, found) = send()?;
    ensure!(found == Some((libc::EPERM, false)), "type {kind}: {found:?}");
    let records = packets(lab, pid, PORT)?;
    let said: Vec<_> = records
        .iter()
        .map(|record| (record.address, record.given, record.record.port))
        .collect();
    ensure!(
        said == [(IpAddr::from(DENIED6), IpAddr::from(DENIED6), PORT)],
        "{records:#?}"
    );
    Ok(())
}

/// Connections and connected datagram sockets are judged by a rule that is installed after them.
pub(crate) fn established(lab: &mut Lab) -> Result<()> {
    let mut workload = Child::start_in(Space::Network, |test| {
        let listener = TcpListener::bind((DENIED4, PORT))?;
        let mut stream = TcpStream::connect((DENIED4, PORT))?;
        let (mut accepted, _) = listener.accept()?;
        let datagrams = UdpSocket::bind((ALLOWED4, 0))?;
        datagrams.connect((DENIED4, PORT))?;
        let peer = UdpSocket::bind((DENIED4, PORT))?;
        peer.set_nonblocking(true)?;
        accepted.set_nonblocking(true)?;
        test.say(&())?;
        test.wait()?;
        stream.write_all(b"late")?;
        let sent = datagrams
            .send(b"late")
            .err()
            .and_then(|error| error.raw_os_error());
        let received = accepted.read(&mut [0; 8]).is_ok() || peer.recv(&mut [0; 8]).is_ok();
        Ok((sent, received))
    })?;
    workload.hear::<()>()?;
    lab.install_rules(vec![deny(&["127.0.9.9"], &[])?])?;
    let pid = workload.pid();
    workload.proceed()?;
    let found = workload.join()?;
    ensure!(found == (Some(libc::EPERM), false), "{found:?}");
    let records = packets(lab, pid, PORT)?;
    for protocol in [6, 17] {
        let of_protocol = |record: &&Connect| record.record.protocol == protocol;
        let record = records.iter().find(of_protocol).context("no record")?;
        ensure!(
            (record.address, record.action) == (DENIED4.into(), Action::Deny),
            "{record:#?}"
        );
    }
    Ok(())
}

/// A connection of an unrestricted process is used by a process with rules.
pub(crate) fn passed_connections(lab: &mut Lab) -> Result<()> {
    let rules = vec![rule(RuleAction::Deny, Scope::Agents, &["127.0.9.9"], &[])?];
    lab.install_rules(rules)?;
    passed_to(lab, agent_entry(), false)?;
    passed_to(lab, ProcessEntry::default(), true)?;
    let nothing = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    let list = egress::install_one(lab, nothing)?;
    passed_to(lab, egress::entry(list), false)
}

fn passed_to(lab: &mut Lab, entry: ProcessEntry, reaches: bool) -> Result<()> {
    let mut opener = Child::start_in(Space::Network, |test| {
        let listener = TcpListener::bind((DENIED4, PORT))?;
        let mut stream = TcpStream::connect((DENIED4, PORT))?;
        let (mut accepted, _) = listener.accept()?;
        accepted.set_nonblocking(true)?;
        in_another(test, |line| {
            stream.write_all(b"passed")?;
            line.write_all(&[u8::from(accepted.read(&mut [0; 8]).is_ok())])?;
            Ok(())
        })
    })?;
    let user: i32 = opener.hear()?;
    lab.sensor.processes.set(user.cast_unsigned(), entry)?;
    opener.proceed()?;
    let reached = opener.join()? == 1;
    ensure!(reached == reaches, "{entry:?} reaches it: {reached}");
    let records = packets(lab, user.cast_unsigned(), PORT)?;
    ensure!(records.is_empty() == reaches, "{records:#?}");
    Ok(())
}

/// Starts a process that does `work` and writes one byte. Sends the process's number to the test, and returns the byte.
fn in_another(test: &mut Test, work: impl FnOnce(&mut UnixStream) -> Result<()>) -> Result<u8> {
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let child = fork(Fork::Plain, || {
        let done = theirs
            .read_exact(&mut [0])
            .map_err(anyhow::Error::from)
            .and_then(|()| work(&mut theirs));
        i32::from(done.is_err())
    })?;
    test.say(&child.as_raw())?;
    test.wait()?;
    ours.write_all(&[0])?;
    let mut answer = [0];
    ours.read_exact(&mut answer)
        .context("the other process says nothing")?;
    waitpid(child, None)?;
    Ok(answer[0])
}

/// A refused host that connects to a server here gets no answer.
pub(crate) fn refused_clients(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![deny(&["127.0.9.9"], &[])?])?;
    let accepted = Child::start_in(Space::Network, |_| {
        let listener = TcpListener::bind((ALLOWED4, PORT))?;
        listener.set_nonblocking(true)?;
        let client = socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_NONBLOCK,
            libc::IPPROTO_TCP,
        )?;
        let source = SockaddrStorage::from(SocketAddr::from((DENIED4, CLIENT_PORT)));
        bind(client.as_raw_fd(), &source)?;
        let target = SockaddrStorage::from(SocketAddr::from((ALLOWED4, PORT)));
        let connected = connect(client.as_raw_fd(), &target);
        ensure!(connected == Err(Errno::EINPROGRESS), "{connected:?}");
        // Loopback packets sent before this one have arrived when it has.
        let mark = UdpSocket::bind((ALLOWED4, 0))?;
        mark.connect(mark.local_addr()?)?;
        mark.send(b"mark")?;
        mark.recv(&mut [0; 8])?;
        Ok(listener.accept().is_ok())
    })?
    .join()?;
    ensure!(!accepted, "the connection is there");
    let records = packets(lab, 0, CLIENT_PORT)?;
    let record = records.first().context("no record")?;
    ensure!(record.address == IpAddr::from(DENIED4), "{record:#?}");
    Ok(())
}

/// A server that may reach nothing still answers its clients, whichever process opened its listening socket, and with
/// any length of its backlog.
pub(crate) fn answers_to_clients(lab: &mut Lab) -> Result<()> {
    let nothing = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    let list = egress::install_one(lab, nothing)?;
    for (inherited, backlog) in [(true, 5), (false, 5), (false, 0)] {
        let mut client = Child::start_in(Space::Network, |test| {
            let listen = || TcpListener::bind((ALLOWED4, PORT));
            let inherited = inherited.then(listen).transpose()?;
            let (mut ours, theirs) = UnixStream::pair()?;
            let server = fork(Fork::Plain, || {
                i32::from(serve(inherited, backlog, theirs).is_err())
            })?;
            test.say(&server.as_raw())?;
            test.wait()?;
            ours.write_all(&[0])?;
            ours.read_exact(&mut [0]).context("the server does not listen")?;
            let mut stream = TcpStream::connect_timeout(&(ALLOWED4, PORT).into(), TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let mut answer = [0];
            stream.read_exact(&mut answer).context("no answer")?;
            waitpid(server, None)?;
            Ok(answer)
        })?;
        let server: i32 = client.hear()?;
        lab.sensor
            .processes
            .set(server.cast_unsigned(), egress::entry(list))?;
        client.proceed()?;
        ensure!(&client.join()? == b"!");
    }
    Ok(())
}

/// Listens on request, and answers one client. It makes no connection of its own.
fn serve(inherited: Option<TcpListener>, backlog: i32, mut line: UnixStream) -> Result<()> {
    line.read_exact(&mut [0])?;
    let listener = match inherited {
        Some(listener) => listener,
        None => listen_with(backlog)?,
    };
    ensure!(
        TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))
            .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)),
        "the list does not hold"
    );
    line.write_all(&[1])?;
    let (mut accepted, _) = listener.accept()?;
    accepted.write_all(b"!")?;
    Ok(())
}

fn listen_with(backlog: i32) -> Result<TcpListener> {
    let listener = socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
    let address = SockaddrStorage::from(SocketAddr::from((ALLOWED4, PORT)));
    bind(listener.as_raw_fd(), &address)?;
    listen(&listener, Backlog::new(backlog)?)?;
    Ok(listener.into())
}

/// A socket that listened and then connects counts as connecting, so a list that is installed later applies to it.
pub(crate) fn forged_answers(lab: &mut Lab) -> Result<()> {
    let before = Egress {
        deny: vec!["127.0.7.0/24".parse()?],
        ..Egress::default()
    };
    let list = egress::install_one(lab, before)?;
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        let peer = TcpListener::bind((DENIED4, PORT))?;
        let forged = listen_with(5)?;
        shutdown(forged.as_raw_fd(), Shutdown::Both)?;
        let target = SockaddrStorage::from(SocketAddr::from((DENIED4, PORT)));
        connect(forged.as_raw_fd(), &target)?;
        let (mut accepted, _) = peer.accept()?;
        accepted.set_nonblocking(true)?;
        test.say(&())?;
        test.wait()?;
        let mut stream = TcpStream::from(OwnedFd::from(forged));
        stream.write_all(b"forged")?;
        Ok(accepted.read(&mut [0; 8]).is_ok())
    })?;
    let pid = workload.pid();
    lab.sensor.processes.set(pid, egress::entry(list))?;
    workload.proceed()?;
    workload.hear::<()>()?;
    let after = Egress {
        deny: vec!["127.0.9.0/24".parse()?],
        ..Egress::default()
    };
    ensure!(
        egress::install_one(lab, after)? == list,
        "the list has another number"
    );
    workload.proceed()?;
    ensure!(!workload.join()?, "it reached the refused address");
    let records = packets(lab, pid, PORT)?;
    ensure!(!records.is_empty(), "no record");
    Ok(())
}

/// A raw socket that sends whole UDP datagrams.
struct Raw {
    socket: OwnedFd,
    target: SockaddrStorage,
}

impl Raw {
    fn to(address: IpAddr) -> Result<Self> {
        Ok(Self {
            socket: socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP)?,
            target: SocketAddr::from((address, 0)).into(),
        })
    }

    /// Sends a datagram, and returns the error number.
    fn send(&self) -> i32 {
        let [high, low] = PORT.to_be_bytes();
        // Both ports, length, no checksum.
        let datagram = [high, low, high, low, 0, 8, 0, 0];
        sendto(
            self.socket.as_raw_fd(),
            &datagram,
            &self.target,
            MsgFlags::empty(),
        )
        .map_or_else(|error| error as i32, |_| 0)
    }
}

/// A raw socket is judged even if it was opened before its process became an agent.
pub(crate) fn raw_sockets(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![rule(RuleAction::Deny, Scope::Agents, &["127.0.9.9"], &[])?])?;
    let mut workload = Child::start_in(Space::Network, |test| {
        let raw = Raw::to(DENIED4.into())?;
        let before = raw.send();
        test.say(&())?;
        test.wait()?;
        let as_agent = raw.send();
        test.say(&())?;
        test.wait()?;
        Ok([before, as_agent, raw.send()])
    })?;
    let pid = workload.pid();
    for entry in [agent_entry(), ProcessEntry::default()] {
        workload.hear::<()>()?;
        lab.sensor.processes.set(pid, entry)?;
        workload.proceed()?;
    }
    let found = workload.join()?;
    ensure!(found == [0, libc::EPERM, 0], "{found:?}");
    let records = packets(lab, pid, PORT)?;
    ensure!(records.len() == 1, "{records:#?}");
    Ok(())
}

/// A network file system sends through a kernel socket, in the calls of the processes that use it.
pub(crate) fn kernel_sockets(lab: &mut Lab) -> Result<()> {
    let known = fs::read_to_string("/proc/filesystems").context("cannot read the file systems")?;
    if !known.split_whitespace().any(|name| name == "nfs4") {
        lab.lacks("the kernel has no NFS");
        return Ok(());
    }
    lab.install_rules(vec![rule(RuleAction::Deny, Scope::Agents, &["127.0.9.9"], &[])?])?;
    let asked = mount_asks(lab)?;
    ensure!(asked, "nothing arrives at the file server");
    let records = lab.connections()?;
    let refused = |record: &&Connect| record.record.port == FILE_SERVER;
    ensure!(!records.iter().any(|record| refused(&record)), "{records:#?}");

    lab.install_rules(vec![deny(&["127.0.9.9"], &[])?])?;
    let asked = mount_asks(lab)?;
    ensure!(!asked, "the rules for the host do not hold");
    let records = lab.connections()?;
    ensure!(records.iter().any(|record| refused(&record)), "no record");
    Ok(())
}

/// Returns whether the file server on the refused address receives a request when an agent mounts from it.
fn mount_asks(lab: &mut Lab) -> Result<bool> {
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        let listener = TcpListener::bind((DENIED4, FILE_SERVER))?;
        let options = format!("vers=4.0,proto=tcp,soft,addr={DENIED4},clientaddr={ALLOWED4}");
        let mounting = fork(Fork::Plain, || {
            let source = format!("{DENIED4}:/");
            let mounted = mount(
                Some(source.as_str()),
                "/tmp",
                Some("nfs4"),
                MsFlags::empty(),
                Some(options.as_str()),
            );
            i32::from(mounted.is_err())
        })?;
        let asked = hears(&listener);
        kill(mounting, Signal::SIGKILL)?;
        drop(listener);
        waitpid(mounting, None)?;
        asked
    })?;
    lab.sensor.processes.set(workload.pid(), agent_entry())?;
    workload.proceed()?;
    workload.join()
}

/// Returns whether a client connects and sends something.
fn hears(listener: &TcpListener) -> Result<bool> {
    let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waiting, MOUNT_TIMEOUT)? == 0 {
        return Ok(false);
    }
    let (mut accepted, _) = listener.accept()?;
    accepted.set_read_timeout(Some(Duration::from_millis(MOUNT_TIMEOUT.into())))?;
    Ok(accepted.read(&mut [0; 4]).is_ok_and(|length| length > 0))
}

/// The packets of the self-test are dropped, with and without rules. The program for packets is attached for it, and
/// otherwise while a rule refuses something.
pub(crate) fn probes(lab: &mut Lab) -> Result<()> {
    let links = lab.sensor.attached.links().clone();
    let attached = || links.states().find(|(program, _)| *program == EGRESS);
    let expect = |state| ensure_state(attached(), state);
    expect(LinkState::NotNeeded)?;
    lab.install_rules(vec![deny(&["192.0.2.7"], &[])?])?;
    expect(LinkState::Attached)?;
    lab.install_rules(vec![rule(RuleAction::Watch, Scope::Host, &["192.0.2.7"], &[])?])?;
    expect(LinkState::NotNeeded)?;

    links.require(EGRESS);
    expect(LinkState::Attached)?;
    judged_probes(lab)?;
    links.release(EGRESS)?;
    expect(LinkState::NotNeeded)
}

fn ensure_state(found: Option<(&str, LinkState)>, expected: LinkState) -> Result<()> {
    ensure!(
        found == Some((EGRESS, expected)),
        "{found:?} instead of {expected:?}"
    );
    Ok(())
}

fn judged_probes(lab: &mut Lab) -> Result<()> {
    for canary in CANARY {
        let workload = Child::start_in(Space::Network, |_| {
            let any: IpAddr = match canary {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(v6) => {
                    // The kernel makes no packet without a route.
                    add_loopback(v6)?;
                    Ipv6Addr::UNSPECIFIED.into()
                }
            };
            let socket = UdpSocket::bind((any, 0))?;
            let send = || {
                let sent = socket.send_to(b"?", (canary, PORT));
                sent.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
            };
            let unmarked = send();
            setsockopt(&socket, sockopt::Mark, &PROBE_MARK)?;
            Ok([unmarked, send()])
        })?;
        let pid = workload.pid();
        let found = workload.join()?;
        ensure!(found == [libc::EPERM; 2], "{canary}: {found:?}");
        let mut records = lab.connections()?;
        records.retain(|record| record.record.process.pid == pid);
        let said: Vec<_> = records
            .iter()
            .map(|record| (record.hook, record.address, record.record.rule))
            .collect();
        let expected = [Hook::Send, Hook::Packet].map(|hook| (hook, canary, RULE_CANARY));
        ensure!(said == expected, "{records:#?}");
    }
    Ok(())
}

/// Returns the records of dropped packets to `port` from this process, or from no known process if `pid` is 0. Other
/// records are left out, such as those of the late end of another test's connections.
fn packets(lab: &mut Lab, pid: u32, port: u16) -> Result<Vec<Connect>> {
    let mut records = lab.connections()?;
    records.retain(|record| {
        let of = (record.hook, record.record.process.pid, record.record.port);
        of == (Hook::Packet, pid, port)
    });
    Ok(records)
}
