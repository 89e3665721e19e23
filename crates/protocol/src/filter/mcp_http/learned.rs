//! Knowledge about a server that outlives a session: the arguments that its tools want in headers, and the tasks that
//! calls became. Since 2026-07-28 every request is its own session.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcpmon_model::{
    Answer, AnswerOutcome, ClientRequestKind, Content, FromServer, ListKind, Listing, Message, RawJson,
    ResultKind,
};

use super::annotations::{Annotation, annotations};
use crate::decode::mcp::Tasks;

/// Most tools that are known to want headers.
const MAX_TOOLS: usize = 1 << 10;

/// The largest size remembered of one tool, in bytes.
const MAX_BYTES: usize = 8 << 10;

/// The knowledge that all sessions of one client with one server share. Clones share it too.
#[derive(Clone, Debug, Default)]
pub struct ServerKnowledge(Arc<Mutex<KnowledgeState>>);

#[derive(Debug)]
struct KnowledgeState {
    tools: BTreeMap<Box<str>, Arc<[Annotation]>>,
    tasks: Tasks,
}

impl Default for KnowledgeState {
    fn default() -> Self {
        Self {
            tools: BTreeMap::new(),
            tasks: Tasks::new(1 << 10),
        }
    }
}

impl ServerKnowledge {
    /// Returns the headers that a tool wants, if it was listed.
    pub(super) fn annotations(&self, tool: &str) -> Option<Arc<[Annotation]>> {
        self.lock().tools.get(tool).cloned()
    }

    /// Returns the tool whose call became this task.
    pub(super) fn tool(&self, task: &str) -> Option<Box<str>> {
        self.lock().tasks.tool(task).map(Box::from)
    }

    /// Learns from a message of the server.
    pub(super) fn hear(&self, message: &Message<'_>) {
        let Content::Server(said) = &message.content else {
            return;
        };
        match said {
            FromServer::Listing(listing) if listing.kind == ListKind::Tools => self.lock().tools(listing),
            FromServer::Answer(answer) => {
                if let Some((task, tool)) = became_task(answer) {
                    self.lock().tasks.insert(&task, tool);
                }
            }
            FromServer::Listing(_)
            | FromServer::Introduction(_)
            | FromServer::Ask { .. }
            | FromServer::ListChanged(_)
            | FromServer::Notice { .. } => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnowledgeState> {
        // Every change is one insertion or removal, so the state is valid even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnowledgeState {
    fn tools(&mut self, listing: &Listing<'_>) {
        for item in &listing.items {
            self.tool(&item.name, item.definition);
        }
    }

    fn tool(&mut self, name: &str, definition: RawJson<'_>) {
        let annotations = annotations(definition);
        let length: usize = annotations.iter().map(Annotation::len).sum();
        let has_room = self.tools.len() < MAX_TOOLS || self.tools.contains_key(name);
        if annotations.is_empty() || !has_room || name.len() + length > MAX_BYTES {
            self.tools.remove(name);
            return;
        }
        self.tools.insert(name.into(), annotations.into());
    }
}

/// Returns the task that a call became, and the tool that was called.
fn became_task(answer: &Answer<'_>) -> Option<(String, Box<str>)> {
    let ClientRequestKind::Call { tool: Some(tool) } = &answer.to.what else {
        return None;
    };
    let AnswerOutcome::Result {
        result,
        kind: ResultKind::Task,
    } = &answer.outcome
    else {
        return None;
    };
    let flat = result.member("taskId");
    let id = flat.or_else(|| result.member("task")?.member("taskId"))?.text()?;
    Some((id.into_owned(), tool.clone()))
}
