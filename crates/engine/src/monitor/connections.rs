//! Open connections: those that a rule now refuses are cut, and the ends of connections are reported.

use std::collections::BTreeMap;

use mcpmon_model::{
    ClosedConnection, ConnectionHolder, ConnectionTraffic, CutOutcome, Event, EventKind, Layer,
    OpenConnection, ProcessId, ServerId, Timestamp,
};
use mcpmon_policy::{Mode, network::table::Tables};

use super::Monitor;
use crate::{
    effect::{ConnectionCut, Judgement, KernelEffect},
    tell,
};

/// Cuts with the same process, address, protocol, rule and outcome, reported in one event.
pub(crate) struct RepeatedCuts<'a> {
    /// The first of them.
    pub(crate) first: &'a ConnectionCut,
    /// Bytes of all of them; `None` if the kernel does not count them.
    pub(crate) traffic: Option<ConnectionTraffic>,
    /// The reason why they could not be cut.
    pub(crate) failure: Option<&'a str>,
    /// Their number.
    pub(crate) count: u64,
}

/// Returns the rule that refuses an open connection, and the process that it refuses it to. The lists of servers and
/// sessions do not apply to a connection that the other side opened, because this side only answers.
pub fn refused_by_now<'o>(
    tables: &Tables,
    open: &'o OpenConnection,
) -> Option<(u32, Option<&'o ConnectionHolder>)> {
    let refusal =
        |is_agent, lists: &[u32]| tables.refusal(open.remote.ip(), open.remote.port(), is_agent, lists);
    if let Some(rule) = refusal(false, &[]) {
        return Some((rule, open.holders.first()));
    }
    open.holders.iter().find_map(|holder| {
        let lists = if open.is_answer {
            &[]
        } else {
            holder.lists.as_slice()
        };
        refusal(holder.is_agent, lists).map(|rule| (rule, Some(holder)))
    })
}

impl Monitor {
    /// Returns whether refusals of addresses are carried out: always while a person has stopped something, else if the
    /// policy enforces them.
    pub fn enforces_addresses(&self) -> bool {
        !self.kills.is_empty() || self.policy.mode == Mode::Enforce && self.policy.network.enforce
    }

    /// Judges connections that were found open.
    pub(super) fn open_connections(&self, tables: &Tables, open: &[OpenConnection]) -> Judgement {
        if !self.enforces_addresses() {
            return Judgement::default();
        }
        let cut = |open: &OpenConnection| {
            let (rule, holder) = refused_by_now(tables, open)?;
            Some(KernelEffect::Cut(Box::new(ConnectionCut {
                connection: open.clone(),
                rule,
                holder: holder.cloned(),
            })))
        };
        Judgement {
            kernel_effects: open.iter().filter_map(cut).collect(),
            ..Judgement::default()
        }
    }

    /// Records connections that were cut, or could not be cut.
    pub(super) fn cut(&self, now: Timestamp, cuts: &[(ConnectionCut, CutOutcome)]) -> Judgement {
        let mut told: BTreeMap<_, RepeatedCuts<'_>> = BTreeMap::new();
        for (cut, outcome) in cuts {
            let (traffic, failure) = match outcome {
                CutOutcome::Cut(traffic) => (*traffic, None),
                CutOutcome::Failed(cause) => (None, Some(cause.as_str())),
            };
            let process = cut
                .holder
                .as_ref()
                .map_or_else(ProcessId::default, |holder| holder.process);
            let cuts = told
                .entry((
                    cut.connection.remote,
                    cut.connection.transport,
                    process,
                    cut.rule,
                    failure,
                ))
                .or_insert_with(|| RepeatedCuts {
                    first: cut,
                    traffic: None,
                    failure,
                    count: 0,
                });
            cuts.count += 1;
            cuts.traffic = together(cuts.traffic, traffic);
        }
        Judgement {
            events: told
                .values()
                .map(|cuts| {
                    let instance = cuts.first.holder.as_ref().and_then(|holder| holder.instance);
                    let own = instance.and_then(|number| self.server_named(number));
                    let mut event = tell::cut(now, cuts, self.rules.get(cuts.first.rule), own);
                    event.package = own
                        .filter(|own| event.server_id.as_ref() == Some(*own))
                        .and_then(|_| self.package_of(instance?))
                        .cloned();
                    event.session_id = instance.and_then(|number| self.sessions.get(&number)).cloned();
                    event
                })
                .collect(),
            ..Judgement::default()
        }
    }

    /// Records that a process of a server closed a connection.
    pub(super) fn closed(&self, now: Timestamp, closed: &ClosedConnection) -> Judgement {
        let own = closed.instance.and_then(|number| self.server_named(number));
        let name = self.rules.name_of(closed.remote.ip());
        let mut event = told_closed(now, closed, name, own);
        event.package = closed
            .instance
            .and_then(|number| self.package_of(number))
            .cloned();
        event.session_id = closed
            .instance
            .and_then(|number| self.sessions.get(&number))
            .cloned();
        Judgement {
            events: vec![event],
            ..Judgement::default()
        }
    }
}

fn together(before: Option<ConnectionTraffic>, more: Option<ConnectionTraffic>) -> Option<ConnectionTraffic> {
    let Some(more) = more else { return before };
    let before = before.unwrap_or_default();
    Some(ConnectionTraffic {
        sent: before.sent.saturating_add(more.sent),
        received: before.received.saturating_add(more.received),
    })
}

/// Builds the event that a process of a server closed the socket of a connection.
fn told_closed(
    now: Timestamp,
    closed: &ClosedConnection,
    name: Option<String>,
    own: Option<&ServerId>,
) -> Event {
    let kind = EventKind::ConnectionClosed {
        remote_addr: closed.remote,
        remote_name: name,
        protocol: closed.transport,
        socket: Some(closed.socket),
        established: closed.established,
        duration_ms: u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX),
        bytes_sent: closed.traffic.map(|traffic| traffic.sent),
        bytes_received: closed.traffic.map(|traffic| traffic.received),
        count: 1,
    };
    let mut event = Event::new(now, Layer::Kernel, kind);
    event.server_id = own.cloned();
    event.process = Some(tell::process(closed.process, &closed.comm, closed.uid));
    event
}
