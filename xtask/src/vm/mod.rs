//! `cargo xtask vm`: runs the kernel tests on other kernels, in machines that exist for one run.

mod architecture;
mod boot;
mod coverage;
mod cpio;
mod image;
mod modules;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    build_ebpf, packages,
    privilege::{self, Change, Privilege},
    shell::{self, Environment, say, step},
};

use self::{
    architecture::Architecture,
    boot::Report,
    coverage::Coverage,
    image::{KERNELS, Kernel},
};
pub(crate) use self::{
    cpio::{Archive, Member},
    image::Image,
};

/// Runs the kernel tests on other kernels, in QEMU under software emulation.
#[derive(Debug, clap::Args)]
pub(crate) struct VmArgs {
    /// Kernels to boot (see --list)
    #[arg(value_name = "KERNEL", default_values = USUAL_KERNELS, value_parser = parse_kernel)]
    kernels: Vec<Kernel>,
    /// List the kernels that are known
    #[arg(long)]
    list: bool,
    /// Keep the initramfs and print the command that boots it
    #[arg(long)]
    keep: bool,
    /// Seconds after which a machine is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = USUAL_TIMEOUT)]
    timeout: u64,
    /// Debian archive to fetch kernels from [default: the one this machine uses]
    #[arg(long, value_name = "URL", env = "MCPMON_VM_MIRROR")]
    mirror: Option<String>,
    /// Security modules for the kernels to run, with or without `bpf`, in place of their own choice
    #[arg(long, value_name = "LIST", value_parser = parse_modules)]
    lsm: Option<String>,
    /// Write what was found to docs/kernel-coverage.md
    #[arg(long, conflicts_with = "filter")]
    write_coverage: bool,
    /// Run only tests whose name contains this
    #[arg(last = true)]
    filter: Vec<String>,
}

/// The kernel that most hosts have.
const USUAL_KERNEL: &str = "6.1";
/// The kernels that every run of the tests boots: the oldest, the most common, and the newest.
const USUAL_KERNELS: [&str; 3] = ["5.10", USUAL_KERNEL, "newest"];
/// Much longer than a run takes under software emulation, seconds.
const USUAL_TIMEOUT: u64 = 900;

impl Default for VmArgs {
    /// Returns the values of the command without options.
    fn default() -> Self {
        Self {
            kernels: USUAL_KERNELS
                .into_iter()
                .filter_map(|name| parse_kernel(name).ok())
                .collect(),
            list: false,
            keep: false,
            timeout: USUAL_TIMEOUT,
            mirror: env::var("MCPMON_VM_MIRROR").ok(),
            lsm: None,
            write_coverage: false,
            filter: Vec::new(),
        }
    }
}

/// Links the test program statically, so that it needs no other files, and strips it, so that it is unpacked quickly.
const STATIC_FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols";
/// Lines of the serial log shown for a machine that failed.
const TAIL_LINES: usize = 60;

fn parse_kernel(text: &str) -> Result<Kernel, String> {
    KERNELS
        .into_iter()
        .find(|kernel| kernel.name == text)
        .ok_or_else(|| {
            let known = KERNELS.map(|kernel| kernel.name).join(", ");
            format!("this kernel is not known; known are {known}")
        })
}

/// Parses a list for the kernel parameter `lsm=`.
fn parse_modules(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    if text.split(',').all(is_name) {
        Ok(text.to_owned())
    } else {
        Err("names of security modules are separated by commas, as in lockdown,yama,bpf".to_owned())
    }
}

/// Prepares the lab and boots each requested kernel.
pub(crate) fn run(args: &VmArgs) -> Result<()> {
    if args.list {
        for kernel in KERNELS {
            shell::print(format_args!("{:10} Debian {}", kernel.name, kernel.suite));
        }
        return Ok(());
    }
    build_ebpf::run()?;
    boot_each(args, &prepare(args)?)
}

/// The parts that every machine of the lab needs, whatever its kernel.
#[derive(Debug)]
pub(crate) struct Lab {
    directory: PathBuf,
    /// The tests, as one static file for each architecture.
    programs: BTreeMap<Architecture, PathBuf>,
}

/// Installs and downloads what the requested kernels need.
pub(crate) fn provide(args: &VmArgs) -> Result<()> {
    if env::consts::ARCH != "x86_64" {
        let reason = format!("the lab runs on x86_64, this machine is {}", env::consts::ARCH);
        return Err(Environment(reason).into());
    }
    for kernel in &args.kernels {
        provide_emulator(kernel.architecture)?;
        fetch(args, *kernel)?;
    }
    Ok(())
}

/// Prepares the lab for the requested kernels; the kernel programs are built before.
pub(crate) fn prepare(args: &VmArgs) -> Result<Lab> {
    provide(args)?;
    let directory = directory();
    let mut programs = BTreeMap::new();
    for kernel in &args.kernels {
        let architecture = kernel.architecture;
        if let Entry::Vacant(place) = programs.entry(architecture) {
            let title = format!(
                "build the kernel tests as one static program for {}",
                architecture.target()
            );
            place.insert(step(&title, || build_tests(&directory, architecture))?);
        }
    }
    Ok(Lab { directory, programs })
}

fn directory() -> PathBuf {
    shell::target().join("vm")
}

fn fetch(args: &VmArgs, kernel: Kernel) -> Result<Image> {
    image::fetch(&directory(), kernel, args.mirror.as_deref())
        .with_context(|| format!("cannot fetch kernel {}", kernel.name))
}

/// Boots each requested kernel. Returns an error if one of them failed, or differs from `docs/kernel-coverage.md`.
pub(crate) fn boot_each(args: &VmArgs, Lab { directory, programs }: &Lab) -> Result<()> {
    let mut coverage = Coverage::read()?;
    let mut failed = Vec::new();
    for kernel in &args.kernels {
        let image = fetch(args, *kernel)?;
        let program = programs.get(&kernel.architecture);
        let program = program.context("the lab was prepared for other kernels")?;
        let report = test(args, directory, *kernel, &image, program)?;
        if !report.passed() {
            failed.push(kernel.name);
        } else if args.write_coverage {
            coverage.put(*kernel, &report.tests);
            coverage.write()?;
        } else if args.filter.is_empty() {
            coverage.check(*kernel, &report.tests)?;
        }
    }
    ensure!(failed.is_empty(), "kernel tests failed on {}", failed.join(", "));
    Ok(())
}

/// Returns the image of the most common kernel, for other machines than the lab's.
pub(crate) fn usual_image() -> Result<Image> {
    provide_emulator(Architecture::X86_64)?;
    let mirror = env::var("MCPMON_VM_MIRROR").ok();
    image::fetch(&directory(), usual_kernel()?, mirror.as_deref())
}

/// Returns the Debian release of this kernel, and an archive of it.
pub(crate) fn usual_release() -> Result<(&'static str, String)> {
    let mirror = env::var("MCPMON_VM_MIRROR").or_else(|_| image::configured_mirror())?;
    Ok((usual_kernel()?.suite, mirror))
}

fn usual_kernel() -> Result<Kernel> {
    parse_kernel(USUAL_KERNEL).map_err(anyhow::Error::msg)
}

/// Boots the image with other files, and returns whether the program that ran there passed.
pub(crate) fn boot_root(image: &Image, root: Root<'_>, log: &Path, limit: Duration) -> Result<bool> {
    let command = || {
        let mut command = boot::command(image, root.initramfs, root.parameters);
        // If an option is given twice, the emulator uses the second.
        command.args(["-m", root.memory]);
        command
    };
    // A whole system starts its test later than the lab's init script does, and much later on a busy host.
    let limits = boot::Limits {
        start: limit,
        end: limit,
    };
    let mut report = boot::boot(command(), log, limits)?;
    if !report.started() {
        say("the machine did not start, a second one is tried");
        print_tail(log)?;
        report = boot::boot(command(), log, limits)?;
    }
    Ok(report.passed())
}

/// The files and settings of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root<'a> {
    pub(crate) initramfs: &'a Path,
    /// Size of the memory, mebibytes.
    pub(crate) memory: &'a str,
    /// Parameters of the kernel.
    pub(crate) parameters: &'a str,
}

/// Makes sure that the emulator is installed, with the script that prepares any machine for the lab.
fn provide_emulator(architecture: Architecture) -> Result<()> {
    let emulator = architecture.emulator();
    if shell::which(emulator).is_some() {
        return Ok(());
    }
    let provision = || {
        let mut script = shell::command("sh");
        script.args(["vagrant/provision.sh", architecture.purpose()]);
        Privilege::current().elevate(script)
    };
    privilege::consent("the lab needs an emulator", &[provision()], Change::Adds)?;
    packages::run(&mut provision())?;
    ensure!(shell::which(emulator).is_some(), "{emulator} is still missing");
    Ok(())
}

/// Builds the test program as one static file, in a separate target directory, because other flags give other objects.
/// The build has a low priority.
fn build_tests(lab: &Path, architecture: Architecture) -> Result<PathBuf> {
    shell::standard_library(architecture.target()).map_err(Environment)?;
    let mut cargo = shell::command("nice");
    cargo
        .arg(shell::cargo().get_program())
        .args([
            "test",
            "--locked",
            "--quiet",
            "--no-run",
            "--package",
            "mcpmon-kernel-tests",
            "--test",
            "kernel",
        ])
        .args([
            "--target",
            architecture.target(),
            "--message-format",
            "json-render-diagnostics",
            "--target-dir",
        ])
        .arg(lab.join("build"))
        .env("RUSTFLAGS", format!("{STATIC_FLAGS}{}", architecture.flags()))
        // The symbols are stripped.
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_INCREMENTAL", "0")
        .stderr(Stdio::inherit());
    say(format_args!("$ {}", shell::shown(&cargo)));
    let output = cargo.output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the kernel tests do not build ({})",
        output.status
    );
    let built =
        executable(&String::from_utf8_lossy(&output.stdout)).context("cargo named no test program")?;
    // Copied to a name without a hash.
    let program = lab.join(architecture.program());
    fs::copy(&built, &program).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(program)
}

/// Returns the last executable in cargo's JSON messages.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    })
}

/// Boots one kernel, and prints its summary.
fn test(args: &VmArgs, lab: &Path, kernel: Kernel, image: &Image, program: &Path) -> Result<Report> {
    let initramfs = lab.join(format!("{}.cpio", kernel.name));
    fs::write(&initramfs, initial_root(image, program, &args.filter)?)
        .with_context(|| format!("cannot write {}", initramfs.display()))?;
    let log = lab.join(format!("{}.log", kernel.name));
    let parameters = args
        .lsm
        .as_ref()
        .map_or_else(String::new, |modules| format!("lsm={modules}"));
    let command = || boot::command(image, &initramfs, &parameters);
    if args.keep {
        say(shell::shown(&command()));
    }
    let start = Instant::now();
    let limits = boot::Limits {
        start: boot::START,
        end: Duration::from_secs(args.timeout),
    };
    let mut report = boot::boot(command(), &log, limits)?;
    if !report.started() {
        // This is a failure of the emulator, not of the tests: none of them ran.
        say(format_args!(
            "kernel {}: the machine did not start, a second one is tried",
            kernel.name
        ));
        print_tail(&log)?;
        report = boot::boot(command(), &log, limits)?;
    }
    if !args.keep {
        fs::remove_file(&initramfs).with_context(|| format!("cannot remove {}", initramfs.display()))?;
    }
    shell::print(summary(kernel, &report, start.elapsed()));
    if !report.passed() {
        print_tail(&log)?;
    }
    Ok(report)
}

fn summary(kernel: Kernel, report: &Report, took: Duration) -> String {
    let release = report.release.as_deref().unwrap_or(kernel.name);
    let security = report.security.as_deref().unwrap_or("not known");
    let seconds = took.as_secs();
    match (report.counts, report.exit) {
        (Some(counts), Some(_)) => format!(
            "kernel {release}: {} passed, {} failed, {} skipped ({seconds} s; lsm: {security})",
            counts.passed, counts.failed, counts.skipped
        ),
        (_, Some(status)) => {
            format!("kernel {release}: the tests ended with {status}, without a summary ({seconds} s)")
        }
        (_, None) => format!("kernel {release}: the machine gave no result ({seconds} s)"),
    }
}

fn print_tail(log: &Path) -> Result<()> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    say(format_args!("--- end of {} ---", log.display()));
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        say(line);
    }
    Ok(())
}

/// Builds the root file system of a machine: busybox, modules of its kernel, the test program, its arguments, and the
/// init script.
fn initial_root(image: &Image, program: &Path, filter: &[String]) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    if let Some(argument) = filter.iter().find(|argument| argument.contains('\n')) {
        bail!("a filter cannot contain a line break: {argument:?}");
    }
    let arguments: String = filter.iter().map(|argument| format!("{argument}\n")).collect();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "tests"] {
        archive.add(directory, Member::Directory);
    }
    let mut order = String::new();
    for module in &image.modules {
        archive.add(
            &format!("modules/{}.ko", module.name),
            Member::File(&module.content),
        );
        order.push_str(&format!("{}\n", module.name));
    }
    archive.add("modules/order", Member::File(order.as_bytes()));
    // The kernel opens this console for init before devtmpfs is mounted.
    archive.add("dev/console", Member::Device(5, 1));
    archive.add("bin/busybox", Member::Program(&read(&image.busybox)?));
    archive.add("tests/kernel", Member::Program(&read(program)?));
    archive.add("tests/arguments", Member::File(arguments.as_bytes()));
    archive.add("init", Member::Program(include_bytes!("init.sh")));
    Ok(archive.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_is_found_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnot json\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/x/kernel-1\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/x/kernel-1")));
        assert_eq!(executable("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn a_machine_without_a_result_is_told_from_tests_without_a_summary() {
        let kernel = KERNELS[1];
        let silent = Report::default();
        let died = Report {
            exit: Some(139),
            ..Report::default()
        };
        let took = Duration::from_secs(7);
        assert_eq!(
            summary(kernel, &silent, took),
            "kernel 6.1: the machine gave no result (7 s)"
        );
        assert_eq!(
            summary(kernel, &died, took),
            "kernel 6.1: the tests ended with 139, without a summary (7 s)"
        );
    }
}
