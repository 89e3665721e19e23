//! Races for the time between the comparison of a server's files and their use: an attacker watches when they are read,
//! replaces them just then, and restores them when they were used.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{FileExt as _, OpenOptionsExt as _},
            process::ExitStatusExt as _,
        },
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{is, text},
    servers,
};
use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
};

/// The number of races at a time; each has a separate server with separate files.
const SIDE_BY_SIDE: usize = 10;
const ROUNDS: usize = 20;
/// The time in which a replaced server has to be found: the second comparison comes after two seconds.
const FOUND_WITHIN: Duration = Duration::from_secs(6);

const GOOD: &str = "MARK = 'good'\n";
const EVIL: &str = "MARK = 'evil'\n";

/// A program that writes into the file that it is given through a shared mapping, which is dirty before the race or
/// new.
const MAPPER: &str = r#"
import mmap, os, sys
path, early = os.environ["SWAPPED"], sys.argv[1] == 'early'
def map():
    with open(path, 'r+b') as file:
        return mmap.mmap(file.fileno(), 0)
mapping = map() if early else None
if early:
    mapping[0:1] = mapping[0:1]
print('ready', flush=True)
for line in sys.stdin:
    if mapping is None:
        mapping = map()
    at = mapping.find(b'MARK = ')
    mapping[at + 8:at + 12] = line.strip().encode()
    print('done', flush=True)
"#;

/// A way to put other code into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Swap {
    Rename,
    Write,
    WriteByOtherName,
    /// The other name is made for the swap, and removed when the swap is done.
    WriteByNewName,
    /// The other name is removed before the server starts, and a descriptor of it is kept.
    WriteByDescriptor,
    DirtyMapping,
    NewMapping,
    Directory,
}

/// The sign by which the attacker recognises that the file was compared, or is about to be used.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// The file was closed this many times.
    Closed(usize),
    /// The server continues after it was stopped.
    Released,
}

const SWAPS: [Swap; 8] = [
    Swap::Rename,
    Swap::Write,
    Swap::WriteByOtherName,
    Swap::WriteByNewName,
    Swap::WriteByDescriptor,
    Swap::DirtyMapping,
    Swap::NewMapping,
    Swap::Directory,
];
const SIGNS: [Sign; 4] = [Sign::Released, Sign::Closed(1), Sign::Closed(2), Sign::Closed(3)];

/// A server whose script imports a module beside it.
#[derive(Clone, Debug)]
struct Server {
    name: String,
    directory: PathBuf,
    script: PathBuf,
    module: PathBuf,
}

impl Server {
    fn write(below: &Path) -> Result<Self> {
        let name = servers::name();
        let directory = below.join(&name).join("code");
        fs::create_dir_all(&directory)?;
        let (script, module) = (directory.join(&name), directory.join("module.py"));
        fs::write(
            &script,
            format!("{GOOD}import sys, module\nprint(MARK, module.MARK, flush=True)\nsys.stdin.read()\n"),
        )?;
        fs::write(&module, GOOD)?;
        Ok(Self {
            name,
            directory,
            script,
            module,
        })
    }

    fn start(&self) -> Result<Child> {
        let mut command = Command::new("python3");
        command
            .arg(&self.script)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.spawn().context("it does not start")
    }
}

/// An attacker who can put other code into a file, and restore the original.
struct Swapper {
    swap: Swap,
    file: PathBuf,
    /// Another name of the file, if the swap uses one.
    other: PathBuf,
    descriptor: Option<File>,
    mapper: Option<Mapper>,
}

struct Mapper(Child, ChildStdin, BufReader<ChildStdout>);

impl Mapper {
    fn start(file: &Path, kind: &str) -> Result<Self> {
        let mut process = Command::new("python3")
            .args(["-c", MAPPER])
            .arg(kind)
            .env("SWAPPED", file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().context("a pipe")?;
        let output = BufReader::new(process.stdout.take().context("a pipe")?);
        let mut mapper = Self(process, input, output);
        mapper.answer()?;
        Ok(mapper)
    }

    fn store(&mut self, mark: &str) -> Result<()> {
        writeln!(self.1, "{mark}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<()> {
        let mut line = String::new();
        self.2.read_line(&mut line)?;
        ensure!(!line.is_empty(), "it ended");
        Ok(())
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Swapper {
    /// Prepares everything that can be prepared before the race.
    fn prepare(server: &Server, swap: Swap, file: &Path) -> Result<Self> {
        let above = server.directory.parent().context("a directory")?;
        let stem = if file == server.script { "script" } else { "module" };
        let other = above.join(format!("{stem}.other"));
        let descriptor = match swap {
            Swap::WriteByOtherName => {
                fs::hard_link(file, &other)?;
                None
            }
            Swap::WriteByDescriptor => {
                fs::hard_link(file, &other)?;
                let mut options = File::options();
                let opened = options.read(true).custom_flags(libc::O_PATH).open(&other)?;
                fs::remove_file(&other)?;
                Some(opened)
            }
            Swap::Rename
            | Swap::Write
            | Swap::WriteByNewName
            | Swap::DirtyMapping
            | Swap::NewMapping
            | Swap::Directory => None,
        };
        let swapper = Self {
            swap,
            file: file.to_owned(),
            other,
            descriptor,
            mapper: match swap {
                Swap::DirtyMapping => Some(Mapper::start(file, "early")?),
                Swap::NewMapping => Some(Mapper::start(file, "late")?),
                Swap::Rename
                | Swap::Write
                | Swap::WriteByOtherName
                | Swap::WriteByNewName
                | Swap::WriteByDescriptor
                | Swap::Directory => None,
            },
        };
        let evil = fs::read_to_string(file)?.replace(GOOD, EVIL);
        match swap {
            Swap::Rename => fs::write(swapper.beside("evil"), evil)?,
            Swap::Directory => {
                let other = swapper.other_directory("evil")?;
                fs::create_dir_all(&other)?;
                for part in [&server.script, &server.module] {
                    fs::copy(part, other.join(part.file_name().context("a name")?))?;
                }
                fs::write(other.join(file.file_name().context("a name")?), evil)?;
            }
            Swap::Write
            | Swap::WriteByOtherName
            | Swap::WriteByNewName
            | Swap::WriteByDescriptor
            | Swap::DirtyMapping
            | Swap::NewMapping => {}
        }
        Ok(swapper)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.other.with_extension(what)
    }

    fn other_directory(&self, what: &str) -> Result<PathBuf> {
        Ok(self.file.parent().context("a directory")?.with_extension(what))
    }

    fn mark(path: &Path, mark: &str) -> Result<()> {
        let at = "MARK = '".len() as u64;
        Ok(File::options()
            .write(true)
            .open(path)?
            .write_all_at(mark.as_bytes(), at)?)
    }

    fn put(&mut self, mark: &str) -> Result<()> {
        let is_evil = mark == "evil";
        match self.swap {
            Swap::Rename => {
                let kept = self.beside("kept");
                if is_evil {
                    fs::rename(&self.file, &kept)?;
                    fs::rename(self.beside("evil"), &self.file)?;
                } else {
                    fs::rename(&kept, &self.file)?;
                }
            }
            Swap::Directory => {
                let directory = self.file.parent().context("a directory")?.to_owned();
                let (kept, evil) = (self.other_directory("kept")?, self.other_directory("evil")?);
                if is_evil {
                    fs::rename(&directory, &kept)?;
                    fs::rename(&evil, &directory)?;
                } else {
                    fs::rename(&directory, &evil)?;
                    fs::rename(&kept, &directory)?;
                }
            }
            Swap::Write => Self::mark(&self.file, mark)?,
            Swap::WriteByOtherName => Self::mark(&self.other, mark)?,
            Swap::WriteByNewName => {
                if is_evil {
                    fs::hard_link(&self.file, &self.other)?;
                }
                Self::mark(&self.other, mark)?;
                if !is_evil {
                    fs::remove_file(&self.other)?;
                }
            }
            Swap::WriteByDescriptor => {
                let descriptor = self.descriptor.as_ref().context("a descriptor")?;
                let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
                Self::mark(Path::new(&path), mark)?;
            }
            Swap::DirtyMapping | Swap::NewMapping => {
                self.mapper.as_mut().context("a mapping")?.store(mark)?;
            }
        }
        Ok(())
    }
}

/// The outcome of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// The sign did not come before the server had started.
    NoSwap,
    /// The swap came after the server had read its files.
    TooLate,
    /// The server was killed and had not run the other code.
    Prevented,
    /// The server ran the other code, for this time at most.
    Found(Duration),
    /// The server continues to run the other code.
    Unnoticed,
}

/// Waits for the sign, and returns whether it came before the race was over.
fn wait_for(sign: Sign, inotify: &Inotify, pid: u32, is_over: &AtomicBool) -> Result<bool> {
    let mut closed = 0;
    let mut was_stopped = false;
    while !is_over.load(Ordering::Relaxed) {
        match sign {
            Sign::Closed(times) => {
                let mut polled = [PollFd::new(std::os::fd::AsFd::as_fd(inotify), PollFlags::POLLIN)];
                poll(&mut polled, PollTimeout::from(20_u8))?;
                closed += inotify.read_events().map_or(0, |events| events.len());
                if closed >= times {
                    return Ok(true);
                }
            }
            Sign::Released => {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let is_stopped = stat.contains(") T ");
                if was_stopped && !is_stopped {
                    return Ok(true);
                }
                was_stopped |= is_stopped;
                thread::sleep(Duration::from_micros(200));
            }
        }
    }
    Ok(false)
}

fn race(server: &Server, swap: Swap, sign: Sign, file: &Path) -> Result<End> {
    let mut swapper = Swapper::prepare(server, swap, file)?;
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(file, AddWatchFlags::IN_CLOSE_NOWRITE)?;
    let is_over = AtomicBool::new(false);
    let mut process = server.start()?;
    let pid = process.id();
    let mut output = BufReader::new(process.stdout.take().context("a pipe")?);
    let mut said = String::new();
    let (swapped, swapper) = thread::scope(|scope| -> Result<(bool, Swapper)> {
        let attack = scope.spawn(|| -> Result<(bool, Swapper)> {
            let is_time = wait_for(sign, &inotify, pid, &is_over)?;
            if is_time {
                swapper.put("evil")?;
            }
            Ok((is_time, swapper))
        });
        output.read_line(&mut said)?;
        is_over.store(true, Ordering::Relaxed);
        attack.join().ok().context("the attack panicked")?
    })?;
    let mut swapper = swapper;
    let ran = Instant::now();
    if swapped {
        swapper.put("good")?;
    }
    // Removes the other name of a swap that was there before; the next race makes a new one.
    drop(fs::remove_file(&swapper.other));
    drop(swapper);
    let is_evil = said.contains("evil");
    let patience = if is_evil { FOUND_WITHIN } else { Duration::ZERO };
    let status = loop {
        // A server that prints nothing has ended, or is about to.
        let ended = match said.is_empty() {
            true => Some(process.wait()?),
            false => process.try_wait()?,
        };
        if let Some(status) = ended {
            break status;
        }
        if ran.elapsed() >= patience {
            drop(process.stdin.take());
            break process.wait()?;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let end = match (status.signal() == Some(9), is_evil) {
        (true, true) => End::Found(ran.elapsed()),
        (false, true) => End::Unnoticed,
        // A file that is mapped for writing before the start is not compared.
        (true, false) if swapped || swap == Swap::DirtyMapping => End::Prevented,
        (true, false) => {
            anyhow::bail!("a server was killed whose files nobody changed, in a race of {swap:?}")
        }
        // A server also ends if its directory is away for a moment.
        (false, false) if swapped => End::TooLate,
        (false, false) => {
            ensure!(status.success(), "it ended with {status}");
            End::NoSwap
        }
    };
    output.read_to_string(&mut said)?;
    Ok(end)
}

/// The numbers of races with each outcome, for one kind of swap.
#[derive(Debug, Default)]
struct Tally {
    no_swap: usize,
    too_late: usize,
    prevented: usize,
    found: Vec<Duration>,
    unnoticed: usize,
}

impl Tally {
    fn add(&mut self, end: End) {
        match end {
            End::NoSwap => self.no_swap += 1,
            End::TooLate => self.too_late += 1,
            End::Prevented => self.prevented += 1,
            End::Found(time) => self.found.push(time),
            End::Unnoticed => self.unnoticed += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.found.clone();
        times.sort_unstable();
        let (median, max) = (times.get(times.len() / 2), times.last());
        write!(
            f,
            "{} were killed before they ran it, {} after (median {median:?}, at most {max:?}), {} unnoticed; \
             {} swaps came too late, {} races had none",
            self.prevented,
            times.len(),
            self.unnoticed,
            self.too_late,
            self.no_swap
        )
    }
}

#[test]
fn swaps_between_hash_and_use_are_not_unnoticed() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let own = std::process::id();
    let policy = format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: block}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
    );
    let daemon = Daemon::start(&host, &policy)?;
    let on_disk = tempfile::tempdir_in("/var/tmp")?;
    let in_memory = tempfile::tempdir_in("/dev/shm")?;
    let places = [on_disk.path(), in_memory.path()];
    let servers: Vec<Server> = (0..SIDE_BY_SIDE)
        .map(|number| Server::write(places[number % 2]))
        .collect::<Result<_>>()?;
    for server in &servers {
        let mut first = server.start()?;
        daemon.start_of(&server.name, 1)?;
        drop(first.stdin.take());
        first.wait()?;
    }
    let mut tallies = std::collections::BTreeMap::<(Swap, bool), Tally>::new();
    let mut unnoticed = Vec::new();
    for round in 0..ROUNDS {
        let ends: Vec<_> = thread::scope(|scope| {
            let begin = |(number, server): (usize, &Server)| {
                let race_number = round * SIDE_BY_SIDE + number;
                // Servers alternate between disk and memory, so every second number is of the same place.
                let kind = race_number / 2;
                let (swap, sign) = (SWAPS[kind % SWAPS.len()], SIGNS[kind / SWAPS.len() % SIGNS.len()]);
                let of_module = kind / (SWAPS.len() * SIGNS.len()) % 2 == 1;
                let file = if of_module {
                    server.module.clone()
                } else {
                    server.script.clone()
                };
                let server = server.clone();
                scope.spawn(move || {
                    Ok::<_, anyhow::Error>((
                        server.name.clone(),
                        sign,
                        swap,
                        of_module,
                        race(&server, swap, sign, &file)?,
                    ))
                })
            };
            let races: Vec<_> = servers.iter().enumerate().map(begin).collect();
            races.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        for end in ends {
            let (name, sign, swap, of_module, end) = end.ok().context("a race panicked")??;
            if end == End::Unnoticed {
                unnoticed.push(format!(
                    "{name} by {swap:?}, {sign:?}, of the module: {of_module}"
                ));
            }
            tallies.entry((swap, of_module)).or_default().add(end);
        }
    }
    let mut figures = io::stderr().lock();
    for ((swap, of_module), tally) in &tallies {
        let what = if *of_module { "module" } else { "script" };
        writeln!(figures, "{swap:?} of the {what}: {tally}")?;
    }
    let events = daemon.site.events()?;
    let matches = |server: &Server| {
        let starts = events
            .iter()
            .filter(|event| is(event, "mcp_server_started", &server.name));
        starts.filter(|event| text(event, "pin") == "match").count()
    };
    writeln!(
        figures,
        "{} of {} starts as `match`",
        servers.iter().map(matches).sum::<usize>(),
        ROUNDS * SIDE_BY_SIDE
    )?;
    let found: usize = tallies.values().map(|tally| tally.found.len()).sum();
    let denied = events
        .iter()
        .filter(|event| text(event, "type") == "mcp_server_denied")
        .count();
    assert!(denied >= found, "{found} found, {denied} told");
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    for swap in SWAPS {
        let of_it = tallies.iter().filter(|((of, _), _)| *of == swap);
        let caught: usize = of_it.map(|(_, tally)| tally.prevented + tally.found.len()).sum();
        assert!(caught > 0, "no race by {swap:?} was a race");
    }
    Ok(())
}
