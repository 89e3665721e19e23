//! Conversations through `mcpmon wrap`. The server is a process that forwards its pipes to the suite, so that the suite
//! plays both sides. After each line a ping goes the same way: a line that has not arrived before the ping will not
//! arrive.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    wait,
    wrapped::{Home, Wrapped},
};
use serde_json::{Value, json};

use crate::{
    case::Case,
    play::{Heard, Stage},
};

/// The longest time that either side may take for a line.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A session of real wrappers.
#[derive(Debug)]
pub struct Live {
    home: Home,
    session: String,
    seats: BTreeMap<String, Seat>,
    pings: u64,
}

/// A wrapper, and the server's end of its pipes.
#[derive(Debug)]
struct Seat {
    wrapped: Wrapped,
    server: BufReader<UnixStream>,
}

impl Live {
    /// Makes a session under the policy of `case`.
    ///
    /// # Errors
    /// Returns an error if its files cannot be written.
    pub fn new(case: &Case) -> Result<Self> {
        let home = Home::new()?;
        let mut policy: Value = serde_json::from_str(&case.configuration()?)?;
        policy["record"]["jsonl"] = json!(home.path("events.jsonl"));
        let bridge = bridge_program(&std::env::current_exe()?)?;
        let declared = policy["mcp"]["servers"].as_array_mut();
        for server in declared.into_iter().flatten() {
            // A declaration names a program, and a server's name alone is none.
            let socket = server["id"].as_str().map(|id| home.path(&format!("{id}.sock")));
            server["command"] = json!(bridge);
            server["args"] = json!(["bridge", socket]);
        }
        home.configure(&policy.to_string())?;
        Ok(Self {
            home,
            session: case.id.replace('/', "-"),
            seats: BTreeMap::new(),
            pings: 0,
        })
    }

    /// Sends a ping from the client. Returns the lines that the server received before it, and the ping's id.
    fn ping(&mut self, server: &str) -> Result<(Vec<String>, String)> {
        self.pings += 1;
        let id = format!("ping-{}", self.pings);
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
        let seat = self.seats.get_mut(server).context("a server that joined")?;
        seat.wrapped.send(&ping)?;
        let mut before = Vec::new();
        loop {
            let line = read(&mut seat.server).context("the server got no ping")?;
            if line == ping {
                return Ok((before, id));
            }
            before.push(line);
        }
    }

    /// Answers a ping, and returns the lines that the client received before the answer.
    fn pong(&mut self, server: &str, id: &str) -> Result<Vec<String>> {
        let pong = json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string();
        let seat = self.seats.get_mut(server).context("a server that joined")?;
        writeln!(seat.server.get_mut(), "{pong}")?;
        let mut before = Vec::new();
        loop {
            let line = seat
                .wrapped
                .line()
                .context("the client got no answer to a ping")?;
            ensure!(!line.is_empty(), "the wrapper ended: {:?}", seat.wrapped.finish());
            if line == pong {
                return Ok(before);
            }
            before.push(line);
        }
    }
}

impl Stage for Live {
    fn join(&mut self, server: &str) -> Result<()> {
        let socket = self.home.path(&format!("{server}.sock"));
        let listener = UnixListener::bind(&socket)?;
        let bridge = std::env::current_exe()?;
        let mut wrap = self.home.wrap(
            &["--server", server],
            &[
                bridge_program(&bridge)?.as_str(),
                "bridge",
                &socket.display().to_string(),
            ],
        )?;
        wrap.env("MCPMON_SESSION", &self.session);
        let wrapped = Wrapped::start(&mut wrap)?;
        wait::readable("the server's start", &listener)?;
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let server_end = BufReader::new(stream);
        self.seats.insert(
            server.to_owned(),
            Seat {
                wrapped,
                server: server_end,
            },
        );
        Ok(())
    }

    fn client(&mut self, server: &str, line: &str) -> Result<Heard> {
        let seat = self.seats.get_mut(server).context("a server that joined")?;
        seat.wrapped.send(line)?;
        let (by_server, id) = self.ping(server)?;
        let by_client = self.pong(server, &id)?;
        Ok(Heard { by_server, by_client })
    }

    fn server(&mut self, server: &str, line: &str) -> Result<Heard> {
        let (mut by_server, id) = self.ping(server)?;
        let seat = self.seats.get_mut(server).context("a server that joined")?;
        writeln!(seat.server.get_mut(), "{line}")?;
        let by_client = self.pong(server, &id)?;
        // The wrapper's answers to the server arrive before the client's next line.
        let (answered, id) = self.ping(server)?;
        by_server.extend(answered);
        self.pong(server, &id)?;
        Ok(Heard { by_server, by_client })
    }

    fn wait(&mut self, milliseconds: u64) {
        thread::sleep(Duration::from_millis(milliseconds));
    }

    fn record(&mut self) -> Result<Vec<Value>> {
        for (server, mut seat) in std::mem::take(&mut self.seats) {
            let (code, _, errors) = seat.wrapped.finish()?;
            ensure!(code == 0, "the wrapper of {server} ended with {code}: {errors}");
        }
        let path = self.home.path("events.jsonl");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parse = |line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}"));
        text.lines().map(parse).collect()
    }
}

fn read(from: &mut impl io::BufRead) -> Result<String> {
    let mut line = String::new();
    let length = from.read_line(&mut line)?;
    ensure!(length > 0, "nothing more comes");
    Ok(line.trim_end_matches('\n').to_owned())
}

/// Returns the program that has the command `bridge`, which is built beside a test's own program.
fn bridge_program(own: &Path) -> Result<String> {
    let is_itself = own.file_name().is_some_and(|name| name == "mcpmon-redteam");
    let program = match is_itself {
        true => own.to_owned(),
        false => {
            let directory = own
                .parent()
                .and_then(Path::parent)
                .context("a directory of programs")?;
            directory.join("mcpmon-redteam")
        }
    };
    ensure!(
        program.exists(),
        "{} is not there: build it with `cargo build -p mcpmon-redteam`",
        program.display()
    );
    Ok(program.display().to_string())
}

/// Runs the server's process: forwards standard input and output to the listener at `socket`.
///
/// # Errors
/// Returns an error if nothing listens there, or one side fails.
pub fn bridge(socket: &Path) -> Result<()> {
    let stream = UnixStream::connect(socket)?;
    let mut from_suite = stream.try_clone()?;
    let mut to_suite = stream.try_clone()?;
    thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        let mut reader = BufReader::new(&mut from_suite);
        loop {
            let taken = match reader.fill_buf() {
                Ok([]) | Err(_) => break,
                Ok(bytes) => match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
                    Ok(()) => bytes.len(),
                    Err(_) => break,
                },
            };
            reader.consume(taken);
        }
    });
    io::copy(&mut io::stdin().lock(), &mut to_suite)?;
    Ok(())
}
