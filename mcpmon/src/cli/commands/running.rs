//! Running servers: the resources of their processes, and the layer that sees their messages.

use std::collections::BTreeMap;

use mcpmon_model::{Layer, ServerType, Timestamp};
use mcpmon_policy::SandboxMode;
use mcpmon_store::{RunningStart, ServerSummary, StoreReader, StoredEvent};
use serde_json::Value;

use crate::{
    app::{
        resources::{Processes, Usage},
        sandboxes::{RunningSandboxes, SandboxStatus},
    },
    cli::CliError,
};

/// Most starts that are read, newest first.
const MAX_RUNNING: u32 = 1_000;

/// The running servers, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningServers(BTreeMap<String, RunningDetails>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct RunningDetails {
    usage: Usage,
    is_wrapped: bool,
    orphaned_since: Option<Timestamp>,
    sandbox: Option<SandboxStatus>,
}

/// The layer that sees a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SeenBy {
    /// A wrapper sees its messages.
    Wrapper,
    /// The kernel programs see its processes and connections; its messages are not seen.
    Kernel,
    /// The proxy for remote servers sees its messages.
    Proxy,
    /// No process of the server that this user can see is running.
    #[default]
    Nobody,
}

impl SeenBy {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Wrapper => "wrapper",
            Self::Kernel => "kernel",
            Self::Proxy => "proxy",
            Self::Nobody => "",
        }
    }
}

impl RunningServers {
    /// Reads the servers that the store has as running and whose processes live.
    pub(super) fn read(reader: &StoreReader) -> Result<Self, CliError> {
        let sandboxes = RunningSandboxes::read(reader)?;
        Ok(Self::new(
            &reader.running(MAX_RUNNING)?,
            &Processes::read(),
            &sandboxes,
        ))
    }

    fn new(starts: &[RunningStart], processes: &Processes, sandboxes: &RunningSandboxes) -> Self {
        let mut running: BTreeMap<String, RunningDetails> = BTreeMap::new();
        for RunningStart {
            started: start,
            orphaned,
        } in starts
        {
            let orphaned_since = orphaned.as_ref().map(orphaned_since);
            let (Some(server), Some(process)) = (&start.server_id, &start.process) else {
                continue;
            };
            let Some(usage) = processes.tree(process.pid, start.timestamp) else {
                continue;
            };
            let by_kernel = || start.data.get("wrapped").and_then(Value::as_bool) == Some(true);
            let is_wrapped = start.layer == Layer::Stdio || by_kernel();
            let sandbox = sandboxes.of(process.pid, processes);
            running
                .entry(server.clone())
                .and_modify(|running| {
                    running.usage = running.usage.plus(usage);
                    // If one of several processes has no wrapper, the server counts as not wrapped.
                    running.is_wrapped &= is_wrapped;
                    running.orphaned_since = earlier(running.orphaned_since, orphaned_since);
                    running.sandbox = weaker(running.sandbox.take(), sandbox.clone());
                })
                .or_insert(RunningDetails {
                    usage,
                    is_wrapped,
                    orphaned_since,
                    sandbox,
                });
        }
        Self(running)
    }

    /// Returns the resources of a server's processes; `None` if none runs that this user can see.
    pub(super) fn usage(&self, server: &str) -> Option<Usage> {
        self.0.get(server).map(|running| running.usage)
    }

    /// Returns the time since which a server has outlived its client or session: the earliest of its processes.
    pub(super) fn orphaned_since(&self, server: &str) -> Option<Timestamp> {
        self.0.get(server)?.orphaned_since
    }

    /// Returns the sandbox that a server runs in: the weakest of its processes.
    pub(super) fn sandbox(&self, server: &str) -> Option<&SandboxStatus> {
        self.0.get(server)?.sandbox.as_ref()
    }

    pub(super) fn seen_by(&self, server: &ServerSummary) -> SeenBy {
        match (self.0.get(&server.server_id), server.server_type) {
            (Some(running), _) if running.is_wrapped => SeenBy::Wrapper,
            (Some(_), _) => SeenBy::Kernel,
            (None, Some(ServerType::Http | ServerType::Sse)) => SeenBy::Proxy,
            (None, Some(ServerType::Stdio) | None) => SeenBy::Nobody,
        }
    }
}

/// Returns the end of the client or session; the event is later, because the server had time to end.
fn orphaned_since(orphaned: &StoredEvent) -> Timestamp {
    let milliseconds = orphaned.data.get("orphaned_ms").and_then(Value::as_i64);
    let nanoseconds = milliseconds.unwrap_or_default().saturating_mul(1_000_000);
    Timestamp(orphaned.timestamp.0.saturating_sub(nanoseconds))
}

/// Returns the weaker of two sandboxes.
fn weaker(one: Option<SandboxStatus>, other: Option<SandboxStatus>) -> Option<SandboxStatus> {
    let (one, other) = (one?, other?);
    let strength = |sandbox: &SandboxStatus| {
        let mode: SandboxMode = sandbox.mode.parse().unwrap_or_default();
        (
            sandbox.enforced,
            mode,
            sandbox.network == "off",
            sandbox.gaps.is_empty(),
        )
    };
    Some(if strength(&other) < strength(&one) {
        other
    } else {
        one
    })
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Formats bytes of memory in the largest unit: `812K`, `64M`, `1.5G`.
pub(super) fn bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    match bytes {
        0..MIB => format!("{}K", bytes / KIB),
        MIB..GIB => format!("{}M", bytes / MIB),
        GIB.. => format!("{}.{}G", bytes / GIB, bytes % GIB * 10 / GIB),
    }
}

/// Returns the processor time in milliseconds.
pub(super) fn milliseconds(usage: &Usage) -> u64 {
    u64::try_from(usage.processor.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Event, Timestamp};
    use mcpmon_store::sample;
    use test_case::test_case;
    use uuid::Uuid;

    use super::*;

    fn start(layer: Layer) -> RunningStart {
        let mut event: Event = sample::started("files", std::process::id());
        event.timestamp = Timestamp(i64::MAX);
        event.layer = layer;
        RunningStart {
            started: StoredEvent::new(Uuid::nil(), "host", event),
            orphaned: None,
        }
    }

    #[test]
    fn a_server_is_an_orphan_since_its_first_client_ended() {
        let orphan = |second| RunningStart {
            orphaned: Some(StoredEvent::new(
                Uuid::nil(),
                "host",
                sample::at(second, sample::orphaned("files", 1)),
            )),
            ..start(Layer::Kernel)
        };
        let since = |starts: &[RunningStart]| {
            let running = RunningServers::new(starts, &Processes::read(), &RunningSandboxes::default());
            running
                .orphaned_since("files")
                .map(|since| (since.0 - sample::NOON) / sample::SECOND)
        };
        assert_eq!(since(&[start(Layer::Kernel)]), None);
        assert_eq!(since(&[start(Layer::Kernel), orphan(60), orphan(40)]), Some(25));
    }

    fn seen_by(starts: &[RunningStart]) -> SeenBy {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, [sample::started("files", 1)]);
        let reader = StoreReader::open(store.path()).unwrap();
        let servers = reader.servers().unwrap();
        RunningServers::new(starts, &Processes::read(), &RunningSandboxes::default()).seen_by(&servers[0])
    }

    #[test]
    fn a_server_of_which_one_process_is_not_wrapped_is_not() {
        assert_eq!(seen_by(&[start(Layer::Stdio)]), SeenBy::Wrapper);
        assert_eq!(seen_by(&[start(Layer::Kernel)]), SeenBy::Kernel);
        assert_eq!(
            seen_by(&[start(Layer::Stdio), start(Layer::Kernel)]),
            SeenBy::Kernel
        );
        assert_eq!(seen_by(&[]), SeenBy::Nobody);
    }

    #[test]
    fn what_several_processes_use_is_added() {
        let one = RunningServers::new(
            &[start(Layer::Stdio)],
            &Processes::read(),
            &RunningSandboxes::default(),
        )
        .usage("files");
        let starts = [start(Layer::Stdio), start(Layer::Stdio)];
        let two =
            RunningServers::new(&starts, &Processes::read(), &RunningSandboxes::default()).usage("files");
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(
            two.memory > one.memory && two.processes >= 2 * one.processes,
            "{one:?} {two:?}"
        );
    }

    #[test_case(0 => "0K")]
    #[test_case((64 << 20) + 1 => "64M")]
    #[test_case(3 << 29 => "1.5G")]
    fn sizes(size: u64) -> String {
        bytes(size)
    }
}
