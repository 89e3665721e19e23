//! A session whose daemon is restarted, in a conversation that continues.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    sync::{Mutex, MutexGuard},
};

use mcpmon_model::{Kill, Kills, SharedCallAnswer};
use serde_json::Value;
use test_case::test_case;

use super::*;
use crate::protocol::{Hear, SharedSessionState};

/// A daemon that returns the same given state for every session.
#[derive(Clone)]
struct Daemon(Arc<Shared>);

struct Shared {
    state: Mutex<SharedSessionState>,
    connections: Mutex<Vec<UnixStream>>,
}

impl Daemon {
    /// Listens at `socket`, with the number of changes in `generation`.
    fn listen(socket: &Path, generation: PathBuf) -> Self {
        let state = SharedSessionState {
            policy: None,
            definitions: Vec::new(),
            refused: Vec::new(),
            forgotten: Vec::new(),
            of_others: Vec::new(),
            others: Vec::new(),
            twins: false,
            pinned: Vec::new(),
            kills: Kills::default(),
            answers: Vec::new(),
            changes: number(&generation),
            generation,
        };
        let daemon = Self(Arc::new(Shared {
            state: Mutex::new(state),
            connections: Mutex::default(),
        }));
        let listener = UnixListener::bind(socket).expect("a socket");
        let accepting = daemon.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (daemon, stream) = (accepting.clone(), stream.expect("a wrapper"));
                let connections = &accepting.0.connections;
                connections
                    .lock()
                    .expect("whole")
                    .push(stream.try_clone().expect("a copy"));
                std::thread::spawn(move || daemon.serve(stream));
            }
        });
        daemon
    }

    fn serve(&self, stream: UnixStream) {
        let mut answers = stream.try_clone().expect("a copy");
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let said: Value = serde_json::from_str(&line).expect("JSON");
            let heard = match said["request"].as_str().or_else(|| said["say"].as_str()) {
                Some("wrap" | "state") => Hear::State(Box::new(self.state().clone())),
                Some("check") => Hear::Checked(Box::<SharedCallAnswer>::default()),
                _ => Hear::Done,
            };
            let mut answer = serde_json::to_vec(&heard).expect("JSON");
            answer.push(b'\n');
            if answers.write_all(&answer).is_err() {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, SharedSessionState> {
        self.0.state.lock().expect("whole")
    }

    /// Ends every connection; new ones reach a daemon whose number of changes is in `generation`.
    fn start_again(&self, generation: PathBuf) {
        let mut state = self.state();
        state.changes = number(&generation);
        state.generation = generation;
        for connection in self.0.connections.lock().expect("whole").drain(..) {
            connection.shutdown(Shutdown::Both).expect("connected");
        }
    }

    /// Applies the kill switch for the host, and raises the number of changes.
    fn kill(&self) {
        let mut state = self.state();
        state.kills.host = Some(kill());
        state.changes += 1;
        let file = std::fs::OpenOptions::new().write(true).open(&state.generation);
        let mut file = file.expect("the number");
        file.write_all(&state.changes.to_le_bytes()).expect("raised");
    }
}

fn kill() -> Kill {
    Kill {
        by: "root".to_owned(),
        at: NOW,
    }
}

fn number(generation: &Path) -> u64 {
    let bytes = std::fs::read(generation).expect("the number");
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// A daemon with its number of changes in `generation`, and a session with it that has judged and recorded something.
fn begin(home: &Home, generation: &Path) -> (Daemon, Session) {
    std::fs::write(generation, 7_u64.to_le_bytes()).expect("a number");
    let daemon = Daemon::listen(&home.path("socket"), generation.to_owned());
    let mut options = home.options("files");
    options.socket = Some(home.path("socket"));
    let mut judge = Session::open(NOW, options).expect("a judge");
    assert_eq!(call(&mut judge, "{}"), Verdict::Allow);
    settle(&judge);
    (daemon, judge)
}

fn settle(judge: &Session) {
    let settled = judge.host.recorder.flush(Duration::from_secs(60));
    settled.expect("it is kept");
}

/// The session notices that the daemon is gone.
fn notice(judge: &mut Session) {
    judge.tick(NOW);
    assert!(!judge.host.presence.is_here());
}

/// Records an event, and reaches the daemon again before the session notices that it was away.
fn record(judge: &mut Session) {
    judge.host.push(sample::started("files", 2));
    settle(judge);
    assert!(judge.host.shared.is_up() && judge.host.presence.is_here());
}

#[test_case("own.generation", notice; "that is noticed, and the number is elsewhere")]
#[test_case("own.generation", record; "that only a record meets, and the number is elsewhere")]
#[test_case("standby.generation", notice; "that is noticed, and the file is another at its place")]
#[test_case("standby.generation", record; "that only a record meets, and the file is another at its place")]
fn a_judge_hears_of_changes_after_a_restart(generation: &str, meet: fn(&mut Session)) {
    let home = Home::new("version: 1\n");
    let before = home.path("standby.generation");
    let (daemon, mut judge) = begin(&home, &before);
    std::fs::remove_file(&before).expect("there");
    let after = home.path(generation);
    // The number is the one that the session knows, but the changes are others.
    std::fs::write(&after, 7_u64.to_le_bytes()).expect("a number");
    daemon.start_again(after);
    meet(&mut judge);
    judge.refresh(Timestamp(NOW.0 + 6 * sample::SECOND));
    assert!(judge.host.presence.is_here());
    daemon.kill();
    assert!(is_blocked(&call(&mut judge, "{}")));
    judge.close(NOW);
}

#[test]
fn a_judge_hears_what_was_decided_while_the_daemon_was_away() {
    let home = Home::new("version: 1\n");
    let generation = home.path("own.generation");
    let (daemon, mut judge) = begin(&home, &generation);
    daemon.state().kills.host = Some(kill());
    daemon.start_again(generation);
    record(&mut judge);
    assert!(is_blocked(&call(&mut judge, "{}")));
    judge.close(NOW);
}
