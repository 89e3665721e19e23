//! `mcpmon connections`: connections with their processes, their destinations and the verdicts.

use std::collections::BTreeMap;

use clap::Args;
use mcpmon_model::{Action, ContainerRef, Direction, EventKind, Timestamp};
use mcpmon_store::{Filter, Span, StoreReader, StoredEvent};
use serde_json::{Map, Value};

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
    /// Only connections with this action: allow, audit, would_block, block
    #[arg(long, value_parser = parse_action)]
    action: Option<Action>,
    /// Keep running, and print new events as they are recorded
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

/// The listing with the end of each connection.
const WITH_ENDS: Listing = Listing {
    table: Table::new(&[
        Column::whole("TIME (UTC)", 14),
        Column::whole("ACTION", 11),
        Column::whole("DIRECTION", 9),
        Column::cut("SERVER", 10),
        Column::cut("PROCESS", 10),
        Column::cut("REMOTE", 30),
        Column::whole("LASTED", 6),
        Column::whole("BYTES", 5),
        Column::cut("RULE", 8),
    ]),
    row: row_with_end,
};

/// The field of a connection that holds its end; the end has no row of its own then.
const CLOSED: &str = "closed";
/// The type of the event about an end.
const CLOSED_TYPE: &str = "mcp_connection_closed";
/// Most ends that are read.
const MAX_ENDS: u32 = 1 << 20;

/// The types of the listed events.
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
    if options.follow {
        // A printed row cannot be completed later, so each end gets a row of its own.
        filter.types.push(CLOSED_TYPE.to_owned());
    }
    let limit = options.range.limit;
    let span = Span {
        since: filter.since.unwrap_or(Timestamp(0)),
        until: filter.until.unwrap_or(now),
    };
    if !options.follow && reader.find(&filter, 1)?.is_empty() && reader.unwatched(span)? == [span] {
        output.note(
            "no connections were recorded: only the daemon sees them, and it was not running in this time; start `mcpmon daemon`",
        )?;
        return Ok(output.flush()?);
    }
    match options.follow {
        true => WITH_ENDS.follow(reader, filter, limit, output, || {
            output::wait_for(FOLLOW_INTERVAL)
        }),
        false => {
            let told = Filter {
                types: vec![CLOSED_TYPE.to_owned()],
                since: filter.since,
                ..Filter::default()
            };
            // Two empty columns would only make the others narrower.
            let listing = match reader.find(&told, 1)?.is_empty() {
                true => LISTING,
                false => WITH_ENDS,
            };
            let mut ends = ConnectionEnds::of(&reader);
            listing.show_completed(&reader, &filter, limit, output, |event| ends.complete(event))
        }
    }
}

/// Ends of connections by the socket's number, oldest first.
type EndsBySocket = BTreeMap<u64, Vec<ConnectionEnd>>;

/// The end of a connection.
struct ConnectionEnd {
    at: Timestamp,
    /// The fields in JSON.
    fields: Map<String, Value>,
}

/// The ends of connections since the first one that is shown.
struct ConnectionEnds<'r> {
    reader: &'r StoreReader,
    known: Option<EndsBySocket>,
}

impl<'r> ConnectionEnds<'r> {
    const fn of(reader: &'r StoreReader) -> Self {
        Self { reader, known: None }
    }

    /// Adds the end of a connection to its event, if it is recorded.
    fn complete(&mut self, event: &mut StoredEvent) -> Result<(), CliError> {
        let Some(socket) = event.data.get("socket").and_then(Value::as_u64) else {
            return Ok(());
        };
        let known = match &mut self.known {
            Some(known) => known,
            None => self.known.insert(load(self.reader, event.timestamp)?),
        };
        let ends = known.get(&socket).map_or(&[][..], Vec::as_slice);
        // A socket can connect several times, and the numbers start again at each boot: the first end after the event
        // is taken.
        if let Some(end) = ends.iter().find(|end| end.at >= event.timestamp) {
            event
                .data
                .insert(CLOSED.to_owned(), Value::Object(end.fields.clone()));
        }
        Ok(())
    }
}

fn load(reader: &StoreReader, since: Timestamp) -> Result<EndsBySocket, CliError> {
    const KEPT: [&str; 4] = ["established", "duration_ms", "bytes_sent", "bytes_received"];
    let filter = Filter {
        types: vec![CLOSED_TYPE.to_owned()],
        since: Some(since),
        ..Filter::default()
    };
    let mut ends = EndsBySocket::new();
    let mut found = reader.find(&filter, MAX_ENDS)?;
    found.sort_by_time();
    reader.each(&found, |event| {
        if let Some(socket) = event.data.get("socket").and_then(Value::as_u64) {
            let kept = KEPT.iter().filter_map(|name| {
                let value = event.data.get(*name)?;
                Some(((*name).to_owned(), value.clone()))
            });
            ends.entry(socket).or_default().push(ConnectionEnd {
                at: event.timestamp,
                fields: kept.collect(),
            });
        }
        Ok::<_, CliError>(())
    })?;
    Ok(ends)
}

/// Returns the time for which a connection was open, and the bytes sent and received; empty if they are not known.
fn end(event: &StoredEvent) -> (String, String) {
    let Some(closed) = event.data.get(CLOSED) else {
        return <(String, String)>::default();
    };
    let number = |name: &str| closed.get(name).and_then(Value::as_u64);
    let lasted = match closed.get("established").and_then(Value::as_bool) {
        Some(false) => "unanswered".to_owned(),
        _ => time::span(number("duration_ms").unwrap_or_default()),
    };
    let bytes = match (number("bytes_sent"), number("bytes_received")) {
        (Some(sent), Some(received)) => format!("{sent}/{received}"),
        _ => String::new(),
    };
    (lasted, bytes)
}

fn row(event: &StoredEvent) -> Row {
    Row::new(listing::tone(event), cells(event))
}

fn row_with_end(event: &StoredEvent) -> Row {
    let [time, action, direction, server, process, remote, rule] = cells(event);
    let (lasted, bytes) = end(event);
    Row::new(
        listing::tone(event),
        [
            time, action, direction, server, process, remote, lasted, bytes, rule,
        ],
    )
}

fn cells(event: &StoredEvent) -> [String; 7] {
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
        Some(EventKind::ConnectionClosed { .. }) => ("closed", summary::summary(event)),
        // The event is of a later version.
        Some(_) | None => ("", summary::summary(event)),
    };
    let mut process = event.process.as_ref().map_or_else(String::new, |process| {
        format!("{} {}", process.pid, process.comm.as_deref().unwrap_or_default())
    });
    if let Some(ContainerRef {
        namespace: Some(namespace),
        pod: Some(pod),
        ..
    }) = &event.container
    {
        process.push_str(&format!(" in {namespace}/{pod}"));
    }
    [
        time::short(event.timestamp),
        event.action.as_str().to_owned(),
        direction.to_owned(),
        event.server_id.clone().unwrap_or_default(),
        process,
        remote,
        event.rule.clone().unwrap_or_default(),
    ]
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
    use mcpmon_model::IpProtocol;
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
    fn the_end_of_a_connection_stands_in_its_row() {
        let connection = |socket: u64| {
            let mut event = sample::connection("weather", 4242, "192.0.2.1:443", Direction::ServerEgress);
            if let EventKind::NetworkConnection { socket: own, .. } = &mut event.kind {
                *own = Some(socket);
            }
            event
        };
        let closed = |socket, established, bytes: Option<u64>| {
            let mut event = connection(socket);
            event.kind = EventKind::ConnectionClosed {
                remote_addr: "192.0.2.1:443".parse().expect("an address"),
                remote_name: None,
                protocol: IpProtocol::Tcp,
                socket: Some(socket),
                established,
                duration_ms: 1500,
                bytes_sent: bytes,
                bytes_received: bytes.map(|bytes| 2 * bytes),
                count: 1,
            };
            event
        };
        let events = vec![
            sample::at(0, closed(7, true, Some(1))),
            sample::at(1, connection(7)),
            sample::at(2, closed(7, true, Some(517))),
            sample::at(3, connection(8)),
            sample::at(4, closed(8, false, Some(0))),
            sample::at(5, connection(9)),
            sample::at(6, closed(9, true, None)),
            sample::at(7, connection(10)),
        ];
        let filter = Filter {
            types: TYPES.map(str::to_owned).to_vec(),
            ..Filter::default()
        };
        let show = |form| {
            scene::shown(events.clone(), form, |reader, output| {
                let mut ends = ConnectionEnds::of(&reader);
                WITH_ENDS.show_completed(&reader, &filter, 10, output, |event| ends.complete(event))
            })
        };
        insta::assert_snapshot!(show(Form::Table), @"
        TIME (UTC)      ACTION  DIRECTION  SERVER   PROCESS    REMOTE         LASTED      BYTES     RULE
        11-20 12:00:01  allow   egress     weather  4242 node  192.0.2.1:443  1.5s        517/1034
        11-20 12:00:03  allow   egress     weather  4242 node  192.0.2.1:443  unanswered  0/0
        11-20 12:00:05  allow   egress     weather  4242 node  192.0.2.1:443  1.5s
        11-20 12:00:07  allow   egress     weather  4242 node  192.0.2.1:443
        ---
        ");
        let json = show(Form::Json);
        let whole =
            r#""closed":{"established":true,"duration_ms":1500,"bytes_sent":517,"bytes_received":1034}"#;
        assert_eq!(json.matches(whole).count(), 1, "{json}");
        assert_eq!(json.matches(r#""closed":"#).count(), 3, "{json}");
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
