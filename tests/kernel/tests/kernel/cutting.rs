//! Open connections: the survey finds them with their owners in every network namespace, and ends them.

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

/// Returns, for each address form, the address to listen on and the address to connect to.
fn forms() -> [(IpAddr, IpAddr); 3] {
    [
        (DENIED4.into(), DENIED4.into()),
        (DENIED6.into(), DENIED6.into()),
        (Ipv6Addr::UNSPECIFIED.into(), DENIED4.to_ipv6_mapped().into()),
    ]
}

/// The error numbers of a workload's sockets after they were ended: of its streams, of the accepted ends of these, and
/// of its datagram socket.
type Ends = (Vec<i32>, Vec<i32>, i32);

/// Holds connections over IPv4, over IPv6 and in the mapped form, and a connected datagram socket.
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
    // The process number in the host's numbering, because /proc is still mounted from the host.
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

/// Returns the wanted connections that the process holds.
fn find(process: u32, wanted: impl Fn(&OpenSocket) -> bool + Send) -> Result<SocketSurvey> {
    let survey = sockets::survey(&BTreeSet::from([process]), wanted);
    ensure!(survey.faults.is_empty(), "{:?}", survey.faults);
    Ok(survey)
}

fn is_target(socket: &OpenSocket) -> bool {
    let ports = PORT..PORT + 3;
    ports.contains(&socket.remote.port())
}

/// Both ends get an error, bytes are counted exactly, and accepted sockets are recognised as such.
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

/// This kernel can end sockets; if it could not, the daemon would say so at its start.
pub(crate) fn possible(_: &mut Lab) -> Result<()> {
    Ok(sockets::can_end()?)
}
