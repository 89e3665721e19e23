//! Secrets in one text: at each of its anchors, and in its layers.

use mcpmon_model::Severity;

use super::{
    SecretHit,
    anchors::{self, Anchor},
    assignment, blob, environment, header,
    issued::{ISSUED, IssuedPrefix},
    layers, makeup, payment, pem, shapes, url,
};

/// Limits of matches in one text: beyond the first only severe ones are kept, and beyond the second none, because the
/// text has secrets anyway.
const MAX_HITS: usize = 256;
const MAX_CANDIDATES: usize = 1024;
/// The number of times each byte of a text may be part of a judged value, and the number of bytes allowed in any case.
const MAX_READ: usize = 16;
const MIN_READ: usize = 64 << 10;

/// Returns the secrets in `text`, in their order, without overlaps.
pub(super) fn hits(text: &str) -> Vec<SecretHit> {
    within(text, 0, SearchExtent::Blocks)
}

/// Returns the same, but of an environment only the values that are secrets, not the whole block.
pub(super) fn values(text: &str) -> Vec<SecretHit> {
    within(text, 0, SearchExtent::Values)
}

/// The extent of a secret in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchExtent {
    /// A whole environment, if it contains secrets.
    Blocks,
    /// Single values.
    Values,
}

fn within(text: &str, depth: usize, extent: SearchExtent) -> Vec<SecretHit> {
    let anchored = anchors::find(text);
    if anchored.len() == 0 && !makeup::may_hold_unnamed(text) {
        return Vec::new();
    }
    let mut found = direct(text, anchored, extent);
    if depth == layers::MAX_DEPTH {
        return found;
    }
    for layer in layers::of(text) {
        for hit in within(&layer.text, depth + 1, extent) {
            let spelled = layer.text.get(hit.span.clone()).unwrap_or_default();
            let hit = SecretHit {
                span: layer.written(&hit.span),
                decoded: true,
                ..hit
            };
            let is_known = found.iter().any(|known| {
                let shown = &text[known.span.clone()];
                let says = |spelled| shown.contains(spelled) || layers::unescape(shown).contains(spelled);
                !known.decoded && known.touches(&hit) && says(spelled)
            });
            // A match that only looks random means nothing in a decoded text.
            let is_weak = matches!(hit.kind, "base64_blob" | "high_entropy" | "bank_account");
            let has_room =
                found.len() < MAX_HITS || hit.severity >= Severity::High && found.len() < MAX_CANDIDATES;
            if !is_known && !is_weak && has_room {
                found.push(hit);
            }
        }
    }
    apart(found)
}

/// Finds the secrets in a text as it is.
fn direct(
    text: &str,
    anchored: impl ExactSizeIterator<Item = (usize, usize, &'static [Anchor])>,
    extent: SearchExtent,
) -> Vec<SecretHit> {
    let is_named = anchored.len() > 0;
    let rows = |count: usize| if is_named { count } else { 0 };
    let mut scan = BlockScan {
        text,
        claims: assignment::Claims::default(),
        hits: Vec::new(),
        shapes: vec![Vec::new(); rows(shapes::SHAPES.len())],
        words: vec![0; rows(ISSUED.len())],
        most: MAX_HITS,
        web_tokens: header::WebTokens::default(),
        read: 0,
        name: 0,
        names: Vec::new(),
    };
    for (start, end, opens) in anchored {
        for anchor in opens {
            scan.open(*anchor, start, end);
        }
        if scan.hits.len() >= MAX_HITS {
            scan.make_room();
        }
        if scan.hits.len() >= MAX_CANDIDATES {
            break;
        }
    }
    scan.finish(extent)
}

struct BlockScan<'t> {
    text: &'t str,
    claims: assignment::Claims<'t>,
    hits: Vec<SecretHit>,
    /// The positions of the words of each shape.
    shapes: Vec<Vec<usize>>,
    /// For each row the end of the plain words after its prefix.
    words: Vec<usize>,
    /// The number of matches at which weaker ones are dropped.
    most: usize,
    web_tokens: header::WebTokens,
    /// Number of bytes of judged values.
    read: usize,
    /// The end of the last name.
    name: usize,
    /// Secrets by their names; a secret with a distinct form is known by that instead.
    names: Vec<SecretHit>,
}

impl BlockScan<'_> {
    /// Merges overlapping matches and, if that is not enough, drops the minor ones.
    fn make_room(&mut self) {
        if self.hits.len() < self.most {
            return;
        }
        self.hits = apart(std::mem::take(&mut self.hits));
        if self.hits.len() >= MAX_HITS {
            self.hits.retain(|hit| hit.severity >= Severity::High);
        }
        // A higher limit, so that this does not happen again for each following match.
        self.most = self.hits.len() + MAX_HITS;
    }

    fn open(&mut self, anchor: Anchor, start: usize, end: usize) {
        let text = self.text;
        let found = match anchor {
            Anchor::Issued(row) => return self.issued(row, start),
            Anchor::Shape(shape) => return self.shapes[shape].push(start),
            Anchor::Name => return self.named(start, end),
            Anchor::Phrase => {
                self.names.extend(assignment::after_phrase(text, end));
                return;
            }
            Anchor::Armour => pem::at(text, start),
            Anchor::Putty => pem::putty(text, start),
            Anchor::Address => {
                blob::host(text, end, &mut self.hits);
                url::at(text, end)
            }
            Anchor::WebToken => self.web_tokens.at(text, start),
            Anchor::Bearer => header::bearer(text, end),
            Anchor::Basic => header::basic(text, end),
            Anchor::Credentials => header::credentials(text, text[..end].trim_end_matches([' ', '"']).len()),
        };
        // The same bytes can have several anchors.
        if let Some(hit) = found.filter(|hit| !self.hits.iter().rev().take(8).any(|known| known.covers(hit)))
        {
            self.hits.push(hit);
        }
    }

    fn issued(&mut self, row: usize, start: usize) {
        let is_known = self
            .hits
            .last()
            .is_some_and(|known| known.span.contains(&start) && known.kind != "basic_auth");
        if is_known || start < self.words[row] {
            return;
        }
        match ISSUED[row].at(self.text, start) {
            IssuedPrefix::Secret(span, severity) => {
                // A Google key without a name may be one that web pages show to everyone.
                let is_bare = ISSUED[row].prefix == "AIzaSy" && self.text.len() == span.len();
                let severity = if is_bare {
                    severity.min(Severity::Medium)
                } else {
                    severity
                };
                // A checksum leaves no doubt.
                let is_certain =
                    severity == Severity::Critical || ISSUED[row].is_certain(&self.text[span.clone()]);
                self.hits
                    .push(SecretHit::new(ISSUED[row].kind, severity, span).only_if(is_certain));
            }
            IssuedPrefix::Words(end) => self.words[row] = end,
            IssuedPrefix::Nothing => {}
        }
    }

    fn named(&mut self, start: usize, end: usize) {
        if start < self.name {
            return;
        }
        let name = assignment::identifier(self.text, start..end);
        self.name = name.end.max(start + 1);
        if self.read > MAX_READ * self.text.len() + MIN_READ {
            return;
        }
        let (length, hit) = assignment::at(self.text, &name, &mut self.claims);
        self.read += length;
        if self.read > MAX_READ * self.text.len() + MIN_READ {
            // Names nested within values are not realistic, and reading them all would take too long.
            let all = SecretHit::new("generic_secret", Severity::High, 0..self.text.len());
            return self.names.push(all.only_if(false));
        }
        self.names.extend(hit);
    }

    fn finish(mut self, extent: SearchExtent) -> Vec<SecretHit> {
        let text = self.text;
        for (shape, places) in self.shapes.iter().enumerate() {
            if !places.is_empty() {
                shapes::find(shape, text, places, &mut self.hits);
            }
        }
        if makeup::has_digits(text.as_bytes()) {
            payment::cards(text, &mut self.hits);
            payment::accounts(text, &mut self.hits);
        }
        let specific = self.hits.len();
        for hit in self.names {
            let has_form = self.hits[..specific].iter().any(|known| known.touches(&hit));
            if !has_form {
                self.hits.push(hit);
            }
        }
        let may_be_block = extent == SearchExtent::Blocks && !self.hits.is_empty();
        if may_be_block && memchr::memchr(b'\n', text.as_bytes()).is_some() {
            self.hits.extend(environment::block(text));
        }
        if text.len() > 100 {
            blob::find(text, &mut self.hits);
        }
        apart(self.hits)
    }
}

/// Returns matches in the order of the text, with overlapping ones merged: the worst counts for the whole range.
fn apart(mut hits: Vec<SecretHit>) -> Vec<SecretHit> {
    hits.sort_by(|a, b| (a.span.start, b.span.end).cmp(&(b.span.start, a.span.end)));
    let mut apart: Vec<SecretHit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match apart.last_mut() {
            Some(last) if last.touches(&hit) => {
                let end = last.span.end.max(hit.span.end);
                if rank(&hit) > rank(last) {
                    (last.kind, last.severity, last.certain) = (hit.kind, hit.severity, hit.certain);
                }
                last.decoded |= hit.decoded;
                last.span.end = end;
            }
            Some(_) | None => apart.push(hit),
        }
    }
    apart
}

/// Ranks matches at one place: the more severe one first, of equally severe ones the more specific one.
fn rank(hit: &SecretHit) -> (Severity, u8) {
    let says = match hit.kind {
        "high_entropy" => 0,
        "base64_blob" => 1,
        "generic_secret" => 2,
        "env_file_content" => 3,
        _ => 4,
    };
    (hit.severity, says)
}
