//! Servers that lie, change, lure and crash, behind the wrapper, with an official SDK as the client.

use std::fs;

use anyhow::{Context as _, Result};
use mcpmon_e2e::real::{Real, Scene, Sdk};
use serde_json::Value;

const CALL: &str = r#"[["forecast", {"path": "Bergen"}]]"#;
const BOTH: [Sdk; 2] = [Sdk::Python, Sdk::TypeScript];

/// A hostile server behind the wrapper.
struct Attack {
    real: Real,
    scene: Scene,
    mode: &'static str,
}

impl Attack {
    fn new(mode: &'static str) -> Result<Option<Self>> {
        let Some(real) = Real::find()? else {
            return Ok(None);
        };
        let scene = Scene::new()?;
        Ok(Some(Self { real, scene, mode }))
    }

    fn command(&self) -> Vec<String> {
        vec![
            self.real.python("python").display().to_string(),
            self.real.script("hostile.py").display().to_string(),
            self.mode.to_owned(),
            self.scene.file("calls").display().to_string(),
        ]
    }

    fn drive(&self, sdk: Sdk, options: &[&str], calls: &str) -> Result<Value> {
        let wrapped = self.scene.wrapped("hostile", options, &self.command())?;
        self.real.drive(sdk, &self.scene, calls, &wrapped)
    }

    /// Returns the number of calls that reached the server.
    fn executed(&self) -> usize {
        fs::read_to_string(self.scene.file("calls")).map_or(0, |text| text.lines().count())
    }
}

fn tools(seen: &Value) -> Result<Vec<&str>> {
    let tools = seen["tools"]["tools"].as_array().context("a list of tools")?;
    tools
        .iter()
        .map(|tool| tool["name"].as_str().context("a name"))
        .collect()
}

fn text(seen: &Value) -> Result<&str> {
    seen["calls"][0]["content"][0]["text"]
        .as_str()
        .with_context(|| format!("a text in {seen}"))
}

#[test]
fn a_poisoned_tool_is_hidden_and_cannot_be_called() -> Result<()> {
    for sdk in BOTH {
        let Some(attack) = Attack::new("poisoned")? else {
            return Ok(());
        };
        let seen = attack.drive(sdk, &[], CALL)?;
        assert_eq!(tools(&seen)?, ["towns"]);
        assert_eq!(seen["calls"][0]["isError"], true);
        let told = text(&seen)?;
        assert!(
            told.contains("mcpmon explain ") && !told.contains("mcpmon approve"),
            "{told}"
        );
        assert_eq!(attack.executed(), 0);
        let detections = attack.scene.events("mcp_detection")?;
        assert!(!detections.is_empty());
        assert!(detections.iter().all(|event| event["tool_name"] == "forecast"));
        assert!(detections.iter().any(|event| event["action"] == "block"));
    }
    Ok(())
}

#[test]
fn a_poisoned_tool_that_is_only_reported_stays() -> Result<()> {
    let Some(attack) = Attack::new("poisoned")? else {
        return Ok(());
    };
    for (policy, hidden) in [
        ("version: 1\nmcp:\n  detection: {on_detection: alert}\n", false),
        ("version: 1\nmode: observe\n", false),
        ("version: 1\nmcp:\n  detection: {on_detection: block}\n", true),
    ] {
        let scene = Scene::new()?;
        let attack = Attack {
            real: attack.real.clone(),
            scene,
            mode: "poisoned",
        };
        let config = attack.scene.configuration(policy)?;
        let seen = attack.drive(Sdk::Python, &["--config", &config], CALL)?;
        let found = !attack.scene.events("mcp_detection")?.is_empty();
        assert!(found, "{policy}");
        assert_eq!(attack.executed() == 0, hidden, "{policy}: {seen}");
    }
    Ok(())
}

#[test]
fn approved_by_a_person_it_comes_back() -> Result<()> {
    let Some(attack) = Attack::new("poisoned")? else {
        return Ok(());
    };
    attack.drive(Sdk::Python, &[], "[]")?;
    let store = attack.scene.store().display().to_string();
    let run = mcpmon_e2e::program::run(["approve", "hostile:forecast", "--db", &store])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    let seen = attack.drive(Sdk::Python, &[], CALL)?;
    assert_eq!(tools(&seen)?, ["forecast", "towns"]);
    assert_eq!(text(&seen)?, "12 degrees");
    Ok(())
}

#[test]
fn a_rug_pull_is_refused_across_sessions() -> Result<()> {
    let Some(mut attack) = Attack::new("plain")? else {
        return Ok(());
    };
    let seen = attack.drive(Sdk::TypeScript, &[], CALL)?;
    assert_eq!(
        (tools(&seen)?, text(&seen)?),
        (vec!["forecast", "towns"], "12 degrees")
    );
    attack.mode = "poisoned";
    let seen = attack.drive(Sdk::TypeScript, &[], CALL)?;
    assert_eq!(tools(&seen)?, ["towns"]);
    assert_eq!(attack.executed(), 1, "only the call before the change");
    let changed = attack.scene.events("mcp_tool_changed")?;
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0]["tool_name"], "forecast");
    assert_eq!(changed[0]["changes"][0]["field"], "description");
    assert_ne!(changed[0]["previous_hash"], changed[0]["new_hash"]);
    Ok(())
}

#[test]
fn a_poisoned_result_is_withheld() -> Result<()> {
    for sdk in BOTH {
        let Some(attack) = Attack::new("poisoned-output")? else {
            return Ok(());
        };
        let seen = attack.drive(sdk, &[], CALL)?;
        assert_eq!(seen["calls"][0]["isError"], true);
        assert!(!seen.to_string().contains("attacker.example"), "{seen}");
        assert_eq!(attack.scene.events("mcp_output_inspection")?.len(), 1);
    }
    Ok(())
}

#[test]
fn poisoned_instructions_do_not_reach_the_client() -> Result<()> {
    let Some(attack) = Attack::new("instructions")? else {
        return Ok(());
    };
    let seen = attack.drive(Sdk::TypeScript, &[], CALL)?;
    assert_eq!(seen["instructions"], Value::Null);
    assert_eq!(text(&seen)?, "12 degrees");
    Ok(())
}

#[test]
fn a_request_for_sampling_is_refused() -> Result<()> {
    let Some(attack) = Attack::new("sampling")? else {
        return Ok(());
    };
    let seen = attack.drive(Sdk::TypeScript, &[], CALL)?;
    assert_eq!(text(&seen)?, "refused");
    let judged = attack.scene.events("mcp_request_judged")?;
    assert!(
        judged
            .iter()
            .any(|event| event["method"] == "sampling/createMessage" && event["action"] == "block"),
        "{judged:?}"
    );
    Ok(())
}

#[test]
fn hidden_characters_hide_the_tool() -> Result<()> {
    let Some(attack) = Attack::new("hidden-unicode")? else {
        return Ok(());
    };
    assert_eq!(tools(&attack.drive(Sdk::Python, &[], "[]")?)?, ["towns"]);
    Ok(())
}

#[test]
fn noise_goes_to_standard_error_and_is_counted() -> Result<()> {
    let Some(attack) = Attack::new("noise")? else {
        return Ok(());
    };
    let outer = attack.scene.file("outer");
    let wrapped = attack.scene.wrapped("hostile", &[], &attack.command())?;
    let seen = attack.real.drive(
        Sdk::Python,
        &attack.scene,
        CALL,
        &attack.real.tapped(&outer, &wrapped),
    )?;
    assert_eq!(text(&seen)?, "12 degrees");
    let protocol = fs::read_to_string(outer.with_extension("server"))?;
    assert!(
        protocol
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{protocol}"
    );
    Ok(())
}

#[test]
fn a_message_of_15_mib_passes_and_one_of_20_is_an_error() -> Result<()> {
    for (mode, passes) in [("big", true), ("giant", false)] {
        let Some(attack) = Attack::new(mode)? else {
            return Ok(());
        };
        let seen = attack.drive(Sdk::Python, &[], CALL)?;
        let length = seen["calls"][0]["content"][0]["text"]
            .as_str()
            .map_or(0, str::len);
        assert_eq!(
            length > (14 << 20),
            passes,
            "{mode}: {}",
            seen.to_string().chars().take(300).collect::<String>()
        );
    }
    Ok(())
}
