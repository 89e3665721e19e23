//! Judges items with the engines and the default policy.

use std::{borrow::Cow, fmt, sync::Arc};

use anyhow::{Context as _, bail};
use mcpmon_detect::{arguments::Arguments, launch::LaunchRules, scan::Scanner, secrets, similarity};
use mcpmon_engine::{Judgement, Monitor, Observation, Tally, pins::PinBook};
use mcpmon_model::{
    Answer, AnswerOutcome, AnsweredRequest, Category, ClientRequestKind, Content, Conversation, Era,
    EventKind, Finding, FromServer, Introduction, Layer, ListKind, ListedItem, Listing, Message, PinKey,
    RawJson, Redaction, RequestId, ResultKind, ServerId, ServerType, Severity, Timestamp, Trace, Verdict,
};
use mcpmon_policy::{Decision, OnOutput, OnSecret, Policy, network::table::Tables};
use serde_json::{Value, json};

use super::{
    corpus::{Corpus, Item, List},
    sequences,
};

/// The number of bytes that are shown around a replacement.
const AROUND: usize = 60;

/// All engines, with the default policy.
pub(super) struct Engines {
    launches: LaunchRules,
    pub(super) scanner: Scanner,
    policy: Arc<Policy>,
    /// The default policy with one change for results: secrets are replaced, and nothing else is done.
    redacting: Arc<Policy>,
}

/// The outcome for an item. Each outcome includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Nothing was found.
    Nothing,
    /// Something was found and is recorded.
    Noted,
    /// The item is at or above `alert_threshold`.
    Alerted,
    /// The item is hidden, stripped, withheld or blocked.
    Acted,
}

/// The judgement on an item.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    pub(super) expected: bool,
    /// The replacements of secrets, in a result or on its way to a model.
    pub(super) altered: Altered,
    /// The judged text.
    pub(super) text: String,
    /// The signals found.
    pub(super) signals: Vec<Signal>,
}

/// The replacements in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Altered {
    /// The replacements in a result, with `output_inspection.secrets: redact`.
    pub(super) in_result: Vec<Signal>,
    /// True if something would be replaced in a request to a model, with `dlp.mode: redact`.
    pub(super) to_model: bool,
    /// The text around the replacements.
    pub(super) excerpts: Vec<String>,
}

impl Altered {
    pub(super) fn anywhere(&self) -> bool {
        self.to_model || !self.in_result.is_empty()
    }
}

/// A finding in an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    /// The name of the pattern or rule.
    pub(super) name: String,
    pub(super) severity: Option<Severity>,
    /// True if the finding is at or above `alert_threshold`.
    pub(super) is_alarming: bool,
    /// The text in which it was found.
    pub(super) text: String,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Some(severity) => write!(f, "{}:{}", self.name, severity.as_str()),
            None => f.write_str(&self.name),
        }
    }
}

impl Judged {
    pub(super) fn is_flagged(&self) -> bool {
        self.outcome >= Outcome::Alerted
    }

    fn new(outcome: Outcome, expected: bool, text: String, signals: Vec<Signal>) -> Self {
        Self {
            outcome,
            expected,
            altered: Altered::default(),
            text,
            signals,
        }
    }
}

impl Engines {
    pub(super) fn new() -> anyhow::Result<Self> {
        // `policies/default.yaml` does the same for servers that no rule names.
        let mut policy = Policy::default();
        policy.rules.default = Decision::Allow;
        let mut redacting = policy.clone();
        redacting.outputs.on_detection = OnOutput::Alert;
        redacting.outputs.secrets = OnSecret::Redact;
        Ok(Self {
            launches: LaunchRules::default(),
            scanner: Scanner::new(&policy.inspection.builtin, &policy.inspection.custom)?,
            policy: Arc::new(policy),
            redacting: Arc::new(redacting),
        })
    }

    /// Judges every item, in order; an item is `None` if no engine judges its kind.
    pub(super) fn judge(&self, corpus: &Corpus) -> Vec<Option<anyhow::Result<Judged>>> {
        let mut judged: Vec<Option<anyhow::Result<Judged>>> = corpus.items.iter().map(|_| None).collect();
        for (kind, listed) in [
            ("tool_definition", ListKind::Tools),
            ("prompt", ListKind::Prompts),
        ] {
            for list in corpus.lists(kind) {
                for (item, of_item) in self.list(corpus, listed, &list) {
                    judged[item] = Some(of_item);
                }
            }
        }
        let mut results = Results::new(self);
        for (item, judged) in corpus.items.iter().zip(&mut judged) {
            match item.kind.as_str() {
                "launch" => *judged = Some(self.launch(item)),
                "instructions" => *judged = Some(self.instructions(item)),
                "tool_output" => *judged = Some(results.output(item)),
                "server_name" => *judged = Some(server_name(item)),
                "argument" => *judged = Some(self.argument(item)),
                "sequence" => *judged = Some(expected(item).and_then(|is| sequences::judge(item, is))),
                _ => {}
            }
        }
        judged
    }

    fn launch(&self, item: &Item) -> anyhow::Result<Judged> {
        let argv = item
            .argv
            .as_deref()
            .context("an item of kind launch needs `argv`, a list of words")?;
        let outcome = match self.launches.detect(argv) {
            Some(_) => Outcome::Alerted,
            None => Outcome::Nothing,
        };
        Ok(Judged::new(outcome, expected(item)?, argv.join(" "), Vec::new()))
    }

    /// Judges a list as a client would get it, and leaves out the items that are counted in another list.
    fn list(&self, corpus: &Corpus, kind: ListKind, list: &List) -> Vec<(usize, anyhow::Result<Judged>)> {
        let items: Vec<(usize, &Item)> = list
            .items
            .iter()
            .map(|index| (*index, &corpus.items[*index]))
            .collect();
        let definitions: Vec<String> = items
            .iter()
            .map(|(_, item)| item.payload.as_ref().map(Value::to_string).unwrap_or_default())
            .collect();
        let listed = items
            .iter()
            .zip(&definitions)
            .map(|((_, item), text)| ListedItem {
                name: Cow::Borrowed(item.name().unwrap_or(&item.id)),
                definition: RawJson::trusted(text),
            });
        let listing = Listing {
            kind,
            items: listed.collect(),
            continued: false,
            more: false,
            is_part: false,
            result: RawJson::trusted("{}"),
            again: None,
        };
        let mut monitor = monitor(&self.policy);
        let judgement = say(&mut monitor, FromServer::Listing(listing));
        let hidden = match judgement.verdict {
            Verdict::Hide(hidden) => hidden,
            Verdict::Allow => Vec::new(),
            Verdict::Block(_) | Verdict::Ask(_) | Verdict::StripInstructions | Verdict::Redact(_) => {
                (0..items.len()).collect()
            }
        };
        let mut judged = Vec::new();
        for (position, (index, item)) in items.iter().enumerate() {
            if !list.counted[position] {
                continue;
            }
            let of_item = expected(item).and_then(|expected| {
                payload(item)?;
                let name = item.name().unwrap_or(&item.id);
                let mut records = monitor.definitions();
                let record = records.find(|record| record.key.name == name);
                let findings = record.map(|record| &*record.findings).unwrap_or_default();
                let signals = self.signals(findings);
                let outcome = outcome(hidden.contains(&position), &signals);
                let text = definitions[position].clone();
                Ok(Judged::new(outcome, expected, text, signals))
            });
            judged.push((*index, of_item));
        }
        judged
    }

    fn instructions(&self, item: &Item) -> anyhow::Result<Judged> {
        let text = text_of(item)?;
        let mut monitor = monitor(&self.policy);
        let introduction = Introduction {
            instructions: Some(Cow::Borrowed(text)),
            name: None,
            result: RawJson::trusted("{}"),
        };
        let judgement = say(&mut monitor, FromServer::Introduction(introduction));
        let findings = monitor.definitions().flat_map(|record| &*record.findings);
        let signals = self.signals(findings);
        let outcome = outcome(judgement.verdict != Verdict::Allow, &signals);
        Ok(Judged::new(outcome, expected(item)?, text.to_owned(), signals))
    }

    /// Judges the arguments of a call.
    fn argument(&self, item: &Item) -> anyhow::Result<Judged> {
        let payload = payload(item)?;
        let given = payload.get("arguments").unwrap_or(payload);
        let text = given.to_string();
        let json = RawJson::trusted(&text);
        let secrets = secrets::inspect(json, &Arguments::walk(json));
        let signals = self.signals(secrets.iter().map(|secret| &secret.finding));
        let is_alarming = signals.iter().any(|signal| signal.is_alarming);
        let stops = match self.policy.arguments.on_detection {
            OnSecret::Block | OnSecret::Redact => true,
            OnSecret::Alert => false,
        };
        let outcome = outcome(is_alarming && stops, &signals);
        let mut judged = Judged::new(outcome, expected(item)?, text, signals);
        let mut monitor = monitor(&self.policy);
        judged.altered.to_model = has_replaced(&mut monitor, given);
        Ok(judged)
    }

    fn signals<'f>(&self, findings: impl IntoIterator<Item = &'f Finding>) -> Vec<Signal> {
        let inspection = &self.policy.inspection;
        let signals = findings.into_iter().map(|finding| {
            // A secret is not reported below the threshold for action.
            let threshold = match finding.category == Category::Secret {
                true => inspection.act_threshold,
                false => inspection.alert_threshold,
            };
            let texts: Vec<&str> = finding.matches.iter().map(|found| found.text.as_str()).collect();
            Signal {
                name: finding.pattern.clone(),
                severity: Some(finding.severity),
                is_alarming: finding.severity >= threshold,
                text: texts.join(" | "),
            }
        });
        signals.collect()
    }
}

/// Judges results, both by the default policy and by a policy that replaces secrets.
struct Results<'e> {
    engines: &'e Engines,
    default: Monitor,
    redacting: Monitor,
}

impl<'e> Results<'e> {
    fn new(engines: &'e Engines) -> Self {
        Self {
            engines,
            default: monitor(&engines.policy),
            redacting: monitor(&engines.redacting),
        }
    }

    fn output(&mut self, item: &Item) -> anyhow::Result<Judged> {
        let expected = expected(item)?;
        let text = text_of(item)?;
        let result = result(text);
        let answer = || {
            FromServer::Answer(Answer {
                to: AnsweredRequest {
                    what: ClientRequestKind::Call {
                        tool: item.tool.as_deref().map(Box::from),
                    },
                    at: Timestamp(0),
                },
                outcome: AnswerOutcome::Result {
                    result: RawJson::trusted(&result),
                    kind: ResultKind::Complete,
                },
            })
        };
        let judgement = say(&mut self.default, answer());
        let mut detections: Vec<&Finding> = Vec::new();
        for event in &judgement.events {
            if let EventKind::OutputInspection {
                detections: of_result,
                ..
            } = &event.kind
            {
                detections.extend(of_result);
            }
        }
        let signals = self.engines.signals(detections);
        let outcome = outcome(judgement.verdict != Verdict::Allow, &signals);
        let mut judged = Judged::new(outcome, expected, text.to_owned(), signals);
        let redacted = say(&mut self.redacting, answer());
        let secrets = redacted.events.iter().filter_map(|event| {
            if let EventKind::Detection { detection, .. } = &event.kind {
                return (detection.category == Category::Secret).then_some(detection);
            }
            None
        });
        let mut secrets = self.engines.signals(secrets);
        secrets.retain(|signal| signal.is_alarming);
        if redacted.verdict == Verdict::Allow {
            secrets.clear();
        }
        let to_model = self
            .default
            .redact_text(Timestamp(0), text, &mut Tally::default());
        let mut excerpts: Vec<String> = to_model
            .iter()
            .map(|redaction| excerpt(text, redaction))
            .collect();
        if let Verdict::Redact(in_result) = &redacted.verdict {
            excerpts.extend(in_result.iter().map(|redaction| excerpt(&result, redaction)));
        }
        judged.altered = Altered {
            in_result: secrets,
            to_model: !to_model.is_empty(),
            excerpts,
        };
        Ok(judged)
    }
}

/// Returns the text that a replacement takes out, with its surroundings.
fn excerpt(text: &str, redaction: &Redaction) -> String {
    let start = text.floor_char_boundary(redaction.place.start.saturating_sub(AROUND));
    let end = text.ceil_char_boundary(redaction.place.end.saturating_add(AROUND));
    format!(
        "{}<<{}>>{} {}",
        &text[start..redaction.place.start],
        &text[redaction.place.clone()],
        &text[redaction.place.end..end],
        redaction.text
    )
}

/// Returns whether a secret in one of the texts of a value would be replaced before a model reads it.
fn has_replaced(monitor: &mut Monitor, value: &Value) -> bool {
    match value {
        Value::String(text) => !monitor
            .redact_text(Timestamp(0), text, &mut Tally::default())
            .is_empty(),
        Value::Array(items) => items.iter().any(|item| has_replaced(monitor, item)),
        Value::Object(members) => members.values().any(|member| has_replaced(monitor, member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn monitor(policy: &Arc<Policy>) -> Monitor {
    Monitor::new(Arc::clone(policy), &Tables::default(), PinBook::default())
}

/// Passes a message of the server to a Monitor.
fn say(monitor: &mut Monitor, said: FromServer<'_>) -> Judgement {
    let server = ServerId::new("server").expect("a plain word is an id");
    let conversation = Conversation {
        identity: PinKey {
            name: server.as_str().to_owned(),
            server,
            uid: 1000,
        },
        server_type: ServerType::Stdio,
        session: None,
        layer: Layer::Stdio,
    };
    let id = RequestId::Number("1".into());
    let message = Message {
        era: Era::Handshake,
        id: Some(&id),
        trace: Trace::default(),
        size: 0,
        content: Content::Server(said),
    };
    monitor.observe(
        Timestamp(0),
        Observation::Message(&conversation, &message, Vec::new()),
    )
}

fn outcome(is_acted_upon: bool, signals: &[Signal]) -> Outcome {
    if is_acted_upon {
        Outcome::Acted
    } else if signals.iter().any(|signal| signal.is_alarming) {
        Outcome::Alerted
    } else if signals.is_empty() {
        Outcome::Nothing
    } else {
        Outcome::Noted
    }
}

/// Returns a tool's result with one text, as it is transmitted.
pub(super) fn result(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

fn server_name(item: &Item) -> anyhow::Result<Judged> {
    let payload = payload(item)?;
    let name = item.name().context("the payload of a server_name has a `name`")?;
    let known = payload["known"]
        .as_array()
        .context("the payload of a server_name has `known`, a list")?;
    let known = known
        .iter()
        .filter_map(Value::as_str)
        .chain(similarity::well_known().iter().copied());
    let similar = similarity::resembles(name, known);
    let outcome = match similar {
        Some(_) => Outcome::Alerted,
        None => Outcome::Nothing,
    };
    let signals = similar.into_iter().map(|similar| Signal {
        name: similar.method.to_owned(),
        severity: None,
        is_alarming: true,
        text: similar.similar_to,
    });
    Ok(Judged::new(
        outcome,
        expected(item)?,
        payload.to_string(),
        signals.collect(),
    ))
}

fn payload(item: &Item) -> anyhow::Result<&Value> {
    item.payload
        .as_ref()
        .with_context(|| format!("an item of kind {} needs `payload`", item.kind))
}

fn text_of(item: &Item) -> anyhow::Result<&str> {
    payload(item)?
        .as_str()
        .with_context(|| format!("the payload of an item of kind {} is a text", item.kind))
}

/// Returns whether an item should be flagged.
fn expected(item: &Item) -> anyhow::Result<bool> {
    let (bad, good) = match item.kind.as_str() {
        "launch" => ("mcp_server", "other"),
        _ => ("malicious", "benign"),
    };
    match item.label.as_str() {
        label if label == bad => Ok(true),
        label if label == good => Ok(false),
        label => bail!(
            "label of a {} must be `{bad}` or `{good}`, not `{label}`",
            item.kind
        ),
    }
}
