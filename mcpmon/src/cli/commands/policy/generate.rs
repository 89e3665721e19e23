//! `mcpmon policy generate`: writes a policy that allows what a session used, and nothing else.

use std::path::PathBuf;

use clap::Args;
use mcpmon_config::{Source, Sources};
use serde_json::json;

use super::import::write;
use crate::{
    app::profile::{self, DrawnProfile},
    cli::{CliError, ErrorKind, Output, output::Form, session, store},
};

/// Largest policy that can be generated: the largest that would be read again, bytes.
const MAX_BYTES: usize = 1 << 20;

/// From what, and where to.
#[derive(Debug, Args)]
pub(in crate::cli) struct GenerateArgs {
    /// The session, as `mcpmon events --json` calls it
    #[arg(value_name = "SESSION")]
    session: String,
    /// The file to write; an existing file is left alone
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(in crate::cli) fn generate(args: &GenerateArgs, output: &mut Output<'_>) -> Result<(), CliError> {
    let reader = store::open(output.globals)?;
    let summary = session::find(&reader, &args.session)?;
    let DrawnProfile { profile, is_cut } = profile::draw(&reader, &summary)?;
    let text = profile.policy();
    check(&text)?;
    if let Some(path) = &args.output {
        write(path, &text)?;
    }
    match (output.form, &args.output) {
        (Form::Json, path) => {
            let value = json!({
                "session_id": summary.id,
                "output": path,
                "policy": text,
                "servers": profile.servers.len(),
                "tools": profile.tools.len(),
                "blocked_tools": profile.blocked.len(),
                "listed_tools": profile.listed.len(),
                "complete": !is_cut,
            });
            if let serde_json::Value::Object(object) = value {
                output.json(&object)?;
            }
        }
        (Form::Table, None) => output.page(&text)?,
        (Form::Table, Some(_)) => {}
    }
    output.flush()?;
    if is_cut {
        output.note("note: the session has more events than are looked through; what was used in the latest is not allowed")?;
    }
    if profile.tools.is_empty() {
        output.note(match profile.blocked.is_empty() {
            true => "note: no tool was called in the session, and so none is allowed",
            false => "note: no tool was called in the session but such as were blocked or hidden, or would have been, and so none is allowed",
        })?;
    }
    Ok(())
}

/// Checks that a generated policy can be used.
fn check(text: &str) -> Result<(), CliError> {
    if text.len() > MAX_BYTES {
        let error = anyhow::anyhow!(
            "the policy would have {} bytes, and a configuration file has at most {MAX_BYTES}",
            text.len()
        );
        return Err(
            CliError::new(ErrorKind::Refused, error).with_hint("generate it from a session with fewer tools")
        );
    }
    let parts = vec![(Source::File("generated.yaml".into()), text.to_owned())];
    let Some(sources) = Sources::of_parts(parts) else {
        return Ok(());
    };
    let checked = mcpmon_config::load_sources(&sources).map(drop);
    checked.map_err(|error| {
        let error = anyhow::Error::from(error)
            .context("the generated policy cannot be used: this is a mistake of mcpmon");
        CliError::new(ErrorKind::Environment, error)
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use mcpmon_model::{Action, Direction, Event, EventKind, SessionId};
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    fn of_session(mut event: Event) -> Event {
        event.session_id = Some(SessionId::new("s1"));
        event
    }

    fn started() -> Event {
        let mut event = of_session(sample::started("files", 10));
        if let EventKind::ServerStarted { args, .. } = &mut event.kind {
            args.extend(["--token".to_owned(), "***".to_owned()]);
        }
        event
    }

    fn seen(tool: &str) -> Event {
        let mut event = of_session(sample::called(tool, 0));
        event.kind = EventKind::ToolSeen {
            definition: mcpmon_model::DefinitionKind::Tool,
            tool_name: tool.to_owned(),
            tool_hash: mcpmon_model::Digest::of(tool.as_bytes()),
            server_type: mcpmon_model::ServerType::Stdio,
            description: None,
            status: mcpmon_model::DefinitionStatus::New,
            detections: Vec::new(),
            max_severity: None,
        };
        event
    }

    fn generated(session: &str, form: Form) -> String {
        let mut events = vec![
            // The call precedes the first list.
            sample::called("read_file", 1),
            started(),
            seen("read_file"),
            seen("write_file"),
            seen("never called"),
            sample::at(2, sample::called("read_file", 2)),
            sample::intercepted("write_file", 3, Action::Block),
            sample::intercepted("read_file", 4, Action::Block),
            sample::connection("files", 10, "192.0.2.1:443", Direction::ServerEgress),
            sample::connection("files", 10, "192.0.2.1:443", Direction::ServerEgress),
            sample::connection("files", 10, "192.0.2.2:443", Direction::AgentToServer),
            sample::connection("unrelated", 99, "192.0.2.9:443", Direction::ServerEgress),
        ];
        let mut elsewhere = sample::called("elsewhere", 9);
        elsewhere.session_id = Some(SessionId::new("s2"));
        events.push(elsewhere);
        generated_of(events, session, form)
    }

    fn generated_of(events: Vec<Event>, session: &str, form: Form) -> String {
        let args = GenerateArgs {
            session: session.to_owned(),
            output: None,
        };
        scene::shown_under("version: 1\n", Vec::new(), events, form, |output| {
            generate(&args, output).map(|()| 0)
        })
    }

    #[test]
    fn a_session_is_a_policy() {
        assert_snapshot!(generated("s1", Form::Table));
    }

    #[test]
    fn as_json_it_comes_with_its_figures() {
        let text = generated("s1", Form::Json);
        let object: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        let figure = |name: &str| object[name].as_u64();
        assert_eq!(
            ["servers", "tools", "blocked_tools", "listed_tools"].map(figure),
            [Some(1), Some(1), Some(1), Some(1)]
        );
        assert!(
            object["policy"]
                .as_str()
                .is_some_and(|policy| policy.contains("content_hash"))
        );
    }

    #[test]
    fn what_was_only_observed_is_not_allowed() {
        let mut went_on = sample::called("write_file", 3);
        went_on.action = Action::WouldBlock;
        let events = vec![
            sample::called("read_file", 1),
            sample::intercepted("write_file", 3, Action::WouldBlock),
            went_on,
        ];
        let text = generated_of(events, "s1", Form::Table);
        let allowed: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("      tool: "))
            .collect();
        assert_eq!(allowed, ["      tool: read_file"], "{text}");
        assert!(text.contains("# It would have been blocked by "), "{text}");
        assert!(text.contains("    #   tool: write_file\n"), "{text}");
    }

    #[test]
    fn a_session_whose_only_call_would_have_been_blocked_is_not_one_without_calls() {
        let noted = |events| {
            let text = generated_of(events, "s1", Form::Table);
            let note = text.lines().find(|line| line.starts_with("note: "));
            note.expect("a note").to_owned()
        };
        let mut went_on = sample::called("write_file", 3);
        went_on.action = Action::WouldBlock;
        let observed = vec![sample::intercepted("write_file", 3, Action::WouldBlock), went_on];
        assert_eq!(
            noted(observed),
            "note: no tool was called in the session but such as were blocked or hidden, or would have been, and so none is allowed"
        );
        assert_eq!(
            noted(vec![seen("read_file")]),
            "note: no tool was called in the session, and so none is allowed"
        );
    }

    #[test]
    fn a_session_that_is_not_there() {
        assert_snapshot!(generated("nope", Form::Table), @"
        ---
        error: there is no session `nope`
        ExitCode(unix_exit_status(1))
        ");
    }

    #[test]
    fn a_policy_that_is_too_large_is_not_written() {
        let error = check(&"#".repeat(MAX_BYTES + 1)).expect_err("too large");
        assert_eq!(error.kind, ErrorKind::Refused);
    }
}
