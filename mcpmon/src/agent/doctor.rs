//! An examination of the host: everything the daemon needs, tried out.

use std::{fs, path::Path};

use mcpmon_config::{Search, Trust};
use mcpmon_kernel::{
    addresses::Enforcement,
    cgroup::CgroupRoot,
    preflight::{self, Missing},
    sensor::{Sensor, SensorError},
};
use mcpmon_policy::{
    Policy,
    network::table::{Numbering, Resolved, compile},
};
use mcpmon_stdio::{Domain, SandboxFeature, unsupported_features};

use super::{
    control::{self, Answer, AskError, Request},
    group, kept,
    selftest::{self, Check, CheckOutcome},
};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject of the check.
    pub subject: String,
    /// The state of the subject.
    pub verdict: Verdict,
    /// The result in words.
    pub detail: String,
    /// The remedy.
    pub remedy: Option<String>,
}

/// The state of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Good,
    /// Something is lost, and what is left works.
    Degraded,
    /// The daemon cannot work.
    Broken,
    /// The check could not be made.
    Unknown,
}

impl Finding {
    fn new(subject: &str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            subject: subject.to_owned(),
            verdict,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }
}

/// Looks at everything. With a daemon on `socket` its own self-test is run; without one the programs are
/// loaded for a moment, where privileges allow it.
#[must_use]
pub fn examine(search: &Search, socket: &Path, bpffs: &Path) -> Vec<Finding> {
    let missing = preflight::missing();
    let mut findings = prerequisites(&missing);
    findings.push(cgroup());
    findings.push(exec_gate());
    findings.push(isolation());
    findings.push(sandbox(&unsupported_features()));
    findings.push(group_exists());
    findings.push(configuration(search));
    match control::request(socket, &Request::SelfTest) {
        Ok(Answer::Checks(checks)) => {
            findings.push(Finding::new(
                "daemon",
                Verdict::Good,
                format!("answers on {}", socket.display()),
            ));
            findings.extend(checks.into_iter().map(check));
        }
        Ok(
            Answer::Status(_)
            | Answer::Trusted { .. }
            | Answer::TrustedExecutable { .. }
            | Answer::Decided(_)
            | Answer::Done
            | Answer::Error(_),
        ) => findings.push(
            Finding::new("daemon", Verdict::Broken, "answers, but not to this version")
                .remedy("restart it: `sudo systemctl restart mcpmon`"),
        ),
        Err(error) => {
            findings.push(daemon(&error));
            findings.push(kernel_state(bpffs));
            findings.extend(trial(&missing));
        }
    }
    findings
}

fn prerequisites(missing: &[Missing]) -> Vec<Finding> {
    let subject = |thing: &Missing| match thing {
        Missing::Capabilities(_) => "privileges",
        Missing::Kernel(_) => "kernel version",
        Missing::Btf => "kernel type information",
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let good = [
        ("privileges", "may load and attach kernel programs".to_owned()),
        ("kernel version", release.trim().to_owned()),
        ("kernel type information", "BTF is there".to_owned()),
    ];
    good.into_iter()
        .map(
            |(name, detail)| match missing.iter().find(|thing| subject(thing) == name) {
                None => Finding::new(name, Verdict::Good, detail),
                Some(thing) => Finding::new(name, Verdict::Broken, thing.to_string()),
            },
        )
        .collect()
}

fn cgroup() -> Finding {
    match CgroupRoot::find() {
        Ok(root) => Finding::new(
            "cgroup v2",
            Verdict::Good,
            format!("root at {}", root.path.display()),
        ),
        Err(error) => Finding::new("cgroup v2", Verdict::Broken, error.to_string()),
    }
}

/// Checks the ways of refusing starts on this host: the one in use, and the requirements of a stricter one.
fn exec_gate() -> Finding {
    let lsm = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let unused = if lsm.split(',').any(|name| name.trim() == "bpf") {
        "BPF LSM is active here, and not used by this version"
    } else {
        "BPF LSM is not active here, and not needed by this version"
    };
    let detail = format!(
        "a pinned server is stopped just after exec and compared; a program known to be changed is killed at exec; {unused}"
    );
    Finding::new("exec gate", Verdict::Good, detail)
}

/// Checks that servers can be kept away from the processes of others.
fn isolation() -> Finding {
    match Domain::new() {
        Ok(_) => Finding::new(
            "server isolation",
            Verdict::Good,
            "wrapped servers start in a Landlock domain: they cannot reach into processes of others",
        ),
        Err(error) => Finding::new("server isolation", Verdict::Degraded, error.to_string()).remedy(
            "wrapped servers can write past their wrapper: use Linux 5.19 or later with Landlock, another user or a container",
        ),
    }
}

/// Judges a kernel without these parts of a sandbox. UDP is the newest, and nobody misses it who has not switched the
/// network off.
fn sandbox(unsupported: &[SandboxFeature]) -> Finding {
    let subject = "server sandbox";
    if unsupported.contains(&SandboxFeature::Files) {
        return Finding::new(
            subject,
            Verdict::Degraded,
            "this kernel has no Landlock, or has it switched off",
        )
        .remedy("`sandbox` of a server has no effect: use Linux 5.13 or later with `landlock` among `lsm=`");
    }
    let missing = unsupported.iter().map(|feature| {
        let (without, kernel) = (feature.without(), feature.kernel());
        format!("{without} before Linux {kernel}")
    });
    let missing: Vec<String> = missing.collect();
    match unsupported {
        [] => Finding::new(subject, Verdict::Good, "files and connections of a server can be restricted"),
        [SandboxFeature::Udp] => Finding::new(
            subject,
            Verdict::Good,
            format!("files and TCP connections of a server can be restricted; {}", missing.join("; ")),
        ),
        _ => Finding::new(subject, Verdict::Degraded, missing.join("; ")).remedy(
            "a server's `sandbox` has what this kernel enforces: use a newer one, or `egress` with the daemon for connections",
        ),
    }
}

fn group_exists() -> Finding {
    let name = group::GROUP;
    match group::find() {
        Some(number) => Finding::new("group", Verdict::Good, format!("`{name}` is number {number}")),
        None => Finding::new(
            "group",
            Verdict::Degraded,
            format!("there is no group `{name}`: only root reads the store"),
        )
        .remedy(format!(
            "`sudo groupadd --system {name}`, then restart the daemon"
        )),
    }
}

fn configuration(search: &Search) -> Finding {
    match mcpmon_config::load(search, Trust::for_user(nix::unistd::geteuid().as_raw())) {
        Ok(loaded) => {
            let sources: Vec<String> = loaded.sources.iter().map(ToString::to_string).collect();
            Finding::new("configuration", Verdict::Good, sources.join(", "))
        }
        Err(error) => Finding::new("configuration", Verdict::Broken, error.to_string())
            .remedy("`mcpmon policy check` shows every mistake"),
    }
}

fn daemon(error: &AskError) -> Finding {
    match error {
        AskError::NotRunning(_) => Finding::new(
            "daemon",
            Verdict::Degraded,
            format!("{error}: nothing new is judged, and only what passes a wrapper or a proxy is seen"),
        )
        .remedy("`sudo mcpmon daemon`, or `sudo systemctl start mcpmon`"),
        AskError::Permission(_) => Finding::new("daemon", Verdict::Unknown, error.to_string())
            .remedy("run the command with sudo, or join the group mcpmon"),
        AskError::Silent | AskError::Io(_) | AskError::Answer(_) => {
            Finding::new("daemon", Verdict::Broken, error.to_string())
                .remedy("restart it: `sudo systemctl restart mcpmon`")
        }
    }
}

/// Examines what is in force without a daemon. It is tried before programs are loaded that refuse the same address.
fn kernel_state(bpffs: &Path) -> Finding {
    const NAME: &str = "kernel state";
    let directory = bpffs.display();
    let refuses = kept::is_refusing();
    match kept::look(bpffs) {
        Ok(Some(kept)) if refuses => Finding::new(
            NAME,
            Verdict::Good,
            format!(
                "{} programs are kept in {directory}, and refuse the self-test's address without a daemon",
                kept.programs.len()
            ),
        ),
        Ok(Some(_)) => Finding::new(
            NAME,
            Verdict::Broken,
            format!("what is kept in {directory} refuses nothing"),
        )
        .remedy("start the daemon, which attaches it anew; or remove it: `sudo mcpmon detach`"),
        Ok(None) => Finding::new(
            NAME,
            Verdict::Degraded,
            format!("nothing is kept in {directory}: without a daemon nothing is refused"),
        ),
        Err(error) => Finding::new(NAME, Verdict::Unknown, error.to_string()),
    }
}

/// Loads the programs with an empty policy, tests them, and detaches them.
fn trial(missing: &[Missing]) -> Vec<Finding> {
    if !missing.is_empty() {
        let detail = "not tried: something they need is missing";
        return vec![Finding::new("kernel programs", Verdict::Unknown, detail)];
    }
    let mut sensor = match Sensor::start(&[]) {
        Ok(sensor) => sensor,
        Err(error) => return vec![Finding::new("kernel programs", Verdict::Broken, chain(&error))],
    };
    let tables = compile(&Policy::default(), &Resolved::new(), &mut Numbering::default());
    let tables = tables.expect("an empty policy fits every table");
    if let Err(error) = sensor.addresses.install(&tables, Enforcement::Enforce) {
        return vec![Finding::new(
            "kernel programs",
            Verdict::Broken,
            error.to_string(),
        )];
    }
    let loaded = Finding::new(
        "kernel programs",
        Verdict::Good,
        "the verifier takes them, and they attach",
    );
    let checks = selftest::run_alone(&mut sensor.rings, sensor.attached.links());
    let gaps: Vec<Finding> = sensor
        .attached
        .gaps()
        .iter()
        .map(|gap| Finding::new(gap.component, Verdict::Degraded, gap.to_string()))
        .collect();
    std::iter::once(loaded)
        .chain(gaps)
        .chain(checks.into_iter().map(check))
        .collect()
}

fn check(check: Check) -> Finding {
    match check.outcome {
        CheckOutcome::Passed => Finding::new("self-test", Verdict::Good, check.name),
        CheckOutcome::Skipped(cause) => {
            Finding::new("self-test", Verdict::Degraded, format!("{}: {cause}", check.name))
        }
        CheckOutcome::Failed(cause) => {
            Finding::new("self-test", Verdict::Broken, format!("{}: {cause}", check.name)).remedy(
                "see docs/kernel.md; another program may hold the cgroup, or this kernel is not supported",
            )
        }
    }
}

fn chain(error: &SensorError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
