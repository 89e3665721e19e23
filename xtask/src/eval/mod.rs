//! `cargo xtask eval`: recall and false positives of the engines, on a folder of labelled items.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command: the result on stdout, the rest on stderr"
)]

mod categories;
mod corpus;
mod disclosures;
mod engines;
mod report;
mod sequences;
mod speed;
mod summary;
mod table;

use std::path::PathBuf;

use anyhow::bail;

use self::{engines::Engines, report::Report};

/// Arguments of `cargo xtask eval`.
#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    /// Folder with the items, one JSON object a line in files named `*.jsonl`
    #[arg(long, value_name = "DIR")]
    corpus: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Print the text of misjudged items, not only their ids (corpora contain hostile text and secrets)
    #[arg(long, conflicts_with = "json")]
    show: bool,
}

/// Measures the corpus, prints the result, and fails if a line of it could not be read.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let corpus = corpus::read(&args.corpus)?;
    let engines = Engines::new()?;
    let mut report = Report::of(&corpus, &engines);
    report.summary.take(&corpus);
    report.summary.speed = Some(speed::measure(&corpus, &engines));
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
            "speed was measured in a debug build: `cargo run --release -p xtask -- eval` measures what users get"
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
        count => bail!(
            "{count} lines of {} could not be read; the figures are without them",
            args.corpus.display()
        ),
    }
}
