//! The server as a program: prints where it listens, then answers until it is stopped.

use std::{net::SocketAddr, thread};

use anyhow::Result;
use clap::Parser;
use mcpmon_conformant_server::{Answers, ConformantServer, serve_stdio};

/// An MCP server that has everything the conformance suite asks for
#[derive(Debug, Parser)]
struct Arguments {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:0", conflicts_with = "stdio")]
    listen: SocketAddr,
    /// Answer with JSON where one message is all there is, and keep no sessions
    #[arg(long, conflicts_with = "stdio")]
    json: bool,
    /// Serve over standard input and output
    #[arg(long)]
    stdio: bool,
}

#[expect(clippy::print_stdout, reason = "whoever started it waits for the address")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.stdio {
        return serve_stdio();
    }
    let answers = if arguments.json {
        Answers::Json
    } else {
        Answers::Events
    };
    let server = ConformantServer::start(arguments.listen, answers)?;
    println!("{}", server.url());
    loop {
        thread::park();
    }
}
