use std::{net::IpAddr, path::Path};

use super::{
    server::{DnsReply, Server, with},
    *,
};

const INTERVAL: Duration = Duration::from_secs(30);
const NAME: &str = "api.example.com";

#[tokio::test]
async fn both_families_are_found() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1", "192.0.2.2"]), with(&["2001:db8::1"]));
    let mut resolver = resolver(&server);
    assert_eq!(refresh(&mut resolver, 0).await, RefreshOutcome::Changed);
    assert_eq!(found(&resolver), ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    assert_eq!(refresh(&mut resolver, 1).await, RefreshOutcome::Unchanged);
    assert_eq!(resolver.failures(), BTreeMap::new());
}

#[tokio::test]
async fn a_name_that_ceases_to_exist_keeps_its_addresses() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1"]), with(&[]));
    let mut resolver = resolver(&server);
    refresh(&mut resolver, 0).await;
    server.answer(NAME, DnsReply::NoSuchName, DnsReply::NoSuchName);
    for interval in [1, 2, 3, 4000] {
        assert_eq!(refresh(&mut resolver, interval).await, RefreshOutcome::Unchanged);
    }
    assert_eq!(found(&resolver), ["192.0.2.1"]);
    assert_eq!(failure(&resolver), "the name has no address");
    server.answer(NAME, with(&["192.0.2.9"]), with(&[]));
    refresh(&mut resolver, 4001).await;
    assert_eq!(found(&resolver), ["192.0.2.1", "192.0.2.9"]);
    assert_eq!(resolver.failures(), BTreeMap::new());
}

#[tokio::test]
async fn a_failing_question_does_not_spend_what_the_other_one_found() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1"]), with(&["2001:db8::1"]));
    let mut resolver = resolver(&server);
    refresh(&mut resolver, 0).await;
    server.answer(NAME, with(&["192.0.2.1"]), DnsReply::ServerFailure);
    refresh(&mut resolver, 1).await;
    refresh(&mut resolver, 5).await;
    assert_eq!(found(&resolver), ["192.0.2.1", "2001:db8::1"]);
    assert!(
        failure(&resolver).contains("Server Failure"),
        "{}",
        failure(&resolver)
    );
}

#[tokio::test]
async fn rotated_addresses_stay_for_two_intervals() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1"]), with(&[]));
    let mut resolver = resolver(&server);
    refresh(&mut resolver, 0).await;
    server.answer(NAME, with(&["192.0.2.2"]), with(&[]));
    refresh(&mut resolver, 1).await;
    assert_eq!(found(&resolver), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(refresh(&mut resolver, 2).await, RefreshOutcome::Unchanged);
    assert_eq!(refresh(&mut resolver, 3).await, RefreshOutcome::Changed);
    assert_eq!(found(&resolver), ["192.0.2.2"]);
}

#[tokio::test]
async fn an_address_that_comes_back_starts_afresh() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1"]), with(&[]));
    let mut resolver = resolver(&server);
    for (interval, address) in [
        (0, "192.0.2.1"),
        (1, "192.0.2.2"),
        (2, "192.0.2.1"),
        (3, "192.0.2.2"),
    ] {
        server.answer(NAME, with(&[address]), with(&[]));
        refresh(&mut resolver, interval).await;
    }
    assert_eq!(refresh(&mut resolver, 4).await, RefreshOutcome::Unchanged);
    assert_eq!(found(&resolver), ["192.0.2.1", "192.0.2.2"]);
}

#[tokio::test]
async fn a_mapped_address_is_an_ipv4_address() {
    let server = Server::start().await;
    server.answer(NAME, with(&[]), with(&["::ffff:192.0.2.7"]));
    let mut resolver = resolver(&server);
    for interval in [0, 5, 10] {
        refresh(&mut resolver, interval).await;
        assert_eq!(found(&resolver), ["192.0.2.7"]);
    }
}

#[tokio::test]
async fn a_silent_server_is_a_failure_of_the_name_and_of_no_other() {
    let server = Server::start().await;
    server.answer(NAME, DnsReply::Silence, DnsReply::Silence);
    server.answer("other.example.com", with(&["192.0.2.2"]), with(&[]));
    let mut resolver = resolver(&server);
    resolver.sources.timeout = Duration::from_millis(500);
    let names = BTreeSet::from([host(NAME), host("other.example.com")]);
    resolver.refresh(&names, at(0)).await;
    assert_eq!(failure(&resolver), "no answer within 500ms");
    assert_eq!(resolver.failures().len(), 1);
    assert_eq!(
        resolver.resolved().addresses(&host("other.example.com")).count(),
        1
    );
}

#[tokio::test]
async fn the_hosts_file_is_asked_first_and_read_anew() {
    let server = Server::start().await;
    server.answer(NAME, with(&["192.0.2.1"]), with(&[]));
    let directory = tempfile::tempdir().expect("directory");
    let hosts = directory.path().join("hosts");
    std::fs::write(
        &hosts,
        "198.51.100.1 other api.example.com # here\n::1 api.example.com\n",
    )
    .expect("hosts");
    let mut resolver = Resolver::new(sources(&server, &hosts), INTERVAL);
    refresh(&mut resolver, 0).await;
    assert_eq!(found(&resolver), ["198.51.100.1", "::1"]);
    std::fs::write(&hosts, "").expect("hosts");
    refresh(&mut resolver, 1).await;
    refresh(&mut resolver, 3).await;
    assert_eq!(found(&resolver), ["192.0.2.1"]);
}

#[tokio::test]
async fn a_sinkhole_does_not_turn_a_rule_against_loopback() {
    let server = Server::start().await;
    server.answer(NAME, with(&["127.0.0.1"]), with(&["::"]));
    let mut resolver = resolver(&server);
    refresh(&mut resolver, 0).await;
    assert_eq!(found(&resolver), [""; 0]);
    assert!(failure(&resolver).starts_with("DNS answers with 127.0.0.1, which is ignored"));
}

#[tokio::test]
async fn too_many_addresses_are_cut_and_told() {
    let server = Server::start().await;
    let many: Vec<String> = (0..100).map(|host| format!("192.0.2.{host}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    server.answer(NAME, with(&many[..25]), with(&[]));
    let mut resolver = resolver(&server);
    for (interval, addresses) in [(0, &many[..25]), (1, &many[25..50]), (2, &many[50..75])] {
        server.answer(NAME, with(addresses), with(&[]));
        refresh(&mut resolver, interval).await;
    }
    let kept = resolver
        .resolved()
        .addresses(&host(NAME))
        .collect::<BTreeSet<_>>();
    assert_eq!(kept.len(), MAX_ADDRESSES);
    let newest = many[25..75]
        .iter()
        .map(|address| address.parse::<IpAddr>().expect("address"));
    assert_eq!(newest.filter(|address| !kept.contains(address)).count(), 0);
    assert_eq!(resolver.failures(), BTreeMap::new());

    let mut known = KnownName::default();
    let found = (0..100).map(|host| IpAddr::from([192, 0, 2, host])).collect();
    let answers = Answers {
        v4: lookup::FamilyAnswer::Found(found),
        v6: lookup::FamilyAnswer::Nothing,
    };
    known.learn(answers, at(0), INTERVAL);
    assert_eq!(known.addresses().count(), MAX_ADDRESSES);
    assert!(
        known
            .failure()
            .is_some_and(|cause| cause.contains("has 100 addresses"))
    );
}

#[tokio::test]
async fn more_names_than_are_asked_at_once() {
    let server = Server::start().await;
    let names: BTreeSet<HostName> = (0..3 * CONCURRENCY)
        .map(|n| host(&format!("n{n}.example.com")))
        .collect();
    for name in &names {
        server.answer(name.as_str(), with(&["192.0.2.1"]), with(&[]));
    }
    let mut resolver = resolver(&server);
    resolver.refresh(&names, at(0)).await;
    for name in &names {
        assert_eq!(resolver.resolved().addresses(name).count(), 1, "{name}");
    }
    assert_eq!(
        resolver.refresh(&BTreeSet::new(), at(1)).await,
        RefreshOutcome::Changed
    );
    assert_eq!(*resolver.resolved(), ResolvedNames::new());
}

fn resolver(server: &Server) -> Resolver {
    Resolver::new(sources(server, Path::new("/dev/null")), INTERVAL)
}

fn sources(server: &Server, hosts: &Path) -> LookupSources {
    LookupSources {
        upstream: NameServers::Servers(vec![server.address]),
        hosts: hosts.to_owned(),
        ..LookupSources::default()
    }
}

/// Refreshes [`NAME`] after some intervals.
async fn refresh(resolver: &mut Resolver, intervals: i64) -> RefreshOutcome {
    resolver
        .refresh(&BTreeSet::from([host(NAME)]), at(intervals))
        .await
}

fn at(intervals: i64) -> Timestamp {
    Timestamp(intervals * 30_000_000_000)
}

fn found(resolver: &Resolver) -> Vec<String> {
    let addresses = resolver.resolved().addresses(&host(NAME));
    addresses.map(|address| address.to_string()).collect()
}

fn failure(resolver: &Resolver) -> String {
    resolver.failures()[&host(NAME)].clone()
}

fn host(text: &str) -> HostName {
    text.parse().expect("name")
}
