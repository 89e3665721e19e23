//! `mcpmon check`: shows how a call would be judged, and why. Nothing is run.

use clap::Args;
use mcpmon_model::Timestamp;

use crate::cli::{
    CliError, Output,
    daemon::Socket,
    output::Form,
    question::{self, Subject},
};

/// Say what would become of a call or a read under the policy, and why; exit 1 where it is refused
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn run(
    options: &Options,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<u8, CliError> {
    let question = options.subject.question()?.ok_or_else(question::incomplete)?;
    let (loaded, search) = question::policy(&options.socket, output)?;
    let reply = question::ask(&options.socket, (&loaded, search), &question, now, output)?;
    match output.form {
        Form::Json => output.json(&question::object(&question, &reply, &loaded))?,
        Form::Table => output.text(&question::lines(&question, &reply, &loaded))?,
    }
    output.flush()?;
    question::note_limits(output)?;
    Ok(match question::is_refused(&reply) {
        true => 1,
        false => 0,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use insta::assert_snapshot;
    use mcpmon_model::Timestamp;
    use mcpmon_store::sample::{NOON, definition};

    use super::*;
    use crate::cli::commands::scene;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    const POLICY: &str = "version: 1
mcp:
  blocked_tools: [run_shell]
  rules:
    - {id: no-keys, match: {argument_patterns: {path: \"**/.ssh/**\"}}, decision: BLOCK, reason: Keys stay}
    - {id: reads, match: {tool_name: \"read_*\"}, decision: ALLOW}
  blocked_resources: [\"secret://*\"]
";

    fn checked(policy: &str, form: Form, words: &[&str]) -> String {
        let line = std::iter::once("check").chain(words.iter().copied());
        let options = CommandLine::try_parse_from(line).expect("a command line").options;
        let tools = ["read_file", "run_shell", "write_file"];
        let records = tools.map(|tool| {
            definition(
                "files",
                tool,
                &format!(r#"{{"inputSchema":{{"type":"object"}},"name":"{tool}"}}"#),
            )
        });
        scene::shown_under(policy, records.into(), Vec::new(), form, |output| {
            run(&options, Timestamp(NOON), output)
        })
    }

    fn check(words: &[&str]) -> String {
        checked(POLICY, Form::Table, words)
    }

    #[test]
    fn what_is_allowed() {
        assert_snapshot!(check(&["--server", "files", "--tool", "read_file", "--args", r#"{"path":"/tmp/a"}"#]), @"
        allow: tool read_file of files matches the rule reads
          rule: reads
        policy: DIR/policy.yaml
        definition: 8a7133887965 as listed at 11-20 12:00:00 UTC
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 0
        ");
    }

    #[test]
    fn what_is_refused_and_by_which_other_rules() {
        assert_snapshot!(check(&["--server", "files", "--tool", "run_shell", "--args", r#"{"path":"/h/.ssh/id"}"#]), @"
        block: tool run_shell of files is on the blocked list (`mcp.blocked_tools`: run_shell)
          rule: blocked_tools
          remedy: mcpmon policy explain blocked_tools
        other rules:
          block  no-keys: tool run_shell of files matches the rule no-keys: Keys stay
        policy: DIR/policy.yaml
        definition: 5c43d236f533 as listed at 11-20 12:00:00 UTC
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 1
        ");
        assert_snapshot!(check(&["--server", "files", "--resource", "secret://a"]), @"
        block: resource secret://a of files is blocked by secret://* (`mcp.blocked_resources`)
          rule: blocked_resources
          remedy: mcpmon policy explain blocked_resources
        other rules:
          audit  defaults: resource secret://a of files is named by no rule, and so is noted (`mcp.defaults`)
        policy: DIR/policy.yaml
        definition: none, the resource was never listed
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 1
        ");
    }

    #[test]
    fn what_is_noted_although_a_rule_allows_it() {
        assert_snapshot!(check(&["--server", "files", "--tool", "read_mail"]), @"
        audit: tool read_mail of files was never listed
          rule: unknown_tool
          remedy: mcpmon registry list --server files
        other rules:
          allow  reads: tool read_mail of files matches the rule reads
        policy: DIR/policy.yaml
        definition: none, the tool was never listed
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 0
        ");
    }

    #[test]
    fn what_a_policy_that_observes_would_block() {
        let policy = format!("mode: observe\n{POLICY}");
        assert_snapshot!(checked(&policy, Form::Table, &["--server", "files", "--tool", "run_shell"]), @"
        would_block: tool run_shell of files is on the blocked list (`mcp.blocked_tools`: run_shell)
          rule: blocked_tools
          remedy: mcpmon policy explain blocked_tools
        other rules:
          audit  defaults: tool run_shell of files is named by no rule, and so is noted (`mcp.defaults`)
        policy: DIR/policy.yaml
        definition: 5c43d236f533 as listed at 11-20 12:00:00 UTC
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 0
        ");
    }

    #[test]
    fn one_object() {
        assert_snapshot!(checked(POLICY, Form::Json, &["--server", "files", "--tool", "run_shell"]), @r#"
        {"server_id":"files","tool_name":"run_shell","action":"block","rule":"blocked_tools","reason":"tool run_shell of files is on the blocked list (`mcp.blocked_tools`: run_shell)","remedy":"mcpmon policy explain blocked_tools","opinions":[{"rule":"blocked_tools","action":"block","severity":"high","reason":"tool run_shell of files is on the blocked list (`mcp.blocked_tools`: run_shell)","remedy":"mcpmon policy explain blocked_tools","decides":true},{"rule":"defaults","action":"audit","severity":"info","reason":"tool run_shell of files is named by no rule, and so is noted (`mcp.defaults`)","remedy":"mcpmon policy explain defaults","decides":false}],"tool_hash":"sha256:5c43d236f533f423fadfe52d325210e193266d45b759cf993bf25478fb8aaabc","last_seen":"2026-11-20T12:00:00.000000000Z","sources":["DIR/policy.yaml"],"policy_hash":"sha256:c587289f9437fefacff809a2490acf3a038553ccf4d8fc844221f2d93ad97054","not_asked":["mcp.rate_limits","mcp.cross_server"]}
        ---
        note: rates and the calls to other servers of a running session are not known here, and may still stop it
        exit 1
        "#);
    }

    #[test]
    fn arguments_that_are_none_have_their_position() {
        assert_snapshot!(check(&["--server", "files", "--tool", "x", "--args", "{\"a\": tru}"]), @"
        ---
        error: the arguments are no JSON: line 1, column 10: unexpected byte 0x7d
        ExitCode(unix_exit_status(2))
        ");
        assert_snapshot!(check(&["--server", "files", "--tool", "x", "--args", "7"]), @r#"
        ---
        error: the arguments are no JSON object: expected for example {"path":"/tmp/a"}
        ExitCode(unix_exit_status(2))
        "#);
        assert_snapshot!(check(&["--server", "files"]), @"
        ---
        error: what is to be used? Give --server ID with --tool NAME or --resource URI
        ExitCode(unix_exit_status(2))
        ");
    }

    #[test]
    fn a_call_or_a_read_and_not_both() {
        for words in [
            &["check", "--tool", "x"][..],
            &["check", "--server", "a", "--tool", "x", "--resource", "u:a"],
            &["check", "--server", "a", "--args", "{}"],
            &["check", "--server", "a b", "--tool", "x"],
        ] {
            assert!(CommandLine::try_parse_from(words).is_err(), "{words:?}");
        }
    }
}
