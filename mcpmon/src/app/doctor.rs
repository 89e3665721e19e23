//! An examination of the host: everything the daemon needs, tried out.

use std::{fs, path::Path, sync::Arc, time::Duration};

use mcpmon_config::{ConfigError, LoadedConfiguration, Search, Trust};
use mcpmon_kernel::{
    addresses::Enforcement,
    cgroup::CgroupRoot,
    preflight::{self, Missing},
    sensor::{Sensor, SensorError},
    sockets,
    starts::{self, Unproved},
};
use mcpmon_model::SandboxRules;
use mcpmon_policy::{
    Policy, SandboxMode, SandboxNetwork, SandboxPolicy, Transport, makes_sandbox,
    network::table::{Numbering, ResolvedNames, compile},
    starts_container,
};
use mcpmon_stdio::{Domain, SandboxFeature, landlock_version, unsupported_features};

use super::{
    control::{self, AskError, DaemonAnswer, DaemonRequest},
    group, kept, rungs,
    selftest::{self, CheckOutcome, SelfTestCheck},
    setup::{WrappedServers, wrapped_servers},
    status::{RunningServer, Status},
};

/// The time in which the canary of the exec gate has to be started.
const CANARY_TIME: Duration = Duration::from_secs(10);

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFinding {
    /// The subject of the check.
    pub subject: String,
    /// The state of the subject.
    pub verdict: DoctorVerdict,
    /// The result in words.
    pub detail: String,
    /// The remedy.
    pub remedy: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoctorVerdict {
    /// The subject is as it should be.
    Good,
    /// A part does not work, and the rest does.
    Degraded,
    /// The daemon cannot work.
    Broken,
    /// The check could not be made.
    Unknown,
}

impl DoctorFinding {
    fn new(subject: &str, verdict: DoctorVerdict, detail: impl Into<String>) -> Self {
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

fn good(subject: &str, detail: impl Into<String>) -> DoctorFinding {
    DoctorFinding::new(subject, DoctorVerdict::Good, detail)
}

fn degraded(subject: &str, detail: impl Into<String>) -> DoctorFinding {
    DoctorFinding::new(subject, DoctorVerdict::Degraded, detail)
}

fn broken(subject: &str, detail: impl Into<String>) -> DoctorFinding {
    DoctorFinding::new(subject, DoctorVerdict::Broken, detail)
}

fn unknown(subject: &str, detail: impl Into<String>) -> DoctorFinding {
    DoctorFinding::new(subject, DoctorVerdict::Unknown, detail)
}

/// Makes all checks. With a daemon on `socket`, its own self-test is run; without one, the kernel programs are loaded
/// for a moment if privileges allow it.
pub fn examine(search: &Search, socket: &Path, bpffs: &Path) -> Vec<DoctorFinding> {
    let missing = preflight::missing();
    let mut findings = prerequisites(&missing);
    findings.push(cgroup());
    let loaded = mcpmon_config::load(search, Trust::for_user(nix::unistd::geteuid().as_raw()));
    let policy = loaded.as_ref().map(|loaded| Arc::clone(&loaded.policy));
    findings.push(exec_gate(&policy.unwrap_or_default()));
    findings.push(open_connections());
    findings.push(isolation());
    let unsupported = unsupported_features();
    findings.push(sandbox(&unsupported));
    findings.push(group_exists());
    findings.push(configuration(&loaded));
    findings.extend(wrapped_servers(search).and_then(wrappers));
    if let Ok(loaded) = &loaded {
        findings.extend(declared_sandboxes(&loaded.policy, &unsupported));
    }
    let answer = match control::request(socket, &DaemonRequest::SelfTest) {
        // This user may not start a self-test.
        Ok(DaemonAnswer::Error(_)) => latest_checks(socket),
        answer => answer,
    };
    match answer {
        Ok(DaemonAnswer::Checks(checks)) => {
            findings.push(good("daemon", format!("answers on {}", socket.display())));
            if let Ok(DaemonAnswer::Status(status)) = control::request(socket, &DaemonRequest::Status) {
                findings.extend(running_sandboxes(&status.servers));
                findings.extend(policy_bundle(&status));
                findings.extend(tap(&status));
            }
            findings.extend(checks.into_iter().map(check));
        }
        Ok(
            DaemonAnswer::Status(_)
            | DaemonAnswer::Trusted { .. }
            | DaemonAnswer::TrustedExecutable { .. }
            | DaemonAnswer::Decided(_)
            | DaemonAnswer::OwnRecords { .. }
            | DaemonAnswer::Done
            | DaemonAnswer::Error(_),
        ) => findings.push(
            broken("daemon", "answers, but not to this version")
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

/// Returns the result of the daemon's latest self-test.
fn latest_checks(socket: &Path) -> Result<DaemonAnswer, AskError> {
    let answer = control::request(socket, &DaemonRequest::Status)?;
    Ok(if let DaemonAnswer::Status(status) = answer {
        DaemonAnswer::Checks(status.checks)
    } else {
        answer
    })
}

/// Checks the tap, if the daemon has one.
fn tap(status: &Status) -> Option<DoctorFinding> {
    let subject = "tap";
    if let Some(cause) = status.degraded.get(subject) {
        let finding = degraded(subject, cause);
        return Some(
            finding.remedy("start the servers with `mcpmon wrap`, or set `exec.unwrapped` to `alert`"),
        );
    }
    let tap = status.tap.as_ref()?;
    let finding = match tap.lost {
        0 => good(subject, tap.to_string()),
        _ => degraded(subject, tap.to_string()).remedy(
            "`mcpmon events --type mcp_events_lost` says of which servers; wrap those that say the most",
        ),
    };
    Some(finding)
}

/// Checks the policy bundle, if the host uses one.
fn policy_bundle(status: &Status) -> Option<DoctorFinding> {
    let bundle = status.policy.bundle.as_ref()?;
    let subject = "policy bundle";
    if let Some(cause) = status.degraded.get(subject) {
        let finding = degraded(subject, cause);
        return Some(finding.remedy("`mcpmon bundle verify FILE --key KEY` says what a host thinks of a bundle; `systemctl reload mcpmon` asks its server at once"));
    }
    let detail = match bundle.serial {
        Some(serial) => format!("serial {serial} of {}", bundle.url),
        None => format!("{} was not asked yet", bundle.url),
    };
    Some(good(subject, detail))
}

fn prerequisites(missing: &[Missing]) -> Vec<DoctorFinding> {
    let subject = |thing: &Missing| match thing {
        Missing::Capabilities(_) => "privileges",
        Missing::Kernel(_) => "kernel version",
        Missing::Btf => "kernel type information",
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let all_good = [
        ("privileges", "may load and attach kernel programs".to_owned()),
        ("kernel version", release.trim().to_owned()),
        ("kernel type information", "BTF is there".to_owned()),
    ];
    all_good
        .into_iter()
        .map(
            |(name, detail)| match missing.iter().find(|thing| subject(thing) == name) {
                None => good(name, detail),
                Some(thing) => broken(name, thing.to_string()),
            },
        )
        .collect()
}

fn cgroup() -> DoctorFinding {
    match CgroupRoot::find() {
        Ok(root) => good("cgroup v2", format!("root at {}", root.path.display())),
        Err(error) => broken("cgroup v2", error.to_string()),
    }
}

/// Describes how starts are refused on this host: the way in use, and what a stricter one requires.
fn exec_gate(policy: &Policy) -> DoctorFinding {
    good(
        "exec gate",
        rungs::rungs(policy, starts::unsupported().as_deref()),
    )
}

/// Checks that connections that are open when a rule is added can be closed.
fn open_connections() -> DoctorFinding {
    const NAME: &str = "open connections";
    match sockets::can_end() {
        Ok(()) => good(NAME, "are cut when a rule comes that refuses them"),
        Err(error) => degraded(
            NAME,
            format!(
                "are not cut when a rule comes that refuses them, only their packets are dropped: {error}"
            ),
        ),
    }
}

/// Checks that servers can be kept from accessing processes of others.
fn isolation() -> DoctorFinding {
    match Domain::new() {
        Ok(_) => good("server isolation", "wrapped servers start in a Landlock domain: they cannot reach into processes of others",
        ),
        Err(error) => degraded("server isolation", error.to_string()).remedy(
            "wrapped servers can write past their wrapper: use Linux 5.19 or later with Landlock, another user or a container",
        ),
    }
}

/// Judges a kernel that lacks these features of a sandbox. UDP is the newest one, and only servers with `network: off`
/// need it.
fn sandbox(unsupported: &[SandboxFeature]) -> DoctorFinding {
    let subject = "server sandbox";
    if unsupported.contains(&SandboxFeature::Files) {
        return degraded(subject, "this kernel has no Landlock, or has it switched off").remedy(
            "`sandbox` of a server has no effect: use Linux 5.13 or later with `landlock` among `lsm=`",
        );
    }
    let missing = unsupported.iter().map(|feature| {
        let (without, kernel) = (feature.without(), feature.kernel());
        format!("{without} before Linux {kernel}")
    });
    let missing: Vec<String> = missing.collect();
    let version =
        landlock_version().map_or_else(String::new, |version| format!("Landlock version {version}: "));
    match unsupported {
        [] => good(subject, format!("{version}files and connections of a server can be restricted"),
        ),
        [SandboxFeature::Udp] => good(subject, format!("{version}files and TCP connections of a server can be restricted; {}", missing.join("; ")),
        ),
        _ => degraded(subject, version + &missing.join("; ")).remedy(
            "a server's `sandbox` has what this kernel enforces: use a newer one, or `egress` with the daemon for connections",
        ),
    }
}

fn group_exists() -> DoctorFinding {
    let name = group::GROUP;
    match group::find() {
        Some(number) => good("group", format!("`{name}` is number {number}")),
        None => degraded(
            "group",
            format!("there is no group `{name}`: only root reads the store"),
        )
        .remedy(format!(
            "`sudo groupadd --system {name}`, then restart the daemon"
        )),
    }
}

fn configuration(loaded: &Result<LoadedConfiguration, ConfigError>) -> DoctorFinding {
    match loaded {
        Ok(loaded) => {
            let sources: Vec<String> = loaded.sources.iter().map(ToString::to_string).collect();
            good("configuration", sources.join(", "))
        }
        Err(error) => {
            broken("configuration", error.to_string()).remedy("`mcpmon policy check` shows every mistake")
        }
    }
}

/// Checks that the wrappers of clients use the policy and the store of this user; `None` if there is no wrapper.
fn wrappers(found: WrappedServers) -> Option<DoctorFinding> {
    let subject = "wrapped servers";
    let WrappedServers { count, elsewhere } = found;
    match (count, &elsewhere[..]) {
        (0, _) => None,
        (_, []) => Some(good(
            subject,
            format!("{count}, with this user's policy and store"),
        )),
        (_, servers) => {
            let detail = format!(
                "{} of {count} use another policy or store than this shell: {}",
                servers.len(),
                servers.join(", ")
            );
            let remedy = "`mcpmon setup` writes the policy and the store into their commands";
            Some(degraded(subject, detail).remedy(remedy))
        }
    }
}

/// Checks the sandbox of each declared server for restrictions that this kernel cannot enforce.
fn declared_sandboxes(policy: &Policy, unsupported: &[SandboxFeature]) -> Vec<DoctorFinding> {
    let declared = policy.servers.iter().filter(|server| !server.sandbox.is_open());
    declared
        .map(|server| {
            let SandboxPolicy { mode, network, .. } = &server.sandbox;
            let rules = SandboxRules {
                files: (*mode != SandboxMode::Off).then(Vec::new),
                connect: None,
                is_offline: *network == SandboxNetwork::Off,
            };
            let subject = format!("sandbox of {}", server.id);
            let words = match network {
                SandboxNetwork::Egress => mode.as_str().to_owned(),
                SandboxNetwork::Off => format!("{}, no network", mode.as_str()),
            };
            if let Transport::Stdio { command, .. } = &server.transport
                && makes_sandbox(command)
            {
                return degraded(&subject, format!("{words}: {command} makes a sandbox of its own, and cannot start in another one"),
                )
                .remedy("take `sandbox` out of its declaration, or start the server itself in it");
            }
            if let Transport::Stdio { command, .. } = &server.transport
                && starts_container(command)
            {
                return degraded(&subject, format!("{words}: {command} has a daemon start a container, and the sandbox holds for the client alone"),
                )
                .remedy("restrict the container by the options of its command");
            }
            let gaps: Vec<String> = unsupported
                .iter()
                .filter(|feature| feature.is_needed(&rules))
                .map(|feature| format!("{} (Linux {})", feature.without(), feature.kernel()))
                .collect();
            match gaps.is_empty() {
                true => good(&subject, words),
                false => degraded(&subject, format!("{words}: {}", gaps.join("; ")),
                )
                .remedy(
                    "use a newer kernel; `egress` with the daemon refuses connections and UDP on this one",
                ),
            }
        })
        .collect()
}

/// Reports the running servers that wrappers started in a sandbox.
fn running_sandboxes(servers: &[RunningServer]) -> Vec<DoctorFinding> {
    let sandboxed = servers
        .iter()
        .filter_map(|server| Some((server, server.sandbox.as_ref()?)));
    sandboxed
        .map(|(server, sandbox)| {
            let verdict = match sandbox.is_whole() {
                true => DoctorVerdict::Good,
                false => DoctorVerdict::Degraded,
            };
            let gaps = sandbox.gaps.iter().map(|gap| format!("; {gap}"));
            DoctorFinding::new(
                "running sandbox",
                verdict,
                format!(
                    "{} (pid {}): {sandbox}{}",
                    server.server_id,
                    server.pid,
                    gaps.collect::<String>()
                ),
            )
        })
        .collect()
}

fn daemon(error: &AskError) -> DoctorFinding {
    match error {
        AskError::NotRunning(_) => degraded(
            "daemon",
            format!("{error}: nothing new is judged, and only what passes a wrapper or a proxy is seen"),
        )
        .remedy("`sudo mcpmon daemon`, or `sudo systemctl start mcpmon`"),
        AskError::Permission(_) => {
            unknown("daemon", error.to_string()).remedy("run the command with sudo, or join the group mcpmon")
        }
        AskError::Silent | AskError::Refused(_) | AskError::Io(_) | AskError::Answer(_) => {
            broken("daemon", error.to_string()).remedy("restart it: `sudo systemctl restart mcpmon`")
        }
    }
}

/// Checks what is enforced without a daemon. Runs before `trial`, whose programs refuse the same address.
fn kernel_state(bpffs: &Path) -> DoctorFinding {
    const NAME: &str = "kernel state";
    let directory = bpffs.display();
    let refuses = kept::is_refusing();
    match kept::look(bpffs) {
        Ok(Some(kept)) if refuses => good(
            NAME,
            format!(
                "{} programs are kept in {directory}, and refuse the self-test's address without a daemon",
                kept.programs.len()
            ),
        ),
        Ok(Some(_)) => broken(NAME, format!("what is kept in {directory} refuses nothing"))
            .remedy("start the daemon, which attaches it anew; or remove it: `sudo mcpmon detach`"),
        Ok(None) => degraded(
            NAME,
            format!("nothing is kept in {directory}: without a daemon nothing is refused"),
        ),
        Err(error) => unknown(NAME, error.to_string()),
    }
}

/// Loads the programs with an empty policy, tests them, and detaches them.
fn trial(missing: &[Missing]) -> Vec<DoctorFinding> {
    if !missing.is_empty() {
        let detail = "not tried: something they need is missing";
        return vec![unknown("kernel programs", detail)];
    }
    let mut sensor = match Sensor::start(&[]) {
        Ok(sensor) => sensor,
        Err(error) => {
            return vec![broken("kernel programs", chain(&error))];
        }
    };
    let tables = compile(
        &Policy::default(),
        &ResolvedNames::new(),
        &mut Numbering::default(),
    );
    let tables = tables.expect("an empty policy fits every table");
    if let Err(error) = sensor.addresses.install(&tables, Enforcement::Enforce) {
        return vec![broken("kernel programs", error.to_string())];
    }
    let loaded = good("kernel programs", "the verifier takes them, and they attach");
    let mut canary = sensor.attached.start_canary().and_then(|canary| {
        // Nothing is gated: it is open for the canary alone.
        let opened = sensor.gate.open_for(CANARY_TIME, false);
        let failed = |error| Unproved::Failed(format!("the exec gate cannot be opened: {error}"));
        opened.map(|()| canary).map_err(failed)
    });
    let checks = selftest::run_alone(&mut sensor.rings, sensor.attached.links(), &mut canary);
    let gaps: Vec<DoctorFinding> = sensor
        .attached
        .gaps()
        .iter()
        .map(|gap| degraded(gap.component, gap.to_string()))
        .collect();
    std::iter::once(loaded)
        .chain(gaps)
        .chain(checks.into_iter().map(check))
        .collect()
}

fn check(check: SelfTestCheck) -> DoctorFinding {
    match check.outcome {
        CheckOutcome::Passed => good("self-test", check.name),
        CheckOutcome::Skipped(cause) => degraded("self-test", format!("{}: {cause}", check.name)),
        CheckOutcome::Absent(cause) => good(
            "self-test",
            format!("not here, and not needed: {}: {cause}", check.name),
        ),
        CheckOutcome::Failed(cause) => broken("self-test", format!("{}: {cause}", check.name)).remedy(
            "see docs/kernel.md; another program may hold the cgroup, or this kernel is not supported",
        ),
    }
}

fn chain(error: &SensorError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use mcpmon_config::{Source, Sources, load_sources};

    use super::{
        DoctorVerdict::{Degraded, Good},
        *,
    };

    #[test]
    fn declared_sandboxes_are_judged_by_what_they_need() {
        let text = "version: 1\nmcp:\n  servers:\n    - {id: files, command: npx, sandbox: {default: strict}}\n    \
                    - {id: web, command: npx, sandbox: {network: off}}\n    \
                    - {id: box, command: bwrap, sandbox: {default: strict}}\n    - {id: open, command: npx}\n";
        let sources = Sources::of_parts(vec![(Source::File("a.yaml".into()), text.to_owned())]);
        let loaded = load_sources(&sources.expect("a source")).expect("a policy");
        let judged = |unsupported: &[SandboxFeature]| {
            let findings = declared_sandboxes(&loaded.policy, unsupported).into_iter();
            findings
                .map(|finding| (finding.subject, finding.verdict))
                .collect::<Vec<_>>()
        };
        let of = |names: [(&str, DoctorVerdict); 3]| {
            names.map(|(id, verdict)| (format!("sandbox of {id}"), verdict))
        };
        assert_eq!(
            judged(&[]),
            of([("files", Good), ("web", Good), ("box", Degraded)])
        );
        assert_eq!(
            judged(&[SandboxFeature::Udp]),
            of([("files", Good), ("web", Degraded), ("box", Degraded)])
        );
        assert_eq!(
            judged(&SandboxFeature::ALL),
            of([("files", Degraded), ("web", Degraded), ("box", Degraded)])
        );
    }
}
