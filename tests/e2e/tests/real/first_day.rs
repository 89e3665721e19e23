//! The first day with popular servers, under the default policy: there are no alerts, and nothing is missing.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    json::text,
    program,
    real::{Known, Origin, Real, Scene, Sdk},
    skip,
};
use serde_json::Value;

/// Servers that start without an account, with calls that work without a network.
const POPULAR: [Known; 5] = [
    Known {
        command: "mcp-server-filesystem",
        origin: Origin::Npm,
        arguments: &["@"],
        calls: r#"[["list_directory", {"path": "@"}], ["read_text_file", {"path": "@/note.txt"}], ["write_file", {"path": "@/new.txt", "content": "a draft"}], ["search_files", {"path": "@", "pattern": "*.txt"}]]"#,
    },
    Known {
        command: "mcp-server-github",
        origin: Origin::Npm,
        arguments: &[],
        calls: "[]",
    },
    Known {
        command: "playwright-mcp",
        origin: Origin::Npm,
        arguments: &["--headless", "--isolated"],
        calls: "[]",
    },
    Known {
        command: "ms-365-mcp-server",
        origin: Origin::Npm,
        arguments: &[],
        calls: r#"[["verify-login", {}]]"#,
    },
    // The descriptions and results of this server are in Chinese.
    Known {
        command: "bazi-mcp",
        origin: Origin::Npm,
        arguments: &[],
        calls: r#"[["getBaziDetail", {"solarDatetime": "2000-05-15T12:00:00+08:00", "gender": 1}], ["getChineseCalendar", {"solarDatetime": "2026-11-23T12:00:00+08:00"}]]"#,
    },
];

#[test]
fn five_popular_servers_raise_no_alarm() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    for server in POPULAR {
        let command = real.command(&server, &scene.data());
        let bare = Scene::new()?;
        let alone = real.drive(
            Sdk::Python,
            &bare,
            server.calls,
            &real.command(&server, &bare.data()),
        )?;
        let wrapped = scene.wrapped(server.command, &[], &command)?;
        let through = real.drive(Sdk::Python, &scene, server.calls, &wrapped)?;
        let own = |value: &Value, scene: &Scene| {
            let text = value.to_string();
            text.replace(&scene.directory().display().to_string(), "@")
        };
        assert_eq!(own(&alone, &bare), own(&through, &scene), "{}", server.command);
        let tools = through["tools"]["tools"].as_array().context("a list")?;
        ensure!(!tools.is_empty(), "{} lists nothing", server.command);
    }
    for event in scene.list(&["events", "--limit", "100000"])? {
        assert!(event["action"] != "block", "{event}");
        let is_of_texts = event["type"] == "mcp_detection" || event["type"] == "mcp_output_inspection";
        assert!(!is_of_texts || event["action"] == "allow", "{event}");
        assert!(event["type"] != "mcp_approval", "{event}");
        assert!(event["type"] != "mcp_dlp_redaction", "{event}");
    }
    Ok(())
}

/// The command that an event of a stopped message names is enough to let the message pass.
#[test]
fn what_is_stopped_is_let_through_by_the_command_of_its_event() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let stopped = [("poisoned-output", "output_poisoning"), ("poisoned", "approval")];
    for ((mode, rule), is_applied) in stopped.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let scene = Scene::new()?;
        let policy = scene.configuration("version: 1 # mine\n")?;
        let server = [
            real.python("python").display().to_string(),
            real.script("hostile.py").display().to_string(),
            mode.to_owned(),
        ];
        let wrapped = scene.wrapped("hostile", &["--config", &policy], &server)?;
        let call = r#"[["forecast", {"path": "Bergen"}]]"#;
        let seen = real.drive(Sdk::Python, &scene, call, &wrapped)?;
        assert_eq!(seen["calls"][0]["isError"], true, "{mode}: {seen}");
        let events = scene.list(&["events", "--limit", "100000"])?;
        let event = events
            .iter()
            .find(|event| event["action"] == "block" && event["rule"] == rule);
        let event = event.with_context(|| format!("{mode}: {events:?}"))?;
        let id = event["id"].as_str().context("an id")?;
        let explained = scene.list(&["explain", id])?;
        let remedy = event["remedy"].as_str().context("a command")?;
        assert_eq!(explained[0]["remedy"], *remedy, "{mode}");

        let words: Vec<&str> = match is_applied {
            true => vec!["explain", id, "--apply"],
            false => remedy.split(' ').skip(1).collect(),
        };
        let store = scene.store().display().to_string();
        let place = vec!["--db", &store, "--config", &policy];
        let run = program::run([words, place].concat())?;
        ensure!(run.code == Some(0), "{remedy}: {run:?}");
        let seen = real.drive(Sdk::Python, &scene, call, &wrapped)?;
        assert!(seen["calls"][0]["isError"] != true, "{mode}: {seen}");
    }
    Ok(())
}

/// Returns the day this many days from now, UTC.
fn day(from_now: u32) -> Result<String> {
    let output = Command::new("date")
        .args(["--utc", "+%F", "--date", &format!("{from_now} days")])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// Returns a command whose clock starts at this moment, UTC.
fn at(moment: &str, command: &[String]) -> Vec<String> {
    let clock = ["env", "TZ=UTC", "faketime", "-f"].map(str::to_owned);
    let moment = format!("@{moment}");
    [&clock[..], &[moment], command].concat()
}

/// A false alarm that was accepted until a day is silent on that day, and is reported again afterwards.
#[test]
fn what_was_accepted_until_a_day_is_stopped_after_it() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    if Command::new("faketime").arg("--version").output().is_err() {
        return skip::for_lack("there is no faketime: apt-get install faketime");
    }
    let (last, over) = (day(2)?, day(3)?);
    let scene = Scene::new()?;
    let policy = scene.configuration("version: 1 # mine\n")?;
    let server = [
        real.python("python").display().to_string(),
        real.script("hostile.py").display().to_string(),
        "poisoned-output".to_owned(),
    ];
    let wrapped = scene.wrapped("hostile", &["--config", &policy], &server)?;
    let is_stopped = |command: &[String]| -> Result<bool> {
        let call = r#"[["forecast", {"path": "Bergen"}]]"#;
        let seen = real.drive(Sdk::Python, &scene, call, command)?;
        Ok(seen["calls"][0]["isError"] == true)
    };
    assert!(is_stopped(&wrapped)?);
    let events = scene.list(&["events", "--limit", "100000"])?;
    let event = events
        .iter()
        .find(|event| text(event, "rule") == "output_poisoning");
    let id = text(event.context("an event")?, "id");

    let store = scene.store().display().to_string();
    let place = ["--db", &store, "--config", &policy];
    let apply = ["explain", id, "--apply", "--until", &last];
    let run = program::run([&apply[..], &place].concat())?;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!is_stopped(&wrapped)?);
    assert!(
        !is_stopped(&at(&format!("{last} 23:50:00"), &wrapped))?,
        "the last day counts"
    );
    assert!(is_stopped(&at(&format!("{over} 00:00:01"), &wrapped))?);

    let mut check = vec![program::path()?.display().to_string()];
    check.extend(["policy", "check", &policy].map(str::to_owned));
    let check = at(&format!("{over} 00:00:01"), &check);
    let output = Command::new(&check[0]).args(&check[1..]).output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains(&format!("expired: `until: {last}`")), "{said}");
    Ok(())
}
