//! Subscriptions to list changes: requested on the one channel in the earlier era, by a stream since then.

use std::collections::BTreeSet;

use mcpmon_model::{Era, ListKind, RequestId};

use super::{
    super::{json::Value, jsonrpc},
    Dialogue, ForwardEffect, Purpose,
};

/// Since 2026-07-28 the first notification of a stream, with the lists whose changes the server will report on it.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The channels on which a client receives list changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The lists for which a server of the earlier era announced change notifications.
    announced: BTreeSet<ListKind>,
    /// Streams, by the request that opened each.
    streams: Vec<(RequestId, BTreeSet<ListKind>)>,
}

impl Changes {
    pub(super) const fn new() -> Self {
        Self {
            announced: BTreeSet::new(),
            streams: Vec::new(),
        }
    }

    pub(super) fn announce(&mut self, lists: BTreeSet<ListKind>) {
        self.announced = lists;
    }
}

impl Dialogue {
    /// Notes an open stream. It is open while its request waits, so there are at most as many streams as waiting
    /// requests.
    pub(super) fn opened(&mut self, id: RequestId, lists: BTreeSet<ListKind>) {
        let requests = &self.requests;
        let streams = &mut self.changes.streams;
        streams.retain(|(stream, _)| *stream != id && requests.waits(stream));
        if !requests.waits(&id) {
            return;
        }
        // A call stays a call, whatever its server claims.
        let may_stand = requests
            .value(&id)
            .is_some_and(|request| request.purpose == Purpose::Other);
        if may_stand {
            self.requests.stand(&id);
        }
        streams.push((id, lists));
    }

    /// Returns the streams on which a change of this list is to be reported to the client; `None` is the channel
    /// itself.
    pub fn listeners(&self, kind: ListKind) -> Vec<Option<RequestId>> {
        // Changes of templates are reported as changes of resources.
        let kind = match kind {
            ListKind::Templates => ListKind::Resources,
            // There is no notification for their changes.
            ListKind::Skills => return Vec::new(),
            ListKind::Tools | ListKind::Prompts | ListKind::Resources => kind,
        };
        match self.era {
            Era::Handshake if self.changes.announced.contains(&kind) => vec![None],
            Era::Handshake => Vec::new(),
            Era::Stateless => {
                let wants = |(stream, lists): &&(RequestId, BTreeSet<ListKind>)| {
                    lists.contains(&kind) && self.requests.waits(stream)
                };
                let open = self.changes.streams.iter().filter(wants);
                open.map(|(stream, _)| Some(stream.clone())).collect()
            }
        }
    }
}

/// Returns the lists whose changes a server of the earlier era reports, from the result of `initialize`.
pub(super) fn announced(result: Value<'_>) -> BTreeSet<ListKind> {
    let tells = |list: &str| {
        let capabilities = result.member("capabilities");
        let changed = capabilities.and_then(|all| all.member(list)?.member("listChanged"));
        changed.is_some_and(Value::is_true)
    };
    lists([tells("tools"), tells("prompts"), tells("resources")])
}

/// Reads the subscriptions that the server acknowledged for a stream.
pub(super) fn acknowledged(params: Option<Value<'_>>) -> Option<ForwardEffect> {
    let params = params?;
    let id = params
        .member("_meta")?
        .member("io.modelcontextprotocol/subscriptionId")?;
    let tells = |name: &str| {
        let notifications = params.member("notifications");
        notifications
            .and_then(|all| all.member(name))
            .is_some_and(Value::is_true)
    };
    let lists = lists(["toolsListChanged", "promptsListChanged", "resourcesListChanged"].map(tells));
    Some(ForwardEffect::Opened(jsonrpc::request_id(id)?, lists))
}

/// Tools, prompts, resources.
fn lists(told: [bool; 3]) -> BTreeSet<ListKind> {
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];
    kinds
        .into_iter()
        .zip(told)
        .filter_map(|(kind, told)| told.then_some(kind))
        .collect()
}
