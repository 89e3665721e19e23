//! Snapshots of a response with its items: at the end of a stream, or as a body.

use mcpmon_model::{Digest, LlmMention};

use super::{BlockedCall, DecidedCalls, ItemState, MAX_ITEMS, call::RequestedCall};
use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, LlmFault,
        openai::{MAX_PARTS, malformed, too_many},
        openai_responses::{
            decode::{ItemKind, OutputItem, item, output},
            rewrite::{ItemEdit, ReplacementMessage, with_items},
        },
    },
};

impl DecidedCalls {
    /// Applies the decisions to a response. Returns `None` if it is unchanged.
    pub(super) fn response(
        &mut self,
        response: Value<'_>,
        judge: &mut dyn ContentJudge,
    ) -> Result<Option<String>, LlmFault> {
        let mut edits = Vec::new();
        let mut calls = 0;
        for (place, value) in (0..).zip(output(response).map_err(malformed)?) {
            let item = item(value).map_err(malformed)?;
            let ItemKind::Call(call) = &item.what else {
                self.tell(&item, judge)?;
                edits.push(ItemEdit::Keep);
                continue;
            };
            calls += 1;
            if calls > MAX_PARTS {
                return Err(too_many());
            }
            edits.push(self.call(place, &RequestedCall::new(&item, call), judge)?);
        }
        let is_kept = edits.iter().all(|edit| *edit == ItemEdit::Keep);
        Ok((!is_kept).then(|| with_items(response, &edits)))
    }

    /// Decides about a call in a whole response: for a call that was decided before, that decision holds.
    fn call(
        &mut self,
        place: u64,
        wanted: &RequestedCall,
        judge: &mut dyn ContentJudge,
    ) -> Result<ItemEdit, LlmFault> {
        let digest = wanted.digest()?;
        if !self.known.contains(&digest) {
            if let Some(message) = self.message(place, wanted) {
                return Ok(ItemEdit::Replace(message));
            }
            if let Some(text) = wanted.denied(judge)? {
                return Ok(ItemEdit::Replace(self.block(place, wanted, &text)?));
            }
            self.know(digest)?;
        }
        Ok(wanted.canonical()?.map_or(ItemEdit::Keep, ItemEdit::Arguments))
    }

    /// Returns the message in place of a call that was blocked before.
    fn message(&self, place: u64, wanted: &RequestedCall) -> Option<ReplacementMessage> {
        let same = |one: &str, other: &str| !one.is_empty() && one == other;
        let is_it = |at: u64, blocked: &BlockedCall| {
            let has_ids = !blocked.call_id.is_empty() && !wanted.call_id.is_empty();
            same(&blocked.call_id, &wanted.call_id)
                || same(&blocked.item_id, &wanted.item_id)
                || at == place && !has_ids
        };
        self.places.iter().find_map(|(at, found)| match found {
            ItemState::Blocked(blocked) if is_it(*at, blocked) => Some(blocked.message.clone()),
            ItemState::Blocked(_) | ItemState::Allowed | ItemState::NoCall => None,
        })
    }

    fn block(
        &mut self,
        place: u64,
        wanted: &RequestedCall,
        text: &str,
    ) -> Result<ReplacementMessage, LlmFault> {
        self.left_out.extend(wanted.left_out(text));
        let message = ReplacementMessage::new(&self.response, &wanted.item_id, place, text);
        if !self.places.contains_key(&place) {
            let blocked = BlockedCall {
                item_id: wanted.item_id.clone(),
                call_id: wanted.call_id.clone(),
                message: message.clone(),
            };
            self.settle(place, ItemState::Blocked(blocked))?;
        }
        Ok(message)
    }

    /// Reports an action of the provider, once.
    pub(super) fn tell(
        &mut self,
        item: &OutputItem<'_>,
        judge: &mut dyn ContentJudge,
    ) -> Result<(), LlmFault> {
        match &item.what {
            ItemKind::Called(server, call) => {
                let wanted = RequestedCall::new(item, call);
                let digest = wanted.told_digest(&item.id)?;
                if !self.known.contains(&digest) {
                    self.know(digest)?;
                    let server = server.clone();
                    wanted.with_intent(|intent| {
                        drop(judge.judge(&LlmMention::Called { server, intent }));
                    })?;
                }
            }
            ItemKind::Listed(server, tools) => {
                let definitions = tools.iter().map(|tool| tool.definition.as_str());
                let told: Vec<&str> = [&*item.id, server].into_iter().chain(definitions).collect();
                let digest = Digest::of(told.join("\n").as_bytes());
                if !self.known.contains(&digest) {
                    self.know(digest)?;
                    drop(judge.judge(&LlmMention::Listed {
                        server: server.clone(),
                        tools: tools.clone(),
                    }));
                }
            }
            ItemKind::Call(_) | ItemKind::Nothing => {}
        }
        Ok(())
    }

    pub(super) fn know(&mut self, digest: Digest) -> Result<(), LlmFault> {
        if self.known.len() >= MAX_ITEMS {
            return Err(too_many());
        }
        self.known.insert(digest);
        Ok(())
    }
}
