//! Ways to an address that no call names: what leaves is judged as it leaves.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd as _,
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon::intercept::kernel::records::Connect;
use mcpmon_common::{
    event::{Action, Hook},
    process::ProcessEntry,
};
use mcpmon_core::policy::{Egress, EgressDefault, RuleAction, Scope};
use mcpmon_kernel_tests::{
    attempt::Peer,
    child::{Child, Test},
    lab::{Lab, agent_entry, deny, rule},
    netns::{ALLOWED4, ALLOWED6, DENIED4, DENIED6, Space},
    sys::{Fork, fork, set_option, socket},
};
use nix::{
    errno::Errno,
    libc,
    sys::{
        socket::{SockaddrStorage, bind, connect},
        wait::waitpid,
    },
};

use super::egress;

const PORT: u16 = 26_000;
/// Port of a client that a refused host is.
const CLIENT_PORT: u16 = 26_100;
/// What an answer may take, on a slow emulated machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A datagram to an allowed host, by way of a refused one.
pub(crate) fn routing_header(lab: &mut Lab) -> Result<()> {
    let send = || -> Result<(u32, (i32, bool))> {
        let workload = Child::start_in(Space::Network, |_| {
            for device in ["all", "lo"] {
                let path = format!("/proc/sys/net/ipv6/conf/{device}/seg6_enabled");
                fs::write(&path, "1").with_context(|| format!("cannot write {path}"))?;
            }
            let peer = Peer::listen(PORT)?;
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
            // Next header, length in eights, type, segments left, last entry, flags, tag; the last segment first,
            // which the kernel fills in.
            let mut header = vec![0, 4, 4, 1, 1, 0, 0, 0];
            header.extend([0; 16]);
            header.extend(DENIED6.octets());
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RTHDR, &header)?;
            let sent = socket.send_to(b"wanted", (ALLOWED6, PORT));
            let error = sent.err().and_then(|error| error.raw_os_error()).unwrap_or(0);
            let arrived = if error == 0 {
                peer.receives(b"wanted")
            } else {
                peer.has_received(b"wanted")
            };
            Ok((error, arrived))
        })?;
        Ok((workload.pid(), workload.join()?))
    };
    let (_, found) = send()?;
    ensure!(found == (0, true), "without rules {found:?}");
    lab.install_rules(vec![deny(&["fd00:99::9"], &[])?])?;
    let (pid, found) = send()?;
    ensure!(found == (libc::EPERM, false), "{found:?}");
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

/// Connections and connected datagrams that were there before their rule.
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

/// A connection of a process that nothing holds for, used by one that rules hold for.
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

/// Says the number of a new process, which then does `work` and writes one byte; that byte.
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
        // Whatever took the way over the loopback has arrived when this has.
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

/// A server that may reach nothing answers its clients, whoever opened the socket it listens on.
pub(crate) fn answers_to_clients(lab: &mut Lab) -> Result<()> {
    let nothing = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    let list = egress::install_one(lab, nothing)?;
    for inherited in [true, false] {
        let mut client = Child::start_in(Space::Network, |test| {
            let listen = || TcpListener::bind((ALLOWED4, PORT));
            let inherited = inherited.then(listen).transpose()?;
            let (mut ours, theirs) = UnixStream::pair()?;
            let server = fork(Fork::Plain, || i32::from(serve(inherited, theirs).is_err()))?;
            test.say(&server.as_raw())?;
            test.wait()?;
            ours.write_all(&[0])?;
            ours.read_exact(&mut [0]).context("the server does not listen")?;
            let mut stream = TcpStream::connect_timeout(&(ALLOWED4, PORT).into(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
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

/// Listens when told to, and answers one client. Reaches nothing by itself.
fn serve(inherited: Option<TcpListener>, mut line: UnixStream) -> Result<()> {
    line.read_exact(&mut [0])?;
    let listener = match inherited {
        Some(listener) => listener,
        None => TcpListener::bind((ALLOWED4, PORT))?,
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

/// Records of packets of this process, 0 for those without a known sender, that were dropped on their way to `port`:
/// whatever else happens on the machine, such as the late end of connections of another test.
fn packets(lab: &mut Lab, pid: u32, port: u16) -> Result<Vec<Connect>> {
    let mut records = lab.connections()?;
    records.retain(|record| {
        let of = (record.hook, record.record.process.pid, record.record.port);
        of == (Hook::Packet, pid, port)
    });
    Ok(records)
}
