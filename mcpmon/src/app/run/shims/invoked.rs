//! Invocation as a shim: under the name of a launcher, this program executes the real launcher at once, unless that
//! starts an MCP server.

use std::{
    convert::Infallible,
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write as _},
    iter,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use mcpmon_config::{LocalConfig, Search, Trust};
use mcpmon_detect::launch::{Launch, LaunchRules};
use mcpmon_engine::{launch_rules, recognise};
use mcpmon_stdio::OpenProgram;

use super::{DEFAULT_PATH, INHERITED, InheritedSettings, NAMES, PROGRAM};
use crate::app::{
    run::{
        codex,
        gateways::{self, AgentCircumstances, GatewayError},
    },
    wrap::is_wrapped,
};

/// Most links that are followed, as many as the kernel follows.
const LINKS: usize = 40;

/// The reason why a launcher is not executed.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// There is no other program of this name.
    #[error("{0}: command not found")]
    NotFound(String),
    /// The program would use another provider than the session's proxy.
    #[error(
        "its models are at {0}, as its configuration says, and the LLM proxy of this session does not speak to that: run it as `mcpmon run -- COMMAND`"
    )]
    Unproxied(String),
    /// The agent's configuration cannot be followed.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The program cannot be executed.
    #[error("cannot execute {}", .program.display())]
    Execute {
        /// The launcher, or the wrapper.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl ShimError {
    /// Returns the exit status, as shells define it.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::Execute { .. } | Self::Unproxied(_) | Self::Gateway(_) => 126,
        }
    }
}

/// Executes the launcher, or the installed server, under whose name this program was started. Returns `None` if that is
/// not the name of a launcher, and no shim of that name led here.
pub fn run() -> Option<Result<Infallible, ShimError>> {
    let mut words = env::args_os();
    let first = words.next()?;
    let name = shim_name(&first, &first, &env::var_os("PATH").unwrap_or_default())?;
    Some(launch(&name, &first, &words.collect::<Vec<_>>()))
}

fn launch(name: &str, first: &OsStr, arguments: &[OsString]) -> Result<Infallible, ShimError> {
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let real = real(name, &path).ok_or_else(|| ShimError::NotFound(name.to_owned()))?;
    let mut command = match server(name, arguments, || told(name, first, &path)) {
        Some((launch, inherited)) => wrapper(&launch, &inherited, &real, arguments),
        None => {
            let mut command = Command::new(&real);
            // A program that is called by a path also gets one as its name, because it may look for files beside
            // itself.
            if !first.as_encoded_bytes().contains(&b'/') {
                command.arg0(first);
            }
            let openai = told(name, first, &path).and_then(|told| told.openai);
            match openai {
                Some(url) => command.args(told_codex(name, arguments, &url)?),
                None => command.args(arguments),
            };
            command
        }
    };
    let source = command.exec();
    let program = command.get_program().into();
    Err(ShimError::Execute { program, source })
}

/// Returns the program that `program` executes below a wrapper if it is a shim; `None` for any other program, and for a
/// shim that would refuse to execute one. A wrapper starts that program directly, because the shim is no part of the
/// server.
pub(crate) fn shim_target(program: &OpenProgram, search_path: Option<&OsStr>) -> Option<OpenProgram> {
    if !(is_this(&program.path) || is_ours(&program.path)) {
        return None;
    }
    let (first, arguments) = program.arguments.split_first()?;
    let path = search_path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let name = shim_name(first, program.path.as_os_str(), path)?;
    let real = real(&name, path)?;
    let openai = told(&name, program.path.as_os_str(), path).and_then(|told| told.openai);
    let arguments = match openai {
        Some(url) => told_codex(&name, arguments, &url).ok()?,
        None => arguments.to_vec(),
    };
    let mut real = OpenProgram::resolve(real.as_os_str(), &arguments, search_path).ok()?;
    if real.scripts.is_empty() && !first.as_encoded_bytes().contains(&b'/') {
        real.arguments[0].clone_from(first);
    }
    Some(real)
}

/// Returns the name of the shim that is started as `first` and is at `place`; `None` if that is neither a launcher nor an
/// installed server.
fn shim_name(first: &OsStr, place: &OsStr, search_path: &OsStr) -> Option<String> {
    let name = Path::new(first).file_name()?.to_str()?;
    let mut launchers = NAMES.into_iter().chain([codex::PROGRAM]);
    let is_shim =
        launchers.any(|known| known == name) || name != PROGRAM && told(name, place, search_path).is_some();
    is_shim.then(|| name.to_owned())
}

/// Returns the arguments of a launcher, with the settings for Codex if it starts that. If Codex is configured for a
/// provider that the session's proxy does not connect to, it is not started, because its requests would not go through
/// the proxy.
fn told_codex(name: &str, arguments: &[OsString], url: &str) -> Result<Vec<OsString>, ShimError> {
    let directory = env::current_dir().unwrap_or_default();
    let gateways = AgentCircumstances::here(name.as_ref(), arguments, &directory).gateways()?;
    if let Some(gateway) = gateways.iter().find(|gateway| !gateway.url.is_empty()) {
        return Err(ShimError::Unproxied(gateway.url.clone()));
    }
    let settings = match gateways.is_empty() {
        true => vec![codex::openai(url)],
        false => gateways::tell(&gateways, |_| Some(url.to_owned()), |_| None).codex,
    };
    Ok(codex::told(name.as_ref(), arguments.to_vec(), &settings))
}

/// Returns the server that the command starts, and the settings for its wrapper; `None` if it starts none.
fn server(
    name: &str,
    arguments: &[OsString],
    told: impl FnOnce() -> Option<InheritedSettings>,
) -> Option<(Launch, InheritedSettings)> {
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let argv: Vec<String> = iter::once(name.to_owned()).chain(words).collect();
    // Arguments for the server itself decide nothing, not even `--help`: the server may serve all the same.
    let is_conversation = is_pipe(0) && is_pipe(1) && LaunchRules::hears(&argv);
    if !is_conversation || is_wrapped() {
        return None;
    }
    let told = told();
    let is_told = told.is_some();
    let inherited = told.unwrap_or_default();
    let local = match inherited.allow_local_config {
        true => LocalConfig::Allow,
        false => LocalConfig::Ignore,
    };
    let search = Search::of_process(inherited.config.clone(), local);
    let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
    // The wrapper reports a mistake in the configuration; here it must not stop other programs.
    let policy = mcpmon_config::load(&search, trust).map(|loaded| loaded.policy);
    let policy = policy.unwrap_or_default();
    let launch = recognise(&policy, &launch_rules(&policy), &argv)?;
    if !is_told {
        // If standard error cannot be written, the server is wrapped all the same.
        let _told = writeln!(
            io::stderr(),
            "mcpmon: no readable {INHERITED} beside the launcher {name}: {} is wrapped with the usual configuration, \
             store and socket; `mcpmon shim install` writes the file anew",
            launch.server.as_str()
        );
    }
    Some((launch, inherited))
}

/// Builds the command that runs the real launcher below `mcpmon wrap`.
fn wrapper(launch: &Launch, inherited: &InheritedSettings, real: &Path, arguments: &[OsString]) -> Command {
    let own = fs::read_link("/proc/self/exe").ok().filter(|path| path.exists());
    let mut command = Command::new(own.unwrap_or_else(|| "/proc/self/exe".into()));
    command.arg0("mcpmon").arg("wrap");
    command.arg("--server").arg(launch.server.as_str());
    command.arg("--socket").arg(&inherited.socket);
    for (option, file) in [("--config", &inherited.config), ("--db", &inherited.db)] {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    if inherited.allow_local_config {
        command.arg("--allow-local-config");
    }
    command.arg("--").arg(real).args(arguments);
    command
}

/// Returns whether `path` has a program of this name that is not mcpmon.
pub(super) fn is_there(name: &str, path: &OsStr) -> bool {
    real(name, path).is_some()
}

/// Returns the first program of this name in `path` that is not mcpmon.
fn real(name: &str, path: &OsStr) -> Option<PathBuf> {
    let is_real =
        |candidate: &PathBuf| is_executable(candidate) && !is_this(candidate) && !is_ours(candidate);
    candidates(name, path).find(is_real)
}

fn candidates(name: &str, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    env::split_paths(path).map(move |directory| directory.join(name))
}

/// Returns the settings for wrappers. They are looked for beside the called shim, its link's target, and other shims of
/// this program in `path`: the shell may have found the shim there, or a user may have linked to it.
fn told(name: &str, first: &OsStr, path: &OsStr) -> Option<InheritedSettings> {
    let is_path = first.as_encoded_bytes().contains(&b'/');
    let called = is_path.then(|| PathBuf::from(first));
    let launchers = called.into_iter().chain(candidates(name, path));
    launchers
        .filter(|launcher| is_this(launcher))
        .flat_map(|launcher| steps(&launcher).collect::<Vec<_>>())
        .find_map(|step| serde_json::from_slice(&fs::read(step.with_file_name(INHERITED)).ok()?).ok())
}

/// Returns the settings of the shims in front of `PATH`; they also apply to wrappers that a client starts directly.
pub fn inherited() -> InheritedSettings {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut names = [PROGRAM].into_iter().chain(NAMES);
    let found = names.find_map(|name| told(name, name.as_ref(), &path));
    found.unwrap_or_default()
}

/// Returns whether a path leads to this same program.
pub(crate) fn is_this(path: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    file(path).is_ok_and(|other| file(Path::new("/proc/self/exe")).is_ok_and(|own| own == other))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether a path leads to a shim of any copy of this program: two copies that took each other for the real
/// launcher would start each other forever.
fn is_ours(path: &Path) -> bool {
    steps(path)
        .any(|step| step.file_name() == Some(PROGRAM.as_ref()) || step.with_file_name(INHERITED).exists())
}

/// Returns a path and the targets of its links, one after the other.
fn steps(path: &Path) -> impl Iterator<Item = PathBuf> {
    let target = |link: &PathBuf| Some(link.parent()?.join(fs::read_link(link).ok()?));
    iter::successors(Some(path.to_owned()), target).take(LINKS)
}

/// Returns whether a descriptor is a pipe or a socket, which some clients use as one.
fn is_pipe(descriptor: u32) -> bool {
    let kind = fs::metadata(format!("/proc/self/fd/{descriptor}")).map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use test_case::test_case;

    use super::*;

    /// The pipes are not part of this test, because a test cannot choose its own.
    #[test_case("npx -y @modelcontextprotocol/server-memory" => true)]
    #[test_case("npx -y @modelcontextprotocol/server-memory --help" => true; "a word for the server")]
    #[test_case("npx --tag next @modelcontextprotocol/server-memory help" => true; "a last word for the server")]
    #[test_case("uvx mcp-server-git -h" => true; "a letter for the server")]
    #[test_case("uvx --build-constraints x mcp-server-git --version" => true; "behind an option of uvx")]
    #[test_case("pipx run mcp-server-git version" => true; "a word of many servers")]
    #[test_case("docker run -i mcp/time -t -d" => true; "letters for the server")]
    #[test_case("docker run -i mcp/time --help" => true; "a word behind the image")]
    #[test_case("docker mcp gateway run" => true; "a server of the client's own")]
    #[test_case("npx --help @modelcontextprotocol/server-memory" => false; "asked for help itself")]
    #[test_case("uvx --version mcp-server-git" => false; "asked for its own version")]
    #[test_case("docker run --help -i mcp/time" => false; "asked about a verb")]
    #[test_case("docker run -d mcp/time" => false; "in the background")]
    #[test_case("docker run -e -i mcp/time" => false; "an option that is a value")]
    #[test_case("docker pull mcp/time" => false; "nothing is started")]
    fn only_conversations_are_wrapped(line: &str) -> bool {
        let policy = mcpmon_policy::Policy::default();
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        LaunchRules::hears(&argv) && recognise(&policy, &launch_rules(&policy), &argv).is_some()
    }

    #[test]
    fn the_real_one_is_the_first_that_is_not_this_program() {
        let root = tempfile::tempdir().expect("a directory");
        let directories = ["shims", "older", "broken", "real", "later"].map(|name| root.path().join(name));
        for directory in &directories {
            fs::create_dir(directory).expect("a directory");
        }
        let [shims, older, broken, real, later] = &directories;
        for directory in [shims, older] {
            symlink("/proc/self/exe", directory.join("npx")).expect("a link");
        }
        fs::write(broken.join("npx"), "").expect("no program");
        for directory in [real, later] {
            symlink("/bin/cat", directory.join("npx")).expect("a program");
        }
        let path = env::join_paths(&directories).expect("a path");
        assert_eq!(super::real("npx", &path), Some(real.join("npx")));
        assert_eq!(
            super::real("npx", shims.as_os_str()),
            None,
            "never this program again"
        );
        assert!(is_there("npx", &path) && !is_there("npx", shims.as_os_str()) && !is_there("uvx", &path));
    }

    /// Two copies of this program, as from a package and from `cargo install`.
    #[test]
    fn a_launcher_of_another_copy_is_not_the_real_one() {
        let root = tempfile::tempdir().expect("a directory");
        let directories = ["copy", "named", "marked", "elsewhere", "real"].map(|name| root.path().join(name));
        for directory in &directories {
            fs::create_dir(directory).expect("a directory");
        }
        let [copy, named, marked, elsewhere, real] = &directories;
        for name in [PROGRAM, "mcpmon-next"] {
            fs::copy("/proc/self/exe", copy.join(name)).expect("a copy");
        }
        symlink("../copy/mcpmon", named.join("npx")).expect("a link");
        symlink(copy.join("mcpmon-next"), marked.join("npx")).expect("a link");
        fs::write(marked.join(INHERITED), "").expect("a file");
        symlink("../marked/npx", elsewhere.join("npx")).expect("a link");
        symlink("/bin/cat", real.join("npx")).expect("a program");
        for launcher in [named, marked, elsewhere] {
            assert!(!is_there("npx", launcher.as_os_str()), "{}", launcher.display());
        }
        let path = env::join_paths(&directories).expect("a path");
        assert_eq!(super::real("npx", &path), Some(real.join("npx")));
    }

    /// The store in the settings shows which file was read.
    #[test]
    fn what_a_wrapper_is_told_is_beside_a_launcher() {
        let root = tempfile::tempdir().expect("a directory");
        let directories = ["bare", "broken", "shims", "other", "bin"].map(|name| root.path().join(name));
        for directory in &directories {
            fs::create_dir(directory).expect("a directory");
        }
        let [bare, broken, shims, other, bin] = &directories;
        for directory in [bare, broken, shims] {
            symlink("/proc/self/exe", directory.join("npx")).expect("a launcher");
        }
        symlink("../shims/npx", bin.join("npx")).expect("a link to a launcher");
        symlink("/bin/cat", other.join("npx")).expect("a program");
        fs::write(broken.join(INHERITED), "{").expect("a file");
        for directory in [shims, other] {
            let inherited = InheritedSettings {
                db: Some(directory.clone()),
                ..InheritedSettings::default()
            };
            fs::write(
                directory.join(INHERITED),
                serde_json::to_vec(&inherited).expect("JSON"),
            )
            .expect("a file");
        }
        let store = |first: &Path, path: &[&PathBuf]| {
            let path = env::join_paths(path).expect("a path");
            told("npx", first.as_os_str(), &path).map(|inherited| inherited.db.expect("a store"))
        };
        let name = Path::new("npx");
        assert_eq!(store(name, &[bare, other, broken, shims]).as_ref(), Some(shims));
        assert_eq!(store(name, &[bin]).as_ref(), Some(shims), "by a link elsewhere");
        assert_eq!(
            store(&bin.join("npx"), &[]).as_ref(),
            Some(shims),
            "called by a path"
        );
        assert_eq!(store(&bare.join("npx"), &[shims]).as_ref(), Some(shims));
        assert_eq!(
            store(name, &[bare, broken, other]),
            None,
            "of no launcher of this program"
        );
    }

    #[test]
    fn a_wrapper_is_told_what_the_run_was_told() {
        let inherited = InheritedSettings {
            config: Some("/c.yaml".into()),
            db: Some("/d.db".into()),
            socket: "/s.sock".into(),
            allow_local_config: true,
            openai: None,
        };
        let policy = mcpmon_policy::Policy::default();
        let argv = ["npx", "-y", "@modelcontextprotocol/server-memory"].map(str::to_owned);
        let launch = recognise(&policy, &launch_rules(&policy), &argv).expect("a server");
        let arguments: Vec<OsString> = argv[1..].iter().map(OsString::from).collect();
        let command = wrapper(&launch, &inherited, Path::new("/usr/bin/npx"), &arguments);
        let words: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
        assert_eq!(
            words.join(" "),
            "wrap --server server-memory --socket /s.sock --config /c.yaml --db /d.db --allow-local-config -- \
             /usr/bin/npx -y @modelcontextprotocol/server-memory"
        );
    }
}
