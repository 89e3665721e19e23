//! `cargo xtask test`: runs every test, on a machine that needs only Rust and apt to begin with.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    build_ebpf, collector, day, demo, packages,
    privilege::Privilege,
    real_servers,
    shell::{self, Environment, say, step},
    unpacked::{NGINX, PROMETHEUS},
    vm::{self, VmArgs},
};

/// The packages whose integration tests load kernel programs: directly, and with the built program.
const ROOT_TESTS: [&str; 3] = ["mcpmon-kernel-tests", "mcpmon-e2e", "mcpmon-day"];

/// The package whose integration tests run the built program without root.
const RED_TEAM: &str = "mcpmon-redteam";

/// Integration tests with a root daemon or with kernel programs, which see the servers of other tests: each runs alone.
const ALONE: [&str; 3] = ["host", "kernel", "day"];
/// The integration test of the red team.
const RED_TEAM_TEST: &str = "cases";
/// Other integration tests with the built program, the longest first: they run beside each other.
const BESIDE: [&str; 7] = [
    "llm",
    "real",
    "wrap",
    "http",
    "remote",
    "telemetry",
    RED_TEAM_TEST,
];
/// Most of these at a time: they mostly wait.
const LANES: usize = 2;

/// Commands that the end-to-end tests start, and the Debian packages that contain them.
const USED: [(&str, &str); 15] = [
    ("bash", "bash"),
    ("bwrap", "bubblewrap"),
    ("chromium", "chromium"),
    ("dnsmasq", "dnsmasq-base"),
    ("faketime", "faketime"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("podman", "podman"),
    ("python3", "python3"),
    ("rg", "ripgrep"),
    ("runc", "runc"),
    ("setpriv", "util-linux"),
    ("socat", "socat"),
    ("tmux", "tmux"),
    ("unshare", "util-linux"),
];

/// The test that loads an object with a log.
const LOG_TEST: &str = "lines_of_the_programs_come";

/// Prepares, builds and tests.
pub(crate) fn run() -> Result<()> {
    build_ebpf::run()?;
    let logging = build_ebpf::logging()?;
    install()?;
    let tests = IntegrationTests::find()?;
    shell::both(|| step("tests", || unit_tests(&tests)), download)?;
    step("the programs that the end-to-end tests run", || {
        // Built without the other packages, whose features differ from those of a release.
        let programs = ["--package", "mcpmon", "--package", "mcpmon-conformant-server"];
        shell::run(shell::cargo().args(["build", "--locked"]).args(programs))
    })?;
    // The tests on this host mostly wait, and an emulator only computes.
    shell::both(
        || on_this_host(&tests, logging.as_deref()),
        || step("kernel tests on other kernels", other_kernels),
    )
}

/// Installs what the tests need of the distribution; may ask for consent.
pub(crate) fn install() -> Result<()> {
    packages::require_commands("testing with real servers", &USED)?;
    real_servers::prerequisites()?;
    day::prerequisites()?;
    for package in [PROMETHEUS, NGINX] {
        skipped_outside_ci(package.unpack().map(drop))?;
    }
    Ok(())
}

/// Downloads the rest of what the tests need. It mostly waits for the network.
pub(crate) fn download() -> Result<()> {
    real_servers::install()?;
    day::install()?;
    collector::install()?;
    skipped_outside_ci(vm::provide(&VmArgs::default()))
}

/// Runs the tests that start the built program.
fn on_this_host(tests: &IntegrationTests, logging: Option<&Path>) -> Result<()> {
    step("build the end-to-end tests", || {
        let mut build = cargo_test();
        build
            .arg("--no-run")
            .args(tests.of(|package| !is_of_units(package)));
        shell::run(&mut build)
    })?;
    step("end-to-end tests without a root daemon", || {
        let command = |name| {
            let mut command = cargo_test();
            command.args(["--test", name]);
            // The attacks of the red team are those of a user.
            if name != RED_TEAM_TEST {
                as_root(&mut command);
            }
            (name, command)
        };
        shell::beside(LANES, BESIDE.map(command).into())
    })?;
    step("tests on the running kernel", || root_tests(logging))?;
    step("the demo, whose scenes must end as they do in the README", demo)
}

/// Returns whether the integration tests of a package need neither root nor the built program.
fn is_of_units(package: &str) -> bool {
    package != RED_TEAM && !ROOT_TESTS.contains(&package)
}

/// Runs the tests that need neither root nor the built program.
fn unit_tests(tests: &IntegrationTests) -> Result<()> {
    let mut cargo = cargo_test();
    shell::run(cargo.args(["--lib", "--bins"]).args(tests.of(is_of_units)))
}

/// Makes a test run of the whole workspace. Tests are selected by their names, not by their packages: for each
/// selection of packages Cargo would build their common dependencies again, with fewer features.
fn cargo_test() -> Command {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
    cargo.args(["--exclude", "mcpmon-ebpf"]);
    cargo
}

/// The integration tests of the workspace, from Cargo's metadata.
#[derive(Debug, Deserialize)]
struct IntegrationTests {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    test: bool,
}

impl IntegrationTests {
    fn find() -> Result<Self> {
        let mut cargo = shell::cargo();
        cargo.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
        let output = cargo.output().context("cannot start cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed: {}",
            output.status
        );
        let found: Self =
            serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata says")?;
        found.check()?;
        Ok(found)
    }

    /// Checks the names of tests. Names select the tests of a run, so a test with the name of another would run in the
    /// wrong one. Examples and benches would not run at all.
    fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for name in self.of(|_| true).filter(|argument| *argument != "--test") {
            ensure!(
                names.insert(name),
                "two integration tests are called {name}: rename one"
            );
        }
        let started = self
            .of(|package| !is_of_units(package))
            .filter(|argument| *argument != "--test");
        for name in started {
            ensure!(
                ALONE.contains(&name) || BESIDE.contains(&name),
                "the integration test {name} starts the built program, and would not run: name it in xtask/src/test.rs"
            );
        }
        let others = self
            .packages
            .iter()
            .flat_map(|package| &package.targets)
            .find(|target| {
                target.test
                    && target
                        .kind
                        .iter()
                        .any(|kind| kind == "example" || kind == "bench")
            });
        if let Some(target) = others {
            bail!(
                "{} is tested as no test: make it one, or set test = false",
                target.name
            );
        }
        Ok(())
    }

    /// Returns the arguments that select the integration tests of some packages.
    fn of(&self, package: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.packages
            .iter()
            .filter(move |one| package(&one.name))
            .flat_map(|one| &one.targets)
            .filter(|target| target.kind.iter().any(|kind| kind == "test"))
            .flat_map(|target| ["--test", target.name.as_str()])
    }
}

/// Runs the demo as a test. If it cannot run, CI fails; elsewhere the reason is printed.
fn demo() -> Result<()> {
    skipped_outside_ci(demo::test())
}

/// Runs the kernel tests in QEMU. If they cannot run, CI fails; elsewhere the reason is printed.
fn other_kernels() -> Result<()> {
    let usual = VmArgs::default();
    skipped_outside_ci(vm::prepare(&usual).and_then(|lab| vm::boot_each(&usual, &lab)))
}

fn skipped_outside_ci(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if !shell::is_ci() && error.is::<Environment>() => {
            say(format_args!("skipped: {error:#}"));
            Ok(())
        }
        outcome => outcome,
    }
}

/// Runs tests as root if possible. Without root, the tests print why they are skipped, and fail in CI.
fn root_tests(logging: Option<&Path>) -> Result<()> {
    let mut units = cargo_test();
    // Tests that are ignored elsewhere need root.
    units.args(["--lib", "--bins", "--", "--ignored"]);
    match logging {
        Some(object) => drop(units.env(build_ebpf::LOGGING_OBJECT, object)),
        None => {
            say("the kernel log's test is left out: the kernel programs are prebuilt");
            units.args(["--skip", LOG_TEST]);
        }
    }
    let mut alone = cargo_test();
    alone.args(ALONE.iter().flat_map(|name| ["--test", name]));
    for command in [&mut units, &mut alone] {
        as_root(command);
        shell::run(command)?;
    }
    Ok(())
}

/// Has Cargo start tests as root if that is possible.
fn as_root(command: &mut Command) {
    if Privilege::current() == Privilege::Sudo {
        command.env(runner_variable(), "sudo --preserve-env");
    }
}

/// Returns the variable with the program through which Cargo starts every test binary of this host.
fn runner_variable() -> String {
    let host = format!("{}_unknown_linux_gnu", std::env::consts::ARCH);
    format!("CARGO_TARGET_{}_RUNNER", host.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const HTTP: &str = r#"{"name": "http", "kind": ["test"], "test": true}"#;

    #[test_case(&[HTTP] => None; "one")]
    #[test_case(&[HTTP, HTTP] => Some("two integration tests are called http: rename one".to_owned()); "two of a name")]
    #[test_case(&[r#"{"name": "x", "kind": ["example"], "test": false}"#] => None; "an example")]
    #[test_case(&[r#"{"name": "x", "kind": ["example"], "test": true}"#] =>
        Some("x is tested as no test: make it one, or set test = false".to_owned()); "an example with tests")]
    fn every_test_is_run(targets: &[&str]) -> Option<String> {
        told("a", targets)
    }

    #[test_case(&[HTTP] => None; "one that is named")]
    #[test_case(&[r#"{"name": "new", "kind": ["test"], "test": true}"#] =>
        Some("the integration test new starts the built program, and would not run: name it in xtask/src/test.rs".to_owned()); "one that is not")]
    fn every_end_to_end_test_is_run(targets: &[&str]) -> Option<String> {
        told("mcpmon-e2e", targets)
    }

    fn told(package: &str, targets: &[&str]) -> Option<String> {
        let targets = targets.join(",");
        let told = format!(r#"{{"packages": [{{"name": "{package}", "targets": [{targets}]}}]}}"#);
        let tests: IntegrationTests = serde_json::from_str(&told).expect("metadata");
        tests.check().err().map(|error| error.to_string())
    }
}
