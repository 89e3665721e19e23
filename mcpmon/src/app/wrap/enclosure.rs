//! Sandboxes around the wrapper itself, in which it may be unable to reach the host's daemon.

use std::{env, fs, path::Path};

use mcpmon_detect::starter::Ancestor;
use mcpmon_model::{Event, EventKind, Layer, Severity};
use mcpmon_policy::makes_sandbox;
use mcpmon_session::clock;

/// Variable that `srt` sets in its sandbox.
const SANDBOX_RUNTIME: &str = "SANDBOX_RUNTIME";
/// The user map of a process outside every user namespace: each user is mapped to itself.
const EVERY_USER: [&str; 3] = ["0", "0", "4294967295"];

/// Files that container runtimes put into containers. A container counts as a host of its own, not as a sandbox.
const CONTAINER_FILES: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// A sandbox that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enclosure {
    /// The program that made it; `None` if only its user namespace shows it.
    program: Option<String>,
}

impl Enclosure {
    /// Returns the sandbox that this process is in, as far as it can be seen from inside.
    pub(super) fn find(ancestors: &[Ancestor]) -> Option<Self> {
        let first = fs::read_to_string("/proc/1/comm").unwrap_or_default();
        let is_container = CONTAINER_FILES.iter().any(|file| Path::new(file).exists());
        let users = match is_container {
            true => String::new(),
            false => fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
        };
        let is_of_srt = env::var_os(SANDBOX_RUNTIME).is_some();
        let above = ancestors.iter().map(|ancestor| ancestor.comm.as_str());
        Self::of(is_of_srt, above.chain([first.trim_end()]), &users)
    }

    /// Decides by the names of the processes above and of the first process, and by the user map.
    fn of<'n>(is_of_srt: bool, names: impl IntoIterator<Item = &'n str>, users: &str) -> Option<Self> {
        let srt = is_of_srt.then_some("srt");
        let program = srt.or_else(|| names.into_iter().find(|name| makes_sandbox(name)));
        let is_apart = !users.is_empty() && !users.split_ascii_whitespace().eq(EVERY_USER);
        (program.is_some() || is_apart).then(|| Self {
            program: program.map(str::to_owned),
        })
    }

    /// Returns the advice to the user.
    pub(super) fn remedy(&self) -> String {
        let program = self.program.as_deref().unwrap_or("SANDBOX");
        format!(
            "put the wrapper outside: `mcpmon wrap -- {program} … COMMAND`, not `{program} … mcpmon wrap -- COMMAND`"
        )
    }

    /// Builds the event that the wrapper in this sandbox has no daemon, and logs it.
    pub(super) fn without_daemon(&self) -> Event {
        let sandbox = match &self.program {
            Some(program) => format!("the sandbox of {program}"),
            None => "a sandbox".to_owned(),
        };
        let cause = format!(
            "this wrapper runs inside of {sandbox} and reaches no daemon: pins, approvals and the policy of the host do not hold"
        );
        let remedy = self.remedy();
        tracing::warn!("{cause}; {remedy}");
        let kind = EventKind::EnforcementDegraded {
            component: "wrapper".to_owned(),
            cause,
        };
        let mut event = Event::new(clock::now(), Layer::Stdio, kind);
        event.severity = Severity::Medium;
        event.reason = Some(remedy);
        event
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const OUTSIDE: &str = "         0          0 4294967295\n";

    #[test_case(false, &["bash", "systemd"], OUTSIDE => None; "a host")]
    #[test_case(true, &["apply-seccomp", "bwrap"], OUTSIDE => Some("srt".to_owned()); "srt")]
    #[test_case(false, &["sh", "bwrap"], OUTSIDE => Some("bwrap".to_owned()); "bubblewrap")]
    #[test_case(false, &["bash"], "      1000       1000          1\n" => Some(String::new()); "a namespace of users")]
    #[test_case(false, &["bash"], "" => None; "nothing is known")]
    fn sandboxes(is_of_srt: bool, names: &[&str], users: &str) -> Option<String> {
        let enclosure = Enclosure::of(is_of_srt, names.iter().copied(), users)?;
        Some(enclosure.program.unwrap_or_default())
    }
}
