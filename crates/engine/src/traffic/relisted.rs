//! Unchanged lists: if a list comes again and its judgement has the same basis, its events are recorded again.

use mcpmon_model::{
    Conversation, DefinitionKind, Digest, Event, EventKind, Listing, RepeatedEvents, Verdict,
};

use super::{Traffic, tell::Teller};
use crate::effect::{Judgement, StoreEffect};

/// Most events that are kept for this.
const MAX_EVENTS: usize = 256;

/// The judgement of the latest list.
#[derive(Debug, Default)]
pub(super) struct UnchangedList(Option<RelistedState>);

#[derive(Debug)]
struct RelistedState {
    digest: Digest,
    kind: DefinitionKind,
    conversation: Conversation,
    basis: Basis,
    events: RepeatedEvents,
}

/// The basis of a list's judgement besides the list itself: equal numbers mean that nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    /// Number of the patterns, policy and neighbours.
    generation: u64,
    /// Number of changes to the server's offer, its pins and approvals, and the state of its lists.
    changes: u64,
}

impl Traffic {
    /// Repeats the judgement of an unchanged list, if its basis is unchanged.
    pub(super) fn listed_again(&mut self, teller: &Teller<'_>, listing: &Listing<'_>) -> Option<Judgement> {
        let digest = listing.again?;
        let basis = self.basis(teller)?;
        let told = self.relisted.0.as_ref()?;
        let is_same = told.digest == digest
            && told.basis == basis
            && told.kind == DefinitionKind::from(listing.kind)
            && told.conversation == *teller.conversation;
        if !is_same {
            return None;
        }
        let retell = StoreEffect::Retell(told.events.at(teller.now));
        self.book
            .listed_again(&teller.conversation.identity, told.kind, teller.now);
        Some(Judgement {
            store_effects: vec![retell],
            ..Judgement::default()
        })
    }

    /// Remembers the judgement of a list, if judging the same list again would give the same events.
    pub(super) fn note_listed(&mut self, teller: &Teller<'_>, listing: &Listing<'_>, judgement: &Judgement) {
        self.relisted.0 = self.told(teller, listing, judgement);
    }

    fn told(
        &self,
        teller: &Teller<'_>,
        listing: &Listing<'_>,
        judgement: &Judgement,
    ) -> Option<RelistedState> {
        let kind = DefinitionKind::from(listing.kind);
        let offer = self.book.get(&teller.conversation.identity)?.of(kind);
        let is_settled = judgement.verdict == Verdict::Allow
            && judgement.store_effects.is_empty()
            && judgement.events.len() == listing.items.len()
            && judgement.events.len() <= MAX_EVENTS
            && judgement.events.iter().all(is_unchanged);
        (is_settled && offer.is_all_of(listing.items.len())).then_some(RelistedState {
            digest: listing.again?,
            kind,
            conversation: teller.conversation.clone(),
            basis: self.basis(teller)?,
            events: RepeatedEvents::new(&judgement.events)?,
        })
    }

    fn basis(&self, teller: &Teller<'_>) -> Option<Basis> {
        Some(Basis {
            generation: self.generation,
            changes: self.book.get(&teller.conversation.identity)?.changes(),
        })
    }
}

/// Returns whether an event is about an unchanged definition, which was not even parsed again.
const fn is_unchanged(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::ToolSeen {
            description: None,
            ..
        }
    )
}
