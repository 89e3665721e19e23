//! Real servers, as npm and PyPI have them, behind the wrapper and the daemon.

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{number, text},
    program,
    real::{Origin, Real, SERVERS, Scene, Sdk},
};

/// Returns a policy that looks only for the installed servers, wherever they are started from.
fn policy(real: &Real) -> String {
    let npm = real.npm("mcp-*").display().to_string();
    let python = real.python("mcp-*").display().to_string();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: {{server_patterns: [\"{npm}\", \"{python}\"]}}\n"
    )
}

#[test]
fn real_servers_with_a_daemon() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let Some(host) = Host::take(&["node", "python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(&real))?;
    let chosen = [
        ("mcp-server-everything", Origin::Npm, Sdk::TypeScript),
        ("mcp-server-time", Origin::Python, Sdk::Python),
    ];
    for (position, (name, origin, sdk)) in chosen.into_iter().enumerate() {
        let known = SERVERS.iter().find(|known| known.command == name);
        let known = known.context("it is one of them")?;
        assert_eq!(known.origin, origin);
        let scene = Scene::new()?;
        let wrap = daemon
            .site
            .wrap(program::path()?, real.command(known, &scene.data()));
        let mut command = vec![wrap.get_program().to_string_lossy().into_owned()];
        command.extend(wrap.get_args().map(|word| word.to_string_lossy().into_owned()));
        let through = real.drive(sdk, &scene, known.calls, &command)?;

        let started = daemon.event("its start", |event| {
            text(event, "type") == "mcp_server_started" && event["args"].to_string().contains(name)
                || text(event, "command").contains(name)
        })?;
        let id = text(&started, "server_id");
        assert_eq!(started["wrapped"], true, "{started}");
        assert_eq!(text(&started, "pin"), "pinned", "{started}");
        assert!(!text(&started, "exe_sha256").is_empty(), "{started}");
        daemon.event_of("mcp_server_exited", id)?;
        let events = daemon.site.events()?;
        let of = |kind: &str| {
            events
                .iter()
                .filter(|event| text(event, "type") == kind && text(event, "server_id") == id)
                .count()
        };
        let listed = through["tools"]["tools"].as_array().context("a list")?.len();
        let calls: Vec<serde_json::Value> = serde_json::from_str(known.calls)?;
        assert_eq!(of("mcp_tool_called"), calls.len(), "{id}");
        assert!(of("mcp_tool_seen") >= listed && listed > 0, "{id}: {listed}");
        assert_eq!(of("mcp_server_unwrapped"), 0, "{id}");
        assert!(
            !daemon.site.own_store().exists(),
            "nothing is kept beside the daemon's"
        );
        let status = daemon.status()?;
        assert_eq!(
            number(&status["coverage"], "wrapped"),
            position as u64 + 1,
            "{status}"
        );
        assert_eq!(
            number(&status["coverage"], "seen"),
            position as u64 + 1,
            "{status}"
        );
    }
    Ok(())
}
