//! Isolation of a server from the processes of others: its client's among them, whose pipes lie past the wrapper.

use std::{error::Error, path::Path};

use mcpmon_model::{Event, EventKind, Layer, ServerId, Severity};
use mcpmon_policy::{Policy, ProcessAccess};
use mcpmon_session::clock;
use mcpmon_stdio::{Domain, DomainError};

/// A domain to start a server in, if it is to have one; why it has none though it should.
pub(super) fn domain(
    policy: &Policy,
    server: &ServerId,
    program: &Path,
) -> (Option<Domain>, Option<DomainError>) {
    let declared = policy.servers.iter().find(|declared| declared.id == *server);
    match ProcessAccess::of(declared, &program.to_string_lossy()) {
        ProcessAccess::Any => (None, None),
        ProcessAccess::Own => match Domain::new() {
            Ok(domain) => (Some(domain), None),
            Err(error) => (None, Some(error)),
        },
    }
}

/// Builds the event about a server that runs without its domain, and reports it on standard error too.
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
