//! `mcpmon events`: all recorded events.

use clap::{Args, builder::PossibleValuesParser};
use mcpmon_model::{Action, EventType, Severity, Timestamp};
use mcpmon_store::{Filter, StoreReader, StoredEvent};
use uuid::Uuid;

use crate::cli::{
    CliError, Output,
    filters::{ListingScope, Range, parse_action, parse_severity},
    listing::{self, FOLLOW_INTERVAL, Listing},
    output, session,
    summary::summary_without_server,
    table::{Column, Row, Table},
    time,
};

/// List what was recorded: launches, connections, mismatches, policy changes, losses
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The one with this id, which a refusal names
    #[arg(long, value_name = "ID", conflicts_with_all = ["server", "pid", "container", "since", "until", "session", "tool", "types", "action", "severity", "follow"])]
    id: Option<Uuid>,
    #[command(flatten)]
    whose: ListingScope,
    #[command(flatten)]
    range: Range,
    /// Of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// About this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Of this type, such as mcp_server_started; may be given more than once
    #[arg(long = "type", value_name = "TYPE", value_parser = PossibleValuesParser::new(EventType::ALL.iter().map(|kind| kind.as_str())), hide_possible_values = true)]
    types: Vec<String>,
    /// Only events with this action: allow, audit, would_ask, would_block, block
    #[arg(long, value_parser = parse_action)]
    action: Option<Action>,
    /// At least this bad: info, low, medium, high, critical
    #[arg(long, value_parser = parse_severity)]
    severity: Option<Severity>,
    /// Keep running, and print new events as they are recorded
    #[arg(long, conflicts_with = "until")]
    follow: bool,
}

const LISTING: Listing = Listing {
    table: Table::new(&[
        Column::whole("TIME (UTC)", 14),
        Column::whole("SEVERITY", 8),
        Column::whole("ACTION", 11),
        Column::whole("TYPE", 26),
        Column::cut("SERVER", 14),
        Column::cut("WHAT", 20),
    ]),
    row,
};

pub(in crate::cli) fn run(
    options: Options,
    reader: StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    if let Some(id) = options.id {
        return LISTING.show_one(listing::named(&reader, id)?, output);
    }
    let mut filter = Filter {
        types: options.types,
        sessions: session::ids(&reader, options.session.as_deref())?,
        tool: options.tool,
        action: options.action,
        severity: options.severity,
        ..Filter::default()
    };
    options.whose.restrict(&mut filter);
    options.range.restrict(&mut filter, now);
    let limit = options.range.limit;
    match options.follow {
        true => LISTING.follow(reader, filter, limit, output, || {
            output::wait_for(FOLLOW_INTERVAL)
        }),
        false => LISTING.show(&reader, &filter, limit, output),
    }
}

fn row(event: &StoredEvent) -> Row {
    Row::new(
        listing::tone(event),
        [
            time::short(event.timestamp),
            event.severity.as_str().to_owned(),
            event.action.as_str().to_owned(),
            event.kind.clone(),
            event.server_id.clone().unwrap_or_default(),
            summary_without_server(event),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use mcpmon_store::sample;

    use super::*;
    use crate::cli::{commands::scene, output::Form};

    fn shown(events: Vec<mcpmon_model::Event>, form: Form, limit: u32) -> String {
        scene::shown(events, form, |reader, output| {
            LISTING.show(&reader, &Filter::default(), limit, output)
        })
    }

    #[test]
    fn every_kind_as_a_table() {
        insta::assert_snapshot!(shown(sample::every_kind(), Form::Table, 100), @"
        TIME (UTC)      SEVERITY  ACTION  TYPE                        SERVER   WHAT
        11-20 12:00:00  info      allow   mcp_server_started          files    npx -y @modelcontextprotocol…
        11-20 12:00:00  low       audit   mcp_server_orphaned         files    orphaned by claude 15s ago
        11-20 12:00:00  info      allow   mcp_server_sandboxed        files    strict
        11-20 12:00:00  info      allow   mcp_server_exited           files    exit 0 after 1.5s
        11-20 12:00:00  high      audit   mcp_server_binary_mismatch  files    package /home/me/.npm/_npx/1…
        11-20 12:00:00  high      block   mcp_server_denied           files    binary_mismatch
        11-20 12:00:00  high      block   mcp_network_connection      weather  203.0.113.9:443 evil.example…
        11-20 12:00:00  info      allow   mcp_tool_call_intercepted   files    read_file
        11-20 12:00:00  info      allow   mcp_tool_called             files    read_file
        11-20 12:00:00  info      allow   mcp_tool_returned           files    read_file failed after 12ms
        11-20 12:00:00  info      block   mcp_tool_seen               files    read_file new
        11-20 12:00:00  critical  block   mcp_detection               files    read_file: credential_file i…
        11-20 12:00:00  critical  block   mcp_output_inspection       files    read_file: credential_file
        11-20 12:00:00  info      allow   mcp_approval                files    read_file granted by user 10…
        11-20 12:00:00  info      allow   mcp_connection_closed       files    203.0.113.9:443 api.example:…
        11-20 12:00:00  info      allow   mcp_connection_cut          files    203.0.113.9:443, 517 bytes s…
        11-20 12:00:00  info      allow   mcp_server_unwrapped        files    npx files (started by bash)
        11-20 12:00:00  info      allow   mcp_server_name_similarity  files    resembles filesystem (edit)
        11-20 12:00:00  info      allow   mcp_tool_changed            files    read_file: description
        11-20 12:00:00  info      allow   mcp_resource_read           files    file:///home/me/a.txt
        11-20 12:00:00  info      allow   mcp_request_judged          files    sampling/createMessage: 117 …
        11-20 12:00:00  info      allow   mcp_cross_server_blocked    files    send after files:read_file
        11-20 12:00:00  info      allow   mcp_kill                             host set by user 1000
        11-20 12:00:00  info      allow   policy_loaded                        /etc/mcpmon/mcpmon.yaml 8234…
        11-20 12:00:00  info      allow   policy_rejected                      /etc/mcpmon/mcpmon.yaml: unk…
        11-20 12:00:00  info      allow   mcp_enforcement_degraded             connect4: detached
        11-20 12:00:00  info      allow   mcp_enforcement_restored             connect4: attached again
        11-20 12:00:00  info      allow   mcp_daemon_gap                       no daemon for 1.5s: 2 refuse…
        11-20 12:00:00  info      allow   mcp_events_lost                      3 lost in the ring
        11-20 12:00:00  info      allow   mcp_dlp_redaction                    2 github_token replaced
        11-20 12:00:00  info      allow   mcp_proxy_bypass                     203.0.113.9:443 api.anthropi…
        11-20 12:00:00  info      allow   mcp_discovery_failed                 https://mcp.example/mcp: con…
        11-20 12:00:00  info      allow   mcp_tls_mismatch                     https://mcp.example/mcp: baa…
        ---
        ");
    }

    #[test]
    fn the_server_and_the_tool_are_named_once_in_a_row() {
        let mut event = sample::intercepted("send", 2, Action::Block);
        event.reason = Some("tool send of files was never listed; see `mcpmon registry list`".to_owned());
        let mut other = sample::intercepted("send", 3, Action::Block);
        other.reason = Some("tool sender of others was never listed".to_owned());
        insta::assert_snapshot!(shown(vec![event, other], Form::Table, 100), @"
        TIME (UTC)      SEVERITY  ACTION  TYPE                       SERVER  WHAT
        11-20 12:00:00  high      block   mcp_tool_call_intercepted  files   send: it was never listed; see…
        11-20 12:00:00  high      block   mcp_tool_call_intercepted  files   send: tool sender of others wa…
        ---
        ");
    }

    #[test]
    fn an_event_as_json() {
        insta::assert_snapshot!(shown(vec![sample::blocked_connection()], Form::Json, 100), @r#"
        {"id":"00000000-0000-0000-0000-000000000001","type":"mcp_network_connection","timestamp":"2026-11-20T12:00:00.000000000Z","host":"laptop","session_id":"s1","server_id":"weather","layer":"kernel","severity":"high","action":"block","rule":"deny-test-net","reason":"203.0.113.0/24 is denied","pid":4242,"exe":"/usr/bin/node","comm":"node","uid":1000,"remote_addr":"203.0.113.9:443","remote_name":"evil.example","direction":"server_egress","protocol":"tcp","server_type":"stdio","given_addr":"[::ffff:203.0.113.9]:443"}
        ---
        "#);
    }

    #[test]
    fn hostile_names_are_shown_escaped_in_both_forms() {
        let hostile = || {
            let mut event = sample::started("files", 10);
            if let mcpmon_model::EventKind::ServerStarted { command, args, .. } = &mut event.kind {
                *command = "\u{1b}[2Jnpx".to_owned();
                *args = vec![
                    "a\n2026-11-20 12:00:00  forged".to_owned(),
                    "\u{202e}gpj".to_owned(),
                ];
            }
            vec![event]
        };
        insta::assert_snapshot!(shown(hostile(), Form::Table, 100), @r"
        TIME (UTC)      SEVERITY  ACTION  TYPE                SERVER  WHAT
        11-20 12:00:00  info      allow   mcp_server_started  files   \u{1b}[2Jnpx 'a\n2026-11-20 12:00:00 …
        ---
        ");
        let json = shown(hostile(), Form::Json, 100);
        assert!(json.contains(r#""command":"\u001b[2Jnpx""#), "{json}");
        assert!(json.contains(r#""\u202egpj""#), "{json}");
        assert_eq!(json.lines().count(), 2, "{json}");
    }

    #[test]
    fn a_listing_says_when_it_is_not_all_and_when_it_is_empty() {
        let events = || vec![sample::started("a", 2), sample::started("b", 3)];
        insta::assert_snapshot!(shown(events(), Form::Table, 1), @"
        TIME (UTC)      SEVERITY  ACTION  TYPE                SERVER  WHAT
        11-20 12:00:00  info      allow   mcp_server_started  b       npx -y @modelcontextprotocol/server-f…
        ---
        only the newest 1 are shown: --limit N shows more
        ");
        insta::assert_snapshot!(shown(vec![], Form::Table, 1), @"
        TIME (UTC)  SEVERITY  ACTION  TYPE  SERVER  WHAT
        ---
        nothing matches
        ");
    }

    #[test]
    fn a_listing_follows_until_its_reader_goes_away() {
        let (directory, mut store) = sample::store();
        sample::fill(&mut store, [sample::started("files", 10)]);
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        let mut coming = vec![sample::blocked_connection(), sample::exited("files", 10, 0)];
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::plain(&mut data, &mut notes, Form::Table);
        let error = LISTING
            .follow(reader, Filter::default(), 10, &mut output, || {
                match coming.pop() {
                    Some(event) => {
                        sample::fill(&mut store, [event]);
                        Ok(())
                    }
                    None => Err(io::ErrorKind::BrokenPipe.into()),
                }
            })
            .unwrap_err();
        assert_eq!(error.kind, crate::cli::ErrorKind::BrokenPipe);
        insta::assert_snapshot!(String::from_utf8(data).unwrap(), @"
        TIME (UTC)      SEVERITY  ACTION       TYPE                        SERVER          WHAT
        11-20 12:00:00  info      allow        mcp_server_started          files           npx -y @modelcon…
        11-20 12:00:00  info      allow        mcp_server_exited           files           exit 0 after 1.5s
        11-20 12:00:00  high      block        mcp_network_connection      weather         203.0.113.9:443 …
        ");
    }
}
