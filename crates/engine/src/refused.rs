//! Events about programs of servers that the kernel did not let run.

use mcpmon_model::{
    Action, Denial, Event, EventKind, Exec, Layer, ProcessRef, RefusedStart, ServerId, Severity, Timestamp,
};

use crate::{
    pins::{PinnedFile, approval, pin_denial, trusting},
    tell::process,
};

/// The reason for killing a program whose file had changed.
const REFUSED_AT_EXEC: &str = "its executable changed since it was pinned, and is refused at exec";

/// Returns the denial for the client of a server whose program the kernel killed.
pub(super) fn killed_denial(server: Option<&ServerId>) -> Denial {
    pin_denial(REFUSED_AT_EXEC.to_owned(), server.map(trusting))
}

/// Builds the event that the kernel refused a program whose file had changed.
pub(super) fn killed(now: Timestamp, server: Option<&ServerId>, exec: &Exec) -> Event {
    let reason = match server {
        Some(server) => format!(
            "`{server}` was killed before it ran: {REFUSED_AT_EXEC}; {}",
            approval(server)
        ),
        None => format!("killed before it ran: {REFUSED_AT_EXEC}"),
    };
    let process = process(exec.process, &exec.comm, exec.uid);
    refused_by_kernel(now, server, process, REFUSED_AT_EXEC, reason)
}

/// Builds the event that a changed program was not started.
pub(super) fn not_started(
    now: Timestamp,
    server: &ServerId,
    pinned: &PinnedFile,
    start: &RefusedStart,
) -> Event {
    let cause = "its executable changed since it was pinned, and did not start";
    let reason = format!(
        "`{server}` never started: the kernel refused {} to `{}`, because it is {} and was pinned as {}; {}",
        start.path.display(),
        start.comm,
        start.digest.short(12),
        pinned.digest.short(12),
        approval(server)
    );
    let process = process(start.process, &start.comm, start.uid);
    refused_by_kernel(now, Some(server), process, cause, reason)
}

fn refused_by_kernel(
    now: Timestamp,
    server: Option<&ServerId>,
    process: ProcessRef,
    cause: &str,
    reason: String,
) -> Event {
    let cause = cause.to_owned();
    let mut event = Event::new(now, Layer::Kernel, EventKind::ServerDenied { cause });
    event.server_id = server.cloned();
    event.action = Action::Block;
    event.severity = Severity::Critical;
    event.rule = Some("mcp.version_pinning".to_owned());
    event.process = Some(process);
    event.remedy = server.map(trusting);
    event.reason = Some(reason);
    event
}
