//! Judges items with the engines and the default policy.

use anyhow::{Context as _, bail};
use mcpmon_core::{
    inspect::{
        arguments::Arguments,
        launch::LaunchRules,
        scan::{Scanner, Scene, Source},
        secrets, similarity,
    },
    model::{Finding, RawJson, Standing},
    policy::{ArgumentInspection, Detection, OnDetection, OnSecret},
};
use serde_json::{Value, json};

use super::{
    corpus::{Corpus, Item},
    sequences,
};

/// Least similarity of names, as `mcp.servers.similarity_threshold` has it by default.
const NAME_SIMILARITY: f64 = 0.85;

/// Everything that judges.
pub(super) struct Engines {
    launches: LaunchRules,
    pub(super) scanner: Scanner,
    detection: Detection,
}

/// How an item was judged.
pub(super) enum Judgement {
    /// It was flagged and blocked, or not, and should have been flagged, or not.
    Judged(Judged),
    /// No engine judges items of this kind.
    NoEngine,
}

/// What came of an item.
pub(super) struct Judged {
    pub(super) flagged: bool,
    pub(super) blocked: bool,
    pub(super) expected: bool,
    /// What was judged.
    pub(super) text: String,
    /// What was found.
    pub(super) found: Vec<Found>,
}

/// Something found in an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name, and how bad it is.
    pub(super) name: String,
    /// What it was found in.
    pub(super) text: String,
}

impl Engines {
    pub(super) fn new() -> anyhow::Result<Self> {
        let detection = Detection::default();
        Ok(Self {
            launches: LaunchRules::default(),
            scanner: Scanner::new(&detection.builtin, &detection.custom)?,
            detection,
        })
    }

    pub(super) fn judge(&self, corpus: &Corpus, item: &Item) -> anyhow::Result<Judgement> {
        Ok(Judgement::Judged(match item.kind.as_str() {
            "launch" => self.launch(item)?,
            "tool_definition" | "instructions" => self.definition(corpus, item)?,
            "tool_output" => self.output(item)?,
            "server_name" => server_name(item)?,
            "argument" => self.argument(item)?,
            "sequence" => sequences::judge(item, is_malicious(item)?)?,
            _ => return Ok(Judgement::NoEngine),
        }))
    }

    fn launch(&self, item: &Item) -> anyhow::Result<Judged> {
        let argv = item
            .argv
            .as_deref()
            .context("an item of kind launch needs `argv`, a list of words")?;
        let expected = match item.label.as_str() {
            "mcp_server" => true,
            "other" => false,
            label => bail!("label of a launch must be `mcp_server` or `other`, not `{label}`"),
        };
        Ok(Judged {
            flagged: self.launches.detect(argv).is_some(),
            blocked: false,
            expected,
            text: argv.join(" "),
            found: Vec::new(),
        })
    }

    fn definition(&self, corpus: &Corpus, item: &Item) -> anyhow::Result<Judged> {
        let expected = is_malicious(item)?;
        let payload = payload(item)?;
        let text = payload.to_string();
        let tools = corpus.tools(item);
        let own = own_tools(&tools, payload);
        let scene = Scene {
            own: &own,
            ..Scene::default()
        };
        let findings = match payload.as_str() {
            Some(instructions) => self.scanner.instructions(instructions, &scene),
            None => self.scanner.definition(RawJson::trusted(&text), &scene),
        };
        let flagged = self.is_alarming(&findings, |_| true);
        let blocks = match self.detection.on_detection {
            OnDetection::Hide | OnDetection::Block => true,
            OnDetection::Alert => false,
        };
        Ok(Judged {
            flagged,
            blocked: flagged && blocks,
            expected,
            text,
            found: named(&findings),
        })
    }

    fn output(&self, item: &Item) -> anyhow::Result<Judged> {
        let expected = is_malicious(item)?;
        let text = payload(item)?
            .as_str()
            .context("the payload of a tool_output is a text")?;
        let findings = self
            .scanner
            .output(RawJson::trusted(&result(text)), &Source::default());
        Ok(Judged {
            flagged: self.is_alarming(&findings, |_| true),
            blocked: self.is_alarming(&findings, |finding| finding.standing == Standing::Asserted),
            expected,
            text: text.to_owned(),
            found: named(&findings),
        })
    }

    /// A call: what is judged are its arguments.
    fn argument(&self, item: &Item) -> anyhow::Result<Judged> {
        let expected = is_malicious(item)?;
        let payload = payload(item)?;
        let given = payload.get("arguments").unwrap_or(payload);
        let text = given.to_string();
        let json = RawJson::trusted(&text);
        let secrets = secrets::inspect(json, &Arguments::walk(json));
        let findings: Vec<Finding> = secrets.into_iter().map(|secret| secret.finding).collect();
        let flagged = self.is_alarming(&findings, |_| true);
        let stops = match ArgumentInspection::default().on_detection {
            OnSecret::Block | OnSecret::Redact => true,
            OnSecret::Alert => false,
        };
        Ok(Judged {
            flagged,
            blocked: flagged && stops,
            expected,
            text,
            found: named(&findings),
        })
    }

    fn is_alarming(&self, findings: &[Finding], counts: impl Fn(&Finding) -> bool) -> bool {
        let threshold = self.detection.alert_threshold;
        findings
            .iter()
            .any(|finding| finding.severity >= threshold && counts(finding))
    }
}

/// A tool's result with one text, as it comes over the wire.
pub(super) fn result(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// The tools of a definition's server, itself among them.
pub(super) fn own_tools<'a>(tools: &[&'a str], payload: &'a Value) -> Vec<&'a str> {
    let itself = payload.get("name").and_then(Value::as_str);
    tools.iter().copied().chain(itself).collect()
}

fn server_name(item: &Item) -> anyhow::Result<Judged> {
    let expected = is_malicious(item)?;
    let payload = payload(item)?;
    let name = payload["name"]
        .as_str()
        .context("the payload of a server_name has a `name`")?;
    let known = payload["known"]
        .as_array()
        .context("the payload of a server_name has `known`, a list")?;
    let known = known
        .iter()
        .filter_map(Value::as_str)
        .chain(similarity::well_known().iter().copied());
    let found = similarity::resembles(name, known, NAME_SIMILARITY);
    Ok(Judged {
        flagged: found.is_some(),
        blocked: false,
        expected,
        text: payload.to_string(),
        found: found
            .into_iter()
            .map(|found| Found {
                name: found.method.to_owned(),
                text: found.similar_to,
            })
            .collect(),
    })
}

fn payload(item: &Item) -> anyhow::Result<&Value> {
    item.payload
        .as_ref()
        .with_context(|| format!("an item of kind {} needs `payload`", item.kind))
}

fn is_malicious(item: &Item) -> anyhow::Result<bool> {
    match item.label.as_str() {
        "malicious" => Ok(true),
        "benign" => Ok(false),
        label => bail!(
            "label of a {} must be `malicious` or `benign`, not `{label}`",
            item.kind
        ),
    }
}

fn named(findings: &[Finding]) -> Vec<Found> {
    let named = findings.iter().map(|finding| Found {
        name: format!("{}:{}", finding.pattern, finding.severity.as_str()),
        text: finding
            .matches
            .iter()
            .map(|found| found.text.as_str())
            .collect::<Vec<_>>()
            .join(" | "),
    });
    named.collect()
}
