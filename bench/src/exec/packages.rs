//! The cost of a package's files at the start of its server, for packages of one, a thousand and ten thousand files of
//! code.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::median;
use mcpmon_e2e::{daemon::Daemon, host::Host, servers, site::Site, wait};
use serde::Serialize;
use serde_json::json;

use crate::{
    site,
    witness::{Witness, now},
};

const SIZES: [usize; 3] = [1, 1000, 10_000];
/// The number of starts of each kind.
const STARTS: usize = 5;
/// The largest number of files in a directory.
const MAX_IN_DIRECTORY: usize = 100;
/// The time for which a server runs while the daemon is examined.
const LONG: Duration = Duration::from_secs(30);
/// The daemon keeps no digest of a file that is younger than this.
const SETTLED: Duration = Duration::from_secs(3);
const SCRIPT: &str = include_str!("witness.js");

/// Medians in milliseconds, and the daemon's memory and watches.
#[derive(Debug, Serialize)]
pub(crate) struct Package {
    pub(crate) files: usize,
    /// The time of `sha256sum` for the files.
    pub(crate) sha256sum: f64,
    /// The time until the server acts, without mcpmon.
    pub(crate) without: f64,
    /// The time until the server acts, with a daemon that knows the digests.
    pub(crate) known: f64,
    /// The time until the server acts, with a daemon that reads all files again.
    pub(crate) anew: f64,
    /// The number of watches that the daemon has while the server starts.
    pub(crate) watches: usize,
    /// Resident memory of the daemon before the first start, in MiB.
    pub(crate) before: f64,
    /// Peak memory of the daemon, in MiB.
    pub(crate) peak: f64,
    /// Resident memory of the daemon after the last watch has ended, in MiB.
    pub(crate) after: f64,
}

/// An npm package that serves.
struct Installed {
    name: String,
    script: PathBuf,
    files: Vec<PathBuf>,
}

pub(crate) fn measure(host: &Host) -> Result<Vec<Package>> {
    SIZES.iter().map(|files| package(host, *files)).collect()
}

fn package(host: &Host, files: usize) -> Result<Package> {
    let site = Site::new(&site::policy("block"))?;
    let package = Installed::write(&site.path("project"), files)?;
    let witness = Witness::new()?;
    let alone = many(|| package.sha256sum())?;
    let without = many(|| package.act(&witness))?;
    let daemon = Daemon::start_at(host, site)?;
    let before = memory(&daemon, "VmRSS:")?;
    package.pin(&daemon, &witness)?;
    thread::sleep(SETTLED);
    // The daemon reads the files again that were too young when they were pinned.
    let watches = package.run(&witness, || watched(&daemon))?.1;
    let known = many(|| package.act(&witness))?;
    let anew = many(|| {
        package.touch()?;
        package.act(&witness)
    })?;
    wait::until("the end of the last watch", || {
        Ok((watched(&daemon)? == 0).then_some(()))
    })?;
    let (peak, after) = (memory(&daemon, "VmHWM:")?, memory(&daemon, "VmRSS:")?);
    let held = site::counter(&daemon, "exec_held")?;
    let expected = 2 * STARTS as u64 + 1;
    ensure!(
        held == expected,
        "the kernel stopped {held} starts, not {expected}"
    );
    site::end(daemon)?;
    Ok(Package {
        files,
        sha256sum: alone,
        without,
        known,
        anew,
        watches,
        before,
        peak,
        after,
    })
}

fn many(mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    let samples = (0..STARTS).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    Ok(median(&samples))
}

impl Installed {
    /// Writes the package as npm does below `directory`, with `files` files including its entry point.
    fn write(directory: &Path, files: usize) -> Result<Self> {
        let name = servers::name();
        let package = directory.join("node_modules").join(&name);
        fs::create_dir_all(&package)?;
        let about = json!({"name": name, "version": "1.0.0", "bin": "index.js"});
        fs::write(package.join("package.json"), about.to_string())?;
        let script = package.join("index.js");
        fs::write(&script, SCRIPT)?;
        let mut written = vec![script.clone()];
        for number in 1..files {
            let part = package.join(format!("part{}", number / MAX_IN_DIRECTORY));
            fs::create_dir_all(&part)?;
            let file = part.join(format!("module{number}.js"));
            fs::write(&file, format!("exports.number = {number};\n"))?;
            written.push(file);
        }
        Ok(Self {
            name,
            script,
            files: written,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("node");
        command.arg(&self.script);
        command
    }

    /// Starts the server, and waits until the daemon has pinned it.
    fn pin(&self, daemon: &Daemon, witness: &Witness) -> Result<()> {
        witness.pin(self.command(), daemon, &self.name)
    }

    /// Returns the milliseconds until the server acts.
    fn act(&self, witness: &Witness) -> Result<f64> {
        Ok(self.run(witness, || Ok(()))?.0)
    }

    /// Starts the server, and calls `look` while it runs. Returns the milliseconds until it acts, and the result of
    /// `look`.
    fn run<T>(&self, witness: &Witness, look: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
        let started = now()?;
        let mut server = witness.start(self.command(), LONG)?;
        let acts = wait::until("the server to run", || witness.act_since(started));
        let seen = look();
        server.kill()?;
        server.wait()?;
        Ok((acts?, seen?))
    }

    /// Changes the times of all files, so that their digests are not known.
    fn touch(&self) -> Result<()> {
        for file in &self.files {
            File::options()
                .append(true)
                .open(file)?
                .set_modified(SystemTime::now())?;
        }
        Ok(())
    }

    /// Returns the milliseconds that `sha256sum` takes for the files.
    fn sha256sum(&self) -> Result<f64> {
        let started = Instant::now();
        let status = Command::new("sha256sum")
            .args(&self.files)
            .stdout(Stdio::null())
            .status()?;
        ensure!(status.success(), "sha256sum ended with {status}");
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

/// Returns a value of the daemon in mebibytes, by its name in `/proc`.
fn memory(daemon: &Daemon, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|line| line.split_whitespace().next())
        .with_context(|| format!("no {name}"))?;
    Ok(resident.parse::<f64>()? / 1024.0)
}

/// Returns the number of files and directories that the daemon watches.
fn watched(daemon: &Daemon) -> Result<usize> {
    let mut watches = 0;
    for entry in fs::read_dir(format!("/proc/{}/fdinfo", daemon.pid()))? {
        // The descriptor may have been closed meanwhile.
        let information = fs::read_to_string(entry?.path()).unwrap_or_default();
        watches += information
            .lines()
            .filter(|line| line.starts_with("inotify "))
            .count();
    }
    Ok(watches)
}
