//! Isolation of a server from other processes, and its sandbox if it has one. Without isolation a server can open the
//! pipes of its client and write past the wrapper.

use std::error::Error;

use mcpmon_model::{Denial, Event, EventKind, Layer, ProcessRef, SandboxRules, ServerId, Severity};
use mcpmon_policy::{
    Egress, Policy, ProcessAccess, SandboxMode, SandboxNetwork, SandboxPolicy, Server, makes_sandbox,
    starts_container,
};
use mcpmon_session::clock;
use mcpmon_stdio::{Domain, OpenProgram, SandboxDomain, SandboxFeature, landlock_version};

use crate::app::sandbox::Draft;

/// The rule that refuses a server whose sandbox cannot be made.
const FAIL_CLOSED: &str = "fail_closed";

/// The isolation that a server starts in.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// The domain, if it starts in one.
    pub(super) domain: Option<Domain>,
    /// The event about the sandbox; `None` if the server has no sandbox.
    pub(super) sandbox: Option<EventKind>,
    /// The events about what is missing from the isolation or the sandbox.
    pub(super) events: Vec<Event>,
}

/// The isolation that a server's declaration requires.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsolationPolicy<'a> {
    server: &'a ServerId,
    declared: Option<&'a Server>,
    fail_closed: bool,
    is_alone: bool,
}

impl<'a> IsolationPolicy<'a> {
    /// Takes the requirements for `server` from the policy; `derived` is the id that follows from its program. It
    /// `is_alone` if no daemon enforces its egress list.
    pub(super) fn new(policy: &'a Policy, server: &'a ServerId, derived: &ServerId, is_alone: bool) -> Self {
        Self {
            server,
            declared: policy.declaration(server, derived),
            fail_closed: policy.fail_closed,
            is_alone,
        }
    }

    /// Returns the sandbox for the server: the declared one, or the mode `given` on the command line if that is
    /// stricter.
    pub(super) fn sandbox(&self, given: Option<SandboxMode>) -> SandboxPolicy {
        let declared = self
            .declared
            .map(|server| server.sandbox.clone())
            .unwrap_or_default();
        SandboxPolicy {
            mode: declared.mode.max(given.unwrap_or_default()),
            ..declared
        }
    }

    /// Returns the egress list that only the sandbox can enforce.
    pub(super) fn unenforced_egress(&self) -> Option<&'a Egress> {
        self.declared
            .and_then(|server| server.egress.as_ref())
            .filter(|_| self.is_alone)
    }

    /// Makes the domain that the server starts in.
    ///
    /// # Errors
    /// Returns a denial if the server may not run without the sandbox that it was to have.
    pub(super) fn isolate(
        &self,
        program: &OpenProgram,
        sandbox: &SandboxPolicy,
        draft: Draft,
    ) -> Result<Isolation, Denial> {
        // A script that makes a sandbox is run by an interpreter that makes none, so the scripts are looked at first.
        let scripts = program.scripts.iter().map(|(path, _)| path);
        let called = scripts
            .chain([&program.path])
            .find(|path| makes_sandbox(&path.to_string_lossy()));
        let path = called.unwrap_or(&program.path).to_string_lossy();
        if draft.rules.is_open() {
            return Ok(self.domain(&path));
        }
        let told = SandboxWords::new(sandbox, &draft.rules);
        let mut draft = draft;
        if starts_container(&path) {
            draft.remarks.push(format!(
                "{path} has a daemon start a container: the sandbox holds for the client alone"
            ));
        }
        if makes_sandbox(&path) {
            let cause = format!(
                "{path} makes a sandbox of its own, and cannot in another one: its own is the only one"
            );
            return self.without_sandbox(&path, told, cause);
        }
        match Domain::sandboxed(&draft.rules) {
            Ok(sandbox) => self.sandboxed(sandbox, told, draft),
            Err(error) => self.without_sandbox(&path, told, error.to_string()),
        }
    }

    fn domain(&self, program: &str) -> Isolation {
        match ProcessAccess::of(self.declared, program) {
            ProcessAccess::Any => Isolation::default(),
            ProcessAccess::Own => match Domain::new() {
                Ok(domain) => Isolation {
                    domain: Some(domain),
                    ..Isolation::default()
                },
                Err(error) => Isolation {
                    events: vec![lost(self.server, &error)],
                    ..Isolation::default()
                },
            },
        }
    }

    fn sandboxed(
        &self,
        sandbox: SandboxDomain,
        told: SandboxWords,
        draft: Draft,
    ) -> Result<Isolation, Denial> {
        let SandboxDomain {
            domain,
            unenforced,
            unopened,
        } = sandbox;
        for (path, error) in unopened {
            tracing::info!(server = %self.server, path = %path.display(), %error, "not granted");
        }
        if draft.rules.is_offline && unenforced.contains(&SandboxFeature::Tcp) {
            self.refuse(&incomplete(&unenforced))?;
        }
        let gap = match unenforced.as_slice() {
            [] => None,
            unenforced => Some(incomplete(unenforced)),
        };
        let causes: Vec<String> = draft.remarks.into_iter().chain(gap).collect();
        Ok(Isolation {
            domain: Some(domain),
            sandbox: Some(told.event(true, causes.clone())),
            events: causes
                .into_iter()
                .map(|cause| degraded(self.server, cause))
                .collect(),
        })
    }

    fn without_sandbox(&self, program: &str, told: SandboxWords, cause: String) -> Result<Isolation, Denial> {
        self.refuse(&cause)?;
        let mut isolation = self.domain(program);
        isolation.sandbox = Some(told.event(false, vec![cause.clone()]));
        isolation.events.insert(0, degraded(self.server, cause));
        Ok(isolation)
    }

    /// Refuses the server if the policy fails closed.
    fn refuse(&self, cause: &str) -> Result<(), Denial> {
        match self.fail_closed {
            false => Ok(()),
            true => Err(Denial {
                rule: FAIL_CLOSED.to_owned(),
                reason: format!("its sandbox cannot be made: {cause}"),
                remedy: Some("mcpmon doctor".to_owned()),
                event: None,
            }),
        }
    }
}

/// The values for a sandbox in events.
#[derive(Clone, Copy, Debug)]
struct SandboxWords {
    mode: &'static str,
    network: &'static str,
}

impl SandboxWords {
    const fn new(sandbox: &SandboxPolicy, rules: &SandboxRules) -> Self {
        Self {
            mode: sandbox.mode.as_str(),
            network: match (sandbox.network, &rules.connect) {
                (SandboxNetwork::Off, _) => "off",
                (SandboxNetwork::Egress, Some(_)) => "ports",
                (SandboxNetwork::Egress, None) => "egress",
            },
        }
    }

    fn event(self, enforced: bool, gaps: Vec<String>) -> EventKind {
        EventKind::ServerSandboxed {
            mode: self.mode.to_owned(),
            network: self.network.to_owned(),
            enforced,
            landlock: landlock_version(),
            gaps,
        }
    }
}

/// Lists the parts of a sandbox that this kernel does not enforce.
fn incomplete(unenforced: &[SandboxFeature]) -> String {
    let parts = unenforced
        .iter()
        .map(|feature| format!("{} (Linux {})", feature.without(), feature.kernel()));
    parts.collect::<Vec<_>>().join("; ")
}

/// Builds the event about a missing part of a sandbox, and logs it.
fn degraded(server: &ServerId, cause: String) -> Event {
    tracing::warn!(%server, cause, "the sandbox of the server is not as it was asked for");
    let kind = EventKind::EnforcementDegraded {
        component: "server sandbox".to_owned(),
        cause,
    };
    let mut event = Event::new(clock::now(), Layer::Stdio, kind);
    event.severity = Severity::Medium;
    event.reason = Some("`mcpmon doctor` tells what this kernel can keep a server from".to_owned());
    event
}

/// Builds the event about the sandbox of the server that was started as `process`.
pub(super) fn sandboxed(kind: EventKind, process: &ProcessRef) -> Event {
    let mut event = Event::new(clock::now(), Layer::Stdio, kind);
    event.process = Some(process.clone());
    event
}

/// Builds the event about a server that runs without its domain, and logs it.
pub(super) fn lost(server: &ServerId, error: &dyn Error) -> Event {
    tracing::warn!(%server, %error, "the server is not kept from the processes of others: it can write past this wrapper");
    let kind = EventKind::EnforcementDegraded {
        component: "server isolation".to_owned(),
        cause: error.to_string(),
    };
    let mut event = Event::new(clock::now(), Layer::Stdio, kind);
    event.severity = Severity::Medium;
    event.reason = Some(
        "the server can open the pipes of its client and write messages past the wrapper: run it on Linux 5.19 or later \
         with Landlock, as another user or in a container; `sandbox: {processes: any}` in its declaration accepts that"
            .to_owned(),
    );
    event
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn isolated(program: &str, fail_closed: bool) -> Result<Isolation, Denial> {
        let policy = Policy {
            fail_closed,
            ..Policy::default()
        };
        let server = ServerId::new("files").expect("an id");
        let program = OpenProgram::resolve(program.as_ref(), &[], None).expect("a program");
        let draft = Draft {
            rules: SandboxRules {
                files: Some(Vec::new()),
                ..SandboxRules::default()
            },
            remarks: vec!["`~/absent` is not granted: there is no such file".to_owned()],
        };
        let sandbox = SandboxPolicy {
            mode: SandboxMode::Strict,
            ..SandboxPolicy::default()
        };
        IsolationPolicy::new(&policy, &server, &server, true).isolate(&program, &sandbox, draft)
    }

    #[test_case(false; "recorded")]
    #[test_case(true; "and no reason to refuse")]
    fn a_grant_without_effect_is(fail_closed: bool) {
        let isolation = isolated("/bin/true", fail_closed).expect("no denial");
        assert!(isolation.domain.is_some());
        assert_eq!(isolation.events.len(), 1, "{isolation:?}");
    }

    #[test]
    fn no_sandbox_is_made_around_a_program_that_makes_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("bwrap");
        std::fs::copy("/bin/true", &program).expect("a copy");
        let program = program.to_str().expect("a path");
        let isolation = isolated(program, false).expect("no denial");
        assert!(isolation.domain.is_none(), "{isolation:?}");
        assert_eq!(isolation.events.len(), 1, "{isolation:?}");
        assert!(
            matches!(
                isolation.sandbox,
                Some(EventKind::ServerSandboxed { enforced: false, .. })
            ),
            "{isolation:?}"
        );
        let denial = isolated(program, true).expect_err("a denial");
        assert_eq!(denial.rule, "fail_closed");
    }
}
