//! Secrets cut into adjacent pieces: items of a list, members of an object, or their names.

use mcpmon_model::Severity;

use super::{
    SecretHit,
    anchors::{self, Anchor},
    found::SecretCollector,
    header::WebTokens,
    issued::{ISSUED, IssuedPrefix},
    pem,
};
use crate::arguments::{Argument, ArgumentKind, Arguments};

/// Longest piece, and longest text that pieces make, bytes.
const PIECE: usize = 4096;
const JOINED: usize = 64 << 10;
/// Shortest secret that is searched for, bytes.
const MIN_BYTES: usize = 20;

/// Returns whether pieces could make a secret without any anchor in the text: letters and digits that continue from one
/// to the next.
pub(super) fn may_be(arguments: &Arguments<'_>) -> bool {
    [ArgumentKind::Text, ArgumentKind::Key].into_iter().any(|kind| {
        let mut before: Option<Argument<'_>> = None;
        let mut run = 0;
        arguments
            .iter()
            .filter(|argument| argument.kind() == kind)
            .any(|argument| {
                if !before
                    .replace(argument)
                    .is_some_and(|before| before.has_same_origin(&argument))
                {
                    run = 0;
                }
                let bytes = argument.text().as_bytes();
                let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric();
                run += bytes.iter().position(is_sign).unwrap_or(bytes.len());
                let is_long = run >= MIN_BYTES;
                if let Some(sign) = bytes.iter().rposition(is_sign) {
                    run = bytes.len() - sign - 1;
                }
                is_long
            })
    })
}

/// Finds secrets that no single piece contains.
pub(super) fn find(arguments: &Arguments<'_>, found: &mut SecretCollector<'_>) {
    for run in runs(arguments) {
        let mut joined = String::new();
        let mut ends = Vec::with_capacity(run.len());
        for piece in &run {
            joined.push_str(piece.text());
            ends.push(joined.len());
        }
        for hit in hits(&joined) {
            let first = ends.partition_point(|end| *end <= hit.span.start);
            let last = ends.partition_point(|end| *end < hit.span.end);
            if first < last && last < run.len() {
                found.take_pieces(&run[first..=last], hit.kind, hit.severity);
            }
        }
    }
}

/// Returns the secrets with a distinct form; others would be found wherever words meet.
fn hits(joined: &str) -> Vec<SecretHit> {
    let mut hits: Vec<SecretHit> = Vec::new();
    let mut web_tokens = WebTokens::default();
    for (start, _, opens) in anchors::find(joined) {
        for anchor in opens {
            let hit = match anchor {
                Anchor::Issued(row) if !hits.last().is_some_and(|hit| hit.span.contains(&start)) => {
                    match ISSUED[*row].at(joined, start) {
                        IssuedPrefix::Secret(span, severity) => {
                            Some(SecretHit::new(ISSUED[*row].kind, severity, span))
                        }
                        IssuedPrefix::Words(_) | IssuedPrefix::Nothing => None,
                    }
                }
                Anchor::Armour => pem::at(joined, start),
                Anchor::WebToken => web_tokens.at(joined, start),
                Anchor::Issued(_)
                | Anchor::Shape(_)
                | Anchor::Putty
                | Anchor::Address
                | Anchor::Bearer
                | Anchor::Basic
                | Anchor::Credentials
                | Anchor::Name
                | Anchor::Phrase => None,
            };
            hits.extend(hit.filter(|hit| hit.severity > Severity::Low));
        }
    }
    hits
}

/// Returns the adjacent texts, or names, that could be pieces: without spaces, except a key's armour.
fn runs<'a>(arguments: &'a Arguments<'_>) -> Vec<Vec<Argument<'a>>> {
    let mut runs: Vec<Vec<Argument<'a>>> = Vec::new();
    for kind in [ArgumentKind::Text, ArgumentKind::Key] {
        let mut run: Vec<Argument<'a>> = Vec::new();
        let mut length = 0;
        for argument in arguments.iter().filter(|argument| argument.kind() == kind) {
            let fits = is_piece(argument.text()) && length + argument.text().len() <= JOINED;
            let follows = run.last().is_none_or(|last| last.has_same_origin(&argument));
            if !fits || !follows {
                if run.len() > 1 {
                    runs.push(std::mem::take(&mut run));
                }
                run.clear();
                length = 0;
            }
            if fits {
                length += argument.text().len();
                run.push(argument);
            }
        }
        if run.len() > 1 {
            runs.push(run);
        }
    }
    runs
}

fn is_piece(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+/=~ \n".contains(&byte);
    !text.is_empty()
        && text.len() <= PIECE
        && text.bytes().all(is_part)
        && (!text.contains(' ') || text.starts_with("-----"))
}
