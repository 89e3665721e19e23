//! Open connections: found in every network namespace with whose they are, and ended.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_kernel::sockets::{self, Ending, OpenSocket, Protocol, SocketSurvey, Traffic};
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::Lab,
    netns::{DENIED4, DENIED6, Space},
};
use nix::libc;

const PORT: u16 = 27_000;

/// Of each form: address to listen on, address to connect to.
fn forms() -> [(IpAddr, IpAddr); 3] {
    [
        (DENIED4.into(), DENIED4.into()),
        (DENIED6.into(), DENIED6.into()),
        (Ipv6Addr::UNSPECIFIED.into(), DENIED4.to_ipv6_mapped().into()),
    ]
}

/// What a workload tells of its sockets after they were ended: error numbers of its streams, of what they are connected to,
/// and of its datagram socket.
type Ends = (Vec<i32>, Vec<i32>, i32);

/// Connections over IPv4, IPv6 and in the mapped form, and a connected datagram socket.
fn hold(test: &mut Test) -> Result<Ends> {
    let mut streams = Vec::new();
    let mut accepted = Vec::new();
    let mut listeners = Vec::new();
    for (number, (listen, target)) in (0..).zip(forms()) {
        let listener = TcpListener::bind((listen, PORT + number))?;
        let mut stream = TcpStream::connect((target, PORT + number))?;
        let (mut other, _) = listener.accept()?;
        stream.write_all(b"hello")?;
        other.read_exact(&mut [0; 5])?;
        other.write_all(b"bye")?;
        stream.read_exact(&mut [0; 3])?;
        streams.push(stream);
        accepted.push(other);
        listeners.push(listener);
    }
    let peer = UdpSocket::bind((DENIED4, PORT))?;
    let datagrams = UdpSocket::bind(("127.0.0.1", 0))?;
    datagrams.connect((DENIED4, PORT))?;
    datagrams.send(b"hello")?;
    peer.recv(&mut [0; 8])?;
    // As the host numbers processes, whose file system of them this still is.
    let own = fs::read_link("/proc/self")?;
    test.say(&own)?;
    test.wait()?;
    let read = |stream: &mut TcpStream| -> Result<i32> {
        let error = stream.read(&mut [0; 8]).err().context("it is not ended")?;
        error.raw_os_error().context("no error number")
    };
    let own = streams.iter_mut().map(read).collect::<Result<_>>()?;
    let others = accepted.iter_mut().map(read).collect::<Result<_>>()?;
    let sent = datagrams
        .send(b"late")
        .err()
        .and_then(|error| error.raw_os_error());
    Ok((own, others, sent.context("it still sends")?))
}

/// The connections that are wanted, with the process where it holds them.
fn find(process: u32, wanted: impl Fn(&OpenSocket) -> bool + Send) -> Result<SocketSurvey> {
    let survey = sockets::survey(&BTreeSet::from([process]), wanted);
    ensure!(survey.faults.is_empty(), "{:?}", survey.faults);
    Ok(survey)
}

fn is_target(socket: &OpenSocket) -> bool {
    let ports = PORT..PORT + 3;
    ports.contains(&socket.remote.port())
}

/// Both ends are told, bytes are counted exactly, and what the other side opened is known as such.
pub(crate) fn ended(lab: &mut Lab) -> Result<()> {
    for space in [Space::Network, Space::Everything] {
        lab.reset()?;
        let mut workload = Child::start_in(space, hold)?;
        let own: PathBuf = workload.hear()?;
        let pid = own.to_str().context("no number")?.parse()?;
        let found = find(pid, is_target)?.sockets;
        let mut remotes: Vec<(Protocol, SocketAddr)> = found
            .iter()
            .map(|socket| (socket.protocol, socket.remote))
            .collect();
        remotes.sort();
        let tcp = (0..)
            .zip(forms())
            .map(|(number, (_, target))| (Protocol::Tcp, SocketAddr::new(target, PORT + number)));
        let mut expected: Vec<_> = tcp.collect();
        expected.push((Protocol::Udp, (DENIED4, PORT).into()));
        expected.sort();
        ensure!(remotes == expected, "{space:?}: {remotes:?}");
        for socket in &found {
            ensure!(socket.holders == [pid], "{socket:?}");
            ensure!(!socket.is_answer, "{socket:?}");
        }
        let answers = find(pid, |socket| socket.is_answer && !is_target(socket))?.sockets;
        let of_workload = answers.iter().filter(|socket| socket.holders == [pid]);
        ensure!(of_workload.count() == forms().len(), "{answers:?}");

        let traffic = Traffic { sent: 5, received: 3 };
        for (socket, ending) in found.iter().zip(sockets::end(&found)) {
            match ending {
                Ending::Ended(Some(passed)) => {
                    ensure!(
                        socket.protocol == Protocol::Tcp && passed == traffic,
                        "{passed:?}"
                    );
                }
                Ending::Ended(None) => ensure!(socket.protocol == Protocol::Udp, "{socket:?}"),
                Ending::Gone | Ending::Failed(_) => anyhow::bail!("{socket:?}: {ending:?}"),
            }
        }
        for ending in sockets::end(&found) {
            let is_datagrams = matches!(ending, Ending::Ended(None));
            ensure!(
                matches!(ending, Ending::Gone) || is_datagrams,
                "once more: {ending:?}"
            );
        }
        workload.proceed()?;
        let (own, others, datagrams) = workload.join()?;
        ensure!(own == [libc::ECONNABORTED; 3], "{space:?}: {own:?}");
        ensure!(others == [libc::ECONNRESET; 3], "{space:?}: {others:?}");
        ensure!(datagrams == libc::EDESTADDRREQ, "{space:?}: {datagrams}");
    }
    Ok(())
}

/// This kernel can do it: who starts a daemon is told where it cannot.
pub(crate) fn possible(_: &mut Lab) -> Result<()> {
    Ok(sockets::can_end()?)
}
