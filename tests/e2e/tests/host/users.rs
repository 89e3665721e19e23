//! Users outside the group `mcpmon`: the host's policy applies to them, they see their own servers only, and they delay
//! nobody.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::number,
    program, wait,
};

use crate::wrapped::{GROUP, NOBODY, for_a_user, poisoned, policy};

/// The longest wait of root while a user floods the control socket.
const ROOT_WAITS: Duration = Duration::from_secs(2);
/// Opens connections to a Unix socket without end: every other one is silent, the others send half a line. Prints a line
/// after 10,000.
const FLOOD: &str = "
import socket, sys
held, made = [], 0
while True:
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(1)
    try:
        one.connect(sys.argv[1])
        if made % 2:
            one.send(b'{\"request\":\"sta')
        held.append(one)
    except OSError:
        one.close()
    if len(held) > 900:
        held.pop(0).close()
    made += 1
    if made == 10000:
        print(made, flush=True)
";

/// Returns `command` as a user without any group of the host.
fn as_user(command: &Command) -> Command {
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    user.arg(command.get_program()).args(command.get_args());
    user.env("HOME", "/nonexistent").current_dir("/");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => user.env(name, value),
            None => user.env_remove(name),
        };
    }
    user
}

/// A command of a user outside of every agent: it is started before any server, belongs to no process of this test, and
/// runs when it is told to.
struct Later(PathBuf);

impl Later {
    /// Starts it with its files in `directory`, which the user may write to.
    fn start(directory: PathBuf, program: &Path, arguments: &[&str]) -> Result<Self> {
        let script = r#"
            while [ ! -e "$0/go" ]; do sleep 0.1; done
            "$@" 2>"$0/errors"
            echo "$?" >"$0/new" && mv "$0/new" "$0/code"
        "#;
        let mut command = Command::new("setsid");
        command.args(["--fork", "sh", "-c", script]).arg(&directory);
        command.arg(program).args(arguments);
        let status = as_user(&command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "{status}");
        Ok(Self(directory))
    }

    /// Runs the command. Returns its status and standard error.
    fn run(self) -> Result<(String, String)> {
        fs::write(self.0.join("go"), "")?;
        let code = wait::until("the end of the command", || {
            Ok(fs::read_to_string(self.0.join("code")).ok())
        })?;
        Ok((
            code.trim_end().to_owned(),
            fs::read_to_string(self.0.join("errors"))?,
        ))
    }
}

#[test]
fn the_hosts_policy_applies_to_a_user_outside_the_group() -> Result<()> {
    let Some(host) = Host::take(&["python3", "setpriv", "setsid", "unshare"])? else {
        return Ok(());
    };
    let blocked = "blocked_tools: [towns]\n  version_pinning:";
    let text_of_policy = policy("").replace("version_pinning:", blocked);
    let daemon = Daemon::start_with_group(&host, &text_of_policy, GROUP)?;
    let program = for_a_user(&daemon)?;
    let server = poisoned(&daemon)?;
    let socket = daemon.site.socket().display().to_string();
    let subject = format!("{}:forecast", server.name);
    let approve = ["approve", &subject, "--socket", &socket];
    let later = Later::start(daemon.site.path("own"), &program, &approve)?;

    let mut client = Client::start(&mut as_user(&daemon.site.wrap(&program, server.words())))?;
    client.initialize()?;
    assert_eq!(
        client.tools()?,
        Vec::<String>::new(),
        "blocked, and hidden for its text"
    );
    let called = client.call("towns")?;
    ensure!(
        matches!(&called, Called::Failed(text) if text.contains("towns")),
        "{called:?}"
    );
    let detection = daemon.event_of("mcp_detection", &server.name)?;
    assert_eq!(number(&detection, "uid"), u64::from(NOBODY), "{detection}");

    let run = |arguments: &[&str]| program::run_as_nobody(program.as_os_str(), arguments);
    let status = run(&["status", "--json", "--socket", &socket])?;
    assert_eq!(status.code, Some(0), "{status:?}");
    let status = status.objects()?.into_iter().next().context("a status")?;
    assert_eq!(number(&status, "only_of"), u64::from(NOBODY), "{status}");
    for refused in [
        vec!["kill", "--all", "--socket", &socket],
        vec!["pins", "reset", "--server", &server.name, "--socket", &socket],
    ] {
        let run = run(&refused)?;
        assert_eq!(run.code, Some(1), "{refused:?}: {run:?}");
        assert!(run.stderr.contains("only root may ask for this"), "{run:?}");
    }

    let below = run(&approve)?;
    assert_eq!(below.code, Some(1), "{below:?}");
    assert!(
        below
            .stderr
            .contains("a process of an agent or of a server cannot decide"),
        "{below:?}"
    );
    let (code, errors) = later.run()?;
    assert_eq!(code, "0", "{errors}");
    wait::until("the tool that its user approved", || {
        Ok((client.tools()? == ["forecast"]).then_some(()))
    })
}

#[test]
fn root_is_answered_while_a_user_floods_the_socket() -> Result<()> {
    let Some(host) = Host::take(&["python3", "setpriv"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    // The first `python3` on the path may be a script that only root can read.
    let mut flood = Command::new("/usr/bin/python3");
    flood.args(["-c", FLOOD]).arg(daemon.site.socket());
    let mut flood = as_user(&flood).stdout(Stdio::piped()).spawn()?;
    let mut made = String::new();
    let output = flood.stdout.take().context("its output")?;
    BufReader::new(output).read_line(&mut made)?;
    assert_eq!(made.trim_end(), "10000");
    let asked = [&["status"][..], &["kill", "--all"], &["kill", "--all", "--off"]];
    let waited = asked.map(|arguments| {
        let since = Instant::now();
        daemon.site.ask(arguments).map(|run| (run, since.elapsed()))
    });
    flood.kill()?;
    flood.wait()?;
    for waited in waited {
        let (run, took) = waited?;
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(took < ROOT_WAITS, "{took:?}: {run:?}");
    }
    Ok(())
}
