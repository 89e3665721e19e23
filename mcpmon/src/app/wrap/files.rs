//! Files of a wrapped server, before and after it is started.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpmon_detect::launch::{LaunchRules, Member, Stage};
use mcpmon_model::{Part, ProcessRef, ServerFiles};
use mcpmon_pins::{HashError, Hasher, Launcher, Plan, Process};
use mcpmon_session::StartedServer;
use mcpmon_stdio::{OpenProgram, tree::descendants};

use crate::app::{
    hashing::{self, chain, entry, unknown},
    host,
    run::{is_this, shim_target},
    sandbox,
};

use super::WrapOptions;

/// Most bytes read of a process's arguments.
const MAX_ARGUMENTS: u64 = 256 * 1024;

/// Describes the start of a server at `path`, as far as it is known before.
pub(super) fn launch(options: &WrapOptions, path: PathBuf) -> StartedServer {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    StartedServer {
        process: ProcessRef {
            comm: path.file_name().map(|name| name.to_string_lossy().into_owned()),
            uid: Some(nix::unistd::getuid().as_raw()),
            exe: Some(path.clone()),
            ..ProcessRef::default()
        },
        command: text(&options.program),
        arguments: options.arguments.iter().map(text).collect(),
        files: unknown(&path, "it was not read before the server ended"),
        environment: Vec::new(),
    }
}

/// The files that a server is started from, kept open until they are measured.
pub(super) struct PlannedFiles {
    file: File,
    path: PathBuf,
    name: OsString,
    environment: Vec<(OsString, OsString)>,
    stage: Stage,
    /// The program, if a dynamic loader is told to run it.
    loaded: Option<String>,
    /// The program's script, in its state before the start.
    script: Option<Script>,
}

/// A script that its interpreter opens by its path, some time after the script was looked at.
struct Script {
    path: PathBuf,
    state: State,
}

/// The attributes that differ after a file was written or replaced, even by the same content: device, inode, size, and
/// the times of the last change of content and attributes.
type State = (u64, u64, u64, [(i64, i64); 2]);

impl Script {
    fn of(stage: &Stage) -> Option<Self> {
        let Stage::Script { path } = stage else {
            return None;
        };
        let path = PathBuf::from(path);
        let state = state(&path)?;
        Some(Self { path, state })
    }

    /// Returns whether the interpreter may have read other content.
    fn is_another(&self) -> bool {
        state(&self.path) != Some(self.state)
    }
}

fn state(path: &Path) -> Option<State> {
    let file = fs::metadata(path).ok()?;
    let times = [
        (file.mtime(), file.mtime_nsec()),
        (file.ctime(), file.ctime_nsec()),
    ];
    Some((file.dev(), file.ino(), file.size(), times))
}

/// The kind of program that is started.
pub(super) enum Begun {
    /// The server itself.
    Server(PlannedFiles),
    /// The launcher of the server, which can be measured while it runs.
    Launcher(Launcher),
}

/// Returns the kind of program that `program` starts.
pub(super) fn begun(program: &OpenProgram, environment: &[(OsString, OsString)]) -> io::Result<Begun> {
    Ok(match PlannedFiles::of(program, environment)? {
        Some(planned) => Begun::Server(planned),
        None => Begun::Launcher(launcher(program, sandbox::variable(environment, "PATH"))?),
    })
}

impl PlannedFiles {
    /// Returns the files of `program` if it is the server, or the interpreter of the server. Returns `None` for a
    /// launcher.
    fn of(program: &OpenProgram, environment: &[(OsString, OsString)]) -> io::Result<Option<Self>> {
        let arguments: Vec<_> = program
            .arguments
            .iter()
            .map(|argument| argument.to_string_lossy())
            .collect();
        let stage = LaunchRules::stage(&arguments);
        if matches!(stage, Stage::Launcher | Stage::Shell { .. }) {
            return Ok(None);
        }
        Ok(Some(Self {
            file: program.file.try_clone()?,
            path: program.path.clone(),
            name: program.arguments.first().cloned().unwrap_or_default(),
            environment: environment.to_vec(),
            script: Script::of(&stage),
            stage,
            loaded: LaunchRules::loaded_program(&arguments).map(str::to_owned),
        }))
    }

    /// Measures the files as they are now. A script that was changed in between counts as unknown: if the old content
    /// was put back, its digest is the old one, and the server may run the other.
    pub(super) fn measure(&self, hasher: &mut Hasher) -> ServerFiles {
        let plan = Plan {
            file: &self.file,
            path: &self.path,
            name: &self.name,
            environment: &self.environment,
        };
        let mut files = told(hasher.planned(plan, &entry(&self.stage, self.loaded.as_deref()), &|| false));
        if let Some(script) = self.script.as_ref().filter(|script| script.is_another()) {
            files.script = Some(Part::Unknown {
                path: script.path.clone(),
                cause: "it was written or replaced while the server started".to_owned(),
            });
        }
        files
    }
}

/// Returns the files that `program` leads to before the server runs: its scripts and itself, and the programs
/// that a shell or prefix in it looks up.
fn launcher(program: &OpenProgram, search_path: Option<&OsStr>) -> io::Result<Launcher> {
    let arguments = program
        .arguments
        .iter()
        .map(|argument| argument.to_string_lossy());
    let looked_up = LaunchRules::searched(&arguments.collect::<Vec<_>>());
    let looked_up: Vec<OpenProgram> = looked_up
        .iter()
        .filter_map(|name| OpenProgram::resolve(OsStr::new(name), &[], search_path).ok())
        // A shell executes what it finds. Only this very program is known to start the real launcher.
        .map(|program| {
            let target = is_this(&program.path).then(|| shim_target(&program, search_path));
            target.flatten().unwrap_or(program)
        })
        .collect();
    let mut seen = BTreeSet::new();
    let files = std::iter::once(program).chain(&looked_up).flat_map(|program| {
        let scripts = program.scripts.iter().map(|(path, file)| (path.as_path(), file));
        scripts.chain([(program.path.as_path(), &program.file)])
    });
    Launcher::of_files(files.filter(|(_, file)| {
        let identity = file.metadata().map(|file| (file.dev(), file.ino()));
        identity.is_ok_and(|identity| seen.insert(identity))
    }))
}

/// Measures a launcher as it is now.
pub(super) fn measure_launcher(hasher: &mut Hasher, launcher: &Launcher, files: &mut ServerFiles) {
    if let Ok(found) = hashing::launcher(hasher, launcher, &|| false) {
        files.launcher = found;
    }
}

/// Measures the files of the serving process: `started`, or a process that it started by way of `launcher`.
pub(super) fn running(hasher: &mut Hasher, started: u32, launcher: &Launcher) -> ServerFiles {
    let (pid, stage, loaded) = serving(started);
    let mut files = match stage {
        // The launcher's server has ended meanwhile.
        Stage::Launcher => unknown(Path::new(""), "the process that served is gone"),
        Stage::Script { .. }
        | Stage::Module { .. }
        | Stage::Shell { .. }
        | Stage::Program
        | Stage::Container { .. }
        | Stage::Inline => {
            let process = Process::open(pid).map_err(HashError::from);
            let entry = entry(&stage, loaded.as_deref());
            told(process.and_then(|process| hasher.server(&process, &entry, None, &|| false)))
        }
    };
    measure_launcher(hasher, launcher, &mut files);
    files
}

fn told(measured: Result<ServerFiles, HashError>) -> ServerFiles {
    measured.unwrap_or_else(|error| unknown(Path::new(""), &chain(&error)))
}

/// Finds the serving process among `started` and its descendants. Returns also its stage, and the program that a
/// dynamic loader was told to run.
fn serving(started: u32) -> (u32, Stage, Option<String>) {
    let output = |pid: u32| fs::read_link(format!("/proc/{pid}/fd/1")).ok();
    let pipe = output(started);
    let family: Vec<u32> = [started].into_iter().chain(descendants(started)).collect();
    let member = |pid: &u32| Member {
        argv: host::arguments(*pid, MAX_ARGUMENTS),
        is_heard: output(*pid) == pipe,
    };
    let members: Vec<Member> = family.iter().map(member).collect();
    let position = LaunchRules::serving(&members);
    let argv = &members[position].argv;
    let loaded = LaunchRules::loaded_program(argv).map(str::to_owned);
    (family[position], LaunchRules::stage(argv), loaded)
}
