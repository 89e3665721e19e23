//! Knowledge gained from the server's messages while they are judged.

use mcpmon_model::{ClientRequestKind, Content, FromServer, Message, RequestId, Timestamp};

use super::super::{
    super::message::{Arbiter, Exit, ReceivedText, TextReader},
    ListOutcome, ServerKnowledge,
};
use crate::filter::own::OwnRequests;

/// The receivers of knowledge from the server's messages.
pub(super) struct KnowledgeSinks<'h> {
    pub(super) learned: &'h ServerKnowledge,
    pub(super) own: &'h OwnRequests,
    /// Tools whose calls became the tasks that are asked for.
    pub(super) tasks: &'h [(RequestId, Box<str>)],
}

impl KnowledgeSinks<'_> {
    /// Has a text read and judged; what came of questions of our own.
    pub(super) fn read(
        &self,
        now: Timestamp,
        reader: &mut TextReader,
        spoken: ReceivedText<'_>,
        arbiter: &mut dyn Arbiter,
        exit: &mut dyn Exit,
    ) -> Vec<(RequestId, ListOutcome)> {
        let mut came = Vec::new();
        let mut hear = |message: &Message<'_>| {
            self.learned.hear(message);
            came.extend(self.own.hear(message));
            match self.of_task(message) {
                Some(message) => arbiter.decide(&message),
                None => arbiter.decide(message),
            }
        };
        reader.read(now, spoken, &mut hear, exit);
        came
    }

    /// Turns the result of a task whose call was made in another session into a result of that call.
    fn of_task<'m>(&self, message: &Message<'m>) -> Option<Message<'m>> {
        let Content::Server(FromServer::Answer(answer)) = &message.content else {
            return None;
        };
        if answer.to.what != (ClientRequestKind::Call { tool: None }) {
            return None;
        }
        let (_, tool) = self.tasks.iter().find(|(id, _)| Some(id) == message.id)?;
        let mut answer = answer.clone();
        answer.to.what = ClientRequestKind::Call {
            tool: Some(tool.clone()),
        };
        Some(Message {
            content: Content::Server(FromServer::Answer(answer)),
            ..message.clone()
        })
    }
}
