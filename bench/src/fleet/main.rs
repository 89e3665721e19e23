//! A fleet on one machine: many agents record and export to one collector, as their daemons do, each with a separate
//! store, queue and exporter. The kernels and servers of those hosts are not simulated, only the events that they would
//! record.

#![expect(
    clippy::disallowed_methods,
    reason = "starts programs, and looks at the clock"
)]

mod agents;
mod memory;
mod report;

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpmon_bench::{report::Output, site::Site};
use mcpmon_e2e::collector::Collector;
use serde_json::Value;

use self::{
    agents::Agents,
    memory::PeakMemory,
    report::{Report, Taken},
};

/// Events of many hosts into one collector: throughput, loss and memory.
#[derive(Debug, Parser)]
#[command(name = "bench-fleet", disable_version_flag = true)]
struct Options {
    /// Hosts, each with a store and an exporter of its own
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    hosts: u32,
    /// Seconds for which they record
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Events that each host records in a second
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    #[command(flatten)]
    output: Output,
}

/// The time without a new row after which missing rows count as lost: longer than an exporter's longest pause.
const TIMEOUT: Duration = Duration::from_secs(90);

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let site = Site::new()?;
    let collector = Collector::start_quiet()?;
    let mut memory = PeakMemory::of(collector.pids());
    let mut agents = Agents::start(&site, options.hosts, &collector.endpoint())?;

    let started = Instant::now();
    for second in 1..=options.seconds {
        agents.record(options.rate)?;
        memory.look()?;
        let next = started + Duration::from_secs(u64::from(second));
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let recorded_for = started.elapsed();
    let arrived = wait_for(&collector, agents.recorded, &mut memory)?;
    let hosts = number(&collector, "uniqExact(ResourceAttributes['host.name'])")?;
    let recorded = agents.recorded;
    let ended = agents.end()?;
    let taken = Taken {
        hosts: options.hosts,
        hosts_seen: hosts,
        recorded,
        lost: ended.lost,
        arrived,
        seconds: recorded_for.as_secs_f64(),
        seconds_behind: started.elapsed().saturating_sub(recorded_for).as_secs_f64(),
        collector_mib: memory.collector,
        engine_mib: memory.engine,
        agents_mib: memory.own,
        store_bytes: ended.store_bytes,
        table_bytes: table_bytes(&collector)?,
    };
    options.output.finish(&Report::new(taken))
}

/// Waits until this many rows have arrived, or no more come, and returns the number of rows.
fn wait_for(collector: &Collector, recorded: u64, memory: &mut PeakMemory) -> Result<u64> {
    let (mut rows, mut progress) = (0, Instant::now());
    loop {
        let now = number(collector, "count()")?;
        memory.look()?;
        if now > rows {
            (rows, progress) = (now, Instant::now());
        }
        if rows >= recorded || progress.elapsed() > TIMEOUT {
            return Ok(rows);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the value of an expression over the events of calls, starts and connections in the table.
fn number(collector: &Collector, expression: &str) -> Result<u64> {
    let query = format!(
        "SELECT {expression} AS value FROM otel.otel_logs WHERE LogAttributes['event.name'] != 'mcp_events_lost'"
    );
    value(&collector.rows(&query)?)
}

/// Returns the size of the table on disk, in bytes.
fn table_bytes(collector: &Collector) -> Result<u64> {
    collector.rows("OPTIMIZE TABLE otel.otel_logs FINAL")?;
    let query = "SELECT sum(bytes_on_disk) AS value FROM system.parts WHERE table = 'otel_logs' AND active";
    value(&collector.rows(query)?)
}

fn value(rows: &[Value]) -> Result<u64> {
    let value = rows.first().map(|row| &row["value"]).context("no row")?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.with_context(|| format!("not a number: {value}"))
}
