//! The tap of DNS answers: it takes answers to questions that a socket of this host sent, and no others.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use aya::sys::{Stats, enable_stats};
use mcpmon_common::dns::{DnsCounter, MAX_ANSWER};
use mcpmon_kernel::dns::AnswerTap;
use mcpmon_kernel_tests::{child::Child, lab::Lab, netns::Space};
use mcpmon_policy::{HostName, network::followed::DnsAnswer};

const DNS: u16 = 53;
/// The followed name.
const NAME: &str = "evil.example";
const SERVER4: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 8, 53));
const OTHER4: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 8, 54));
const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// The longest time for an answer, on a slow emulated machine.
const TIMEOUT: Duration = Duration::from_secs(20);
const ID: u16 = 0x1234;

/// Answers are seen both for connected and for unconnected sockets.
pub(crate) fn seen(_: &mut Lab) -> Result<()> {
    let (answers, _) = tapped(|| {
        for server in [SERVER4, SERVER6] {
            let server = bound(server, DNS)?;
            for is_connected in [true, false] {
                let client = client_of(&server, is_connected)?;
                exchange(&client, &server, ID, "Evil.EXAMPLE", &[7])?;
            }
        }
        Ok(())
    })?;
    let servers: Vec<IpAddr> = answers.iter().map(|answer| answer.server).collect();
    ensure!(servers == [SERVER4, SERVER4, SERVER6, SERVER6], "{answers:?}");
    ensure!(
        answers
            .iter()
            .all(|answer| answer.name.as_str() == NAME && told(answer) == [address(7)]),
        "{answers:?}"
    );
    Ok(())
}

/// Answers to questions for other names are not handed over.
pub(crate) fn other_names(_: &mut Lab) -> Result<()> {
    let (answers, counts) = tapped(|| {
        let server = bound(SERVER4, DNS)?;
        let client = client_of(&server, true)?;
        for name in ["good.example", "an.evil.example", "example", "evil.example.com"] {
            exchange(&client, &server, ID, name, &[7])?;
        }
        // An answer for the followed name to a question for another name.
        client.send(&question(ID, "good.example"))?;
        server.send_to(&response(ID, NAME, &[7]), asker(&server)?)?;
        received(&client)
    })?;
    ensure!(answers.is_empty(), "{answers:?}");
    ensure!(counts == [0, 0, 0], "{counts:?}");
    Ok(())
}

/// An answer without a question is ignored.
pub(crate) fn forged(_: &mut Lab) -> Result<()> {
    let (answers, counts) = tapped(|| {
        let (server, other) = (bound(SERVER4, DNS)?, bound(OTHER4, DNS)?);
        let elsewhere = bound(SERVER4, DNS + 1)?;
        let client = client_of(&server, false)?;
        let to = client.local_addr()?;
        // An answer before any question.
        server.send_to(&response(ID, NAME, &[1]), to)?;
        received(&client)?;
        client.send_to(&question(ID, NAME), server.local_addr()?)?;
        asker(&server)?;
        for (from, id) in [(&server, ID + 1), (&other, ID), (&elsewhere, ID)] {
            from.send_to(&response(id, NAME, &[2]), to)?;
            received(&client)?;
        }
        // An answer to another socket, which asked nothing.
        let bystander = client_of(&server, false)?;
        server.send_to(&response(ID, NAME, &[3]), bystander.local_addr()?)?;
        received(&bystander)?;
        server.send_to(&response(ID, NAME, &[4]), to)?;
        received(&client)?;
        // A second answer to the same question.
        server.send_to(&response(ID, NAME, &[5]), to)?;
        received(&client)
    })?;
    let told: Vec<_> = answers.iter().flat_map(told).collect();
    ensure!(told == [address(4)], "{answers:?}");
    ensure!(counts == [1, 1, 0], "{counts:?}");
    Ok(())
}

/// Long answers, and some that are incomplete.
pub(crate) fn lengths(_: &mut Lab) -> Result<()> {
    let (answers, counts) = tapped(|| {
        let server = bound(SERVER4, DNS)?;
        let client = client_of(&server, true)?;
        let whole = response(ID, NAME, &[7]);
        for length in [MAX_ANSWER - 1, MAX_ANSWER, MAX_ANSWER + 1, 8000] {
            let mut long = whole.clone();
            long.resize(length, 0);
            client.send(&question(ID, NAME))?;
            server.send_to(&long, asker(&server)?)?;
            received(&client)?;
        }
        for length in [0, 2, 11, 12, 20, whole.len() - 1] {
            client.send(&question(ID, NAME))?;
            server.send_to(&whole[..length], asker(&server)?)?;
            received(&client)?;
        }
        // Questions that are truncated, or whose name does not end.
        for end in [0, 5, 13, 20] {
            client.send(&question(ID, NAME)[..end])?;
            asker(&server)?;
        }
        let endless = [&question(ID, NAME)[..12], &[1; 300]].concat();
        client.send(&endless)?;
        asker(&server).map(drop)
    })?;
    ensure!(answers.len() == 4, "{answers:?}");
    ensure!(
        answers.iter().all(|answer| told(answer) == [address(7)]),
        "{answers:?}"
    );
    // Three of the truncated questions are too short to have a question's number.
    ensure!(counts == [10, 7, 0], "{counts:?}");
    Ok(())
}

/// Answers that do not fit into the ring are counted.
pub(crate) fn flood(lab: &mut Lab) -> Result<()> {
    const MANY: u64 = 2000;
    let (answers, counts) = tapped(|| {
        let server = bound(SERVER4, DNS)?;
        let client = client_of(&server, true)?;
        let mut long = response(ID, NAME, &[7]);
        long.resize(MAX_ANSWER, 0);
        for _ in 0..MANY {
            client.send(&question(ID, NAME))?;
            server.send_to(&long, asker(&server)?)?;
            received(&client)?;
        }
        Ok(())
    })?;
    let seen = u64::try_from(answers.len())?;
    ensure!(seen > 0 && seen < MANY, "{seen} of {MANY} fit");
    ensure!(counts == [MANY, seen, MANY - seen], "{seen} {counts:?}");
    lab.note(format!(
        "of {MANY} answers of {MAX_ANSWER} bytes without a reader {seen} were kept"
    ));
    Ok(())
}

/// Answers are seen until the tap is dropped, and the names can be replaced.
pub(crate) fn names_change(_: &mut Lab) -> Result<()> {
    let ask = || -> Result<()> {
        let ask = |_: &mut _| {
            let server = bound(SERVER4, DNS)?;
            let client = client_of(&server, true)?;
            exchange(&client, &server, ID, NAME, &[7])
        };
        Child::start_in(Space::Network, ask)?.join()
    };
    in_runtime(|| {
        let mut tap = AnswerTap::open()?;
        for (names, expected) in [(vec![], 0), (vec![NAME, "b.example"], 1), (vec!["b.example"], 0)] {
            tap.follow(&parsed(&names)?)?;
            ask()?;
            let seen = tap.waiting();
            ensure!(seen.len() == expected, "{names:?}: {seen:?}");
        }
        Ok(())
    })
}

/// Measures the time that the programs take for each packet, by the kernel's statistics. Nothing else changes while
/// they are attached.
pub(crate) fn cost(lab: &mut Lab) -> Result<()> {
    const MANY: u64 = 20_000;
    let datagrams = |port: u16| -> Result<()> {
        let send = |_: &mut _| {
            let server = bound(SERVER4, port)?;
            let client = client_of(&server, true)?;
            for _ in 0..MANY {
                client.send(&question(ID, "good.example"))?;
                asker(&server)?;
            }
            Ok(())
        };
        Child::start_in(Space::Network, send)?.join()
    };
    in_runtime(|| {
        for (what, port) in [("another datagram", 9), ("a question for another name", DNS)] {
            let tap = AnswerTap::open()?;
            let _counted =
                enable_stats(Stats::RunTime).context("the kernel keeps no statistics of programs")?;
            datagrams(port)?;
            for (name, runs, time) in tap.runs() {
                ensure!(runs >= MANY, "{name} ran {runs} times");
                let each = time.as_nanos() / u128::from(runs);
                lab.note(format!("{what}: {name} {each} ns"));
            }
        }
        Ok(())
    })
}

/// Runs `work` in a separate network. Returns the answers that the tap saw, and its counters: questions, answers handed
/// over, answers lost.
fn tapped(work: impl FnOnce() -> Result<()>) -> Result<(Vec<DnsAnswer>, [u64; 3])> {
    in_runtime(|| {
        let mut tap = AnswerTap::open()?;
        tap.follow(&parsed(&[NAME])?)?;
        Child::start_in(Space::Network, |_| work())?.join()?;
        let answers = tap.waiting();
        let counts =
            [DnsCounter::Questions, DnsCounter::Answers, DnsCounter::Lost].map(|counter| tap.count(counter));
        let [asked, handed, lost] = counts;
        Ok((answers, [asked?, handed?, lost?]))
    })
}

/// Runs a function that needs an async runtime.
pub(crate) fn in_runtime<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async { run() })
}

fn parsed(names: &[&str]) -> Result<BTreeSet<HostName>> {
    Ok(names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?)
}

/// Sends one question and its answer.
fn exchange(client: &UdpSocket, server: &UdpSocket, id: u16, name: &str, hosts: &[u8]) -> Result<()> {
    let question = question(id, name);
    // Unconnected sockets have to name the server each time.
    match client.peer_addr() {
        Ok(_) => client.send(&question)?,
        Err(_) => client.send_to(&question, server.local_addr()?)?,
    };
    server.send_to(&response(id, name, hosts), asker(server)?)?;
    received(client)
}

fn bound(address: IpAddr, port: u16) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((address, port)).with_context(|| format!("cannot bind {address}:{port}"))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

fn client_of(server: &UdpSocket, is_connected: bool) -> Result<UdpSocket> {
    let server = server.local_addr()?;
    let client = match server.ip() {
        IpAddr::V4(_) => bound(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => bound(Ipv6Addr::UNSPECIFIED.into(), 0),
    }?;
    if is_connected {
        client.connect(server)?;
    }
    Ok(client)
}

/// Waits for the next question and returns its sender.
fn asker(server: &UdpSocket) -> Result<SocketAddr> {
    Ok(server.recv_from(&mut [0; 512]).context("no question came")?.1)
}

fn received(client: &UdpSocket) -> Result<()> {
    client.recv(&mut [0; 9000]).context("no answer came").map(drop)
}

fn told(answer: &DnsAnswer) -> Vec<IpAddr> {
    answer.addresses.iter().map(|(address, _)| *address).collect()
}

fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, host).into()
}

/// Returns a question for the IPv4 addresses of a name.
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    // Recursion desired, and one question.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or_default());
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// Returns an answer with these hosts of a network.
fn response(id: u16, name: &str, hosts: &[u8]) -> Vec<u8> {
    let mut message = question(id, name);
    message[2..4].copy_from_slice(&[0x81, 0x80]);
    message[7] = u8::try_from(hosts.len()).unwrap_or_default();
    for host in hosts {
        // The name of the question, an address, and a lifetime of one minute.
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 51, 100, *host]);
    }
    message
}
