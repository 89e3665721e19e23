//! The filter through its front door: lines in, lines and incidents out.

mod again;
mod changes;
mod differentials;
mod lists;
mod properties;
mod refused;
mod stopped;
mod understood;

use mcpmon_model::{Message, Verdict};

use super::*;

/// The output, as text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    to_server: String,
    to_client: String,
    noise: String,
    incidents: Vec<Incident>,
}

/// A conversation that is judged by a function.
struct Conversation<J> {
    filter: StdioFilter,
    judge: J,
}

const LIMITS: DecodeLimits = DecodeLimits {
    max_line: 4096,
    max_depth: 32,
    max_batch: 4,
    max_pending: 3,
    request_timeout: std::time::Duration::ZERO,
};

impl<J: FnMut(&Message<'_>) -> Verdict> Conversation<J> {
    fn new(judge: J) -> Self {
        Self {
            filter: StdioFilter::new(LIMITS),
            judge,
        }
    }

    /// One side writes this.
    fn writes(&mut self, side: Side, bytes: impl AsRef<[u8]>) -> Written {
        let mut out = StdioOutput::default();
        let now = Timestamp(7);
        self.filter
            .push(now, side, bytes.as_ref(), &mut self.judge, &mut out);
        written(out)
    }

    /// The client writes this line.
    fn client(&mut self, line: &str) -> Written {
        self.writes(Side::Client, format!("{line}\n"))
    }

    /// The server writes this line.
    fn server(&mut self, line: &str) -> Written {
        self.writes(Side::Server, format!("{line}\n"))
    }

    fn closes(&mut self, side: Side) -> Written {
        let mut out = StdioOutput::default();
        self.filter.close(side, &mut out);
        written(out)
    }
}

fn written(out: StdioOutput) -> Written {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Written {
        to_server: text(&out.to_server),
        to_client: text(&out.to_client),
        noise: text(&out.noise),
        incidents: out.incidents,
    }
}

fn allowed() -> Conversation<impl FnMut(&Message<'_>) -> Verdict> {
    Conversation::new(|_| Verdict::Allow)
}

/// Blocks what `judge` says.
fn blocking(judge: impl Fn(&Message<'_>) -> bool) -> Conversation<impl FnMut(&Message<'_>) -> Verdict> {
    Conversation::new(move |message| {
        if judge(message) {
            Verdict::Block(denial())
        } else {
            Verdict::Allow
        }
    })
}

fn denial() -> Denial {
    Denial {
        rule: "no-shell".to_owned(),
        reason: "shells are not allowed".to_owned(),
        remedy: Some("mcpmon approve".to_owned()),
        event: None,
    }
}

/// The output that passes to the server, and nothing else.
fn on_to_server(line: &str) -> Written {
    Written {
        to_server: format!("{line}\n"),
        ..Written::default()
    }
}

/// The output that passes to the client, and nothing else.
fn on_to_client(line: &str) -> Written {
    Written {
        to_client: format!("{line}\n"),
        ..Written::default()
    }
}

fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":1}}}}}}"#
    )
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
