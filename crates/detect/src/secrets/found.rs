//! Found secrets, prepared for reports and redaction: never the secret itself.

use std::ops::Range;

use mcpmon_model::{Category, Finding, Match, RawJson, Redaction, Severity};

use super::{MAX_SECRETS, SecretHit};
use crate::arguments::{Argument, ArgumentKind};

/// Longest path that is reported, bytes.
const MAX_PATH: usize = 200;

/// A secret in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The finding with its place.
    pub finding: Finding,
    /// The place, with the replacements.
    pub place: SecretPlace,
}

/// The place of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// In values: these replacements remove it.
    Value(Vec<Redaction>),
    /// In the name of a member: replacing it would make another member, so these replacements are for reports only.
    Key(Vec<Redaction>),
}

/// Collects the secrets in the arguments of one call.
pub(super) struct SecretCollector<'a> {
    json: RawJson<'a>,
    secrets: Vec<Secret>,
    /// The severity up to which further secrets are not kept, because there are too many.
    floor: Severity,
    /// Names of members that are secrets, with their replacements in paths.
    keys: Vec<(String, String)>,
}

impl<'a> SecretCollector<'a> {
    /// Returns whether the collector is full of critical secrets, so that nothing worse can be found.
    pub(super) fn is_done(&self) -> bool {
        self.is_full() && self.least().is_some_and(|(_, least)| least == Severity::Critical)
    }

    /// Returns the index and the severity of the least severe secret.
    fn least(&self) -> Option<(usize, Severity)> {
        let severities = self.secrets.iter().map(|secret| secret.finding.severity);
        severities.enumerate().min_by_key(|(_, severity)| *severity)
    }

    /// Returns whether a secret of this severity is kept: a full collector drops a less severe one for it.
    fn takes(&mut self, severity: Severity) -> bool {
        if !self.is_full() {
            return true;
        }
        if self.floor >= severity {
            return false;
        }
        let least = self.least().filter(|(_, least)| *least < severity);
        if let Some((at, _)) = least {
            self.secrets.remove(at);
        } else {
            self.floor = severity;
        }
        least.is_some()
    }

    pub(super) const fn new(json: RawJson<'a>) -> Self {
        Self {
            json,
            secrets: Vec::new(),
            floor: Severity::Low,
            keys: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.secrets.len() >= MAX_SECRETS
    }

    /// Adds the matches in one key or value.
    pub(super) fn take(&mut self, argument: Argument<'_>, hits: Vec<SecretHit>) {
        for hit in hits {
            if !self.takes(hit.severity) {
                continue;
            }
            let place = match argument.kind() {
                ArgumentKind::Key => {
                    self.keys
                        .push((argument.text().to_owned(), placeholder(hit.kind)));
                    SecretPlace::Key(vec![self.whole(argument, hit.kind)])
                }
                ArgumentKind::Text if hit.decoded => SecretPlace::Value(vec![self.whole(argument, hit.kind)]),
                ArgumentKind::Text => SecretPlace::Value(vec![Redaction {
                    place: argument.written(self.json, &hit.span),
                    text: placeholder(hit.kind),
                }]),
                ArgumentKind::Literal => SecretPlace::Value(vec![self.whole(argument, hit.kind)]),
            };
            let told = told(hit.span.len(), hit.decoded);
            self.push(argument, hit.kind, hit.severity, hit.span.start, told, place);
        }
    }

    /// Adds a secret whose pieces are these keys or values.
    pub(super) fn take_pieces(&mut self, pieces: &[Argument<'_>], kind: &'static str, severity: Severity) {
        let Some(first) = pieces.first().filter(|_| self.takes(severity)) else {
            return;
        };
        let place = match first.kind() {
            ArgumentKind::Key => {
                let named = pieces
                    .iter()
                    .map(|piece| (piece.text().to_owned(), placeholder(kind)));
                self.keys.extend(named);
                SecretPlace::Key(pieces.iter().map(|piece| self.whole(*piece, kind)).collect())
            }
            ArgumentKind::Text | ArgumentKind::Literal => {
                SecretPlace::Value(pieces.iter().map(|piece| self.whole(*piece, kind)).collect())
            }
        };
        let told = format!("{} pieces", pieces.len());
        self.push(*first, kind, severity, 0, told, place);
    }

    fn push(
        &mut self,
        argument: Argument<'_>,
        kind: &'static str,
        severity: Severity,
        position: usize,
        told: String,
        place: SecretPlace,
    ) {
        let matched = Match {
            text: format!("{} {told}", placeholder(kind)),
            position,
            context: String::new(),
        };
        let finding = Finding::built_in(kind, Category::Secret, severity, argument.path(), matched);
        self.secrets.push(Secret { finding, place });
    }

    /// Returns the replacement of a whole value.
    fn whole(&self, argument: Argument<'_>, kind: &str) -> Redaction {
        let text = placeholder(kind);
        Redaction {
            place: argument.place(),
            text: match argument.kind() {
                ArgumentKind::Literal => format!("\"{text}\""),
                ArgumentKind::Key | ArgumentKind::Text => text,
            },
        }
    }

    pub(super) fn finish(mut self) -> Vec<Secret> {
        for secret in &mut self.secrets {
            let field = &mut secret.finding.field;
            for (name, shown) in &self.keys {
                *field = field.replace(name.as_str(), shown);
            }
            field.truncate(field.floor_char_boundary(MAX_PATH));
        }
        self.secrets
    }
}

/// Returns the placeholder of a secret.
pub(super) fn placeholder(kind: &str) -> String {
    format!("[mcpmon:{kind}]")
}

fn told(length: usize, decoded: bool) -> String {
    match decoded {
        true => format!("{length} bytes, encoded"),
        false => format!("{length} bytes"),
    }
}

impl Secret {
    /// Returns the replacements that remove these secrets, in the order of the text; `None` if one of them cannot be
    /// removed.
    pub fn redactions<'s>(secrets: impl IntoIterator<Item = &'s Self>) -> Option<Vec<Redaction>> {
        let mut all = Vec::new();
        for secret in secrets {
            match &secret.place {
                SecretPlace::Value(redactions) => all.extend(redactions.iter().cloned()),
                SecretPlace::Key(_) => return None,
            }
        }
        Some(apart(all))
    }

    /// Returns the replacements that remove the secrets from reports.
    pub fn masks(secrets: &[Self]) -> Vec<Redaction> {
        let all = secrets.iter().flat_map(|secret| match &secret.place {
            SecretPlace::Value(redactions) | SecretPlace::Key(redactions) => redactions,
        });
        apart(all.cloned().collect())
    }
}

/// Returns the replacements in the order of the text, with overlapping ones merged.
fn apart(mut all: Vec<Redaction>) -> Vec<Redaction> {
    all.sort_by(|a, b| (a.place.start, b.place.end).cmp(&(b.place.start, a.place.end)));
    let mut apart: Vec<Redaction> = Vec::with_capacity(all.len());
    for redaction in all {
        match apart.last_mut() {
            Some(last) if redaction.place.start < last.place.end => {
                let Range { end, .. } = redaction.place;
                last.place.end = last.place.end.max(end);
            }
            Some(_) | None => apart.push(redaction),
        }
    }
    apart
}
