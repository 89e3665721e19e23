//! The model as a program: prints where it listens, then answers until it is stopped.

#![expect(clippy::disallowed_methods, reason = "tests of the system")]

use std::{fs, net::SocketAddr, path::PathBuf, thread};

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpmon_fake_llm::{FakeLlm, Script};

/// A model that says what a script tells it to
#[derive(Debug, Parser)]
struct Arguments {
    /// The script: a JSON file
    #[arg(long)]
    script: PathBuf,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[expect(clippy::print_stdout, reason = "whoever started it waits for the address")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let text = fs::read_to_string(&arguments.script)
        .with_context(|| format!("could not read {}", arguments.script.display()))?;
    let script: Script = serde_json::from_str(&text)
        .with_context(|| format!("{} is no script", arguments.script.display()))?;
    let model = FakeLlm::start(arguments.listen, script)?;
    println!("http://{}", model.address());
    loop {
        thread::park();
    }
}
