//! Sessions that connect to the daemon's code. Both ends are this same program, as on a real host.

use std::{path::PathBuf, process::Command, thread};

use mcpmon_config::{Source, Sources};
use mcpmon_store::{Access, Recorder, RecorderSettings, Store};
use tokio::{runtime::Runtime, sync::mpsc};

use super::*;
use crate::app::{
    control,
    inbox::inbox,
    run::daemon::{DaemonAvailability, DaemonUseError, introduce},
};

const TIMEOUT: Duration = Duration::from_secs(10);
const ADDRESS: &str = "127.0.0.1:8484";

impl Runs {
    /// Makes the state with an engine that does not run, so that no session is let in.
    pub(in crate::app) fn without_engine(wrappers: &Wrappers, offered: watch::Receiver<Offered>) -> Self {
        let (engine, _) = inbox(1).expect("a queue");
        let tokens = Tokens::default();
        Self::new(
            wrappers.clone(),
            tokens,
            engine,
            offered,
            StoreLocation::new(""),
            PathBuf::new(),
        )
    }
}

/// The parts of a daemon that sessions use.
struct Host {
    directory: tempfile::TempDir,
    _runtime: Runtime,
    tokens: Tokens,
    runs: Runs,
    /// Roots of sessions that were entered.
    entered: Arc<Mutex<Vec<ProcessId>>>,
}

impl Host {
    fn new(offered: Result<(), &str>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = directory.path().join("daemon.db");
        let recorder = Recorder::start(RecorderSettings::new(&store)).expect("a recorder");
        let text = Sources::of_parts(vec![(Source::EmbeddedDefault, "version: 1\n".to_owned())]);
        let text = Arc::new(text.expect("a part"));
        let opened = Store::open(&store, Access::default()).expect("a store");
        let wrappers = Wrappers::new(recorder, opened, text.digest(), text).expect("own program");
        let (engine, mut inbox) = inbox(16).expect("a queue");
        let entered = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&entered);
        thread::spawn(move || {
            // Runs until the test's process ends.
            loop {
                while let Some(message) = inbox.next() {
                    if let EngineMessage::EnterSession { proxied, reply, .. } = message {
                        seen.lock().expect("no panic").push(proxied.root);
                        let _told = reply.send(());
                    }
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let offer = offered.map_err(str::to_owned).map(|()| ProxyOffer {
            address: ADDRESS.parse().expect("an address"),
            providers: [("openai".to_owned(), "https://api.openai.com".to_owned())].into(),
        });
        let tokens = Tokens::default();
        let (_, offered) = watch::channel(Some(offer));
        let runs = Runs::new(
            wrappers.clone(),
            tokens.clone(),
            engine,
            offered,
            StoreLocation::new(store),
            directory.path().to_owned(),
        );
        let runtime = Runtime::new().expect("a runtime");
        let socket = directory.path().join("daemon.sock");
        let served = runs.clone();
        runtime.block_on(async {
            let (listener, file) = control::listen(&socket).expect("a socket");
            let (ask, _asked) = mpsc::channel(1);
            tokio::spawn(async move {
                control::ControlServer::new(ask.clone(), ask, wrappers, served)
                    .serve(listener)
                    .await;
                drop(file);
            });
        });
        Self {
            directory,
            _runtime: runtime,
            tokens,
            runs,
            entered,
        }
    }

    fn introduce(&self, hello: &RunHello) -> Result<DaemonAvailability, DaemonUseError> {
        introduce(&self.directory.path().join("daemon.sock"), hello)
    }

    fn behind(&self, hello: &RunHello) -> (std::os::unix::net::UnixStream, Reach) {
        match self.introduce(hello) {
            Ok(DaemonAvailability::Behind(stream, reach)) => (stream, *reach),
            other => panic!("{other:?}"),
        }
    }

    fn roots(&self) -> Vec<ProcessId> {
        self.entered.lock().expect("no panic").clone()
    }
}

fn until(mut what: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !what() {
        assert!(std::time::Instant::now() < deadline, "it does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

fn own() -> ProcessId {
    host::identify(std::process::id()).expect("own")
}

fn named(name: &str) -> RunHello {
    RunHello {
        name: Some(name.to_owned()),
        ..RunHello::default()
    }
}

#[test]
fn a_session_is_behind_the_proxy_for_as_long_as_it_is_connected() {
    let host = Host::new(Ok(()));
    let (stream, reach) = host.behind(&named("review"));
    assert!(reach.session.as_str().starts_with("review-"));
    assert_eq!(reach.offer.address.to_string(), ADDRESS);
    assert_eq!(host.tokens.session(&reach.token).as_ref(), Some(&reach.session));
    assert_eq!(host.roots(), [own()], "in its session before it is told");
    let status = host.runs.status();
    assert_eq!((status.len(), status[0].pid), (1, std::process::id()));
    assert!(status[0].behind_daemon && !status[0].own_group);
    drop(stream);
    until(|| host.tokens.session(&reach.token).is_none());
    assert_eq!(host.runs.status(), []);
}

#[test]
fn a_token_comes_back_to_its_session_alone() {
    let host = Host::new(Ok(()));
    let token = "0123456789abcdef0123456789abcdef0123456789abcdef";
    let with = |token: &str, name| RunHello {
        token: Some(token.to_owned()),
        ..named(name)
    };
    let (first, reach) = host.behind(&with(token, "review"));
    assert_eq!(reach.token, token, "of a daemon before this one");
    let (second, again) = host.behind(&with(token, "review"));
    assert_eq!(again, reach);
    drop(first);
    until(|| host.runs.status().len() == 1);
    assert!(
        host.tokens.session(token).is_some(),
        "the other connection has it too"
    );
    for (token, name) in [(token, "another"), ("../x", "review")] {
        let refused = host.introduce(&with(token, name)).expect_err("refused");
        assert!(matches!(refused, DaemonUseError::Refused(_)), "{refused}");
    }
    drop(second);
    until(|| host.tokens.session(token).is_none());
}

#[test]
fn without_a_proxy_the_agent_is_known() {
    let host = Host::new(Err("it is switched off"));
    let answer = host.introduce(&RunHello::default());
    assert!(
        matches!(&answer, Ok(DaemonAvailability::NoProxy(cause)) if cause == "it is switched off"),
        "{answer:?}"
    );
    assert_eq!(host.roots(), []);
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let agent = host::identify(child.id()).expect("it lives");
    let of = |agent: ProcessId| RunHello {
        agent: Some(agent.into()),
        ..RunHello::default()
    };
    let known = host.introduce(&of(agent));
    assert!(matches!(known, Ok(DaemonAvailability::Known(_))), "{known:?}");
    assert_eq!(host.roots(), [agent]);
    let other = host.introduce(&of(own()));
    assert!(
        matches!(other, Err(DaemonUseError::Refused(_))),
        "no child: {other:?}"
    );
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn a_gateway_of_the_users_own_is_not_passed_over() {
    let host = Host::new(Ok(()));
    let hello = RunHello {
        providers: [("openai".to_owned(), "https://gw.example".to_owned())].into(),
        ..RunHello::default()
    };
    let answer = host.introduce(&hello);
    assert!(
        matches!(&answer, Ok(DaemonAvailability::NoProxy(cause)) if cause.contains("`openai`")),
        "{answer:?}"
    );
    assert_eq!((host.roots(), host.runs.status()), (Vec::new(), Vec::new()));
}

#[test]
fn a_user_has_so_many_sessions_however_many_come_at_once() {
    let host = Host::new(Ok(()));
    let beyond = 16;
    let start = std::sync::Barrier::new(MAX_OF_USER + beyond);
    let found: Vec<_> = thread::scope(|scope| {
        let askers: Vec<_> = (0..MAX_OF_USER + beyond)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    host.introduce(&named("review"))
                })
            })
            .collect();
        askers
            .into_iter()
            .map(|asker| asker.join().expect("no panic"))
            .collect()
    });
    let taken_in = found
        .iter()
        .filter(|found| matches!(found, Ok(DaemonAvailability::Behind(..))))
        .count();
    let refused = found
        .iter()
        .filter(|found| matches!(found, Err(DaemonUseError::Refused(cause)) if cause.contains("too many")));
    assert_eq!((taken_in, refused.count()), (MAX_OF_USER, beyond), "{found:?}");
    drop(found);
    until(|| host.runs.status().is_empty());
    until(|| host.introduce(&named("review")).is_ok());
}
