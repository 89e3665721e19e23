//! Unchanged lists: a list that comes again is not judged again while its judgement has the same basis.

use mcpmon_model::{Conversation, DefinitionKind, Digest, Listing, Verdict};

use super::{Traffic, tell::Teller};
use crate::effect::Judgement;

/// The judgement of the latest list.
#[derive(Debug, Default)]
pub(super) struct UnchangedList(Option<RelistedState>);

#[derive(Debug)]
struct RelistedState {
    digest: Digest,
    kind: DefinitionKind,
    conversation: Conversation,
    basis: Basis,
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
    /// Returns the judgement of an unchanged list, if its basis is unchanged: it is allowed, and nothing is recorded.
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
        self.book
            .listed_again(&teller.conversation.identity, told.kind, teller.now);
        Some(Judgement::default())
    }

    /// Remembers the judgement of a list, if judging the same list again would give the same.
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
            && judgement.events.is_empty();
        (is_settled && offer.is_all_of(listing.items.len())).then_some(RelistedState {
            digest: listing.again?,
            kind,
            conversation: teller.conversation.clone(),
            basis: self.basis(teller)?,
        })
    }

    fn basis(&self, teller: &Teller<'_>) -> Option<Basis> {
        Some(Basis {
            generation: self.generation,
            changes: self.book.get(&teller.conversation.identity)?.changes(),
        })
    }
}
