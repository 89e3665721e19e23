//! Servers that a scan starts or asks, after a person agreed: only for their definitions, and only until these are
//! listed.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use mcpmon_clients::{ConfiguredServer, ConfiguredTransport};
use mcpmon_detect::launch::LaunchRules;
use mcpmon_engine::sandbox::holds_home;
use mcpmon_http::client::{self, Address, Header, ServerEndpoint, ServerOffer, ServerTransport, list_pipes};
use mcpmon_policy::{makes_sandbox, starts_container};
use mcpmon_stdio::{SandboxFeature, unsupported_features};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::confined::{self, Confinement, OwnFiles};
use crate::app::sandbox::TemporaryDirectory;

/// Longest time for one answer; the first one includes the start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for all answers.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of standard error that are kept: the end says why a server did not start.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// Characters of it that are shown.
const MAX_REPORTED: usize = 300;
/// Permission bits that make a file executable.
const EXECUTABLE: u32 = 0o111;
/// Permission bit that lets everybody write.
const WRITTEN_BY_OTHERS: u32 = 0o002;
/// Variables of this process that clients pass to servers; none of them contains a secret.
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

/// Variables that tell package managers that there is no network; without them they try for minutes.
const OFFLINE: [(&str, &str); 2] = [("npm_config_offline", "true"), ("UV_OFFLINE", "1")];

/// A server that may be started or asked, as it is shown to the person who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPlan {
    /// The server's positions in the scan: file and server, one for each client that has it.
    pub(super) indexes: Vec<(usize, usize)>,
    /// The server's name in the file.
    pub name: String,
    /// The server's command or URL.
    pub target: StartTarget,
    /// The reason why it cannot be started in the sandbox.
    pub outside: Option<String>,
    directory: PathBuf,
    env: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
}

/// A command to start, or a URL to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartTarget {
    /// A command, as its words.
    Command(Vec<String>),
    /// A URL.
    Url(String),
}

/// The confinement of started servers, as far as this host supports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartConfinement {
    /// True if they have the host's network.
    pub has_network: bool,
    /// True if they get their own namespaces.
    pub has_namespaces: bool,
    /// The parts of the sandbox that this kernel does not enforce.
    pub unsupported: Vec<SandboxFeature>,
    own: OwnFiles,
}

/// A difference between the intended confinement and the real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinementGap {
    /// The consequence, as a sentence without a full stop.
    pub text: String,
    /// True if the server could read files or reach hosts that it should not, or outlive the scan.
    pub is_serious: bool,
}

impl StartConfinement {
    /// Returns the confinement that this host supports. Servers may not use mcpmon's `own` files.
    pub fn find(has_network: bool, own: OwnFiles) -> Self {
        Self {
            has_network,
            has_namespaces: Confinement::is_possible(has_network),
            unsupported: unsupported_features(),
            own,
        }
    }

    /// Returns whether the sandbox protects files.
    pub fn has_sandbox(&self) -> bool {
        !self.unsupported.contains(&SandboxFeature::Files)
    }

    /// Returns the gaps in the confinement.
    pub fn gaps(&self) -> Vec<ConfinementGap> {
        let gap = |text: String, is_serious| ConfinementGap { text, is_serious };
        let mut gaps = Vec::new();
        if !self.has_namespaces {
            let network = match (
                self.has_network,
                self.refuses(SandboxFeature::Tcp),
                self.refuses(SandboxFeature::Udp),
            ) {
                (true, ..) | (false, true, true) => "",
                (false, true, false) => "; UDP, and DNS with it, is not restricted",
                (false, false, _) => "; they reach THE NETWORK",
            };
            gaps.push(gap(
                format!(
                    "this host lets no process have namespaces of its own: processes of servers can outlive the scan{network}"
                ),
                true,
            ));
        }
        if !self.has_sandbox() {
            let text = "this kernel has no Landlock, or has it switched off: servers read and write EVERY FILE that you may";
            gaps.push(gap(text.to_owned(), true));
            return gaps;
        }
        let sockets = "servers can still connect to UNIX sockets that have a path and that you may use (an SSH agent, D-Bus, a \
                       container runtime), and have such a service act for them";
        gaps.push(gap(sockets.to_owned(), false));
        let minor = self.unsupported.iter().filter(|feature| match feature {
            SandboxFeature::Moves | SandboxFeature::Truncation | SandboxFeature::Devices => true,
            // A network namespace has its own abstract sockets.
            SandboxFeature::AbstractSockets => self.has_network || !self.has_namespaces,
            SandboxFeature::Files | SandboxFeature::Tcp | SandboxFeature::Udp => false,
        });
        gaps.extend(minor.map(|feature| {
            gap(
                format!("{} (Linux {})", feature.without(), feature.kernel()),
                false,
            )
        }));
        gaps
    }

    /// Returns whether this host can keep a server off the network.
    fn refuses_network(&self) -> bool {
        self.has_namespaces || (self.refuses(SandboxFeature::Tcp) && self.refuses(SandboxFeature::Udp))
    }

    fn refuses(&self, feature: SandboxFeature) -> bool {
        self.has_sandbox() && !self.unsupported.contains(&feature)
    }
}

/// The confinement that a server was started in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedConfinement {
    /// True if it started in the sandbox.
    pub has_sandbox: bool,
    /// True if it could reach a network.
    pub has_network: bool,
}

impl StartPlan {
    /// Returns whether the server's confinement would have no serious gap.
    pub fn is_confined(&self, confinement: &StartConfinement) -> bool {
        match self.target {
            StartTarget::Command(_) => {
                self.outside.is_none() && confinement.gaps().iter().all(|gap| !gap.is_serious)
            }
            // A remote server runs nothing here.
            StartTarget::Url(_) => true,
        }
    }

    /// Returns the confinement that the server is started in; `None` for a remote server.
    pub(super) fn applied(&self, confinement: &StartConfinement) -> Option<AppliedConfinement> {
        let is_inside = self.outside.is_none();
        let has_sandbox = is_inside && confinement.has_sandbox();
        let is_offline = is_inside && !confinement.has_network && confinement.refuses_network();
        match self.target {
            StartTarget::Command(_) => Some(AppliedConfinement {
                has_sandbox,
                has_network: !is_offline,
            }),
            StartTarget::Url(_) => None,
        }
    }

    /// Makes the plan for a server. Returns an error with the reason if it cannot be started.
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
        let own_path = server.env.iter().find(|(name, _)| name == "PATH");
        let installed = Installed {
            directory,
            search_path: own_path
                .map(|(_, value)| value.into())
                .or_else(|| env::var_os("PATH")),
            home: env::var_os("HOME").map(PathBuf::from),
        };
        Ok(Self {
            indexes: vec![index],
            name: server.name().to_owned(),
            outside: outside(&target, |program| installed.has(program)),
            target,
            directory: directory.to_owned(),
            env: server.env.iter().cloned().collect(),
            headers: server.headers.clone(),
        })
    }

    /// Returns whether both plans start or ask the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.target == other.target
            && self.env == other.env
            && self.headers == other.headers
            && self.directory == other.directory
    }

    /// Starts or asks the server, and lists its definitions.
    pub(super) fn offer(
        &self,
        confinement: &StartConfinement,
        max_message: usize,
    ) -> Result<ServerOffer, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            match &self.target {
                StartTarget::Command(words) => self.started(words, confinement).await,
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

    async fn started(&self, words: &[String], confinement: &StartConfinement) -> Result<ServerOffer, String> {
        let temporary =
            TemporaryDirectory::new().map_err(|error| format!("it has no temporary directory: {error}"))?;
        let mut command = self.command(words, confinement)?;
        command.env("TMPDIR", temporary.path());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
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

    fn command(&self, words: &[String], confinement: &StartConfinement) -> Result<Command, String> {
        let confined = Confinement {
            here: !confinement.has_namespaces,
            network: confinement.has_network,
            open: self.outside.is_some() || !confinement.has_sandbox(),
            words: words.iter().map(Into::into).collect(),
            ..Confinement::default()
        };
        let command = confined.command(&confinement.own);
        let mut command = Command::from(command.map_err(|error| error.to_string())?);
        let its_own = self.env.iter();
        command
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((name, env::var_os(name)?))))
            .envs(OFFLINE.iter().filter(|_| !confinement.has_network).copied())
            .envs(its_own.map(|(name, value)| (confined::variable_name(name), value)))
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// The programs that the host's administrator installed, as a server's command finds them.
struct Installed<'a> {
    /// The directory in which the server starts.
    directory: &'a Path,
    search_path: Option<OsString>,
    home: Option<PathBuf>,
}

impl Installed<'_> {
    /// Returns whether a name leads to an installed program. A project can contain a file of any name, so the name
    /// alone proves nothing.
    fn has(&self, program: &str) -> bool {
        let is_program = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & EXECUTABLE != 0)
        };
        let called = match program.contains('/') {
            true => Some(self.directory.join(program)).filter(is_program),
            false => self.search_path.as_ref().and_then(|search_path| {
                let places = env::split_paths(search_path);
                let mut found = places.map(|place| self.directory.join(place).join(program));
                found.find(is_program)
            }),
        };
        let is_installed = || {
            let called = called?;
            // Both the link and its target must be root's, because the owner of a link chooses the target.
            let link = fs::canonicalize(called.parent()?).ok()?.join(called.file_name()?);
            let real = fs::canonicalize(&called).ok()?;
            Some([link, real].iter().all(|path| self.is_of_root(path)))
        };
        is_installed().unwrap_or_default()
    }

    /// Returns whether only root can have made a file, and it is neither in the project nor in a home.
    fn is_of_root(&self, path: &Path) -> bool {
        let excluded = [Some(self.directory), self.home.as_deref()];
        let mut excluded = excluded
            .into_iter()
            .flatten()
            .filter_map(|place| fs::canonicalize(place).ok());
        let is_elsewhere = !excluded.any(|place| place.parent().is_some() && path.starts_with(place));
        let is_of_root = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|about| {
                about.uid() == 0 && (about.is_symlink() || about.mode() & WRITTEN_BY_OTHERS == 0)
            })
        };
        is_elsewhere
            && path
                .ancestors()
                .all(|path| is_of_root(path) && !holds_home_itself(path))
    }
}

/// Returns whether a directory is a home in one of the usual places.
fn holds_home_itself(path: &Path) -> bool {
    path.parent().is_some() && holds_home(path, None)
}

/// Returns the reason why a server cannot be started in the sandbox.
fn outside(target: &StartTarget, is_installed: impl Fn(&str) -> bool) -> Option<String> {
    let StartTarget::Command(words) = target else {
        return None;
    };
    let called = words.iter().take(1).cloned().chain(LaunchRules::searched(words));
    let named = called.filter(|program| starts_container(program) || makes_sandbox(program));
    named.filter(|program| is_installed(program)).find_map(|program| {
        if starts_container(&program) {
            return Some(format!(
                "{program} has a daemon start it, in a container with the files and the network that the command gives it"
            ));
        }
        makes_sandbox(&program)
            .then(|| format!("{program} makes a sandbox of its own, and cannot in another one"))
    })
}

/// Returns whether a client would replace a part of this text.
fn has_variable(text: &str) -> bool {
    text.contains("${") || text.contains("{env:") || text.contains("{file:")
}

/// Kills the whole process group. In their own namespaces, processes that left the group die too.
async fn end(child: &mut Child) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    if let Some(group) = group {
        // It is no error if the group has ended.
        let _gone = killpg(group, Signal::SIGKILL);
    }
    let _ended = child.wait().await;
}

/// Returns the end of a server's standard error, on one line. All of it is read, so that the server never waits.
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
    let start = masked
        .char_indices()
        .rev()
        .nth(MAX_REPORTED)
        .map_or(0, |(at, _)| at);
    masked[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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

    #[test_case("docker", &["run", "-i", "mcp/time"] => true; "a container")]
    #[test_case("env", &["A=b", "/usr/bin/docker", "run", "-i", "mcp/time"] => true; "a container behind another program")]
    #[test_case("sh", &["-c", "exec bwrap --bind / / npx -y a"] => true; "another sandbox in a line of a shell")]
    #[test_case("npx", &["-y", "docker-mcp"] => false; "a package")]
    #[test_case("node", &["docker"] => false; "a script")]
    fn servers_that_start_outside_of_the_sandbox(command: &str, args: &[&str]) -> bool {
        let server = serde_json::json!({"command": command, "args": args}).to_string();
        outside(&plan(&server).unwrap().target, |_| true).is_some()
    }

    #[test_case("/bin/sh" => true; "a program of the host")]
    #[test_case("sh" => true; "one that is searched")]
    #[test_case("./docker" => false; "a file of the project")]
    #[test_case("./linked" => false; "a link of the project")]
    #[test_case("../elsewhere/docker" => false; "a file beside the project, where everybody may write")]
    #[test_case("absent" => false; "none")]
    #[test_case("podman" => false; "a file of the project that the search path leads to")]
    fn programs_of_the_host(program: &str) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().join("project");
        for name in ["project/docker", "project/podman", "elsewhere/docker"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink("/bin/sh", project.join("linked")).unwrap();
        let installed = Installed {
            directory: &project,
            search_path: Some(".:/usr/bin:/bin".into()),
            home: None,
        };
        installed.has(program)
    }

    fn confinement(has_network: bool, has_namespaces: bool, known: usize) -> StartConfinement {
        StartConfinement {
            has_network,
            has_namespaces,
            unsupported: SandboxFeature::ALL[known..].to_vec(),
            own: OwnFiles::default(),
        }
    }

    #[test_case(false, true, 7 => (vec!["minor"], Some((true, false))); "a whole sandbox")]
    #[test_case(true, true, 6 => (vec!["minor"], Some((true, true))); "with the network, UDP is wanted")]
    #[test_case(false, true, 4 => (vec!["minor", "minor"], Some((true, false))); "a kernel that knows no devices")]
    #[test_case(false, true, 0 => (vec!["serious"], Some((false, false))); "no Landlock")]
    #[test_case(false, false, 6 => (vec!["serious", "minor"], Some((true, true))); "no namespaces, and UDP is left")]
    #[test_case(false, false, 7 => (vec!["serious", "minor"], Some((true, false))); "no namespaces")]
    #[test_case(false, false, 0 => (vec!["serious", "serious"], Some((false, true))); "neither")]
    fn gaps(
        has_network: bool,
        has_namespaces: bool,
        known: usize,
    ) -> (Vec<&'static str>, Option<(bool, bool)>) {
        let confinement = confinement(has_network, has_namespaces, known);
        let gaps = confinement.gaps();
        let severities = gaps
            .iter()
            .map(|gap| if gap.is_serious { "serious" } else { "minor" });
        let plan = plan(r#"{"command": "x"}"#).unwrap();
        assert_eq!(
            plan.is_confined(&confinement),
            gaps.iter().all(|gap| !gap.is_serious)
        );
        let applied = plan.applied(&confinement);
        (
            severities.collect(),
            applied.map(|applied| (applied.has_sandbox, applied.has_network)),
        )
    }
}
