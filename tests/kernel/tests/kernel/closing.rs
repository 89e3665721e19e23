//! Records of closed sockets: connections of servers are reported when their socket is closed, with the bytes that
//! passed.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv6Addr, TcpListener, TcpStream, UdpSocket},
};

use anyhow::{Result, bail, ensure};
use mcpmon_common::{
    event::{CloseRecord, Counter, Hook},
    process::ProcessEntry,
};
use mcpmon_kernel::records::{Close, Connect, Record};
use mcpmon_kernel_tests::{
    child::Child,
    lab::Lab,
    netns::{ALLOWED4, ALLOWED6, Space},
    sys::set_option,
};
use nix::libc;

const PORT: u16 = 28_000;
/// A port on which nothing listens.
const SILENT: u16 = 28_100;
const INSTANCE: u32 = 9;

/// The way in which a TCP connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// This side closes first.
    Own,
    /// This side ends its sending half before it closes.
    Half,
    /// The other side closes first.
    Other,
    /// The other side resets the connection.
    Reset,
}

const ENDS: [End; 4] = [End::Own, End::Half, End::Other, End::Reset];

/// Returns, for each address form, the address to listen on and the address to connect to.
fn forms() -> [(IpAddr, IpAddr); 3] {
    [
        (ALLOWED4.into(), ALLOWED4.into()),
        (ALLOWED6.into(), ALLOWED6.into()),
        (Ipv6Addr::UNSPECIFIED.into(), ALLOWED4.to_ipv6_mapped().into()),
    ]
}

/// Sends five bytes there and three back over a new connection, and ends it.
fn use_up(listen: IpAddr, target: IpAddr, end: End) -> Result<()> {
    let listener = TcpListener::bind((listen, PORT))?;
    let mut stream = TcpStream::connect((target, PORT))?;
    let (mut other, _) = listener.accept()?;
    stream.write_all(b"hello")?;
    other.read_exact(&mut [0; 5])?;
    other.write_all(b"bye")?;
    stream.read_exact(&mut [0; 3])?;
    match end {
        End::Own => {}
        End::Half => {
            stream.shutdown(std::net::Shutdown::Write)?;
            ensure!(other.read(&mut [0; 8])? == 0, "it says more");
        }
        End::Other | End::Reset => {
            if end == End::Reset {
                let at_once = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
                set_option(&other, libc::SOL_SOCKET, libc::SO_LINGER, &at_once)?;
            }
            drop(other);
            drop(stream.read(&mut [0; 8]));
        }
    }
    drop(stream);
    Ok(())
}

fn seen(lab: &mut Lab, pid: u32) -> Result<(Vec<Connect>, Vec<Close>)> {
    let mut closes = Vec::new();
    let connects = lab.records(|record| match record {
        Record::Connect(connect) if connect.record.process.pid == pid => Some(connect),
        Record::Close(close) => {
            closes.push(close);
            None
        }
        Record::Exec(_)
        | Record::Fork(_)
        | Record::Exit(_)
        | Record::RefusedStart(_)
        | Record::Resume(_)
        | Record::Connect(_) => None,
    })?;
    closes.retain(|close| close.record.connection.process.pid == pid);
    Ok((connects, closes))
}

/// Runs `work` in a process with this server instance; 0 is a process of no server.
fn run<T: serde::Serialize + serde::de::DeserializeOwned>(
    lab: &mut Lab,
    instance: u32,
    work: impl FnOnce() -> Result<T>,
) -> Result<(u32, T)> {
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        work()
    })?;
    let pid = workload.pid();
    let entry = ProcessEntry {
        instance,
        ..ProcessEntry::default()
    };
    if instance != 0 {
        lab.sensor.processes.set(pid, entry)?;
    }
    workload.proceed()?;
    Ok((pid, workload.join()?))
}

/// The numbers of bytes are exact for every way in which a connection ends, and the record names the same socket as the
/// record of the call.
pub(crate) fn streams(lab: &mut Lab) -> Result<()> {
    for (listen, target) in forms() {
        for end in ENDS {
            let (pid, ()) = run(lab, INSTANCE, || use_up(listen, target, end))?;
            let (connects, closes) = seen(lab, pid)?;
            let ([connect], [close]) = (connects.as_slice(), closes.as_slice()) else {
                bail!("{target} {end:?}: {connects:#?} {closes:#?}");
            };
            let record = &close.record;
            ensure!(record.cookie == connect.record.cookie, "{close:#?}");
            ensure!(close.address == connect.address, "{close:#?}");
            ensure!(record.connection.port == PORT, "{close:#?}");
            ensure!(record.connection.instance == INSTANCE, "{close:#?}");
            ensure!(record.connection.time >= connect.record.header.time, "{close:#?}");
            ensure!(record.header.time > record.connection.time, "{close:#?}");
            let all = CloseRecord::FLAG_COUNTED | CloseRecord::FLAG_ESTABLISHED;
            ensure!(
                (record.sent, record.received, record.flags) == (5, 3, all),
                "{target} {end:?}: {close:#?}"
            );
        }
    }
    Ok(())
}

/// Connections that nothing answers, and sockets whose bytes are not counted.
pub(crate) fn others(lab: &mut Lab) -> Result<()> {
    let (pid, refused) = run(lab, INSTANCE, || {
        let refused = TcpStream::connect((ALLOWED4, SILENT)).is_err();
        let datagrams = UdpSocket::bind(("0.0.0.0", 0))?;
        datagrams.connect((ALLOWED4, PORT))?;
        drop(datagrams);
        // A socket that names an address with each datagram is not connected.
        let unconnected = UdpSocket::bind(("0.0.0.0", 0))?;
        unconnected.send_to(b"hello", (ALLOWED4, PORT))?;
        Ok(refused)
    })?;
    ensure!(refused, "somebody listens");
    let (_, closes) = seen(lab, pid)?;
    let said: Vec<_> = closes
        .iter()
        .map(|close| {
            let record = &close.record;
            (
                record.connection.protocol,
                record.connection.port,
                record.flags,
                record.sent,
            )
        })
        .collect();
    let expected = [
        (6, SILENT, CloseRecord::FLAG_COUNTED, 0),
        (17, PORT, CloseRecord::FLAG_ESTABLISHED, 0),
    ];
    ensure!(said == expected, "{closes:#?}");
    Ok(())
}

/// Sockets of processes outside servers, and sockets that a server accepted, are not reported.
pub(crate) fn not_told(lab: &mut Lab) -> Result<()> {
    let before = lab.count(Counter::CloseSeen)?;
    run(lab, 0, || use_up(ALLOWED4.into(), ALLOWED4.into(), End::Own))?;
    let told = lab.count(Counter::CloseSeen)? - before;
    ensure!(told == 0, "{told} of others");
    let (pid, ()) = run(lab, INSTANCE, || {
        let listener = TcpListener::bind((ALLOWED4, PORT))?;
        let stream = TcpStream::connect((ALLOWED4, PORT))?;
        drop(listener.accept()?);
        drop(stream);
        Ok(())
    })?;
    let (connects, closes) = seen(lab, pid)?;
    let calls = connects.iter().filter(|connect| connect.hook == Hook::Connect);
    ensure!((calls.count(), closes.len()) == (1, 1), "{closes:#?}");
    Ok(())
}
