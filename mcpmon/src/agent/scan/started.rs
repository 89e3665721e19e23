//! Servers that are started or asked for a scan, after a person agreed: for their definitions alone, and for as long as it
//! takes to list them.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use mcpmon_clients::{ConfiguredServer, ConfiguredTransport};
use mcpmon_http::client::{self, Address, Header, ServerEndpoint, ServerOffer, ServerTransport, list_pipes};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::confined;

/// Longest time for one answer; the first one includes the start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for all of them.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of standard error that are kept: its end says why a server did not start.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// Characters of it that are told.
const MAX_TOLD: usize = 300;
/// Variables of this process that clients hand to servers: none of them holds a secret.
const PASSED: [&str; 12] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// A server to be started or asked, as a person is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPlan {
    /// Its places in the scan: file and server, once for each client that has it.
    pub(super) indexes: Vec<(usize, usize)>,
    /// Its name in the file.
    pub name: String,
    /// Its command or URL.
    pub target: StartTarget,
    directory: PathBuf,
    env: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
}

/// A command that is started, or a URL that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartTarget {
    /// These words are executed.
    Command(Vec<String>),
    /// This URL is asked.
    Url(String),
}

/// The way in which servers are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// In namespaces of their own, without a network.
    WithoutNetwork,
    /// In namespaces of their own, with the host's network.
    WithNetwork,
    /// As any other process: this host allows no namespaces.
    Unconfined,
}

impl StartMode {
    /// Returns the mode that this host allows.
    #[must_use]
    pub fn find(with_network: bool) -> Self {
        let probe = || {
            let program = env::current_exe().ok()?;
            let mut command = std::process::Command::new(program);
            command.args([confined::VERB, "--probe"]).stderr(Stdio::null());
            if with_network {
                command.arg("--network");
            }
            command.status().ok()
        };
        match (probe().is_some_and(|status| status.success()), with_network) {
            (true, false) => Self::WithoutNetwork,
            (true, true) => Self::WithNetwork,
            (false, _) => Self::Unconfined,
        }
    }
}

impl StartPlan {
    /// The plan for a server, or the reason why it is not started.
    pub(super) fn new(
        index: (usize, usize),
        server: &ConfiguredServer,
        directory: &Path,
    ) -> Result<Self, &'static str> {
        let texts = server.env.iter().chain(&server.headers);
        let values = texts.map(|(_, value)| value.as_str());
        let target = match &server.transport {
            ConfiguredTransport::Command(words) => StartTarget::Command(words.clone()),
            ConfiguredTransport::Url(url) => StartTarget::Url(url.clone()),
            ConfiguredTransport::Unclear(reason) => return Err(reason),
        };
        let words: Vec<&str> = match &target {
            StartTarget::Command(words) => words.iter().map(String::as_str).collect(),
            StartTarget::Url(url) => vec![url],
        };
        if words.into_iter().chain(values).any(has_variable) {
            return Err("it has a variable that its client fills in");
        }
        Ok(Self {
            indexes: vec![index],
            name: server.name().to_owned(),
            target,
            directory: directory.to_owned(),
            env: server.env.iter().cloned().collect(),
            headers: server.headers.clone(),
        })
    }

    /// Returns whether both start or ask the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.target == other.target
            && self.env == other.env
            && self.headers == other.headers
            && self.directory == other.directory
    }

    /// Starts or asks the server, and lists what it offers.
    pub(super) fn offer(&self, mode: StartMode, max_message: usize) -> Result<ServerOffer, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            match &self.target {
                StartTarget::Command(words) => self.started(words, mode).await,
                StartTarget::Url(url) => self.asked(url, max_message).await,
            }
        })
    }

    async fn asked(&self, url: &str, max_message: usize) -> Result<ServerOffer, String> {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| Header::new(name, value));
        let asking = ServerEndpoint {
            address: Address::new(url).map_err(|error| error.to_string())?,
            headers: headers
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?,
            pin: None,
            max_message,
        };
        client::list(asking, ServerTransport::Http)
            .await
            .map_err(|error| error.to_string())
    }

    async fn started(&self, words: &[String], mode: StartMode) -> Result<ServerOffer, String> {
        let mut child = self
            .command(words, mode)?
            .spawn()
            .map_err(|error| error.to_string())?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(answers), Some(questions), Some(stderr)) = pipes else {
            return Err("it has no pipes".to_owned());
        };
        let last_words = tokio::spawn(end_of(stderr));
        let listing = list_pipes(BufReader::new(answers), questions, ANSWER_TIMEOUT);
        let offer = match timeout(WHOLE_TIMEOUT, listing).await {
            Ok(offer) => offer.map_err(|fault| fault.to_string()),
            Err(_elapsed) => Err(format!(
                "it did not list all within {} s",
                WHOLE_TIMEOUT.as_secs()
            )),
        };
        end(&mut child).await;
        let said = last_words.await.unwrap_or_default();
        offer.map_err(|fault| match said.is_empty() {
            true => fault,
            false => format!("{fault}; its last words: {said}"),
        })
    }

    fn command(&self, words: &[String], mode: StartMode) -> Result<Command, String> {
        let (program, arguments) = words.split_first().ok_or("it has no command")?;
        let mut command = match mode {
            StartMode::Unconfined => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            StartMode::WithoutNetwork | StartMode::WithNetwork => {
                let own = env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(own);
                command.arg(confined::VERB);
                if mode == StartMode::WithNetwork {
                    command.arg("--network");
                }
                command.arg("--").args(words);
                command
            }
        };
        command
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((name, env::var_os(name)?))))
            .envs(&self.env)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// Returns whether a client would put something else in the place of a part of this text.
fn has_variable(text: &str) -> bool {
    text.contains("${") || text.contains("{env:") || text.contains("{file:")
}

/// Kills the whole group; in namespaces of their own, processes that left the group die too.
async fn end(child: &mut Child) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    if let Some(group) = group {
        // Where it is gone already, that is all the better.
        let _gone = killpg(group, Signal::SIGKILL);
    }
    let _ended = child.wait().await;
}

/// The end of what a server says on standard error, on one line; it is read to its end, so that the server never waits.
async fn end_of(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count) = stderr.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(MAX_STDERR_BYTES);
        kept.drain(..surplus);
    }
    let text = String::from_utf8_lossy(&kept);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let masked = mcpmon_detect::mask::mask_text(&line);
    let start = masked.char_indices().rev().nth(MAX_TOLD).map_or(0, |(at, _)| at);
    masked[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use mcpmon_clients::{client, parse_servers};
    use test_case::test_case;

    use super::*;

    fn plan(server: &str) -> Result<StartPlan, &'static str> {
        let text = format!("{{\"mcpServers\": {{\"a\": {server}}}}}");
        let servers = parse_servers(text.as_bytes(), client("claude-code").unwrap()).unwrap();
        StartPlan::new((0, 0), &servers[0], Path::new("/"))
    }

    #[test_case(r#"{"command": "x", "env": {"K": "${K}"}}"# => false; "a variable in the environment")]
    #[test_case(r#"{"command": "x", "args": ["${workspaceFolder}"]}"# => false; "a variable in the arguments")]
    #[test_case(r#"{}"# => false; "nothing")]
    #[test_case(r#"{"command": "x", "args": ["$HOME"]}"# => true; "no shell reads it")]
    fn servers_that_can_be_started(server: &str) -> bool {
        plan(server).is_ok()
    }

    #[test]
    fn a_server_is_listed_and_what_it_left_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        let script = format!(
            r#"sleep 1000 & echo $! > {}; read -r l; echo '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"n","version":"1"}}}}}}'; read -r l; read -r l; echo '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"a","description":"A."}}]}}}}'; cat"#,
            mark.display()
        );
        let server = serde_json::json!({"command": "sh", "args": ["-c", script]}).to_string();
        let offer = plan(&server)
            .unwrap()
            .offer(StartMode::Unconfined, 1 << 20)
            .unwrap();
        assert_eq!(offer.name.as_deref(), Some("n"));
        let mut count = 0;
        offer.definitions(|_, _| count += 1);
        assert_eq!(count, 1);
        let pid: i32 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
        let began = Instant::now();
        while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "the group was not killed"
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_server_that_ends_says_why() {
        let server = r#"{"command": "sh", "args": ["-c", "echo no key was given >&2; exit 3"]}"#;
        let fault = plan(server)
            .unwrap()
            .offer(StartMode::Unconfined, 1 << 20)
            .unwrap_err();
        assert!(fault.contains("no key was given"), "{fault}");
        let missing = plan(r#"{"command": "/nonexistent/server"}"#).unwrap();
        let fault = missing.offer(StartMode::Unconfined, 1 << 20).unwrap_err();
        assert!(fault.contains("No such file"), "{fault}");
    }
}
