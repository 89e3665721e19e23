//! A store on a full disk: calls are still judged, missing records are reported, and recording resumes once there is
//! room.

use std::fs;

use anyhow::Result;
use mcpmon_e2e::{
    client::{Called, Client},
    daemon::Daemon,
    disk::{self, Disk},
    host::Host,
    json::text,
    program,
    servers::ToolServer,
    site::Site,
    wait,
    wrapped::{Home, Wrapped},
};
use serde_json::Value;
use test_case::test_case;

/// The size of a disk with room for a store and its log.
const SIZE: &str = "16m";
/// A policy without a limit on the rate of calls.
const POLICY: &str = "version: 1\nmcp:\n  blocked_tools: [forbidden]\n  rate_limits: {enabled: false}\n";
/// The code of a server that answers every request.
const CODE: &str = "import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n    if 'id' in asked: print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {'content': []}}), flush=True)\n";
/// The number of calls of each kind while there is no room.
const CALLS: usize = 20;

fn call(wrapped: &mut Wrapped, id: usize, tool: &str) -> Result<Value> {
    let asked = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    );
    wrapped.send(&asked)?;
    Ok(serde_json::from_str(&wrapped.line()?)?)
}

/// Checks that calls are judged by the policy.
fn judges(wrapped: &mut Wrapped, from: usize) -> Result<()> {
    for id in (from..from + 2 * CALLS).step_by(2) {
        let answer = call(wrapped, id, "free")?;
        assert!(answer["result"]["content"].is_array(), "{answer}");
        let answer = call(wrapped, id + 1, "forbidden")?;
        assert!(answer.to_string().contains("blocked_tools"), "{answer}");
    }
    Ok(())
}

/// Starts a wrapper without a daemon whose store is on the full disk's file system, and makes the first calls.
fn wrapped(home: &Home) -> Result<Wrapped> {
    home.configure(POLICY)?;
    fs::write(home.path("server.py"), CODE)?;
    let script = home.path("server.py").display().to_string();
    let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", "full"], &["python3", &script])?)?;
    judges(&mut wrapped, 1)?;
    Ok(wrapped)
}

fn of_wrapper(work: impl FnOnce(&Home, &Disk) -> Result<()> + Send) -> Result<()> {
    let Some(_host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let home = Home::new()?;
    disk::with(&home.path(""), SIZE, |disk| work(&home, disk))
}

/// Returns the number of calls in the wrapper's store that were judged so.
fn recorded(home: &Home, action: &str) -> Result<usize> {
    let store = home.path("store.db").display().to_string();
    let run = program::run([
        "events",
        "--json",
        "--limit",
        "10000",
        "--type",
        "mcp_tool_call_intercepted",
        "--action",
        action,
        "--db",
        &store,
    ])?;
    Ok(run.objects()?.len())
}

#[test]
fn a_wrapper_judges_on_and_records_once_there_is_room() -> Result<()> {
    of_wrapper(|home, disk| {
        let mut wrapped = wrapped(home)?;
        wait::until("the first records", || {
            Ok((recorded(home, "block")? == CALLS).then_some(()))
        })?;
        disk.fill()?;
        judges(&mut wrapped, 101)?;
        disk.clear()?;
        judges(&mut wrapped, 201)?;
        wait::until("what was stopped meanwhile", || {
            Ok((recorded(home, "block")? == 3 * CALLS).then_some(()))
        })?;
        let (code, _, errors) = wrapped.finish()?;
        assert_eq!(code, 0, "{errors}");
        assert!(errors.contains("full"), "it is told: {errors}");
        assert!(!errors.contains("not everything was recorded"), "{errors}");
        Ok(())
    })
}

#[test]
fn a_wrapper_that_ends_without_room_says_what_is_lost() -> Result<()> {
    of_wrapper(|home, disk| {
        let mut wrapped = wrapped(home)?;
        disk.fill()?;
        judges(&mut wrapped, 101)?;
        let (code, _, errors) = wrapped.finish()?;
        assert_eq!(code, 0, "as the server ended: {errors}");
        assert!(errors.contains("not everything was recorded"), "{errors}");
        assert!(errors.contains("full"), "and why: {errors}");
        Ok(())
    })
}

#[test]
fn wrapper_without_room_for_a_store_judges_and_records_once_there_is_room() -> Result<()> {
    of_wrapper(|home, disk| {
        home.configure(POLICY)?;
        fs::write(home.path("server.py"), CODE)?;
        let script = home.path("server.py").display().to_string();
        let mut command = home.wrap(&["--server", "full"], &["python3", &script])?;
        disk.fill()?;
        let mut wrapped = Wrapped::start(&mut command)?;
        judges(&mut wrapped, 1)?;
        disk.clear()?;
        wait::until("what was stopped meanwhile", || {
            let is_there = home.path("store.db").exists();
            Ok((is_there && recorded(home, "block")? == CALLS).then_some(()))
        })?;
        let (code, _, errors) = wrapped.finish()?;
        assert_eq!(code, 0, "{errors}");
        assert!(errors.contains("store.db"), "{errors}");
        assert!(errors.contains("nothing is recorded"), "{errors}");
        Ok(())
    })
}

/// Pins can be read from a full disk.
#[test]
fn changed_server_is_refused_though_the_disk_is_full() -> Result<()> {
    of_wrapper(|home, disk| {
        let mut first = wrapped(home)?;
        let store = home.path("store.db").display().to_string();
        wait::until("a pin", || {
            let pins = program::run(["pins", "list", "--db", &store])?.stdout;
            Ok(pins.contains("first_use").then_some(()))
        })?;
        assert_eq!(first.finish()?.0, 0);
        fs::write(home.path("server.py"), format!("{CODE}# changed\n"))?;
        let script = home.path("server.py").display().to_string();
        let mut command = home.wrap(&["--server", "full"], &["python3", &script])?;
        disk.fill()?;
        let mut changed = Wrapped::start(&mut command)?;
        let answer = call(&mut changed, 1, "free")?;
        assert!(
            answer.to_string().contains("changed since it was pinned"),
            "{answer}"
        );
        let (code, _, errors) = changed.finish()?;
        assert_eq!(code, 1, "{errors}");
        Ok(())
    })
}

#[test]
fn first_policy_is_whole_or_not_there() -> Result<()> {
    let Some(_host) = Host::take(&[])? else {
        return Ok(());
    };
    let home = Home::new()?;
    disk::with(&home.path(""), "64k", |disk| {
        fs::create_dir(home.path(".cursor"))?;
        let servers = r#"{"mcpServers":{"a":{"command":"cat"}}}"#;
        fs::write(home.path(".cursor/mcp.json"), servers)?;
        let setup = || {
            let mut command = std::process::Command::new(program::path()?);
            command.args(["setup", "--yes"]).env("HOME", home.path(""));
            command
                .env_remove("XDG_CONFIG_HOME")
                .env_remove("XDG_STATE_HOME")
                .env_remove("MCPMON_CONFIG");
            anyhow::Ok(command.output()?)
        };
        disk.fill()?;
        let failed = setup()?;
        assert!(!failed.status.success(), "{failed:?}");
        let policy = home.path(".config/mcpmon/mcpmon.yaml");
        assert!(!policy.exists());
        assert_eq!(fs::read_to_string(home.path(".cursor/mcp.json"))?, servers);
        disk.clear()?;
        let done = setup()?;
        assert!(done.status.success(), "{done:?}");
        assert!(fs::read_to_string(policy)?.contains("mode: observe"));
        Ok(())
    })
}

#[test]
fn a_daemon_goes_on_and_tells_of_it() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let own = std::process::id();
    let patterns =
        format!("  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\", \"mcp_server_e2e{own}x*\"]}}\n");
    let site = Site::new(&format!("{POLICY}{patterns}"))?;
    let server = ToolServer::write(&site.path(""))?;
    server.offer(&[("free", "One."), ("forbidden", "Two.")])?;
    fs::create_dir(site.path("store"))?;
    disk::with(&site.path("store"), SIZE, |disk| {
        let daemon = Daemon::start_at(&host, site)?;
        let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
        client.initialize()?;
        assert_eq!(client.tools()?, ["free"]);
        let judges = |client: &mut Client| -> Result<()> {
            for _ in 0..CALLS {
                let [free, forbidden] = [client.call("free")?, client.call("forbidden")?];
                assert!(matches!(free, Called::Returned(_)), "{free:?}");
                assert!(matches!(forbidden, Called::Failed(_)), "{forbidden:?}");
            }
            Ok(())
        };
        judges(&mut client)?;
        disk.fill()?;
        judges(&mut client)?;
        let degraded = |status: &Value| status["degraded"].get("store").is_some();
        let status = wait::until("the daemon's word", || {
            judges(&mut client)?;
            Ok(Some(daemon.status()?).filter(degraded))
        })?;
        assert!(
            status["degraded"]["store"].to_string().contains("full"),
            "{status}"
        );
        assert_eq!(daemon.site.ask(&["status"])?.code, Some(1));
        disk.clear()?;
        wait::until("the daemon's recovery", || {
            Ok(Some(daemon.status()?).filter(|status| !degraded(status)))
        })?;
        judges(&mut client)?;
        for kind in ["mcp_enforcement_degraded", "mcp_enforcement_restored"] {
            daemon.event(kind, |event| {
                text(event, "type") == kind && text(event, "component") == "store"
            })?;
        }
        Ok(())
    })
}

/// Sets or lifts the stop of the host.
fn switch(daemon: &Daemon, words: &[&str]) -> Result<()> {
    let run = daemon.site.ask(&[&["kill", "--all"], words].concat())?;
    anyhow::ensure!(run.code == Some(0), "{run:?}");
    Ok(())
}

/// Returns whether the host is stopped, and whether another store replaces that of `daemon`.
fn state(daemon: &Daemon) -> Result<(bool, bool)> {
    let status = daemon.status()?;
    let stands_in = status["degraded"].get("store file").is_some();
    Ok((status["kills"]["host"].is_object(), stands_in))
}

#[test]
fn a_daemon_keeps_the_rules_of_a_store_that_takes_nothing_and_gives_back_what_was_decided() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let site = Site::new("version: 1\n")?;
    fs::create_dir(site.path("store"))?;
    disk::with(&site.path("store"), SIZE, |disk| {
        let daemon = Daemon::start_at(&host, site)?;
        switch(&daemon, &[])?;
        let (site, _) = daemon.end()?;

        disk.fill()?;
        let daemon = Daemon::start_at(&host, site)?;
        assert_eq!(state(&daemon)?, (true, true), "{}", daemon.log());
        switch(&daemon, &["--off"])?;
        let (site, _) = daemon.end()?;
        disk.clear()?;

        disk.set_read_only(true)?;
        let daemon = Daemon::start_at(&host, site)?;
        assert_eq!(state(&daemon)?, (false, true), "what was decided meanwhile holds");
        let (site, _) = daemon.end()?;
        disk.set_read_only(false)?;

        let daemon = Daemon::start_at(&host, site)?;
        assert_eq!(state(&daemon)?, (false, false), "{}", daemon.log());
        // Everything that was recorded meanwhile is in the store.
        let kills = daemon.site.events()?;
        let kills = kills.iter().filter(|event| text(event, "type") == "mcp_kill");
        assert_eq!(kills.count(), 2);
        Ok(())
    })
}

/// Makes the store of a daemon unusable, or usable again.
type Change = fn(&Disk) -> Result<()>;

#[test_case(Disk::fill, Disk::clear; "full")]
#[test_case(|disk| disk.set_read_only(true), |disk| disk.set_read_only(false); "read only")]
fn a_daemon_returns_to_its_store_once_that_can_be_written(spoil: Change, mend: Change) -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let site = Site::new(POLICY)?;
    let server = ToolServer::write(&site.path(""))?;
    server.offer(&[("free", "One.")])?;
    fs::create_dir(site.path("store"))?;
    disk::with(&site.path("store"), SIZE, |disk| {
        let daemon = Daemon::start_at(&host, site)?;
        switch(&daemon, &[])?;
        let (site, _) = daemon.end()?;
        spoil(disk)?;
        let daemon = Daemon::start_at(&host, site)?;
        assert_eq!(state(&daemon)?, (true, true), "{}", daemon.log());
        switch(&daemon, &["--off"])?;
        // The wrapper is served before, during and after.
        let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
        client.initialize()?;
        assert_eq!(client.tools()?, ["free"]);
        assert!(matches!(client.call("free")?, Called::Returned(_)));
        let standby = daemon.status()?["store"]["path"].clone();
        assert!(standby.to_string().contains("standby.db"), "{standby}");

        mend(disk)?;
        wait::until("the return to the store", || {
            Ok((state(&daemon)? == (false, false)).then_some(()))
        })?;
        assert_eq!(daemon.site.ask(&["status"])?.code, Some(0), "{}", daemon.log());
        let restored = daemon.event("the return", |event| {
            text(event, "type") == "mcp_enforcement_restored" && text(event, "component") == "store file"
        })?;
        let reason = text(&restored, "reason").to_owned();
        assert!(reason.contains("taken over from the standby store"), "{restored}");
        let status = daemon.status()?;
        assert!(reason.contains(text(&status["store"], "path")), "{status}");
        assert!(!std::path::Path::new(standby.as_str().unwrap_or_default()).exists());

        // The wrapper learns of decisions made from here on, and its earlier records are in the store.
        assert!(matches!(client.call("free")?, Called::Returned(_)));
        switch(&daemon, &[])?;
        wait::until("a refusal", || {
            Ok(matches!(client.call("free")?, Called::Failed(_)).then_some(()))
        })?;
        daemon.event("the first answer", |event| {
            text(event, "type") == "mcp_tool_returned"
        })?;
        let (site, _) = daemon.end()?;

        // The wrapper continues to run, and learns of decisions that another daemon makes in the same store.
        let daemon = Daemon::start_at(&host, site)?;
        assert_eq!(state(&daemon)?, (true, false), "{}", daemon.log());
        switch(&daemon, &["--off"])?;
        wait::until("an answer", || {
            Ok(matches!(client.call("free")?, Called::Returned(_)).then_some(()))
        })?;
        switch(&daemon, &[])?;
        wait::until("a refusal", || {
            Ok(matches!(client.call("free")?, Called::Failed(_)).then_some(()))
        })?;
        client.close()?;
        let kills = daemon.site.events()?;
        let kills = kills.iter().filter(|event| text(event, "type") == "mcp_kill");
        assert_eq!(kills.count(), 5);
        Ok(())
    })
}
