//! Recall and false positives of the engines, on folders of labelled items; `cargo xtask eval` runs it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command: folders are read, the result goes to stdout, the rest to stderr"
)]

mod breakdown;
mod categories;
mod corpus;
mod disclosures;
mod engines;
mod report;
mod sequences;
mod signals;
mod speed;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::bail;
use clap::Parser as _;

use self::{corpus::Part, engines::Engines, report::Report};

/// Recall and false positives of mcpmon's detection, on folders of labelled items
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask eval", disable_version_flag = true)]
struct Options {
    /// Folder with the items, one JSON object a line in files named `*.jsonl`, in it or in folders below; may be given
    /// several times
    #[arg(long, value_name = "DIR", required = true)]
    corpus: Vec<PathBuf>,
    /// Measure one half only, by server and source: rules are tuned on one, and the other is looked at once
    #[arg(long)]
    part: Option<Part>,
    /// For each pattern and rule, the attacks that it finds and the harmless texts that it hits
    #[arg(long)]
    signals: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Print the text of misjudged items, not only their ids (corpora contain hostile text and secrets)
    #[arg(long, conflicts_with = "json")]
    show: bool,
}

/// Measures the corpus, prints the result, and fails if a line of it could not be read.
fn main() -> anyhow::Result<()> {
    let args = Options::parse();
    let mut corpus = corpus::read(&args.corpus)?;
    if let Some(part) = args.part {
        corpus.keep(part);
    }
    let engines = Engines::new()?;
    let mut report = Report::of(&corpus, &engines);
    report.summary.take(&corpus);
    report.summary.speed = Some(speed::measure(&corpus, &engines));
    if !args.signals {
        report.signals = None;
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        let misses = if args.show {
            table::Misses::WithText
        } else {
            table::Misses::Ids
        };
        print!("{}", table::of(&report, misses));
    }
    if cfg!(debug_assertions) {
        eprintln!(
            "speed was measured in a debug build: `cargo xtask eval --release` measures what users get"
        );
    }
    for (kind, count) in &report.skipped {
        eprintln!(
            "skipped {count} items of kind {kind}: no engine in this version, nothing about it was measured"
        );
    }
    for line in &report.bad_lines {
        eprintln!("error: {line}");
    }
    match report.bad_lines.len() {
        0 => Ok(()),
        count => bail!("{count} lines could not be read; the figures are without them"),
    }
}
