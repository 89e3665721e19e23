//! `mcpmon connections`: who connected where, and what was done about it.

use clap::Args;
use mcpmon_model::{Action, Direction, EventKind, Timestamp};
use mcpmon_store::{Filter, Span, StoreReader, StoredEvent};

use crate::cli::{
    CliError, Output,
    filters::{ListingScope, Range, parse_action},
    listing::{self, FOLLOW_INTERVAL, Listing},
    output, summary,
    table::{Column, Row, Table},
    time,
};

/// List connections to MCP servers, from them, and to watched or denied addresses
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    whose: ListingScope,
    #[command(flatten)]
    range: Range,
    /// With this action: allow, audit, would_block, block
    #[arg(long, value_parser = parse_action)]
    action: Option<Action>,
    /// Go on with what comes
    #[arg(long, conflicts_with = "until")]
    follow: bool,
}

pub(super) const LISTING: Listing = Listing {
    table: Table::new(&[
        Column::whole("TIME (UTC)", 14),
        Column::whole("ACTION", 11),
        Column::whole("DIRECTION", 9),
        Column::cut("SERVER", 10),
        Column::cut("PROCESS", 10),
        Column::cut("REMOTE", 30),
        Column::cut("RULE", 8),
    ]),
    row,
};

/// The types of events that it lists.
pub(super) const TYPES: [&str; 3] = ["mcp_network_connection", "mcp_connection_cut", "mcp_proxy_bypass"];

pub(in crate::cli) fn run(
    options: Options,
    reader: StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut filter = Filter {
        types: TYPES.map(str::to_owned).to_vec(),
        action: options.action,
        ..Filter::default()
    };
    options.whose.restrict(&mut filter);
    options.range.restrict(&mut filter, now);
    let limit = options.range.limit;
    let span = Span {
        since: filter.since.unwrap_or(Timestamp(0)),
        until: filter.until.unwrap_or(now),
    };
    if !options.follow && reader.find(&filter, 1)?.is_empty() && reader.unwatched(span)? == [span] {
        output.note(
            "nothing is known: only a daemon sees connections, and none watched; start `mcpmon daemon`",
        )?;
        return Ok(output.flush()?);
    }
    match options.follow {
        true => LISTING.follow(reader, filter, limit, output, || {
            output::wait_for(FOLLOW_INTERVAL)
        }),
        false => LISTING.show(&reader, &filter, limit, output),
    }
}

fn row(event: &StoredEvent) -> Row {
    let (direction, remote) = match event.parse_kind() {
        Some(EventKind::NetworkConnection {
            direction,
            remote_addr,
            remote_name,
            count,
            proxied,
            ..
        }) => {
            let remote = summary::remote(remote_name.as_deref(), remote_addr, count);
            let by = if proxied { " (proxied)" } else { "" };
            (direction_name(direction), format!("{remote}{by}"))
        }
        Some(EventKind::ProxyBypass {
            remote_addr,
            remote_name,
            count,
        }) => (
            "bypass",
            summary::remote(remote_name.as_deref(), remote_addr, count),
        ),
        Some(EventKind::ConnectionCut { .. }) => ("cut", summary::summary(event)),
        // Of a later version.
        Some(_) | None => ("", summary::summary(event)),
    };
    let process = event.process.as_ref().map_or_else(String::new, |process| {
        format!("{} {}", process.pid, process.comm.as_deref().unwrap_or_default())
    });
    Row::new(
        listing::tone(event),
        [
            time::short(event.timestamp),
            event.action.as_str().to_owned(),
            direction.to_owned(),
            event.server_id.clone().unwrap_or_default(),
            process,
            remote,
            event.rule.clone().unwrap_or_default(),
        ],
    )
}

const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::AgentToServer => "to server",
        Direction::ServerEgress => "egress",
        Direction::Watch => "watch",
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::{commands::scene, output::Form};

    #[test]
    fn connections_as_a_table() {
        let mut long = sample::connection(
            "internal-knowledge-base-search",
            4_194_303,
            "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535",
            Direction::ServerEgress,
        );
        long.rule = Some("deny-everything-but-the-proxy".into());
        long.action = Action::WouldBlock;
        let events = vec![
            sample::connection("weather", 4242, "192.0.2.1:443", Direction::AgentToServer),
            sample::at(1, sample::blocked_connection()),
            sample::at(
                2,
                sample::connection("files", 77, "[2001:db8::1]:443", Direction::Watch),
            ),
            sample::at(3, long),
        ];
        let shown = scene::shown(events, Form::Table, |reader, output| {
            LISTING.show(&reader, &Filter::default(), 10, output)
        });
        insta::assert_snapshot!(shown, @"
        TIME (UTC)      ACTION       DIRECTION  SERVER      PROCESS     REMOTE                      RULE
        11-20 12:00:00  allow        to server  weather     4242 node   192.0.2.1:443
        11-20 12:00:01  block        egress     weather     4242 node   203.0.113.9:443 evil.exam…  deny-te…
        11-20 12:00:02  allow        watch      files       77 node     [2001:db8::1]:443
        11-20 12:00:03  would_block  egress     internal-…  4194303 n…  [2001:db8:1234:5678:9abc:…  deny-ev…
        ---
        ");
    }

    #[test]
    fn what_goes_round_a_proxy_is_a_connection_too() {
        let kind = EventKind::ProxyBypass {
            remote_addr: "203.0.113.9:443".parse().expect("an address"),
            remote_name: Some("api.example.com".to_owned()),
            count: 3,
        };
        let mut event = sample::blocked_connection();
        (event.kind, event.rule) = (kind, Some("network.proxy_bypass".to_owned()));
        let shown = scene::shown(vec![event], Form::Table, |reader, output| {
            LISTING.show(&reader, &Filter::default(), 10, output)
        });
        insta::assert_snapshot!(shown, @"
        TIME (UTC)      ACTION  DIRECTION  SERVER   PROCESS    REMOTE                          RULE
        11-20 12:00:00  block   bypass     weather  4242 node  203.0.113.9:443 ×3 api.exampl…  network.prox…
        ---
        ");
    }
}
