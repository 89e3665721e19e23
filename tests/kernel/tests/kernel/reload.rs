//! A list is replaced while connections are made: an address that both lists refuse is refused at every moment.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::{Lab, deny},
    netns::Space,
};
use mcpmon_policy::NetworkRule;
use serde::{Deserialize, Serialize};

const PORT: u16 = 23_000;
/// The address that every list refuses, each by another kind of entry.
const REFUSED: &str = "127.0.9.9";
/// An address that no list refuses.
const ALLOWED: &str = "127.0.8.9";
const FLIPS: u32 = 40;

/// The workload's counts.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Tally {
    refused: u64,
    got_through: u64,
    reached: u64,
    wrongly_refused: u64,
}

pub(crate) fn no_gap_under_load(lab: &mut Lab) -> Result<()> {
    let lists = [
        rules(vec![deny(&[REFUSED], &[])?], 1)?,
        rules(vec![deny(&["127.0.9.0/24"], &[])?], 2)?,
        rules(vec![deny(&[REFUSED], &[PORT, PORT + 1])?], 3)?,
    ];
    lab.install_rules(lists[0].clone())?;
    let mut workload = Child::start_in(Space::Network, load)?;
    workload.hear::<()>()?;
    for flip in 0..FLIPS {
        lab.install_rules(lists[flip as usize % lists.len()].clone())?;
        // Nothing else reads the ring, and a full ring is the subject of another test.
        lab.sensor.rings.drain(drop);
    }
    workload.proceed()?;
    let tally = workload.join()?;
    lab.note(format!(
        "{FLIPS} lists while {} connections were refused",
        tally.refused
    ));
    ensure!(tally.got_through == 0 && tally.wrongly_refused == 0, "{tally:?}");
    let enough = u64::from(FLIPS);
    ensure!(
        tally.refused > enough && tally.reached > enough,
        "too few to prove anything: {tally:?}"
    );
    Ok(())
}

/// Returns the given rules among many others, which differ from list to list.
fn rules(mut rules: Vec<NetworkRule>, list: u8) -> Result<Vec<NetworkRule>> {
    let others: Vec<_> = (0..64).map(|last| format!("198.51.{list}.{last}")).collect();
    rules.push(deny(&others.iter().map(String::as_str).collect::<Vec<_>>(), &[])?);
    Ok(rules)
}

/// Connects in two threads without a pause until the test asks for the counts.
fn load(test: &mut Test) -> Result<Tally> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).context("cannot listen")?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let refused: SocketAddr = format!("{REFUSED}:{PORT}").parse()?;
    let allowed: SocketAddr = format!("{ALLOWED}:{PORT}").parse()?;
    let socket = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
    test.say(&())?;
    let test = &*test;
    thread::scope(|scope| {
        let datagrams = scope.spawn(|| {
            let mut tally = Tally::default();
            while !test.calls() {
                tally.count_refused(&socket.connect(refused));
                tally.count_allowed(&socket.connect(allowed));
            }
            tally
        });
        let mut tally = Tally::default();
        while !test.calls() {
            tally.count_refused(&TcpStream::connect(refused).map(drop));
            tally.count_allowed(&TcpStream::connect(allowed).map(drop));
            while listener.accept().is_ok() {}
        }
        let other = datagrams
            .join()
            .map_err(|_panic| anyhow::anyhow!("the other thread panicked"))?;
        tally.add(&other);
        Ok(tally)
    })
}

impl Tally {
    fn count_refused(&mut self, outcome: &io::Result<()>) {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.refused += 1,
            Ok(()) | Err(_) => self.got_through += 1,
        }
    }

    fn count_allowed(&mut self, outcome: &io::Result<()>) {
        match outcome {
            Ok(()) => self.reached += 1,
            Err(_) => self.wrongly_refused += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.got_through += other.got_through;
        self.reached += other.reached;
        self.wrongly_refused += other.wrongly_refused;
    }
}
