//! Answers to the client of a server that is not served, so that the client can show its user the reason.

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    iter,
    process::ExitCode,
};

use mcpmon_model::{Denial, Message, Side, Verdict};
use mcpmon_policy::Limits;
use mcpmon_protocol::{
    decode::DecodeLimits,
    filter::stdio::{StdioFilter, StdioOutput},
};
use mcpmon_stdio::{ClientSide, RelayProcess};

use super::{WrapError, clock, limits};

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// A server that is not served, and its client.
pub(super) struct Refusal {
    error: WrapError,
    /// The server's name.
    server: String,
    client: RefusedClient,
    filter: StdioFilter,
}

/// The client of a server that is not served.
enum RefusedClient {
    /// At this process's standard input and output, and this process was not divided.
    Undivided,
    /// At this process's standard input and output.
    Process(Box<RelayProcess>),
    /// The rest of a conversation.
    Side(Box<ClientSide>),
    /// It cannot be reached.
    Unreachable,
}

impl Refusal {
    /// A refusal in a process that was not divided.
    pub(super) fn new(error: WrapError, server: String) -> Box<Self> {
        Box::new(Self {
            error,
            server,
            client: RefusedClient::Undivided,
            filter: StdioFilter::new(limits(Limits::default())),
        })
    }

    /// Sets the limits of decoding.
    pub(super) fn limited(mut self: Box<Self>, limits: DecodeLimits) -> Box<Self> {
        self.filter = StdioFilter::new(limits);
        self
    }

    pub(super) fn of_process(mut self: Box<Self>, process: Box<RelayProcess>) -> Box<Self> {
        self.client = RefusedClient::Process(process);
        self
    }

    /// Sets the client; `filter` has the requests that wait for an answer.
    pub(super) fn of_client(mut self: Box<Self>, client: Box<ClientSide>, filter: StdioFilter) -> Box<Self> {
        (self.client, self.filter) = (RefusedClient::Side(client), filter);
        self
    }

    pub(super) fn without_client(mut self: Box<Self>) -> Box<Self> {
        self.client = RefusedClient::Unreachable;
        self
    }

    /// Reports the reason, and answers each request of the client with it until the client leaves. Returns the exit
    /// status.
    pub(super) fn answer(self: Box<Self>, report: fn(WrapError) -> ExitCode) -> ExitCode {
        let Self {
            error,
            server,
            client,
            filter,
        } = *self;
        let denial = denial(&error, &server);
        let code = report(error);
        // A person at a terminal has read the report.
        if io::stdin().is_terminal() {
            return code;
        }
        let answered = match client {
            RefusedClient::Unreachable => Ok(()),
            RefusedClient::Undivided => answer_alone(filter, &denial),
            RefusedClient::Side(client) => {
                let answered = client.turn_away(filter, clock::now, &denial);
                answered.map_err(io::Error::other)
            }
            RefusedClient::Process(process) => match ClientSide::of_process(process) {
                Ok(client) => {
                    let answered = client.turn_away(filter, clock::now, &denial);
                    answered.map_err(io::Error::other)
                }
                Err(_) => answer_alone(filter, &denial),
            },
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "stopped answering the client of a refused server");
        }
        code
    }
}

/// Returns the denial of each request.
fn denial(error: &WrapError, server: &str) -> Denial {
    match error {
        WrapError::Denied { denial, .. } => Denial {
            reason: format!("the MCP server {server} may not run: {}", denial.reason),
            ..denial.clone()
        },
        WrapError::Unjudged { denial, .. } => Denial {
            reason: error.to_string(),
            ..denial.clone()
        },
        WrapError::Destination(_)
        | WrapError::Judge(_)
        | WrapError::Program(_)
        | WrapError::Start(_)
        | WrapError::Relay(_)
        | WrapError::Setup(_)
        | WrapError::Execute { .. } => Denial {
            rule: Denial::FAULT.to_owned(),
            reason: format!("the MCP server {server} could not be started: {}", chain(error)),
            remedy: None,
            event: None,
        },
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Answers without another process, thread or descriptor, because there may be none.
fn answer_alone(mut filter: StdioFilter, denial: &Denial) -> io::Result<()> {
    let mut out = StdioOutput::default();
    let mut buffer = vec![0; READ_BYTES];
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut refuse = |_: &Message<'_>| Verdict::Block(denial.clone());
        filter.push(
            clock::now(),
            Side::Client,
            &buffer[..count],
            &mut refuse,
            &mut out,
        );
        output.write_all(&out.to_client)?;
        output.flush()?;
        out.to_client.clear();
        out.to_server.clear();
        out.noise.clear();
        out.incidents.clear();
    }
}
