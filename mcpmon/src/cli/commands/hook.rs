//! `mcpmon hook`: a client asks before it runs one of its own tools.

use std::{io::Read as _, process::ExitCode};

use clap::Args;
use mcpmon_model::{Action, Event, EventKind, Layer, Severity, Timestamp};
use mcpmon_policy::Mode;

use crate::{
    app::{
        hook::{HookAnswer, HookClient, MAX_INPUT_BYTES, NativeCall, record, verdict},
        question::{self, CallArguments, KnownServer, Surroundings, TriedUse, UseOutcome},
    },
    cli::{CliError, Output, daemon::Socket, question as asked},
};

/// Judge a call of a client's own tool, which the client tells on standard input; for a client's hooks
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The client
    #[arg(value_enum)]
    client: HookClient,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn run(
    options: &Options,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<ExitCode, CliError> {
    let client = options.client;
    let (loaded, search) = match asked::policy(&options.socket, output) {
        Ok(found) => found,
        // It is not known which policy would say whether to fail closed.
        Err(error) => return say(&client.unjudged(&format!("{:#}", error.source), false), output),
    };
    let fail_closed = loaded.policy.fail_closed;
    let unjudged = |reason: &str| client.unjudged(reason, fail_closed);
    let mut input = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut input);
    if let Err(error) = read {
        return say(&unjudged(&format!("cannot read standard input: {error}")), output);
    }
    if input.len() as u64 > MAX_INPUT_BYTES {
        let reason = format!("standard input is longer than {} MiB", MAX_INPUT_BYTES >> 20);
        return say(&unjudged(&reason), output);
    }
    let call = match client.call(&input) {
        Ok(Some(call)) => call,
        Ok(None) => return say(&client.answer(None), output),
        Err(error) => return say(&unjudged(&error.to_string()), output),
    };
    let arguments = match CallArguments::new(&call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return say(&unjudged(&error.to_string()), output),
    };
    let surroundings = Surroundings {
        search,
        socket: options.socket.path.clone(),
        db: output
            .globals
            .db
            .clone()
            .or_else(|| loaded.settings.record.path.clone())
            .or_else(mcpmon_store::own_store),
    };
    let wanted = TriedUse::Call {
        tool: call.tool.clone(),
        arguments: Some(arguments),
    };
    let reply = question::ask(
        now,
        &loaded,
        &surroundings,
        &client.server(),
        &KnownServer::default(),
        &wanted,
    );
    let (outcome, opinion) = match verdict(&reply.opinions, loaded.policy.mode == Mode::Observe) {
        (UseOutcome::Asked, asks) if !client.can_ask(&call.tool) => (UseOutcome::Blocked, asks),
        judged => judged,
    };
    let mut event = event(&call, now);
    event.action = match outcome {
        UseOutcome::Allowed => Action::Allow,
        // The client's user decides, and the decision is not reported to the hook.
        UseOutcome::Audited | UseOutcome::Asked => Action::Audit,
        UseOutcome::WouldAsk => Action::WouldAsk,
        UseOutcome::WouldBlock => Action::WouldBlock,
        UseOutcome::Blocked => Action::Block,
    };
    event.severity = opinion.map_or(Severity::Info, |opinion| opinion.severity);
    event.rule = opinion.map(|opinion| opinion.rule.clone());
    event.reason = opinion.map(|opinion| opinion.reason.clone());
    let id = mcpmon_store::new_event_id(now);
    event.id = Some(id);
    let recorded = record(client, surroundings, event);
    if let Err(error) = &recorded {
        output.note(&format!("mcpmon: the call is not recorded: {error}"))?;
    }
    if let (UseOutcome::Asked, Some(asks)) = (outcome, opinion) {
        return say(&client.ask(asks), output);
    }
    let stopped = opinion.filter(|_| outcome == UseOutcome::Blocked);
    let id = recorded.is_ok().then_some(id);
    say(&client.answer(stopped.map(|opinion| (opinion, id))), output)
}

/// Builds the event about a call.
fn event(call: &NativeCall, now: Timestamp) -> Event {
    let kind = EventKind::ToolCallIntercepted {
        tool_name: call.tool.clone(),
        visible_name: None,
        dialect: None,
        request_id: None,
        jsonrpc_id: None,
        tool_call_id: call.id.clone(),
        trace_parent: None,
        server_type: None,
        server_addr: None,
        tool_hash: None,
        input: Some(call.arguments.clone()),
        client_uid: Some(nix::unistd::getuid().as_raw()),
    };
    Event::new(now, Layer::Hook, kind)
}

fn say(answer: &HookAnswer, output: &mut Output<'_>) -> Result<ExitCode, CliError> {
    if let Some(value) = &answer.output {
        output.text(&[value.to_string()])?;
    }
    output.flush()?;
    if let Some(error) = &answer.error {
        output.note(error)?;
    }
    Ok(ExitCode::from(answer.status))
}
