//! The official conformance suite reports the same results with mcpmon in front of a server as without, check by check.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use mcpmon_conformant_server::{Answers, ConformantServer};
use mcpmon_e2e::{
    mcp_proxy::{Everything, Gateway, McpProxy, it, shipped},
    program,
    real::{Real, Scene},
};
use test_case::test_case;

use crate::suite::{Found, Suite};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const HANDSHAKE: Suite = Suite::Handshake;
const LAST_HANDSHAKE: Suite = Suite::Required("2025-11-25");
const STATELESS: Suite = Suite::Required("2026-07-28");
/// The checks that concern the proxy itself: it refuses names of other hosts, and does not know sessions that have
/// ended.
const OWN: [&str; 2] = [
    "server-dns-rebinding-protection",
    "server-server-session-lifecycle",
];

/// The suite reports no errors of the server itself, so that the comparison is meaningful.
#[test_case(Answers::Events, LAST_HANDSHAKE; "sessions")]
#[test_case(Answers::Events, STATELESS; "stateless, as events")]
#[test_case(Answers::Json, STATELESS; "stateless, as json")]
fn our_own_server_conforms(answers: Answers, suite: Suite) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = ConformantServer::start(ANY, answers)?;
    let found = suite.run(&real, &server.url())?;
    let failed = found.failed();
    assert!(failed.is_empty(), "{failed:#?}");
    Ok(())
}

#[test_case(Answers::Events, HANDSHAKE; "sessions, first line of the suite")]
#[test_case(Answers::Events, LAST_HANDSHAKE; "sessions")]
#[test_case(Answers::Events, STATELESS; "stateless, as events")]
#[test_case(Answers::Json, LAST_HANDSHAKE; "a handshake without sessions, as json")]
#[test_case(Answers::Json, STATELESS; "stateless, as json")]
fn the_proxy_changes_nothing(answers: Answers, suite: Suite) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = ConformantServer::start(ANY, answers)?;
    let proxy = McpProxy::observing(&it(&server.url()))?;
    let (without, with) = suite.run_at_both(&real, &server.url(), &proxy.url("it"))?;
    same(suite, &without, &with, &proxy.log())
}

/// Scenarios that concern the proxy itself have no failures behind it. All others give the same results.
#[test_case(HANDSHAKE; "first line of the suite")]
#[test_case(LAST_HANDSHAKE; "second line of the suite")]
fn the_proxy_changes_nothing_of_a_real_server(suite: Suite) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = Everything::streamable(&real, &scene)?;
    let proxy = McpProxy::observing(&it(&server.url()))?;
    let (mut without, mut with) = suite.run_at_both(&real, &server.url(), &proxy.url("it"))?;
    for scenario in OWN {
        without.take(scenario);
        let failed = with
            .take(scenario)
            .into_iter()
            .filter(|check| check.1 == "FAILURE");
        assert_eq!(failed.count(), 0, "{scenario}");
    }
    same(suite, &without, &with, &proxy.log())
}

/// The same for a stdio server that a gateway offers over HTTP.
#[test]
fn the_wrapper_changes_nothing_of_a_real_server() -> Result<()> {
    wrapped(|real| vec![real.npm("mcp-server-everything").display().to_string()])
}

/// The same for a server with everything that the suite asks for.
#[test]
fn the_wrapper_changes_nothing() -> Result<()> {
    wrapped(|_| vec![program::beside("mcpmon-conformant-server"), "--stdio".to_owned()])
}

fn wrapped(command: fn(&Real) -> Vec<String>) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let command = command(&real);
    let scene = Scene::new()?;
    let configuration = scene.configuration(&shipped("observe.yaml")?)?;
    let behind = scene.wrapped("it", &["--config", &configuration], &command)?;
    let other = Scene::new()?;
    let without = Gateway::start(&real, &other, &command)?;
    let with = Gateway::start(&real, &scene, &behind)?;
    let (without, with) = HANDSHAKE.run_at_both(&real, &without.url(), &with.url())?;
    let log = std::fs::read_to_string(scene.file("gateway.log")).context("what the gateway said")?;
    same(HANDSHAKE, &without, &with, &log)
}

#[expect(clippy::print_stdout, reason = "the scores are what is to be shown")]
fn same(suite: Suite, without: &Found, with: &Found, log: &str) -> Result<()> {
    println!("{suite:?}: {} without, {} with", without.score(), with.score());
    let difference = without.difference(with)?;
    assert!(difference.is_empty(), "{suite:?}:\n{difference}\n{log}");
    Ok(())
}
