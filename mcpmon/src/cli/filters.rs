//! Options that several listings share.

use clap::Args;
use mcpmon_model::{Action, Severity, Timestamp};
use mcpmon_store::{Filter, StoreReader, parse_name};

use super::{CliError, session, time::Moment};

/// The range of time, and the number of entries.
#[derive(Debug, Args)]
pub(super) struct Range {
    /// From this time on: 45s, 30m, 1h, 2d ago, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Show at most this many, the newest
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) limit: u32,
}

/// The subjects of the listing.
#[derive(Debug, Args)]
pub(super) struct ListingScope {
    /// Only of this server, by its id or its package (npm:NAME)
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Only of this process
    #[arg(long)]
    pid: Option<u32>,
    /// Only of the container whose id starts with this
    #[arg(long, value_name = "ID")]
    container: Option<String>,
}

/// The judged calls of the listing.
#[derive(Debug, Args)]
pub(super) struct CallScope {
    /// Of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Only of this server, by its id or its package (npm:NAME)
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only with this action: allow, audit, would_ask, would_block, block
    #[arg(long, value_parser = parse_action)]
    action: Option<Action>,
    /// At least this bad: info, low, medium, high, critical
    #[arg(long, value_parser = parse_severity)]
    severity: Option<Severity>,
}

impl CallScope {
    /// Returns a filter for these calls.
    pub(super) fn filter(self, reader: &StoreReader) -> Result<Filter, CliError> {
        Ok(Filter {
            sessions: session::ids(reader, self.session.as_deref())?,
            server: self.server,
            tool: self.tool,
            action: self.action,
            severity: self.severity,
            ..Filter::default()
        })
    }
}

impl Range {
    pub(super) fn restrict(&self, filter: &mut Filter, now: Timestamp) {
        filter.since = self.since.map(|moment| moment.resolve(now));
        filter.until = self.until.map(|moment| moment.resolve(now));
    }
}

impl ListingScope {
    pub(super) fn restrict(self, filter: &mut Filter) {
        filter.server = self.server;
        filter.pid = self.pid;
        filter.container = self.container;
    }
}

pub(super) fn parse_action(name: &str) -> Result<Action, serde::de::value::Error> {
    parse_name(name)
}

pub(super) fn parse_severity(name: &str) -> Result<Severity, serde::de::value::Error> {
    parse_name(name)
}
