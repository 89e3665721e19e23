//! The cost of an unchanged list inside mcpmon, from the bytes read to the bytes forwarded, with a judge and a store.

use std::{fmt::Write as _, time::Instant};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::site::Site;
use mcpmon_config::{LocalConfig, Search, Trust};
use mcpmon_model::{Conversation, Layer, Message, PinKey, ServerId, ServerType, Side, Timestamp};
use mcpmon_protocol::{
    decode::DecodeLimits,
    filter::stdio::{StdioFilter, StdioOutput},
};
use mcpmon_session::{Options, Session};

/// The number of listings.
const TIMES: u32 = 201;
/// The length of the list in bytes.
const LENGTH: usize = 74_000;

/// Returns the microseconds of each listing except the first, for a list of 74 KB.
pub(crate) fn measure(site: &Site) -> Result<Vec<f64>> {
    let identity = PinKey {
        server: ServerId::new("bench")?,
        name: "bench".to_owned(),
        uid: 0,
    };
    let options = Options {
        search: Search::of_process(
            Some(site.file("listing.yaml", "version: 1\n")?),
            LocalConfig::Ignore,
        ),
        trust: Trust::for_user(nix::unistd::geteuid().as_raw()),
        loaded: None,
        socket: None,
        db: Some(site.path("listing.db")),
        conversation: Conversation {
            identity,
            server_type: ServerType::Stdio,
            session: None,
            layer: Layer::Stdio,
        },
        agent: None,
    };
    let mut judge = Session::open(Timestamp(0), options)?;
    let (mut filter, mut out) = (StdioFilter::new(DecodeLimits::default()), StdioOutput::default());
    let tools = tools()?;
    let mut took = Vec::new();
    for number in 0..TIMES {
        let now = Timestamp(i64::from(number));
        let mut say = |side, line: &str| {
            let started = Instant::now();
            filter.push(
                now,
                side,
                line.as_bytes(),
                &mut |message: &Message<'_>| judge.message(now, message),
                &mut out,
            );
            let microseconds = started.elapsed().as_secs_f64() * 1e6;
            let sent = out.to_server.len() + out.to_client.len();
            out.to_server.clear();
            out.to_client.clear();
            ensure!(sent == line.len(), "it goes on as it came");
            Ok(microseconds)
        };
        say(
            Side::Client,
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"tools/list\"}}\n"),
        )?;
        let listed = format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":{{\"tools\":[{tools}]}}}}\n");
        took.push(say(Side::Server, &listed)?);
    }
    let recorded = judge.close(Timestamp(i64::from(TIMES)));
    ensure!(recorded.lost == 0, "nothing is lost: {recorded:?}");
    took.get(1..).map(<[f64]>::to_vec).context("several lists")
}

/// Returns tools in the form that servers list.
fn tools() -> Result<String> {
    let mut tools = String::new();
    for number in 0.. {
        if tools.len() >= LENGTH {
            break;
        }
        let comma = if tools.is_empty() { "" } else { "," };
        write!(
            tools,
            r#"{comma}{{"name":"list_orders_{number}","title":"Orders {number}","description":"Lists the orders of a customer, the latest ones first. Give the customer's number as it stands on the invoice; the month is optional. Returns at most a hundred orders with their date, their state and what they come to.","inputSchema":{{"type":"object","properties":{{"customer":{{"type":"string","description":"Number of the customer, as it stands on the invoice"}},"month":{{"type":"string","description":"Month of the orders, as 2026-11; all months where it is left out"}},"limit":{{"type":"integer","minimum":1,"maximum":100,"default":20,"description":"How many orders are returned at most"}}}},"required":["customer"],"additionalProperties":false}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#
        )?;
    }
    Ok(tools)
}
