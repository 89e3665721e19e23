//! The addresses and ports to which a rule applies: edges of ranges, ports, overlaps, and many entries.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    num::NonZero,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::event::Action;
use mcpmon_kernel_tests::{
    child::Child,
    lab::{Lab, deny, number, rule},
    netns::{Space, add_loopback},
};
use mcpmon_policy::{NetworkRule, RuleAction, Scope};
use nix::libc;

const PORT: u16 = 22_000;
const OTHER_PORT: u16 = 22_001;
const THIRD_PORT: u16 = 22_002;

/// A range, addresses inside it (including the first and the last one), and its neighbours outside.
const EDGES: [(&str, &[&str], &[&str]); 7] = [
    (
        "127.9.8.0/22",
        &["127.9.8.0", "127.9.9.77", "127.9.11.255"],
        &["127.9.7.255", "127.9.12.0"],
    ),
    (
        "127.9.20.2/31",
        &["127.9.20.2", "127.9.20.3"],
        &["127.9.20.1", "127.9.20.4"],
    ),
    ("127.9.30.1/32", &["127.9.30.1"], &["127.9.30.0", "127.9.30.2"]),
    (
        "127.64.0.0/10",
        &["127.64.0.0", "127.127.255.254"],
        &["127.63.255.255", "127.128.0.0"],
    ),
    (
        "fd00:99:0:4::/62",
        &["fd00:99:0:4::", "fd00:99:0:7:ffff:ffff:ffff:ffff"],
        &["fd00:99:0:3:ffff:ffff:ffff:ffff", "fd00:99:0:8::"],
    ),
    (
        "fd00:99:1::8/127",
        &["fd00:99:1::8", "fd00:99:1::9"],
        &["fd00:99:1::7", "fd00:99:1::a"],
    ),
    (
        "fd00:99:2::9/128",
        &["fd00:99:2::9"],
        &["fd00:99:2::8", "fd00:99:2::a"],
    ),
];

pub(crate) fn edges(lab: &mut Lab) -> Result<()> {
    let ranges: Vec<_> = EDGES.iter().map(|(range, ..)| *range).collect();
    lab.install_rules(vec![deny(&ranges, &[])?])?;
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (_, within, around) in EDGES {
        inside.extend(within.iter().map(|address| (*address, PORT)));
        outside.extend(around.iter().map(|address| (*address, PORT)));
    }
    expect(lab, &inside, &outside)
}

pub(crate) fn ports(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![
        deny(&["127.9.1.1"], &[PORT, OTHER_PORT])?,
        deny(&["127.9.2.0/24"], &[OTHER_PORT])?,
        deny(&["127.9.2.5"], &[PORT])?,
        deny(&["fd00:99:2::9"], &[PORT])?,
    ])?;
    let refused = [
        ("127.9.1.1", PORT),
        ("127.9.1.1", OTHER_PORT),
        ("127.9.2.4", OTHER_PORT),
        // The more specific rule does not hide the range around it.
        ("127.9.2.5", OTHER_PORT),
        ("127.9.2.5", PORT),
        ("fd00:99:2::9", PORT),
    ];
    let reached = [
        ("127.9.1.1", THIRD_PORT),
        ("127.9.2.4", PORT),
        ("127.9.2.5", THIRD_PORT),
        ("fd00:99:2::9", OTHER_PORT),
    ];
    expect(lab, &refused, &reached)
}

/// A look-up returns the longest prefix, but a watched address must not hide the refused range around it.
pub(crate) fn watched_inside_refused(lab: &mut Lab) -> Result<()> {
    let watch = rule(RuleAction::Watch, Scope::Host, &["127.9.3.7"], &[PORT])?;
    lab.install_rules(vec![watch, deny(&["127.9.3.0/24"], &[])?])?;
    expect(
        lab,
        &[
            ("127.9.3.7", PORT),
            ("127.9.3.7", OTHER_PORT),
            ("127.9.3.8", PORT),
        ],
        &[("127.9.4.7", PORT)],
    )
}

/// A refused address inside a watched range is refused, and the rest of the range is reached and reported.
pub(crate) fn refused_inside_watched(lab: &mut Lab) -> Result<()> {
    let watch = rule(RuleAction::Watch, Scope::Host, &["127.9.5.0/24"], &[])?;
    let name = watch.name.clone();
    let tables = lab.install_rules(vec![watch, deny(&["127.9.5.7"], &[PORT])?])?;
    let watched = number(&tables, &name)?;
    let reached = [("127.9.5.7", OTHER_PORT), ("127.9.5.8", PORT)];
    let outcomes = connects(vec![
        target(("127.9.5.7", PORT))?,
        target(reached[0])?,
        target(reached[1])?,
    ])?;
    ensure!(
        outcomes == [Some(NonZero::new(libc::EPERM).context("not zero")?), None, None],
        "{outcomes:?}"
    );
    let mut allowed: Vec<_> = lab.connections()?;
    allowed.retain(|record| record.record.rule == watched);
    ensure!(allowed.len() == reached.len(), "{allowed:#?}");
    for (record, (address, port)) in allowed.iter().zip(reached) {
        let said = (record.action, record.address.to_string(), record.record.port);
        ensure!(said == (Action::Allow, address.to_owned(), port), "{record:#?}");
    }
    Ok(())
}

pub(crate) fn many_entries(lab: &mut Lab) -> Result<()> {
    const COUNT: u32 = 10_000;
    // Every second address is listed, so that each has an unlisted neighbour on either side.
    let address = |index: u32| Ipv4Addr::from_bits(Ipv4Addr::new(127, 20, 0, 0).to_bits() + index);
    let listed = |index: u32| SocketAddr::from((address(2 * index + 1), PORT));
    let unlisted = |index: u32| SocketAddr::from((address(2 * index), PORT));
    let cidrs = (0..COUNT)
        .map(|index| format!("{}", listed(index).ip()))
        .collect::<Vec<_>>();
    let rule: NetworkRule = deny(&cidrs.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    let tables = lab.install_rules(vec![rule])?;
    ensure!(
        tables.v4.len() >= COUNT as usize,
        "only {} entries",
        tables.v4.len()
    );
    let targets = (0..COUNT)
        .flat_map(|index| [unlisted(index), listed(index)])
        .collect();
    for (index, outcome) in connects(targets)?.into_iter().enumerate() {
        let expected = (index % 2 == 1).then(|| NonZero::new(libc::EPERM)).flatten();
        ensure!(outcome == expected, "entry {index}: {outcome:?}");
    }
    Ok(())
}

/// Checks that each of `refused` fails with `EPERM` and leaves one record, and that each of `reached` goes through and
/// leaves none.
fn expect(lab: &mut Lab, refused: &[(&str, u16)], reached: &[(&str, u16)]) -> Result<()> {
    let targets = refused
        .iter()
        .chain(reached)
        .copied()
        .map(target)
        .collect::<Result<Vec<_>>>()?;
    let outcomes = connects(targets.clone())?;
    let (expected, records) = (
        targets.get(..refused.len()).context("in range")?,
        lab.connections()?,
    );
    for (index, (target, outcome)) in targets.iter().zip(outcomes).enumerate() {
        let error = (index < refused.len())
            .then(|| NonZero::new(libc::EPERM))
            .flatten();
        ensure!(outcome == error, "{target}: {outcome:?}");
    }
    let mut seen: Vec<_> = records
        .iter()
        .filter(|record| (PORT..=THIRD_PORT).contains(&record.record.port))
        .map(|record| SocketAddr::new(record.address, record.record.port))
        .collect();
    let mut wanted = expected.to_vec();
    seen.sort_unstable();
    wanted.sort_unstable();
    ensure!(
        seen == wanted,
        "reported are {seen:?}, refused should be {wanted:?}"
    );
    Ok(())
}

fn target((address, port): (&str, u16)) -> Result<SocketAddr> {
    Ok(SocketAddr::new(address.parse()?, port))
}

/// Returns the error number, if any, of connecting a UDP socket to each target in turn.
fn connects(targets: Vec<SocketAddr>) -> Result<Vec<Option<NonZero<i32>>>> {
    Child::start_in(Space::Network, move |_| {
        for target in &targets {
            if let IpAddr::V6(address) = target.ip() {
                // Adding fails for an address that is used twice.
                drop(add_loopback(address));
            }
        }
        let v4 = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
        let v6 = UdpSocket::bind("[::]:0").context("cannot open a socket")?;
        let connect = |target: &SocketAddr| {
            let socket = if target.is_ipv4() { &v4 } else { &v6 };
            socket
                .connect(target)
                .err()
                .and_then(|error| error.raw_os_error())
                .and_then(NonZero::new)
        };
        Ok(targets.iter().map(connect).collect())
    })?
    .join()
}
