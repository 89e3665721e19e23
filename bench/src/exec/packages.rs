//! The cost of a package's files for its server's start: packages of one, a thousand and ten thousand files of code.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::median;
use mcpmon_e2e::{daemon::Daemon, host::Host, json::text, servers, site::Site, wait};
use serde::Serialize;
use serde_json::json;

use crate::{
    site,
    witness::{Witness, now},
};

const SIZES: [usize; 3] = [1, 1000, 10_000];
/// Starts of each kind.
const STARTS: usize = 5;
/// Files in a directory.
const MAX_IN_DIRECTORY: usize = 100;
/// For so long a server runs while it is looked at.
const LONG: Duration = Duration::from_secs(30);
/// A digest of a younger file is not kept.
const SETTLED: Duration = Duration::from_secs(3);
const SCRIPT: &str = include_str!("witness.js");

/// Medians, in milliseconds, and what the daemon needs.
#[derive(Debug, Serialize)]
pub(crate) struct Package {
    pub(crate) files: usize,
    /// SHA-256 of the files by `sha256sum`.
    pub(crate) sha256sum: f64,
    /// Until the server acts, without mcpmon.
    pub(crate) without: f64,
    /// The same with the daemon, which knows the digests.
    pub(crate) known: f64,
    /// With one that reads all files again.
    pub(crate) anew: f64,
    /// Watches that the daemon has while the server starts.
    pub(crate) watches: usize,
    /// Resident memory of the daemon in MiB, before the first start.
    pub(crate) before: f64,
    /// At most.
    pub(crate) peak: f64,
    /// When nothing is watched any more.
    pub(crate) after: f64,
}

/// A package of npm that serves.
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
    // It reads again what was too young at the pin.
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
    /// Writes it as npm does below `directory`, its entry among so many.
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

    /// Starts it until the daemon has pinned it.
    fn pin(&self, daemon: &Daemon, witness: &Witness) -> Result<()> {
        let mut first = witness.start(self.command(), LONG)?;
        let started = daemon.start_of(&self.name, 1)?;
        first.kill()?;
        first.wait()?;
        ensure!(text(&started, "pin") == "pinned", "it is not pinned: {started}");
        Ok(())
    }

    /// Milliseconds until it acts.
    fn act(&self, witness: &Witness) -> Result<f64> {
        Ok(self.run(witness, || Ok(()))?.0)
    }

    /// The same, and what is looked at while it runs.
    fn run<T>(&self, witness: &Witness, look: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
        let started = now()?;
        let mut server = witness.start(self.command(), LONG)?;
        let acts = wait::until("the server to run", || witness.act_since(started));
        let seen = look();
        server.kill()?;
        server.wait()?;
        Ok((acts?, seen?))
    }

    /// Other times, which make all digests unknown.
    fn touch(&self) -> Result<()> {
        for file in &self.files {
            File::options()
                .append(true)
                .open(file)?
                .set_modified(SystemTime::now())?;
        }
        Ok(())
    }

    /// Milliseconds that another program takes.
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

/// Mebibytes of the daemon, by their name in `/proc`.
fn memory(daemon: &Daemon, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|line| line.split_whitespace().next())
        .with_context(|| format!("no {name}"))?;
    Ok(resident.parse::<f64>()? / 1024.0)
}

/// Files and directories that the daemon watches.
fn watched(daemon: &Daemon) -> Result<usize> {
    let mut watches = 0;
    for entry in fs::read_dir(format!("/proc/{}/fdinfo", daemon.pid()))? {
        // A descriptor may be closed meanwhile.
        let information = fs::read_to_string(entry?.path()).unwrap_or_default();
        watches += information
            .lines()
            .filter(|line| line.starts_with("inotify "))
            .count();
    }
    Ok(watches)
}
