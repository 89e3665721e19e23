//! Listings and reports of sessions with real servers.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    json::text,
    program,
    real::{Real, SERVERS, Scene, Sdk},
};
use serde_json::Value;

const CALL: &str = r#"[["forecast", {"path": "Bergen"}]]"#;
const EVERYTHING: &str = "mcp-server-everything";

/// A store of two sessions, one with a harmless server and one with a server that has a poisoned tool.
struct Used {
    scene: Scene,
    /// The client's view of the harmless server.
    seen: Value,
    calls: usize,
}

impl Used {
    fn new(real: &Real) -> Result<Self> {
        let scene = Scene::new()?;
        let known = SERVERS.iter().find(|known| known.command == EVERYTHING);
        let known = known.context("it is one of them")?;
        let harmless = scene.wrapped("everything", &[], &real.command(known, &scene.data()))?;
        let seen = real.drive(Sdk::Python, &scene, known.calls, &harmless)?;
        let poisoned = [
            real.python("python").display().to_string(),
            real.script("hostile.py").display().to_string(),
            "poisoned".to_owned(),
        ];
        let poisoned = scene.wrapped("hostile", &[], &poisoned)?;
        real.drive(Sdk::Python, &scene, CALL, &poisoned)?;
        let calls: Vec<Value> = serde_json::from_str(known.calls)?;
        Ok(Self {
            scene,
            seen,
            calls: calls.len(),
        })
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let store = self.scene.store().display().to_string();
        let run = program::run([arguments, &["--db", &store]].concat())?;
        ensure!(run.code == Some(0), "{arguments:?}: {run:?}");
        Ok(run.stdout)
    }

    /// Returns a listing as JSON, and checks that its table has the same number of rows below a line with these
    /// columns.
    fn list(&self, arguments: &[&str], columns: &[&str]) -> Result<Vec<Value>> {
        let objects = self.scene.list(arguments)?;
        let table = self.run(arguments)?;
        let mut lines = table.lines();
        let header = lines.next().context("a header")?;
        for column in columns {
            ensure!(header.contains(column), "{arguments:?}: no {column} in {header}");
        }
        ensure!(lines.count() == objects.len(), "{arguments:?}: {table}");
        Ok(objects)
    }

    fn session_of(&self, server: &str) -> Result<String> {
        let events = self.scene.list(&["events", "--server", server])?;
        let sessions: BTreeSet<&str> = events.iter().map(|event| text(event, "session_id")).collect();
        ensure!(sessions.len() == 1, "{sessions:?}");
        Ok(sessions.into_iter().collect())
    }
}

/// Returns the values of a field.
fn of<'a>(objects: &'a [Value], field: &str) -> BTreeSet<&'a str> {
    objects.iter().map(|object| text(object, field)).collect()
}

#[test]
fn every_listing_of_two_sessions() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let used = Used::new(&real)?;
    let both = BTreeSet::from(["everything", "hostile"]);

    let servers = used.list(&["servers"], &["SERVER", "STATUS", "MEMORY"])?;
    assert_eq!(of(&servers, "server_id"), both);
    let launches = used.list(&["execs"], &["SERVER", "PID", "COMMAND"])?;
    assert_eq!(of(&launches, "server_id"), both);

    let tools = used.list(&["tools", "--server", "everything"], &["TOOL", "DESCRIPTION"])?;
    let listed = used.seen["tools"]["tools"]
        .as_array()
        .context("a list of tools")?;
    assert_eq!(of(&tools, "tool_name"), of(listed, "name"));
    assert_eq!(of(&tools, "status"), BTreeSet::from(["pinned"]));
    let hostile = used.list(&["tools", "--server", "hostile", "--tool", "forecast"], &["TOOL"])?;
    assert_eq!(of(&hostile, "status"), BTreeSet::from(["hidden"]));

    let calls = used.list(&["calls"], &["TOOL", "OUTCOME", "TOOK"])?;
    assert_eq!(of(&calls, "server_id"), both);
    let table = used.run(&["calls", "--server", "everything"])?;
    assert_eq!(table.lines().count(), used.calls + 1, "{table}");
    let blocked = used.list(&["calls", "--action", "block"], &["REASON"])?;
    assert_eq!(of(&blocked, "tool_name"), BTreeSet::from(["forecast"]));

    let critical = ["detections", "--severity", "critical"];
    let detections = used.list(&critical, &["PATTERN", "SEVERITY", "WHERE"])?;
    assert_eq!(of(&detections, "server_id"), BTreeSet::from(["hostile"]));
    assert_eq!(of(&detections, "tool_name"), BTreeSet::from(["forecast"]));

    let columns = ["TIME", "SEVERITY", "ACTION", "TYPE"];
    let called = used.list(
        &["events", "--type", "mcp_tool_called", "--since", "1h"],
        &columns,
    )?;
    assert_eq!(called.len(), used.calls);
    let all = used.list(&["events", "--limit", "100000"], &columns)?;
    let ids = of(&all, "id");
    assert_eq!(ids.len(), all.len(), "an id is one event's");
    let session = used.session_of("hostile")?;
    let own = used.list(&["events", "--session", &session, "--limit", "100000"], &columns)?;
    assert_eq!(of(&own, "server_id"), BTreeSet::from(["hostile"]));
    let newest = used.list(&["events", "--limit", "2"], &columns)?;
    assert_eq!(newest, all[all.len() - 2..]);

    let registry = used.list(&["registry", "list"], &["SERVER", "TOOL", "HASH"])?;
    assert!(registry.len() > tools.len(), "instructions and prompts too");
    let shown = used.run(&["registry", "show", "hostile:forecast"])?;
    assert!(
        shown.contains("hidden     yes") && shown.contains("credential_theft"),
        "{shown}"
    );
    Ok(())
}

#[test]
fn a_session_is_reported_in_three_forms() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let used = Used::new(&real)?;
    let session = used.session_of("hostile")?;
    let report: Value = serde_json::from_str(&used.run(&["report", &session, "--format", "json"])?)?;
    assert_eq!(text(&report, "session_id"), session);
    assert_eq!(report["servers_connected"], serde_json::json!(["hostile"]));
    assert_eq!(report["tools_seen"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["calls"], serde_json::json!({"block": 1}));
    assert_eq!(report["detections_by_severity"]["critical"], 1);
    let blocked = report["blocked"].as_array().context("a list")?;
    let call = blocked
        .iter()
        .find(|blocked| text(blocked, "what") == "mcp_tool_call_intercepted forecast");
    let reason = text(call.context("the call")?, "reason");
    assert!(reason.contains("mcpmon approve hostile:forecast"), "{reason}");

    let markdown = used.run(&["report", &session, "--format", "md"])?;
    assert_eq!(markdown, used.run(&["report", &session])?, "it is the default");
    let page = used.run(&["report", &session, "--format", "html"])?;
    assert!(page.starts_with("<!doctype html>"), "{page}");
    let (_, embedded) = page
        .split_once(r#"<script type="application/json" id="report">"#)
        .context("the data of the page")?;
    let (embedded, _) = embedded.split_once("</script>").context("its end")?;
    assert_eq!(serde_json::from_str::<Value>(embedded)?, report);
    for heading in [
        "Servers connected",
        "Tools changed",
        "Detections by severity",
        "Top detections",
        "Calls by verdict",
        "Blocked",
        "Connections",
        "What was not enforced",
        "Timeline",
    ] {
        assert!(
            markdown.contains(&format!("\n## {heading}\n")),
            "{heading}: {markdown}"
        );
    }
    let coverage = "| coverage | unknown: only a daemon sees servers that no wrapper started |";
    assert!(markdown.contains(coverage), "{markdown}");
    let store = used.scene.store().display().to_string();
    let run = program::run(["report", "none", "--db", &store])?;
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("there is no session `none`"), "{run:?}");
    assert!(
        run.stderr.contains(&session),
        "those that are there are named: {run:?}"
    );
    Ok(())
}
