//! Secrets in the arguments of calls: their kinds and places, in every key and value, in any encoding.
//!
//! Formats of issuers are tried first, names with evidence second, randomness last. A placeholder for a secret is of
//! low severity. No secret leaves this module in clear.

mod anchors;
mod assignment;
mod blob;
mod checks;
mod code;
mod environment;
mod found;
mod header;
mod issued;
mod layers;
mod makeup;
mod names;
mod payment;
mod pem;
mod prose;
mod shapes;
mod split;
#[cfg(test)]
mod tests;
mod text;
mod url;
mod value;

use std::{cell::OnceCell, collections::HashSet, ops::Range};

use mcpmon_model::{RawJson, Severity};

use super::{
    arguments::{Argument, ArgumentKind, Arguments},
    walk::Step,
};

pub use found::{Secret, SecretPlace};
pub use makeup::may_hold;
pub(super) use names::{is_name, names_a_secret};
pub use prose::{Disclosure, in_text};

/// A secret in one text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretHit {
    /// Name of the pattern.
    kind: &'static str,
    severity: Severity,
    /// The range of the secret, or of its encoding.
    span: Range<usize>,
    /// True if it was found only after decoding.
    decoded: bool,
    /// True if form and context leave no doubt: it may then be removed from a text that people read.
    certain: bool,
}

impl SecretHit {
    const fn new(kind: &'static str, severity: Severity, span: Range<usize>) -> Self {
        Self {
            kind,
            severity,
            span,
            decoded: false,
            certain: true,
        }
    }

    /// Returns the match, which is certain only if `is_certain` is true too.
    const fn only_if(mut self, is_certain: bool) -> Self {
        self.certain &= is_certain;
        self
    }

    const fn touches(&self, other: &Self) -> bool {
        self.span.start < other.span.end && other.span.start < self.span.end
    }

    fn covers(&self, other: &Self) -> bool {
        self.span.start <= other.span.start
            && other.span.end <= self.span.end
            && self.severity >= other.severity
    }
}

/// Most secrets of one call that are reported, the worst ones; a call with more is not forwarded in part.
pub const MAX_SECRETS: usize = 64;

/// Returns the secrets in the walked arguments of a call. At most [`MAX_SECRETS`].
pub fn inspect(json: RawJson<'_>, arguments: &Arguments<'_>) -> Vec<Secret> {
    let may_hold = may_hold(json.as_str()) || split::may_be(arguments);
    if !may_hold {
        return Vec::new();
    }
    let mut found = found::SecretCollector::new(json);
    let mut context = SecretContext::default();
    let declared = OnceCell::new();
    for argument in arguments.iter() {
        let mut hits = text::hits(argument.text());
        match argument.kind() {
            ArgumentKind::Text => {
                context.named(argument, &mut hits);
                if hits.iter().any(|hit| hit.kind == "base64_blob")
                    && declared
                        .get_or_init(|| declared_places(arguments))
                        .contains(&argument.around())
                {
                    hits.retain(|hit| hit.kind != "base64_blob" && hit.kind != "high_entropy");
                }
            }
            ArgumentKind::Key | ArgumentKind::Literal => {}
        }
        found.take(argument, hits);
        if found.is_done() {
            break;
        }
    }
    split::find(arguments, &mut found);
    found.finish()
}

/// Members of a result that only its server reads again: they are returned to it unchanged.
const OPAQUE: [&str; 2] = ["nextCursor", "requestState"];

/// Returns the secrets in the walked result of a server: secrets [in a text](in_text), and values of members with names
/// of secrets; values that are not certainly secrets are of medium severity at most. At most [`MAX_SECRETS`].
pub fn in_result(json: RawJson<'_>, result: &Arguments<'_>) -> Vec<Secret> {
    let mut found = found::SecretCollector::new(json);
    let mut context = SecretContext::default();
    for value in result.iter() {
        let mut members = value.members();
        let is_opaque = members.next().is_some_and(|name| OPAQUE.contains(&name)) && members.next().is_none();
        let mut hits = match value.kind() {
            ArgumentKind::Literal => continue,
            ArgumentKind::Text if is_opaque => continue,
            ArgumentKind::Key | ArgumentKind::Text => prose::hits(value.text()),
        };
        if value.kind() == ArgumentKind::Text {
            context.named(value, &mut hits);
            hits.retain(|hit| prose::is_secret(hit, value.text()));
        }
        // An uncertain secret is recorded, and has no effect.
        for hit in hits.iter_mut().filter(|hit| !hit.certain) {
            hit.severity = hit.severity.min(Severity::Medium);
        }
        // The encoding of a secret is replaced, and the text around it stays.
        hits.iter_mut().for_each(|hit| hit.decoded = false);
        found.take(value, hits);
        if found.is_done() {
            break;
        }
    }
    found.finish()
}

/// Returns the ranges of secrets in one text, for masking; encoded ones with their whole encoding.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    if !may_hold(text) {
        return Vec::new();
    }
    text::hits(text).into_iter().map(|hit| hit.span).collect()
}

/// The expectation from earlier arguments for the next one.
#[derive(Default)]
struct SecretContext<'a> {
    /// The previous text, with its name.
    before: Option<Argument<'a>>,
}

impl<'a> SecretContext<'a> {
    /// Finds a whole value that is a secret by the name of its member, by an entry that names it, or by the flag before
    /// it.
    fn named(&mut self, argument: Argument<'a>, hits: &mut Vec<SecretHit>) {
        let before = self.before.replace(argument);
        let value = argument.text();
        if value.is_empty() || value.len() > 4096 || hits.iter().any(|hit| hit.severity >= Severity::High) {
            return;
        }
        let own = assignment::named(argument.name(), value).map(|mut hit| {
            // A parameter that a tool declares for a password is the right place for one.
            let is_parameter = argument.members().count() == 1;
            let is_chosen = names::claim(argument.name()) == Some(names::NameClaim::Password)
                || value::strength(value.trim(), true) < value::ValueStrength::Random;
            if is_parameter && is_chosen {
                hit.severity = hit.severity.min(Severity::Medium);
            }
            hit
        });
        let labelled = || {
            let label = before.filter(|before| before.has_same_origin(&argument))?;
            let names = matches!(label.name(), "name" | "key" | "header" | "variable" | "field");
            let is_value = matches!(argument.name(), "value" | "val" | "content");
            let is_flag = label.name() == argument.name() && label.text().starts_with('-');
            (names && is_value || is_flag)
                .then(|| assignment::named(label.text().trim_start_matches('-'), value))?
        };
        if let Some(named) = own.or_else(labelled)
            && !hits.iter().any(|hit| hit.severity >= named.severity)
        {
            hits.push(named);
        }
    }
}

/// Returns the objects with a member that gives the type of their data.
fn declared_places<'a>(arguments: &'a Arguments<'_>) -> HashSet<Option<&'a [Step<'a>]>> {
    let declares = |argument: &Argument<'_>| {
        let name = argument.name();
        let is_kind = name.len() <= MAX_KIND_LENGTH
            && matches!(
                name.to_ascii_lowercase().replace(['_', '-'], "").as_str(),
                "mimetype" | "contenttype" | "mediatype"
            );
        is_kind && argument.kind() == ArgumentKind::Text && argument.text().contains('/')
    };
    arguments
        .iter()
        .filter(declares)
        .map(|argument| argument.around())
        .collect()
}

/// Longest name of such a member.
const MAX_KIND_LENGTH: usize = 16;
