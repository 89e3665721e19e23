//! Lists of a server: parsed, inspected, compared with pins; items that may not be used are left out.

use std::collections::BTreeSet;

use mcpmon_detect::{scan, tool_names::ToolNames};
use mcpmon_model::{
    Definition, DefinitionKind, Finding, Introduction, ListKind, ListedItem, Listing, PinKey, RawJson,
    Severity, Verdict,
};
use mcpmon_policy::{Mode, OnNewTool};

use super::{Traffic, listed, tell::Teller};
use crate::{
    definitions::{DefinitionEntry, Page, ReadList, Sight},
    effect::Judgement,
    rules::{self, NEW_TOOL, Objection, ObjectionEffect, RuleContext, Ruling},
    skills,
};

/// One item of a page: its name, and its definition as written.
type Item<'a> = (&'a str, RawJson<'a>);

/// The extent of a page within its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageExtent {
    /// The page is the first of its list.
    FirstPage,
    /// The page continues the list.
    LaterPage,
    /// A part that was requested by its URI.
    Part,
}

/// Returns the definitions that are compared in another order than that in which they are written, by position: the
/// order of a skill's files has no meaning.
fn ordered(listing: &Listing<'_>) -> Vec<Option<String>> {
    let ordered = |item: &ListedItem<'_>| match listing.kind {
        ListKind::Skills => skills::in_order(item.definition),
        ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates => None,
    };
    listing.items.iter().map(ordered).collect()
}

impl Traffic {
    /// Judges one page of a list.
    pub(super) fn listing(&mut self, teller: &Teller<'_>, listing: &Listing<'_>) -> Judgement {
        if let Some(judgement) = self.listed_again(teller, listing) {
            return judgement;
        }
        let kind = DefinitionKind::from(listing.kind);
        let ordered = ordered(listing);
        let items: Vec<Item<'_>> = listing
            .items
            .iter()
            .zip(&ordered)
            .map(|(item, ordered)| {
                let definition = ordered.as_deref().map_or(item.definition, RawJson::trusted);
                (&*item.name, definition)
            })
            .collect();
        let mut judgement = Judgement::default();
        let extent = match (listing.is_part, listing.continued) {
            (true, _) => PageExtent::Part,
            (false, true) => PageExtent::LaterPage,
            (false, false) => PageExtent::FirstPage,
        };
        let hidden = self.page(teller, kind, &items, extent, &mut judgement);
        // A list of skills may be incomplete: a skill that it lacks is not gone.
        if !listing.is_part && kind != DefinitionKind::Skill {
            self.end(
                teller,
                kind,
                identity_member(listing.kind),
                listing.more,
                &mut judgement,
            );
        }
        judgement.verdict = match (hidden.is_empty(), &*listing.items) {
            (true, _) => Verdict::Allow,
            (false, [skill]) if listing.is_part && kind == DefinitionKind::Skill => {
                Verdict::Block(self.objection_to_part(teller, kind, &skill.name).denial())
            }
            (false, _) => Verdict::Hide(hidden),
        };
        self.note_listed(teller, listing, &judgement);
        judgement
    }

    /// Judges a server's introduction: its instructions are a list of one item, or of none.
    pub(super) fn introduction(&mut self, teller: &Teller<'_>, introduction: &Introduction<'_>) -> Judgement {
        let kind = DefinitionKind::Instructions;
        let text = introduction.instructions.as_deref().map(Definition::of_text);
        let item = text.as_ref().map(|text| ("", RawJson::trusted(&text.canonical)));
        let mut judgement = Judgement::default();
        let hidden = self.page(
            teller,
            kind,
            item.as_slice(),
            PageExtent::FirstPage,
            &mut judgement,
        );
        self.end(teller, kind, "", false, &mut judgement);
        if !hidden.is_empty() {
            judgement.verdict = Verdict::StripInstructions;
        }
        judgement
    }

    /// Returns the objection to an answer that consists of one definition, which may not be used.
    pub(super) fn objection_to_part(
        &self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        name: &str,
    ) -> Objection {
        let ruling = self.scene(teller, kind, name).map(|scene| {
            rules::judge(&RuleContext {
                is_listing: true,
                ..scene
            })
        });
        ruling
            .and_then(|ruling| ruling.block)
            .unwrap_or_else(|| Objection {
                rule: "max_tools".into(),
                effect: ObjectionEffect::Block,
                severity: Severity::Medium,
                reason: format!("the {} is beyond what is inspected", kind.as_str()),
                remedy: None,
            })
    }

    /// Reads, inspects and judges a page. Returns the positions of the items that are left out.
    pub(super) fn page(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        items: &[Item<'_>],
        extent: PageExtent,
        judgement: &mut Judgement,
    ) -> Vec<usize> {
        let identity = &teller.conversation.identity;
        let Some(offers) = self.book.get_mut(identity) else {
            return Vec::new();
        };
        let offer = offers.of_mut(kind);
        let session = teller.conversation.session.as_ref();
        match extent {
            PageExtent::Part => offer.begin_part(),
            PageExtent::FirstPage | PageExtent::LaterPage => {
                offer.begin(session, extent == PageExtent::LaterPage)
            }
        }
        let page = Page {
            now: teller.now,
            identity,
            kind,
            generation: self.generation,
            policy: &self.policy,
            is_part: extent == PageExtent::Part,
        };
        let sights: Vec<Sight> = items
            .iter()
            .map(|(name, raw)| offer.note(&page, name, *raw))
            .collect();
        if sights.iter().any(Sight::is_read) {
            self.inspect(teller, kind, items, &sights);
        }
        let mut hidden = Vec::new();
        for (position, ((name, _), sight)) in items.iter().zip(&sights).enumerate() {
            if self.item(teller, kind, name, sight, judgement) == ObjectionEffect::Block {
                hidden.push(position);
            }
        }
        judgement.events.extend(listed::refused(teller, kind, &sights));
        hidden
    }

    /// Inspects the items that were read, and judges them by the policy.
    fn inspect(&mut self, teller: &Teller<'_>, kind: DefinitionKind, items: &[Item<'_>], sights: &[Sight]) {
        let identity = &teller.conversation.identity;
        let found = self.find(teller, kind, items, sights);
        let Some(offers) = self.book.get_mut(identity) else {
            return;
        };
        for (position, findings) in found {
            let Some(entry) = offers.of_mut(kind).get_mut(items[position].0) else {
                continue;
            };
            match sights[position] {
                Sight::Contradicted(_) => entry.also_inspected(findings),
                Sight::New | Sight::Unchanged | Sight::Changed(_) => entry.inspected(findings),
                Sight::Same | Sight::Repeated | Sight::Refused(_) => {}
            }
            entry.stand(teller.now, &self.policy);
        }
        offers.note_poisoned(&self.policy);
    }

    /// Returns the findings in the listed items, by position.
    fn find(
        &self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        items: &[Item<'_>],
        sights: &[Sight],
    ) -> Vec<(usize, Vec<Finding>)> {
        let identity = &teller.conversation.identity;
        let offers = self.book.get(identity);
        let offer = offers.map(|offers| offers.of(kind));
        let tools = offers.map(|offers| offers.of(DefinitionKind::Tool));
        let own: Vec<&str> = tools.into_iter().flat_map(|offer| offer.names()).collect();
        let others: Vec<&str> = self.registry.tools_of_others(&identity.server).collect();
        let is_on = self.policy.inspection.enabled;
        let builtin = &self.policy.inspection.builtin;
        let names = match kind == DefinitionKind::Tool && is_on {
            true => ToolNames::of(&own),
            false => ToolNames::default(),
        };
        let read = sights.iter().enumerate().filter(|(_, sight)| sight.is_read());
        // Findings in a second definition of the same name are added to those in the first.
        let replaced = read
            .clone()
            .filter(|(_, sight)| !matches!(sight, Sight::Contradicted(_)));
        let replaced = replaced.map(|(position, _)| items[position].0).collect();
        let mut room = self.room_for_matches(identity, kind, replaced);
        let mut found: Vec<_> = read
            .map(|(position, sight)| {
                let entry = match sight {
                    Sight::New | Sight::Unchanged | Sight::Changed(_) => {
                        offer.and_then(|offer| offer.get(items[position].0))
                    }
                    Sight::Same | Sight::Repeated | Sight::Contradicted(_) | Sight::Refused(_) => None,
                };
                let scene = scan::Scene {
                    own: &own,
                    others: &others,
                    accepted: entry.and_then(DefinitionEntry::accepted).map(written),
                    before: entry.and_then(DefinitionEntry::before).map(written),
                };
                let raw = items[position].1;
                let mut findings = match kind {
                    _ if !is_on => Vec::new(),
                    DefinitionKind::Instructions => {
                        self.scanner.instructions(&raw.text().unwrap_or_default(), &scene)
                    }
                    DefinitionKind::Tool => {
                        let mut findings = names.inspect(items[position].0, raw);
                        findings.retain(|finding| builtin.contains(&finding.category));
                        findings.extend(self.scanner.definition(raw, &scene));
                        findings
                    }
                    DefinitionKind::Prompt
                    | DefinitionKind::Resource
                    | DefinitionKind::Template
                    | DefinitionKind::Skill
                    | DefinitionKind::App => self.scanner.definition(raw, &scene),
                };
                room.keep(&mut findings);
                (position, findings)
            })
            .collect();
        super::boilerplate::soften(&mut found, items.len(), self.policy.inspection.act_threshold);
        found
    }

    /// Returns the room for new findings, which replace those in `replaced`; the other findings keep theirs.
    fn room_for_matches(
        &self,
        identity: &PinKey,
        kind: DefinitionKind,
        replaced: BTreeSet<&str>,
    ) -> MatchCapacity {
        let offers = self.book.get(identity).into_iter();
        let entries = offers.flat_map(|offers| offers.of(kind).entries());
        let others = entries.filter(|entry| !replaced.contains(entry.record.key.name.as_str()));
        MatchCapacity::beside(others.flat_map(|entry| &*entry.record.findings))
    }

    /// Judges one item by the rules, and records it.
    fn item(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        name: &str,
        sight: &Sight,
        judgement: &mut Judgement,
    ) -> ObjectionEffect {
        let identity = &teller.conversation.identity;
        let Some(offers) = self
            .book
            .get(identity)
            .filter(|_| !matches!(sight, Sight::Refused(_)))
        else {
            return ObjectionEffect::Block;
        };
        let scene = RuleContext {
            is_listing: true,
            ..RuleContext::of(&self.policy, &identity.server, offers, kind, name, teller.now)
        };
        let ruling = rules::judge(&scene);
        match scene.entry() {
            Some(entry)
                if !sight.is_read()
                    && self.is_settled(entry, &ruling)
                    && entry.is_reported(
                        sight,
                        &listed::report(teller, &self.policy, entry, sight, &ruling),
                    ) => {}
            Some(_) | None => self.settle(teller, kind, name, sight, &ruling, judgement),
        }
        ruling.effect()
    }

    /// Returns whether a ruling changes nothing that is recorded.
    fn is_settled(&self, entry: &DefinitionEntry, ruling: &Ruling) -> bool {
        let is_hidden = self.hides(ruling);
        let asks = is_hidden && entry.needs_asking(&self.policy);
        entry.record.hidden == is_hidden && !asks && !self.pins(entry, ruling)
    }

    fn hides(&self, ruling: &Ruling) -> bool {
        ruling.block.is_some() && self.policy.mode == Mode::Enforce
    }

    fn pins(&self, entry: &DefinitionEntry, ruling: &Ruling) -> bool {
        ruling.block.is_none() && !self.awaits_acceptance(ruling) && entry.standing.pin.pins(&self.policy)
    }

    /// Returns whether a new tool needs a person's acceptance.
    fn awaits_acceptance(&self, ruling: &Ruling) -> bool {
        let is_new = || ruling.audits.iter().any(|audit| audit.rule == NEW_TOOL);
        self.policy.inspection.on_new_tool == OnNewTool::Ask && is_new()
    }

    /// Records the consequences of a ruling, and builds the events about it.
    fn settle(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        name: &str,
        sight: &Sight,
        ruling: &Ruling,
        judgement: &mut Judgement,
    ) {
        let is_hidden = self.hides(ruling);
        let may_be_pinned = ruling.block.is_none() && !self.awaits_acceptance(ruling);
        let offers = self.book.get_mut(&teller.conversation.identity);
        let Some(entry) = offers.and_then(|offers| offers.of_mut(kind).get_mut(name)) else {
            return;
        };
        if may_be_pinned && entry.standing.pin.pins(&self.policy) {
            entry.pin(None);
            entry.stand(teller.now, &self.policy);
        }
        entry.record.hidden = is_hidden;
        let is_untold = matches!(sight, Sight::Changed(_)) && entry.is_untold();
        let change = match sight {
            Sight::Changed(before) => is_untold.then_some((&**before, &entry.record.seen)),
            Sight::Contradicted(other) => Some((&entry.record.seen, &**other)),
            Sight::Same | Sight::New | Sight::Unchanged | Sight::Repeated | Sight::Refused(_) => None,
        };
        let report = listed::report(teller, &self.policy, entry, sight, ruling);
        if !entry.is_reported(sight, &report) {
            listed::tell(
                teller,
                &self.policy,
                entry,
                sight,
                change,
                ruling,
                &mut judgement.events,
            );
            entry.reported(sight, report);
        }
        judgement.store(&entry.record);
        if is_hidden && entry.needs_asking(&self.policy) {
            let asked = self.pending.ask(teller, entry, self.policy.approvals);
            judgement.events.extend(asked);
        }
    }

    /// Ends the page: notes what is gone, what was renamed, and which server offers what.
    fn end(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        identity_member: &str,
        more: bool,
        judgement: &mut Judgement,
    ) {
        let (now, conversation) = (teller.now, teller.conversation);
        let server = &conversation.identity.server;
        let Some(offers) = self.book.get_mut(&conversation.identity) else {
            return;
        };
        let offer = offers.of_mut(kind);
        let ReadList { gone, renamed } = offer.end(identity_member, more);
        for (new, old) in &renamed {
            if let (Some(entry), Some(before)) = (offer.get(new), offer.get(old)) {
                judgement.events.push(listed::renaming(teller, entry, before));
            }
        }
        for name in &gone {
            // Renamed definitions were reported as renamed.
            if let Some(entry) = offer.get(name)
                && !renamed.iter().any(|(_, old)| old == name)
            {
                judgement.events.extend(listed::vanished(teller, entry));
            }
        }
        if kind == DefinitionKind::Tool {
            gone.iter().for_each(|tool| self.registry.remove(server, tool));
            for (tool, hash) in offers.of_mut(kind).take_unregistered() {
                self.registry
                    .register(now, server, conversation.server_type, tool, hash);
            }
        }
    }
}

fn written(definition: &Definition) -> RawJson<'_> {
    RawJson::trusted(&definition.canonical)
}

/// Most bytes of matches that are kept for one kind of a server's definitions. A text can be many times shorter than
/// its matches with their contexts.
const MAX_MATCHED: usize = 8 << 20;

/// The room for matches with their contexts.
#[derive(Clone, Copy, Debug)]
struct MatchCapacity(usize);

impl MatchCapacity {
    /// Returns the room that is left besides these.
    fn beside<'f>(others: impl Iterator<Item = &'f Finding>) -> Self {
        Self(MAX_MATCHED.saturating_sub(others.map(matched).sum()))
    }

    /// Takes the room for `findings`; a finding that does not fit is kept without its matches.
    fn keep(&mut self, findings: &mut [Finding]) {
        for finding in findings {
            match self.0.checked_sub(matched(finding)) {
                Some(left) => self.0 = left,
                None => finding.matches = Vec::new(),
            }
        }
    }
}

/// Returns the size of a finding's matches, bytes.
fn matched(finding: &Finding) -> usize {
    let matches = finding.matches.iter();
    matches
        .map(|found| size_of_val(found) + found.text.len() + found.context.len())
        .sum()
}

/// Returns the member that identifies the items of a list.
const fn identity_member(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools | ListKind::Prompts => "name",
        ListKind::Resources | ListKind::Skills => "uri",
        ListKind::Templates => "uriTemplate",
    }
}
