//! What a server offers, as it lists it: read, inspected, compared with its pins, and left out where it may not
//! be used.

use super::{
    Traffic, sieve,
    tell::{Teller, cut, ruled},
};
use crate::{
    decide::{
        definitions::{Approval, Ended, Entry, Page, PinStanding, Sight},
        order::Judgement,
        rules::{self, Effect, Ruling, Scene},
        wording::{command, shown},
    },
    inspect::scan,
    model::{
        Action, Definition, DefinitionKind, DefinitionRecord, DefinitionStatus, Denial, Event, EventKind,
        Finding, Introduction, ListKind, Listing, RawJson, Severity, Subject, Verdict,
    },
    policy::{Mode, Policy},
};

/// Text of a description that is told, bytes.
const MAX_DESCRIPTION: usize = 4 << 10;

/// One item of a page: its name, and its definition as written.
type Item<'a> = (&'a str, RawJson<'a>);

impl Traffic {
    /// One page of a list.
    pub(super) fn listing(&mut self, teller: &Teller<'_>, listing: &Listing<'_>) -> Judgement {
        let kind = DefinitionKind::from(listing.kind);
        let items: Vec<Item<'_>> = listing
            .items
            .iter()
            .map(|item| (&*item.name, item.definition))
            .collect();
        let mut judgement = Judgement::default();
        let hidden = self.page(teller, kind, &items, listing.continued, &mut judgement);
        self.end(
            teller,
            kind,
            identity_member(listing.kind),
            listing.more,
            &mut judgement,
        );
        if !hidden.is_empty() {
            judgement.verdict = Verdict::Hide(hidden);
        }
        judgement
    }

    /// How a server introduces itself: its instructions are a list of one, or of none.
    pub(super) fn introduction(&mut self, teller: &Teller<'_>, introduction: &Introduction<'_>) -> Judgement {
        let kind = DefinitionKind::Instructions;
        let text = introduction.instructions.as_deref().map(Definition::of_text);
        let item = text.as_ref().map(|text| ("", RawJson::trusted(&text.canonical)));
        let mut judgement = Judgement::default();
        let hidden = self.page(teller, kind, item.as_slice(), false, &mut judgement);
        self.end(teller, kind, "", false, &mut judgement);
        if !hidden.is_empty() {
            judgement.verdict = Verdict::StripInstructions;
        }
        judgement
    }

    /// Reads, inspects and judges a page; returns the positions of what is left out.
    fn page(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        items: &[Item<'_>],
        continued: bool,
        judgement: &mut Judgement,
    ) -> Vec<usize> {
        let identity = &teller.conversation.identity;
        let Some(offers) = self.book.get_mut(identity) else {
            return Vec::new();
        };
        let offer = offers.of_mut(kind);
        offer.begin(teller.conversation.session.as_ref(), continued);
        let page = Page {
            now: teller.now,
            identity,
            kind,
            generation: self.generation,
            policy: &self.policy,
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
            if self.item(teller, kind, name, sight, judgement) == Effect::Block {
                hidden.push(position);
            }
        }
        judgement.events.extend(refused(teller, kind, &sights));
        hidden
    }

    /// Inspects what was read, and judges it by the policy.
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

    /// What is found in what was read, by position.
    fn find(
        &self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        items: &[Item<'_>],
        sights: &[Sight],
    ) -> Vec<(usize, Vec<Finding>)> {
        let identity = &teller.conversation.identity;
        let tools = self
            .book
            .get(identity)
            .map(|offers| offers.of(DefinitionKind::Tool));
        let own: Vec<&str> = tools.into_iter().flat_map(|offer| offer.names()).collect();
        let others: Vec<&str> = self.registry.tools_of_others(&identity.server).collect();
        let is_on = self.policy.inspection.enabled;
        let read = sights.iter().enumerate().filter(|(_, sight)| sight.is_read());
        read.map(|(position, sight)| {
            let previous = match sight {
                Sight::Changed(before) => Some(RawJson::trusted(&before.canonical)),
                Sight::Same
                | Sight::New
                | Sight::Unchanged
                | Sight::Repeated
                | Sight::Contradicted(_)
                | Sight::Refused(_) => None,
            };
            let scene = scan::Scene {
                own: &own,
                others: &others,
                previous,
            };
            let raw = items[position].1;
            let findings = match kind {
                _ if !is_on => Vec::new(),
                DefinitionKind::Instructions => {
                    self.scanner.instructions(&raw.text().unwrap_or_default(), &scene)
                }
                DefinitionKind::Tool
                | DefinitionKind::Prompt
                | DefinitionKind::Resource
                | DefinitionKind::Template => self.scanner.definition(raw, &scene),
            };
            (position, findings)
        })
        .collect()
    }

    /// Judges one item by the rules, and tells what was seen.
    fn item(
        &mut self,
        teller: &Teller<'_>,
        kind: DefinitionKind,
        name: &str,
        sight: &Sight,
        judgement: &mut Judgement,
    ) -> Effect {
        if matches!(sight, Sight::Refused(_)) {
            return Effect::Block;
        }
        let identity = &teller.conversation.identity;
        let Some(offers) = self.book.get(identity) else {
            return Effect::Block;
        };
        let ruling = rules::judge(&Scene::of(&self.policy, &identity.server, offers, kind, name));
        let Some(entry) = self
            .book
            .get_mut(identity)
            .and_then(|offers| offers.of_mut(kind).get_mut(name))
        else {
            return Effect::Block;
        };
        let is_hidden = ruling.block.is_some() && self.policy.mode == Mode::Enforce;
        let pins = ruling.block.is_none() && entry.standing.pin.pins(&self.policy);
        if pins {
            entry.pin(None);
            entry.stand(teller.now, &self.policy);
        }
        let is_other = sight.is_read() || pins || entry.record.hidden != is_hidden;
        entry.record.hidden = is_hidden;
        tell(teller, entry, sight, &ruling, &self.policy, &mut judgement.events);
        if is_other {
            judgement.store(&entry.record);
        }
        if is_hidden && entry.standing.needs_approval(&self.policy) && entry.approval == Approval::Unasked {
            judgement
                .events
                .extend(self.pending.ask(teller, entry, self.policy.approvals));
        }
        match ruling.block {
            Some(_) => Effect::Block,
            None => Effect::Audit,
        }
    }

    /// The page ends: what is gone, what has another name, who offers what.
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
        let Ended { gone, renamed } = offer.end(identity_member, more);
        for (new, old) in &renamed {
            if let (Some(entry), Some(before)) = (offer.get(new), offer.get(old)) {
                judgement.events.push(renaming(teller, entry, before));
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

/// Tells one item: that it was listed, what changed, and what was found.
fn tell(
    teller: &Teller<'_>,
    entry: &mut Entry,
    sight: &Sight,
    ruling: &Ruling,
    policy: &Policy,
    events: &mut Vec<Event>,
) {
    let is_untold = matches!(sight, Sight::Changed(_)) && entry.is_untold();
    let findings: Vec<Finding> = entry.findings(teller.now, policy).cloned().collect();
    let mut told = listed(teller, entry, sight, findings.clone());
    ruled(&mut told, ruling);
    events.push(told);
    let change = match sight {
        Sight::Changed(before) => is_untold.then_some((&**before, &entry.record.seen)),
        Sight::Contradicted(other) => Some((&entry.record.seen, &**other)),
        Sight::Same | Sight::New | Sight::Unchanged | Sight::Repeated | Sight::Refused(_) => None,
    };
    if let Some((before, new)) = change {
        let mut told = teller.event(EventKind::ToolChanged {
            definition: entry.record.key.kind,
            tool_name: entry.record.key.name.clone(),
            previous_hash: before.hash,
            new_hash: new.hash,
            changes: before.changes(new),
            renamed_from: None,
            detections: findings.clone(),
        });
        told.severity = Severity::Medium;
        ruled(&mut told, ruling);
        events.push(told);
    }
    if sight.is_read() {
        let subject = subject(entry.record.key.kind);
        let name = Some(entry.record.key.name.as_str()).filter(|name| !name.is_empty());
        let action = |finding: &Finding| match &ruling.block {
            Some(_) => Action::Block,
            None if finding.severity >= policy.inspection.alert_threshold => Action::Audit,
            None => Action::Allow,
        };
        let found = findings.iter().take(sieve::MAX_TOLD);
        events.extend(
            found.map(|finding| teller.detection(subject, name, finding, action(finding), ruling.told())),
        );
    }
}

/// The event that something was listed.
fn listed(teller: &Teller<'_>, entry: &Entry, sight: &Sight, findings: Vec<Finding>) -> Event {
    let record = &entry.record;
    let status = match (sight, entry.standing.pin) {
        (Sight::New, _) => DefinitionStatus::New,
        (Sight::Changed(_) | Sight::Contradicted(_), _) | (_, PinStanding::Changed) => {
            DefinitionStatus::Changed
        }
        (Sight::Same | Sight::Unchanged | Sight::Repeated | Sight::Refused(_), _) => {
            DefinitionStatus::Unchanged
        }
    };
    let description = if sight.is_read() {
        description(record)
    } else {
        None
    };
    let mut event = teller.event(EventKind::ToolSeen {
        definition: record.key.kind,
        tool_name: record.key.name.clone(),
        tool_hash: record.seen.hash,
        server_type: teller.conversation.server_type,
        description,
        status,
        max_severity: findings.iter().map(|finding| finding.severity).max(),
        detections: findings,
    });
    if matches!(sight, Sight::Repeated) {
        event.action = Action::Audit;
        event.severity = Severity::Low;
        event.rule = Some("duplicate_name".to_owned());
        event.reason = Some(format!(
            "{} was listed twice at once, both times the same",
            shown(&record.key.name)
        ));
    }
    event
}

/// What a definition says of itself.
fn description(record: &DefinitionRecord) -> Option<String> {
    let text = match record.key.kind {
        DefinitionKind::Instructions => RawJson::trusted(&record.seen.canonical).text(),
        DefinitionKind::Tool
        | DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template => record.seen.text_of("description"),
    };
    text.map(|text| cut(&text, MAX_DESCRIPTION).to_owned())
}

/// Something has another name than before.
fn renaming(teller: &Teller<'_>, entry: &Entry, before: &Entry) -> Event {
    let old = &before.record;
    let mut event = teller.event(EventKind::ToolChanged {
        definition: entry.record.key.kind,
        tool_name: entry.record.key.name.clone(),
        previous_hash: old.seen.hash,
        new_hash: entry.record.seen.hash,
        changes: old.seen.changes(&entry.record.seen),
        renamed_from: Some(old.key.name.clone()),
        detections: Vec::new(),
    });
    event.action = Action::Audit;
    event.severity = Severity::Medium;
    event.rule = Some("version_pin".to_owned());
    event.reason = Some(format!(
        "{} is what {} was",
        shown(&entry.record.key.name),
        shown(&old.key.name)
    ));
    event
}

/// One event for all that had no room.
fn refused(teller: &Teller<'_>, kind: DefinitionKind, sights: &[Sight]) -> Option<Event> {
    let mut refused = sights.iter().filter_map(|sight| match sight {
        Sight::Refused(full) => Some(full),
        Sight::Same
        | Sight::New
        | Sight::Unchanged
        | Sight::Changed(_)
        | Sight::Repeated
        | Sight::Contradicted(_) => None,
    });
    let cause = refused.next()?;
    let server = teller.conversation.identity.server.as_str();
    let denial = Denial {
        rule: "max_tools".to_owned(),
        reason: format!("{cause}"),
        remedy: Some(command(&["registry", "list", "--server", server])),
    };
    let summary = format!(
        "{} {}s of {server} are beyond what is inspected",
        refused.count() + 1,
        kind.as_str()
    );
    Some(teller.judged(&summary, "", Some((&denial, Action::Block, Severity::Medium))))
}

/// The member that names what a list lists.
const fn identity_member(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools | ListKind::Prompts => "name",
        ListKind::Resources => "uri",
        ListKind::Templates => "uriTemplate",
    }
}

const fn subject(kind: DefinitionKind) -> Subject {
    match kind {
        DefinitionKind::Tool => Subject::Definition,
        DefinitionKind::Prompt => Subject::Prompt,
        DefinitionKind::Resource | DefinitionKind::Template => Subject::Resource,
        DefinitionKind::Instructions => Subject::Instructions,
    }
}
