//! Questions about a call or a read: from the options to the answer that is shown.

use std::io::Read as _;

use clap::Args;
use mcpmon_config::{LoadedConfiguration, LocalConfig, Reloader, Search, Trust};
use mcpmon_model::{ServerId, Timestamp};
use mcpmon_store::{json as form, own_store};
use serde_json::{Map, Value, json};

use super::{CliError, ErrorKind, Output, daemon::Socket, store, time};
use crate::app::{
    control::{self, DaemonAnswer, DaemonRequest},
    daemon::{DEFAULT_STORE, bundle},
    question::{self, CallArguments, KnownServer, Opinion, Surroundings, TriedUse, UseOutcome, UseReply},
};

/// Longest arguments that are read, bytes: as long as the longest message.
const MAX_ARGUMENTS: u64 = 16 << 20;

/// The settings that only a running session can evaluate, by their keys.
const NOT_ASKED: [&str; 2] = ["mcp.rate_limits", "mcp.cross_server"];

/// The use to ask about.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Subject {
    /// The server
    #[arg(long, value_name = "ID", value_parser = |id: &str| ServerId::new(id))]
    server: Option<ServerId>,
    /// The tool that is to be called
    #[arg(long, value_name = "NAME", requires = "server")]
    tool: Option<String>,
    /// Arguments of the call, a JSON object; `-` reads standard input
    #[arg(long, value_name = "JSON", requires = "tool")]
    args: Option<String>,
    /// The resource that is to be read
    #[arg(long, value_name = "URI", requires = "server", conflicts_with = "tool")]
    resource: Option<String>,
}

/// A question: a server, and the use of it.
#[derive(Debug)]
pub(super) struct Question {
    server: ServerId,
    wanted: TriedUse,
}

impl Subject {
    /// Returns the question in the options; `None` if there is none.
    pub(super) fn question(&self) -> Result<Option<Question>, CliError> {
        let Some(server) = self.server.clone() else {
            return Ok(None);
        };
        let wanted = match (&self.tool, &self.resource) {
            (Some(tool), _) => TriedUse::Call {
                tool: tool.clone(),
                arguments: self.arguments()?,
            },
            (None, Some(uri)) => TriedUse::Read { uri: uri.clone() },
            (None, None) => return Err(incomplete()),
        };
        Ok(Some(Question { server, wanted }))
    }

    fn arguments(&self) -> Result<Option<CallArguments>, CliError> {
        let Some(given) = &self.args else {
            return Ok(None);
        };
        let mut text = given.clone();
        if given == "-" {
            text.clear();
            let read = std::io::stdin()
                .lock()
                .take(MAX_ARGUMENTS + 1)
                .read_to_string(&mut text);
            read.map_err(|error| {
                let error =
                    anyhow::Error::from(error).context("cannot read the arguments from standard input");
                CliError::new(ErrorKind::Usage, error)
            })?;
        }
        if text.len() as u64 > MAX_ARGUMENTS {
            let error = anyhow::anyhow!("the arguments are longer than {} MiB", MAX_ARGUMENTS >> 20);
            return Err(CliError::new(ErrorKind::Usage, error));
        }
        let arguments = CallArguments::new(&text);
        arguments
            .map(Some)
            .map_err(|error| CliError::new(ErrorKind::Usage, error))
    }
}

/// Builds the error for a question without a subject.
pub(super) fn incomplete() -> CliError {
    CliError::new(
        ErrorKind::Usage,
        anyhow::anyhow!("what is to be used? Give --server ID with --tool NAME or --resource URI"),
    )
}

/// Returns the policy that holds on this host: that of the command line, or the daemon's if one runs, or else this
/// user's.
pub(super) fn policy(
    socket: &Socket,
    output: &mut Output<'_>,
) -> Result<(LoadedConfiguration, Search), CliError> {
    let own = Search::of_process(output.globals.config.clone(), LocalConfig::Ignore);
    let load = |search: &Search| {
        let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
        mcpmon_config::load(search, trust).map_err(|error| CliError::new(ErrorKind::Usage, error))
    };
    if output.globals.config.is_some() {
        return Ok((load(&own)?, own));
    }
    // Without a daemon that answers, wrappers judge by the user's own policy.
    let Ok(DaemonAnswer::Status(status)) = control::request(&socket.path, &DaemonRequest::Status) else {
        return Ok((load(&own)?, own));
    };
    let of_host = Search {
        variable: None,
        user: None,
        ..own
    };
    let with_bundle = |own: LoadedConfiguration| {
        let store = own.settings.record.path.clone();
        let store = store.unwrap_or_else(|| DEFAULT_STORE.into());
        let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
        let mut reloader = Reloader::new(of_host.clone(), trust, &own);
        // If the bundle cannot be read by this user, the comparison of the hashes shows it.
        bundle::resume(&store, own, &mut reloader).0
    };
    match load(&of_host).map(with_bundle) {
        Ok(loaded) if loaded.hash.to_string() == status.policy.hash => Ok((loaded, of_host)),
        Ok(_) | Err(_) => {
            let own = Search::of_process(None, LocalConfig::Ignore);
            let loaded = load(&own)?;
            let sources = match &status.policy.sources[..] {
                [] => "the embedded default".to_owned(),
                sources => sources.join(", "),
            };
            let remedy = match &status.policy.bundle {
                Some(bundle) if bundle.serial.is_some() => "which only root can read: run this with `sudo`",
                Some(_) | None => "which cannot be read from here: name it with --config FILE",
            };
            output.note(&format!(
                "note: the daemon decides by another policy ({sources}), {remedy}"
            ))?;
            Ok((loaded, own))
        }
    }
}

/// Asks the question, with what the store knows if there is one.
pub(super) fn ask(
    socket: &Socket,
    (loaded, search): (&LoadedConfiguration, Search),
    question: &Question,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<UseReply, CliError> {
    let known = match store::open(output.globals) {
        Ok(reader) => KnownServer::of(&reader, &question.server, nix::unistd::getuid().as_raw())?,
        // A store that was named must exist.
        Err(error) if output.globals.db.is_some() => return Err(error),
        Err(error) => {
            output.note(&format!(
                "note: nothing is known of what servers listed: {:#}",
                error.source
            ))?;
            KnownServer::default()
        }
    };
    let surroundings = Surroundings {
        search,
        socket: socket.path.clone(),
        db: output.globals.db.clone().or_else(own_store),
    };
    let reply = question::ask(
        now,
        loaded,
        &surroundings,
        &question.server,
        &known,
        &question.wanted,
    );
    if reply.identities > 1 {
        output.note(&format!(
            "note: {} packages or users have a server `{}`; the one that this user, or anybody, listed last is asked about",
            reply.identities, question.server
        ))?;
    }
    Ok(reply)
}

/// Notes the settings that cannot be evaluated without the session.
pub(super) fn note_limits(output: &mut Output<'_>) -> Result<(), CliError> {
    Ok(output.note(
        "note: rates and the calls to other servers of a running session are not known here, and may still stop it",
    )?)
}

/// Formats an opinion as a line: `block  no-keys: why`.
pub(super) fn line(opinion: &Opinion) -> String {
    format!("{:<5}  {}: {}", word(opinion), opinion.rule, opinion.reason)
}

/// Returns the decision of an opinion, in the words for actions.
pub(super) fn word(opinion: &Opinion) -> &'static str {
    opinion.decision.as_str()
}

/// Returns the answer as lines.
pub(super) fn lines(question: &Question, reply: &UseReply, loaded: &LoadedConfiguration) -> Vec<String> {
    let mut lines = Vec::new();
    let told = reply.told();
    match told {
        Some(opinion) => {
            lines.push(format!("{}: {}", reply.outcome.as_str(), opinion.reason));
            lines.push(format!("  rule: {}", opinion.rule));
            lines.extend(
                opinion
                    .remedy
                    .as_ref()
                    .map(|remedy| format!("  remedy: {remedy}")),
            );
        }
        None => lines.push(format!("{}: nothing stands against it", reply.outcome.as_str())),
    }
    let mut others = reply
        .opinions
        .iter()
        .filter(|opinion| Some(*opinion) != told)
        .peekable();
    if others.peek().is_some() {
        lines.push("other rules:".to_owned());
        lines.extend(others.map(|opinion| format!("  {}", line(opinion))));
    }
    lines.push(format!("policy: {}", sources(loaded)));
    lines.push(match (&reply.definition, &question.wanted) {
        (Some(record), _) => format!(
            "definition: {} as listed at {} UTC",
            record.seen.hash.short(12),
            time::short(record.last_seen)
        ),
        (None, TriedUse::Call { .. }) => "definition: none, the tool was never listed".to_owned(),
        (None, TriedUse::Read { .. }) => "definition: none, the resource was never listed".to_owned(),
    });
    lines
}

/// Describes the sources of a policy.
pub(super) fn sources(loaded: &LoadedConfiguration) -> String {
    let sources: Vec<_> = loaded.sources.iter().map(ToString::to_string).collect();
    sources.join(" + ")
}

/// Returns the answer as a JSON object.
pub(super) fn object(
    question: &Question,
    reply: &UseReply,
    loaded: &LoadedConfiguration,
) -> Map<String, Value> {
    let told = reply.told();
    let (kind, name) = match &question.wanted {
        TriedUse::Call { tool, .. } => ("tool_name", tool),
        TriedUse::Read { uri } => ("uri", uri),
    };
    let definition = reply.definition.as_ref();
    let value = json!({
        "server_id": question.server,
        kind: name,
        "action": reply.outcome.as_str(),
        "rule": told.map(|opinion| &opinion.rule),
        "reason": told.map(|opinion| &opinion.reason),
        "remedy": told.and_then(|opinion| opinion.remedy.as_ref()),
        "opinions": reply.opinions.iter().map(opinion_object).collect::<Vec<_>>(),
        "tool_hash": definition.map(|record| record.seen.hash.to_string()),
        "last_seen": definition.map(|record| form::rfc3339(record.last_seen)),
        "sources": loaded.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "policy_hash": loaded.hash.to_string(),
        "not_asked": NOT_ASKED,
    });
    let Value::Object(object) = value else {
        unreachable!("it was written as an object")
    };
    object
}

fn opinion_object(opinion: &Opinion) -> Value {
    json!({
        "rule": opinion.rule,
        "action": word(opinion),
        "severity": opinion.severity.as_str(),
        "reason": opinion.reason,
        "remedy": opinion.remedy,
        "decides": opinion.decides,
    })
}

/// Returns whether the use is refused.
pub(super) fn is_refused(reply: &UseReply) -> bool {
    match reply.outcome {
        UseOutcome::Blocked => true,
        UseOutcome::Allowed
        | UseOutcome::Audited
        | UseOutcome::Asked
        | UseOutcome::WouldAsk
        | UseOutcome::WouldBlock => false,
    }
}
