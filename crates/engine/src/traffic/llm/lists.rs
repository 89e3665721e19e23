//! Tools that a request offers to a model, and tools that a provider reports of a server.

use std::{borrow::Cow, collections::BTreeMap};

use mcpmon_detect::scan;
use mcpmon_model::{
    Action, Definition, DefinitionKind, Digest, Event, EventKind, FieldChange, Finding, InspectionSubject,
    Offered, RawJson, ServerId, Severity, Verdict,
};
use mcpmon_policy::OnDetection;

use super::{
    Traffic, keep,
    meant::{IntendedTool, MAX_MEANT, NameMeaning},
    tell::{Speaker, ruled},
};
use crate::{
    definitions::{DefinitionEntry, Offers},
    effect::Judgement,
    names::joined,
    rules::{self, Objection, ObjectionEffect, RuleContext, Ruling, blocked_tools, too_much, tool_policy},
    traffic::{
        requests::note,
        sieve,
        tell::{MAX_TEXT, cut, objected},
    },
    wording::{acceptance_remedy, command, shown},
};

/// Most definitions whose findings are kept.
const MAX_INSPECTED: usize = 4096;
/// Longest definition that is read, bytes; a longer one of a server is left out.
const MAX_DEFINITION: usize = 1 << 20;
/// Most bytes that a client may add around a description.
const MAX_FRAME: usize = 64;
/// Longest text of a description in an event, characters.
const MAX_SHOWN: usize = 1000;
/// The name of the rule over findings in definitions, for suppressions.
const RULE: &str = "tool_poisoning";

/// Findings in definitions, by the generation of the rules and the hash of the definition.
#[derive(Debug, Default)]
pub(super) struct InspectedDefinitions(BTreeMap<(u64, Digest), Vec<Finding>>);

/// An item of a list.
#[derive(Debug)]
struct LlmListItem<'a> {
    visible: String,
    /// The tools it may be; empty for an item that is not an MCP tool.
    meant: Vec<IntendedTool>,
    definition: RawJson<'a>,
    hash: Digest,
}

/// The decision about an item.
#[derive(Debug, Default)]
struct ItemDecision {
    ruling: Ruling,
    events: Vec<Event>,
    /// The server that must not be used at all because of the item.
    refuses: Option<ServerId>,
}

impl Traffic {
    /// Judges the tools that a request offers to a model.
    pub(super) fn offered(&mut self, speaker: Speaker<'_>, tools: &[Offered<'_>]) -> Judgement {
        let mut items = Vec::with_capacity(tools.len());
        for tool in tools {
            let visible = joined(&tool.name);
            let meant = match self.meaning(speaker.exchange, &visible) {
                NameMeaning::Tools(mut meant) => {
                    meant.truncate(MAX_MEANT);
                    meant
                }
                NameMeaning::Unclear | NameMeaning::Native => Vec::new(),
            };
            items.push(LlmListItem::new(visible, meant, tool.definition));
        }
        self.list(speaker, &items)
    }

    /// Judges the tools that a provider reports of a server.
    pub(super) fn provider_listed(
        &mut self,
        speaker: Speaker<'_>,
        label: &str,
        tools: &[Offered<'_>],
    ) -> Judgement {
        let mut items = Vec::with_capacity(tools.len());
        for tool in tools {
            let name = joined(&tool.name);
            let meant = self.labelled(speaker, label, &name);
            items.push(LlmListItem::new(name, meant, tool.definition));
        }
        self.list(speaker, &items)
    }

    fn list(&mut self, speaker: Speaker<'_>, items: &[LlmListItem<'_>]) -> Judgement {
        let mut judgement = Judgement::default();
        let mut refused: Vec<ServerId> = Vec::new();
        let mut hidden = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let listed = match item.meant.is_empty() {
                true => self.foreign(speaker, item),
                false => self.tool(speaker, item),
            };
            judgement.events.extend(listed.events);
            refused.extend(listed.refuses);
            if listed.ruling.effect() == ObjectionEffect::Block {
                hidden.push(position);
                judgement
                    .events
                    .extend(self.hiding(speaker, item, &listed.ruling));
            }
        }
        let is_refused = |item: &LlmListItem<'_>| {
            let mut servers = item.meant.iter().map(|meant| &meant.identity.server);
            servers.any(|server| refused.contains(server))
        };
        let more = items.iter().enumerate().filter(|(_, item)| is_refused(item));
        hidden.extend(more.map(|(position, _)| position));
        hidden.sort_unstable();
        hidden.dedup();
        if !hidden.is_empty() {
            judgement.verdict = Verdict::Hide(hidden);
        }
        judgement
    }

    /// Returns the strictest of the decisions about the tools that an item can be, and about its description.
    fn tool(&mut self, speaker: Speaker<'_>, item: &LlmListItem<'_>) -> ItemDecision {
        let mut listed = ItemDecision::default();
        for meant in &item.meant {
            let ruling = self.list_ruling(speaker, item, meant);
            if ruling.block.is_some() || listed.ruling.block.is_none() {
                listed.ruling = ruling;
            }
        }
        let Some(meant) = item.meant.first() else {
            return listed;
        };
        if item.is_too_long() {
            let what = format!("the definition of {}", shown(&item.visible));
            note(
                &mut listed.ruling,
                Some(too_much(&what, "is longer than what is read")),
            );
            return listed;
        }
        let described = item.described();
        let known = item.meant.iter().find_map(|meant| self.entry(meant));
        let standing = known.map(|entry| describes(entry, described.as_deref().unwrap_or_default()));
        if standing == Some(true) {
            return listed; // inspected when it was listed
        }
        if let Some(entry) = known {
            let told = differs(
                speaker,
                item,
                meant,
                entry,
                described.as_deref().unwrap_or_default(),
            );
            let server = meant.identity.server.as_str();
            let is_new = self
                .llm
                .told
                .is_new(&["differs", server, &meant.tool, &item.hash.to_string()]);
            listed.events.extend(is_new.then_some(told));
        }
        let findings = self.found(item, Some(meant));
        let against = self.follows(speaker, &findings, item, meant);
        let is_new = self.llm.told.is_new(&["found", &item.hash.to_string()]);
        if is_new {
            listed.events.extend(detections(
                speaker,
                Some(meant),
                item,
                &findings,
                against.as_ref(),
            ));
        }
        if against
            .as_ref()
            .is_some_and(|objection| objection.effect == ObjectionEffect::Block)
            && self.policy.inspection.on_detection == OnDetection::Block
        {
            listed.refuses = Some(meant.identity.server.clone());
        }
        note(&mut listed.ruling, against);
        listed
    }

    /// Judges an item that is no MCP tool. The tools of a known client are not inspected; others are, and findings are
    /// recorded.
    fn foreign(&mut self, speaker: Speaker<'_>, item: &LlmListItem<'_>) -> ItemDecision {
        let mut listed = ItemDecision::default();
        let is_own = self.client_of(speaker.exchange).is_some();
        if is_own || item.is_too_long() || !self.llm.told.is_new(&["found", &item.hash.to_string()]) {
            return listed;
        }
        let findings = self.found(item, None);
        listed.events = detections(speaker, None, item, &findings, None);
        listed
    }

    /// Judges a listed tool by the rules.
    fn list_ruling(&self, speaker: Speaker<'_>, item: &LlmListItem<'_>, meant: &IntendedTool) -> Ruling {
        let server = &meant.identity.server;
        let stranger = Offers::of_stranger(server, &self.policy);
        let offers = self.book.get(&meant.identity).unwrap_or(&stranger);
        let (policy, kind) = (&self.policy, DefinitionKind::Tool);
        let mut ruling = rules::judge(&RuleContext {
            is_listing: true,
            ..RuleContext::of(policy, server, offers, kind, &meant.tool, speaker.now)
        });
        let known_as = || {
            let (tool, visible) = (shown(&meant.tool), shown(&item.visible));
            format!("tool {tool} of {server}, which a model knows as {visible},")
        };
        if item.visible != meant.tool {
            note(
                &mut ruling,
                blocked_tools::blocked(policy, &item.visible, known_as),
            );
            note(
                &mut ruling,
                tool_policy::denied(policy, Some(server), &item.visible, known_as),
            );
        }
        ruling
    }

    fn entry(&self, meant: &IntendedTool) -> Option<&DefinitionEntry> {
        self.book
            .get(&meant.identity)?
            .of(DefinitionKind::Tool)
            .get(&meant.tool)
    }

    /// Returns the findings in a definition.
    fn found(&mut self, item: &LlmListItem<'_>, meant: Option<&IntendedTool>) -> Vec<Finding> {
        if !self.policy.inspection.enabled {
            return Vec::new();
        }
        let key = (self.generation, item.hash);
        if let Some(known) = self.llm.inspected.0.get(&key) {
            return known.clone();
        }
        let offers = meant.and_then(|meant| self.book.get(&meant.identity));
        let own: Vec<&str> = match offers {
            Some(offers) => offers.of(DefinitionKind::Tool).names().collect(),
            None => vec![&item.visible],
        };
        let others: Vec<&str> = match meant {
            Some(meant) => self.registry.tools_of_others(&meant.identity.server).collect(),
            None => Vec::new(),
        };
        let scene = scan::Scene {
            own: &own,
            others: &others,
            accepted: None,
            before: None,
        };
        let shaped = shaped(item.definition);
        let found = self.scanner.definition(RawJson::trusted(&shaped), &scene);
        keep(&mut self.llm.inspected.0, MAX_INSPECTED, key, found.clone());
        found
    }

    /// Returns the consequences of findings.
    fn follows(
        &self,
        speaker: Speaker<'_>,
        findings: &[Finding],
        item: &LlmListItem<'_>,
        meant: &IntendedTool,
    ) -> Option<Objection> {
        let (policy, server) = (&self.policy, &meant.identity.server);
        let is_open = |finding: &&Finding| !policy.accepts(RULE, finding, server, &meant.tool, speaker.now);
        let worst = findings
            .iter()
            .filter(is_open)
            .max_by_key(|finding| finding.severity)?;
        if worst.severity < policy.inspection.alert_threshold {
            return None;
        }
        let acts = worst.severity >= policy.inspection.act_threshold;
        let effect = match policy.inspection.on_detection {
            OnDetection::Hide | OnDetection::Block if acts => ObjectionEffect::Block,
            OnDetection::Alert | OnDetection::Hide | OnDetection::Block => ObjectionEffect::Audit,
        };
        Some(Objection {
            rule: RULE.into(),
            effect,
            severity: worst.severity,
            reason: format!(
                "the definition of {} that a request gives matches {} ({})",
                shown(&item.visible),
                shown(&worst.pattern),
                worst.category.as_str()
            ),
            remedy: Some(match effect {
                ObjectionEffect::Block => {
                    let acting = findings.iter().filter(is_open);
                    let acting = acting.filter(|finding| finding.severity >= policy.inspection.act_threshold);
                    let rules = acting.flat_map(|finding| &finding.rules).map(String::as_str);
                    acceptance_remedy(rules, RULE, server.as_str(), &meant.tool)
                }
                ObjectionEffect::Audit | ObjectionEffect::Ask => {
                    command(&["detections", "--server", server.as_str()])
                }
            }),
        })
    }

    /// Builds the event that an item is left out, once for a session.
    fn hiding(&mut self, speaker: Speaker<'_>, item: &LlmListItem<'_>, ruling: &Ruling) -> Option<Event> {
        let block = ruling.block.as_ref()?;
        let words = [
            "hidden",
            speaker.session(),
            &item.visible,
            &item.hash.to_string(),
            &block.rule,
        ];
        if !self.llm.told.is_new(&words) {
            return None;
        }
        let kind = EventKind::RequestJudged {
            method: "offered_tool".to_owned(),
            summary: cut(&item.visible, MAX_TEXT).to_owned(),
            count: 1,
        };
        let mut event = match item.meant.first() {
            Some(meant) => speaker.about(meant, kind),
            None => speaker.event(kind),
        };
        ruled(&mut event, ruling);
        Some(event)
    }
}

impl<'a> LlmListItem<'a> {
    fn new(visible: String, meant: Vec<IntendedTool>, definition: RawJson<'a>) -> Self {
        Self {
            visible,
            meant,
            definition,
            hash: Digest::of(definition.as_str().as_bytes()),
        }
    }

    const fn is_too_long(&self) -> bool {
        self.definition.as_str().len() > MAX_DEFINITION
    }

    /// Returns the description of the item.
    fn described(&self) -> Option<Cow<'a, str>> {
        inner(self.definition).member("description")?.text()
    }
}

/// Returns the object that has name and description: some dialects nest it.
fn inner(definition: RawJson<'_>) -> RawJson<'_> {
    let nested = ["function", "custom"]
        .into_iter()
        .filter_map(|name| definition.member(name));
    let mut objects = nested.filter(|value| value.as_str().starts_with('{'));
    objects.next().unwrap_or(definition)
}

/// Returns a definition in the form that MCP uses, from any dialect: its parameters are a schema.
fn shaped(definition: RawJson<'_>) -> String {
    let inside = inner(definition);
    let outside = definition
        .members()
        .filter(|(_, value)| value.as_str() != inside.as_str());
    let outside: Vec<_> = match inside == definition {
        true => Vec::new(),
        false => outside.collect(),
    };
    let members = inside.members().chain(outside).map(|(name, value)| {
        let name = match &*name {
            "input_schema" | "parameters" | "parametersJsonSchema" | "parameters_json_schema" => {
                "inputSchema"
            }
            other => other,
        };
        format!("{}:{}", RawJson::quoted(name), value.as_str())
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Returns whether a description is that of the listed or of the pinned definition: a client may have either.
fn describes(entry: &DefinitionEntry, offered: &str) -> bool {
    let record = &entry.record;
    let mut known = [Some(&record.seen), record.pinned.as_ref()].into_iter().flatten();
    known.any(|definition| says(definition, offered))
}

/// Returns whether a description is that of a definition: all of it or its beginning, with no more text around it than
/// a client adds.
fn says(definition: &Definition, offered: &str) -> bool {
    let listed = definition.text_of("description").unwrap_or_default();
    let (listed, offered) = (squashed(&listed), squashed(offered));
    let begun = offered.trim_end_matches(['.', '\u{2026}', ' ']);
    let begun = begun
        .strip_suffix("[truncated]")
        .unwrap_or(begun)
        .trim_end_matches(['.', '\u{2026}', ' ']);
    listed.starts_with(begun) || offered.contains(&listed) && offered.len() <= listed.len() + MAX_FRAME
}

fn squashed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Builds the event that a tool's description for the model differs from that of its server.
fn differs(
    speaker: Speaker<'_>,
    item: &LlmListItem<'_>,
    meant: &IntendedTool,
    entry: &DefinitionEntry,
    offered: &str,
) -> Event {
    let listed = &entry.record.seen;
    let shown_text = |text: &str| text.chars().take(MAX_SHOWN).collect();
    let mut event = speaker.about(
        meant,
        EventKind::ToolChanged {
            definition: DefinitionKind::Tool,
            tool_name: cut(&meant.tool, MAX_TEXT).to_owned(),
            previous_hash: listed.hash,
            new_hash: Some(item.hash),
            changes: vec![FieldChange {
                field: "description".to_owned(),
                previous: shown_text(&listed.text_of("description").unwrap_or_default()),
                new: shown_text(offered),
            }],
            renamed_from: None,
            detections: Vec::new(),
        },
    );
    event.action = Action::Audit;
    event.severity = Severity::Medium;
    event.rule = Some("offered_definition".to_owned());
    event.reason = Some(format!(
        "a request describes tool {} of {} to the model in other words than its server; see `{}`",
        shown(&meant.tool),
        meant.identity.server,
        command(&[
            "registry",
            "show",
            &format!("{}:{}", meant.identity.server, meant.tool)
        ])
    ));
    event
}

/// Builds the events about findings.
fn detections(
    speaker: Speaker<'_>,
    meant: Option<&IntendedTool>,
    item: &LlmListItem<'_>,
    findings: &[Finding],
    against: Option<&Objection>,
) -> Vec<Event> {
    let told = findings.iter().take(sieve::MAX_REPORTED).map(|finding| {
        let kind = EventKind::Detection {
            subject: InspectionSubject::Definition,
            tool_name: Some(cut(meant.map_or(&*item.visible, |meant| &meant.tool), MAX_TEXT).to_owned()),
            detection: finding.clone(),
            count: 1,
        };
        let mut event = match meant {
            Some(meant) => speaker.about(meant, kind),
            None => speaker.event(kind),
        };
        if let Some(objection) = against {
            objected(&mut event, objection);
        }
        event.severity = finding.severity;
        event
    });
    told.collect()
}
