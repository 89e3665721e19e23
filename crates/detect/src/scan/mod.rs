//! Inspection of everything that a model can read: definitions, instructions, outputs, requests.

mod change;
mod context;
mod custom;
mod elicitation;
mod field;
mod finding;
#[cfg(test)]
mod harmless;
pub(super) mod literals;
mod names;
mod seam;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeSet, fmt};

use mcpmon_model::{Category, CustomPattern, Finding, InspectionSubject, RawJson};

use crate::instructions::Names;
use crate::tables::{self, WordList};

use self::{
    change::Past,
    custom::Custom,
    field::{Place, Setting},
    finding::raised,
    seam::Seam,
};
use super::{
    normalise::decode,
    walk::{self, Part},
};

pub use custom::PatternError;
pub use finding::{Findings, MAX_REPORTED};

/// Shortest name of a member that is inspected as a text; a shorter one without spaces is only a name.
const LONG_KEY: usize = 40;
/// Most words of a schema that are collected.
const MAX_WORDS: usize = 500;

/// Words in the names of documents about attacks.
static DOCUMENTS: WordList = tables::SCAN.list("scan", "documents");

/// Names of findings that are directed against the user, in a document that may instruct a model.
static AGAINST_USER: WordList = tables::SCAN.list("scan", "against_user");

/// Searches texts for attacks. Automata are built when they are first needed, and shared by all scanners.
pub struct Scanner {
    builtin: BTreeSet<Category>,
    custom: Vec<Custom>,
}

/// The context of a definition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scene<'a> {
    /// Tools of the same server.
    pub own: &'a [&'a str],
    /// Tools of the other servers in the session.
    pub others: &'a [&'a str],
    /// The accepted definition: only new text counts against the server, and it counts one level more.
    pub accepted: Option<RawJson<'a>>,
    /// The version that was listed before, if none was accepted: its text is not accepted, but new text counts one
    /// level more.
    pub before: Option<RawJson<'a>>,
}

/// The source of an output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// The resource that was read.
    pub uri: Option<&'a str>,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("builtin", &self.builtin)
            .finish_non_exhaustive()
    }
}

impl Scanner {
    /// Builds a scanner for these built-in categories and patterns of the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is no valid regular expression.
    pub fn new(builtin: &BTreeSet<Category>, custom: &[CustomPattern]) -> Result<Self, PatternError> {
        Ok(Self {
            builtin: builtin.clone(),
            custom: custom.iter().map(Custom::new).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the findings in the definition of a tool, a prompt, a resource or a template.
    pub fn definition(&self, definition: RawJson<'_>, scene: &Scene<'_>) -> Vec<Finding> {
        self.walked(definition, scene)
    }

    /// Returns the findings in a server's instructions; a previous text is a JSON string.
    pub fn instructions(&self, text: &str, scene: &Scene<'_>) -> Vec<Finding> {
        let setting = Setting {
            place: Place::Definition,
            own: &scene.own.iter().copied().collect(),
            parameters: &Names::default(),
            others: &scene.others.iter().copied().collect(),
            is_document: false,
            is_parameter: false,
        };
        self.changed(
            &walk::Path::default(),
            Part::Value,
            text,
            &setting,
            &Past::of(scene),
        )
    }

    /// Returns the findings in a document that is written for models, such as a skill. It may instruct a model, so only
    /// findings against the user count: instructions that override the user's, theft of secrets, sending of data,
    /// concealment from the user, and invisible text.
    pub fn document(&self, text: &str) -> Vec<Finding> {
        let none = Names::default();
        let output = Setting {
            place: Place::Output,
            own: &none,
            parameters: &none,
            others: &none,
            is_document: true,
            is_parameter: false,
        };
        let definition = Setting {
            place: Place::Definition,
            ..output
        };
        let mut hits: Vec<_> = [output, definition]
            .iter()
            .flat_map(|setting| field::hits(text, setting))
            .filter(|hit| self.builtin.contains(&hit.category) && AGAINST_USER.contains(&hit.pattern))
            .collect();
        hits.extend(self.custom.iter().flat_map(|custom| custom.hits(text)));
        finding::findings("", text, hits)
    }

    /// Returns the findings in the result of a call, a read or a prompt.
    pub fn output(&self, result: RawJson<'_>, source: &Source<'_>) -> Vec<Finding> {
        self.data(result, source.is_document())
    }

    /// Returns the findings in any other message: a request for an LLM call, a question to the user, an
    /// error, a notification.
    pub fn text(&self, subject: InspectionSubject, json: RawJson<'_>) -> Vec<Finding> {
        match subject {
            InspectionSubject::Definition
            | InspectionSubject::Prompt
            | InspectionSubject::Resource
            | InspectionSubject::Instructions => self.definition(json, &Scene::default()),
            InspectionSubject::Output
            | InspectionSubject::Argument
            | InspectionSubject::Sampling
            | InspectionSubject::Elicitation
            | InspectionSubject::Error
            | InspectionSubject::Notification => self.data(json, false),
        }
    }

    /// Returns a finding if a question to the user asks for credentials, which MCP forbids.
    pub fn asks_for_credentials(&self, params: RawJson<'_>) -> Option<Finding> {
        elicitation::asks_for_credentials(params)
    }

    /// Returns a finding with the reason if a question leads the user to a page that is not what its address seems to
    /// be.
    pub fn leads_astray(&self, params: RawJson<'_>) -> Option<(Finding, &'static str)> {
        elicitation::leads_astray(params)
    }

    fn walked(&self, definition: RawJson<'_>, scene: &Scene<'_>) -> Vec<Finding> {
        let past = Past::of(scene);
        let words = schema_words(definition);
        let around = Setting {
            place: Place::Definition,
            own: &scene.own.iter().copied().collect(),
            parameters: &Names::default(),
            others: &scene.others.iter().copied().collect(),
            is_document: false,
            is_parameter: false,
        };
        let in_schema = Setting {
            parameters: &words.iter().map(AsRef::as_ref).collect(),
            is_parameter: true,
            ..around
        };
        let mut found = Findings::default();
        walk::strings(definition, |path, part, text| {
            let setting = if is_schema(path) { &in_schema } else { &around };
            found.extend(self.changed(path, part, &text, setting, &past));
        });
        if self.builtin.contains(&Category::Exfiltration) {
            found.extend(context::parameters(definition, scene.accepted));
        }
        found.into_vec()
    }

    /// Returns the findings in one text of a definition, except in its accepted part.
    fn changed(
        &self,
        path: &walk::Path<'_>,
        part: Part,
        text: &str,
        setting: &Setting<'_>,
        past: &Past,
    ) -> Vec<Finding> {
        let added = past.texts().and_then(|texts| match part {
            Part::Key => texts.added_name(path, text),
            Part::Value => texts.added(path, text),
        });
        if past.excuses() && added.is_none() {
            return Vec::new();
        }
        let mut hits = match is_text(part, text) {
            true => self.hits(text, setting),
            false => Vec::new(),
        };
        hits.extend(self.named(path, text, setting));
        if let Some(added) = added {
            let is_new = |hit: &finding::Hit<'_>| field::touches(&hit.span, &added);
            hits.retain(|hit| is_new(hit) || !past.excuses());
            let known = match past {
                Past::Listed(texts) if hits.iter().any(is_new) => {
                    let before = texts.get(path).unwrap_or_default();
                    let known = self.hits(before, setting);
                    known.iter().map(|hit| hit.said(before)).collect()
                }
                Past::None | Past::Listed(_) | Past::Accepted(_) => BTreeSet::new(),
            };
            for hit in &mut hits {
                if is_new(hit) && !known.contains(&hit.said(text)) {
                    hit.severity = raised(hit.severity);
                }
            }
        }
        match hits.is_empty() {
            true => Vec::new(),
            false => finding::findings(&path.shown(), text, hits),
        }
    }

    fn data(&self, json: RawJson<'_>, is_document: bool) -> Vec<Finding> {
        let setting = Setting {
            place: Place::Output,
            own: &Names::default(),
            parameters: &Names::default(),
            others: &Names::default(),
            is_document,
            is_parameter: false,
        };
        let mut found = Findings::default();
        let mut seam = Seam::default();
        walk::strings(json, |path, part, text| {
            if !is_text(part, &text) {
                return;
            }
            let text = match is_carrier(path, &text) {
                true => match decode::carried_text(&text) {
                    Some(carried) => Cow::Owned(carried),
                    None => return,
                },
                false => text,
            };
            let hits = self.hits(&text, &setting);
            if !hits.is_empty() {
                found.extend(finding::findings(&path.shown(), &text, hits));
            }
            if part == Part::Value
                && is_item(path)
                && let Some(joined) = seam.join(&text)
            {
                let mut hits = self.hits(&joined, &setting);
                // A mention must not hide an assertion.
                hits.retain(|hit| found.worst(hit.pattern).is_none_or(|worst| worst < hit.severity));
                found.extend(finding::findings(&path.shown(), &joined, hits));
            }
        });
        found.into_vec()
    }

    /// Returns the matches in a name that is a sentence.
    fn named(&self, path: &walk::Path<'_>, name: &str, setting: &Setting<'_>) -> Vec<finding::Hit<'static>> {
        let is_tool = path.members().eq(["name"]);
        let mut hits = names::hits(name, is_tool, setting);
        hits.retain(|hit| self.builtin.contains(&hit.category));
        hits
    }

    fn hits<'a>(&'a self, text: &str, setting: &Setting<'_>) -> Vec<finding::Hit<'a>> {
        let mut hits: Vec<finding::Hit<'a>> = field::hits(text, setting);
        hits.retain(|hit| self.builtin.contains(&hit.category));
        hits.extend(self.custom.iter().flat_map(|custom| custom.hits(text)));
        hits
    }
}

/// Returns the names that a definition's schemas give to parameters and their values: `insert_after` in the description
/// of a parameter is not the name of a tool.
fn schema_words(definition: RawJson<'_>) -> Vec<Cow<'_, str>> {
    let mut words = Vec::new();
    walk::strings(definition, |path, _, text| {
        if words.len() < MAX_WORDS && is_schema(path) && text.len() <= LONG_KEY && text.contains('_') {
            words.push(text);
        }
    });
    words
}

fn is_schema(path: &walk::Path<'_>) -> bool {
    let outermost = path.members().next();
    outermost.is_some_and(|name| matches!(name, "inputSchema" | "outputSchema"))
}

fn is_text(part: Part, text: &str) -> bool {
    match part {
        Part::Key => text.len() >= LONG_KEY || text.contains(char::is_whitespace),
        Part::Value => !text.is_empty(),
    }
}

/// Returns whether a member contains base64: images, audio and blobs have their own members, which texts of other types
/// may have too. Any other value there is a text.
fn is_carrier(path: &walk::Path<'_>, text: &str) -> bool {
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
    path.members()
        .next_back()
        .is_some_and(|name| name == "data" || name == "blob")
        && text.bytes().all(is_encoded)
}

/// Returns whether the text is one that clients join with its neighbours.
fn is_item(path: &walk::Path<'_>) -> bool {
    path.members().next_back() == Some("text")
}

impl Source<'_> {
    /// Returns whether its name is that of a document: fewer words about attacks then suffice to take it for one.
    fn is_document(&self) -> bool {
        let lower = self.uri.unwrap_or_default().to_ascii_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default();
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| DOCUMENTS.contains(&word.strip_suffix('s').unwrap_or(word)))
    }
}
