//! Secrets known by the name in front of them: `password=…`, `"api_key": "…"`, `--token …`, `IDENTIFIED BY '…'`.

use std::ops::Range;

use mcpmon_model::Severity;

use super::{
    SecretHit, code, issued,
    names::{self, NameClaim},
    value::{self, ValueStrength},
};
use crate::tables::{self, WordList};

/// Parts of the names of secrets, in lower case.
pub(super) static NAMES: WordList = tables::SECRETS.list("assignment", "names");
/// Phrases of other languages, and of SQL, before a password.
pub(super) static PHRASES: WordList = tables::SECRETS.list("assignment", "phrases");

/// Longest name and longest value, bytes.
const MAX_NAME: usize = 80;
const MAX_VALUE: usize = 1024;
/// Shortest generated value, unless it is certainly random.
const MIN_BYTES: usize = 14;
/// Longest gap between a name and its value, bytes.
const MAX_GAP: usize = 24;

/// A value, with what precedes it.
struct Assigned<'t> {
    value: &'t str,
    start: usize,
    quoted: bool,
    separator: Separator,
}

/// The separator between a name and a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `=`, `:` and the like.
    Sign,
    /// A comma: a name and a value, or two of a list.
    Comma,
    /// Only white space.
    Space,
}

/// Returns the range of the identifier around `anchor`.
pub(super) fn identifier(text: &str, anchor: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let left = &bytes[anchor.start.saturating_sub(MAX_NAME)..anchor.start];
    let before = left.iter().rev().take_while(|byte| is_part(byte)).count();
    let inside = bytes[anchor.clone()]
        .iter()
        .take_while(|byte| is_part(byte))
        .count();
    let mut end = anchor.start + inside;
    if end == anchor.end {
        let right = &bytes[end..bytes.len().min(end + MAX_NAME)];
        end += right.iter().take_while(|byte| is_part(byte)).count();
    }
    anchor.start - before..end
}

/// The claims of names, of which the latest is cached.
#[derive(Default)]
pub(super) struct Claims<'t> {
    latest: Option<(&'t str, Option<NameClaim>)>,
}

impl<'t> Claims<'t> {
    fn of(&mut self, name: &'t str) -> Option<NameClaim> {
        match self.latest {
            Some((known, claim)) if known == name => claim,
            Some(_) | None => {
                let claim = names::claim(name);
                self.latest = Some((name, claim));
                claim
            }
        }
    }
}

/// Finds the secret that the identifier at `name` names. Also returns the number of bytes that were judged.
pub(super) fn at<'t>(
    text: &'t str,
    name: &Range<usize>,
    claims: &mut Claims<'t>,
) -> (usize, Option<SecretHit>) {
    let spelled = text[name.clone()].trim_start_matches(['-', '.']);
    let Some(mut claim) = claims.of(spelled) else {
        return (0, None);
    };
    if claim == NameClaim::Key && text[name.clone()].eq_ignore_ascii_case("key") {
        let Some(kind) = names::claim(&format!("{}-key", word_before(text, name.start))) else {
            return (0, None);
        };
        claim = kind.min(claim);
    }
    let Some(assigned) = follow(text, name) else {
        return (0, None);
    };
    let is_flag = text[name.clone()].starts_with('-');
    let is_loud = spelled.bytes().all(|byte| !byte.is_ascii_lowercase());
    let hit = judge(claim, &assigned, is_flag, is_loud, spelled).or_else(|| {
        let is_pair = claim == NameClaim::Password
            && assigned.separator == Separator::Sign
            && follows_user(text, name.start);
        is_pair.then(|| plain(&assigned))?
    });
    (assigned.value.len(), hit)
}

/// Returns whether a user was named shortly before.
fn follows_user(text: &str, at: usize) -> bool {
    let before = text[text.ceil_char_boundary(at.saturating_sub(160))..at].to_ascii_lowercase();
    let named = |word: &str| {
        before.rfind(word).is_some_and(|at| {
            let rest = before[at + word.len()..]
                .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_\"' \t".contains(c));
            rest.starts_with(['=', ':'])
        })
    };
    ["user", "login", "uid", "host"].into_iter().any(named)
}

/// Returns a password that is a plain word, as passwords next to a user's name can be.
fn plain(assigned: &Assigned<'_>) -> Option<SecretHit> {
    let value = assigned.value;
    let is_word = assigned.quoted && value.len() >= 6 && value.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_secret = is_word && !value::is_placeholder(value) && !value::is_reference(value);
    is_secret.then(|| {
        let span = assigned.start..assigned.start + value.len();
        SecretHit::new("generic_secret", Severity::High, span).only_if(false)
    })
}

/// Returns the word before a name: in `private key` and `Activation key` it gives the kind of key.
fn word_before(text: &str, end: usize) -> &str {
    let before = &text[text.ceil_char_boundary(end.saturating_sub(MAX_NAME))..end];
    let before = before.trim_end_matches([' ', '\t']);
    let length = before.bytes().rev().take_while(u8::is_ascii_alphanumeric).count();
    &before[before.len() - length..]
}

/// Returns the password after a phrase of SQL or of another language; `end` is the end of the phrase.
pub(super) fn after_phrase(text: &str, end: usize) -> Option<SecretHit> {
    let mut end = end;
    // `IDENTIFIED WITH plugin BY`, `IDENTIFIED BY PASSWORD`.
    if let Some(rest) = text.get(end..) {
        let skipped = rest.len() - rest.trim_start().len();
        if rest
            .trim_start()
            .get(..8)
            .is_some_and(|word| word.eq_ignore_ascii_case("password"))
        {
            end += skipped + 8;
        }
    }
    judge(
        NameClaim::Password,
        &follow(text, &(end..end))?,
        true,
        true,
        "password",
    )
}

/// Returns the secret in a parameter or member of this name: the whole value.
pub(super) fn named(name: &str, value: &str) -> Option<SecretHit> {
    let span = 0..value.len();
    let claim = names::claim(name)?;
    let assigned = Assigned {
        value: value.trim(),
        start: 0,
        quoted: true,
        separator: Separator::Sign,
    };
    let value = unscheduled(&assigned);
    let severity = grade(claim, name, &value, false, false)?;
    let hit = SecretHit::new(kind(name, value.value), severity, span);
    Some(hit.only_if(is_certain(claim, name, &value, false)))
}

fn judge(
    claim: NameClaim,
    assigned: &Assigned<'_>,
    is_flag: bool,
    is_loud: bool,
    name: &str,
) -> Option<SecretHit> {
    let assigned = unscheduled(assigned);
    let severity = grade(claim, name, &assigned, is_flag, is_loud)?;
    let span = assigned.start..assigned.start + assigned.value.len();
    let hit = SecretHit::new(kind(name, assigned.value), severity, span);
    Some(hit.only_if(is_certain(claim, name, &assigned, is_flag)))
}

/// Returns whether a name and a value leave no doubt that the value is a secret: the name says so, they are joined by a
/// sign and not by a sentence, and the value was generated.
fn is_certain(claim: NameClaim, name: &str, assigned: &Assigned<'_>, is_flag: bool) -> bool {
    let least = match claim {
        NameClaim::Password => SHORT_PASSWORD,
        NameClaim::Generated => SHORT_KEY,
        NameClaim::Key | NameClaim::Hint => return false,
    };
    let is_joined = assigned.separator == Separator::Sign || is_flag;
    let is_chosen = claim == NameClaim::Password && value::is_spoken(assigned.value);
    is_joined
        && assigned.value.len() >= least
        && names::opens(name)
        && value::is_generated(assigned.value)
        && !is_chosen
}

/// Shortest password, and shortest key, that is certain.
const SHORT_PASSWORD: usize = 8;
const SHORT_KEY: usize = 16;

/// Returns the pattern for a name and a value.
fn kind(name: &str, value: &str) -> &'static str {
    let lower = name.to_ascii_lowercase();
    let is_aws = value.len() == 40
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+'));
    if is_aws
        && (lower.contains("aws") || lower.contains("secretaccesskey") || lower.contains("secret_access_key"))
    {
        return "aws_credential";
    }
    if lower == "authorization" || lower.ends_with("bearer") {
        return "bearer_token";
    }
    "generic_secret"
}

fn grade(
    claim: NameClaim,
    name: &str,
    assigned: &Assigned<'_>,
    is_flag: bool,
    is_loud: bool,
) -> Option<Severity> {
    let Assigned {
        value,
        quoted,
        separator,
        ..
    } = *assigned;
    if value::is_reference(value) || !quoted && value.contains(['(', '[', '{']) {
        return None;
    }
    // `must pass <check>` and `pass: 3/4` are a verb and a count.
    let is_status = name.eq_ignore_ascii_case("pass")
        && (separator == Separator::Space && !is_flag || !quoted && value.contains('/'));
    if code::is_telling(value) || !quoted && code::is_bare_code(value) || is_status {
        return None;
    }
    let is_shown = |strength: ValueStrength| match separator {
        Separator::Sign => true,
        Separator::Comma => match claim {
            NameClaim::Password => strength > ValueStrength::None && !code::repeats(name, value),
            NameClaim::Generated | NameClaim::Key | NameClaim::Hint => {
                let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
                strength == ValueStrength::Random || strength == ValueStrength::Mixed && has_digit
            }
        },
        Separator::Space => {
            is_flag
                || quoted
                || is_loud && strength >= ValueStrength::Mixed
                || strength == ValueStrength::Random
        }
    };
    // The value is another assignment, as in a sentence or in a cookie: its value counts.
    let is_another = claim == NameClaim::Generated || separator == Separator::Space && !is_flag;
    let given = code::assigned(value).filter(|_| is_another).unwrap_or(value);
    let strength = value::strength(given, quoted);
    if claim <= NameClaim::Key
        && value.len() >= 6
        && (value::is_placeholder(value) || value::is_patterned(value))
    {
        return (separator == Separator::Sign || is_flag).then_some(Severity::Low);
    }
    if !is_shown(strength) || claim != NameClaim::Password && code::repeats(name, value) {
        return None;
    }
    if claim == NameClaim::Generated && value::is_made_up(value) {
        return Some(Severity::Low);
    }
    // A token of an issuer that was cut off, or is not a real one.
    if claim != NameClaim::Password && issued::begins(value) {
        return Some(Severity::Medium);
    }
    // A value that may also be an identifier needs a more specific name than `token`.
    let is_cut = value.len() % 2 == 1 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if claim != NameClaim::Password && (is_cut || is_digest(value) && name.eq_ignore_ascii_case("token")) {
        return (strength > ValueStrength::None).then_some(Severity::Medium);
    }
    match (claim, strength) {
        (NameClaim::Generated, ValueStrength::Mixed) if tail(value).len() < MIN_BYTES => {
            Some(Severity::Medium)
        }
        (NameClaim::Password, ValueStrength::Chosen | ValueStrength::Mixed | ValueStrength::Random)
        | (NameClaim::Generated, ValueStrength::Mixed | ValueStrength::Random) => Some(Severity::High),
        (NameClaim::Generated, ValueStrength::Chosen) => Some(Severity::Medium),
        (NameClaim::Key, ValueStrength::Random) => {
            let has = |kind: fn(&u8) -> bool| value.bytes().any(|byte| kind(&byte));
            let is_full = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
            Some(if is_full { Severity::High } else { Severity::Medium })
        }
        (NameClaim::Hint, ValueStrength::Random) => {
            let is_one = value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+' | b'='));
            (value.len() >= 32 && is_one && !is_digest(value)).then_some(Severity::High)
        }
        (NameClaim::Password | NameClaim::Generated, ValueStrength::None)
        | (NameClaim::Key | NameClaim::Hint, _) => None,
    }
}

/// Returns the part after `key_`, `token-` and the like.
fn tail(value: &str) -> &str {
    let (head, tail) = value.rsplit_once(['_', '-']).unwrap_or(("", value));
    if value::is_wordy(head) { tail } else { value }
}

/// Returns whether the value is a digest, which identifies something and is no secret.
fn is_digest(value: &str) -> bool {
    let hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    value::is_uuid(value)
        || hex && matches!(value.len(), 32 | 40 | 56 | 64 | 96 | 128)
        || value.starts_with("sha")
}

/// Returns the value without its scheme: `Bearer …`.
fn unscheduled<'t>(assigned: &Assigned<'t>) -> Assigned<'t> {
    let after = |scheme: &str| {
        let head = assigned.value.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme)
            .then(|| assigned.value[scheme.len()..].trim_start())
    };
    let rest = ["bearer ", "basic ", "token ", "apikey "]
        .iter()
        .find_map(|scheme| after(scheme));
    let value = rest.unwrap_or(assigned.value);
    Assigned {
        value,
        start: assigned.start + assigned.value.len() - value.len(),
        quoted: assigned.quoted,
        separator: assigned.separator,
    }
}

/// Returns the value after the name at `name`.
fn follow<'t>(text: &'t str, name: &Range<usize>) -> Option<Assigned<'t>> {
    let end = name.end;
    let mut gap = Gap {
        text,
        at: end,
        most: end + MAX_GAP,
    };
    let closed = gap.closers();
    let spaced = gap.spaces();
    let mut separator = gap.sign().map(|()| Separator::Sign);
    if separator.is_none() && closed {
        // `name="…" value="…"`, `{"name": "…", "value": "…"}`, `("…", "…")`.
        gap.one_of(b",");
        gap.spaces();
        gap.closers();
        if gap.word("value") {
            gap.closers();
            gap.spaces();
            separator = gap.sign().map(|()| Separator::Sign);
        } else if text
            .as_bytes()
            .get(gap.at.wrapping_sub(1))
            .is_some_and(|byte| matches!(byte, b'"' | b'\''))
        {
            let (start, quote) = (gap.at, &text[gap.at - 1..gap.at]);
            return value_at(text, start, Some(quote), Separator::Comma);
        }
    }
    // `password is …`
    if separator.is_none() && spaced && (gap.word("is ") || gap.word("was ")) {
        separator = Some(Separator::Sign);
    }
    // `set(PASSWORD, "…")`, `password("…")`: the value must be quoted.
    if separator.is_none() && !closed {
        let is_call = gap.one_of(b"(");
        let is_listed = !is_call && gap.one_of(b",");
        gap.spaces();
        if is_call && code::asks(&text[name.clone()]) {
            return None;
        }
        if (is_call || is_listed) && gap.peek().is_some_and(|byte| matches!(byte, b'"' | b'\'')) {
            separator = Some(if is_call {
                Separator::Sign
            } else {
                Separator::Comma
            });
        }
    }
    let is_tag = text[end..gap.at].trim() == ">";
    let separator = match separator {
        Some(separator) => separator,
        None if spaced => Separator::Space,
        None => return None,
    };
    gap.most = gap.at + MAX_GAP;
    gap.spaces();
    let quote = gap.quote();
    let start = gap.at;
    let mut assigned = value_at(text, start, quote, separator)?;
    // `password: str = "…"`
    let mut annotated = Gap {
        text,
        at: start + assigned.value.len(),
        most: gap.most + MAX_GAP,
    };
    if quote.is_none() && annotated.spaces() && annotated.one_of(b"=") {
        annotated.spaces();
        let quote = annotated
            .quote()
            .filter(|_| !assigned.value.ends_with(['=', '(']));
        if quote.is_some()
            && let Some(given) = value_at(text, annotated.at, quote, separator)
        {
            assigned = given;
        }
    }
    let start = assigned.start;
    // A value after a tag ends with a tag: `<password>` alone is a placeholder.
    let closes = text[start + assigned.value.len()..].starts_with("</");
    (!is_tag || closes).then_some(assigned)
}

fn value_at<'t>(
    text: &'t str,
    start: usize,
    quote: Option<&str>,
    separator: Separator,
) -> Option<Assigned<'t>> {
    let rest = text.get(start..text.floor_char_boundary(start + MAX_VALUE))?;
    let length = match quote {
        Some(quote) => rest
            .find(quote)
            .unwrap_or_else(|| rest.find('\n').unwrap_or(rest.len())),
        None => {
            let ends = |c: char| c.is_whitespace() || "\"'`<>,;)]}|&\\".contains(c);
            // Another assignment, and not the end of base64.
            let assigns = |at: usize| rest[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric());
            let end = rest
                .char_indices()
                .find(|(at, c)| ends(*c) || *c == '=' && assigns(*at));
            let word = end.map_or(rest.len(), |(at, _)| at);
            let is_scheme = ["bearer", "basic", "token", "apikey"]
                .iter()
                .any(|scheme| rest[..word].eq_ignore_ascii_case(scheme));
            match rest.get(word + 1..) {
                Some(more) if is_scheme && rest[word..].starts_with(' ') => {
                    word + 1 + more.find(ends).unwrap_or(more.len())
                }
                Some(_) | None => word,
            }
        }
    };
    let mut value = rest[..length].split('\n').next().unwrap_or_default();
    if quote.is_none() {
        value = value.trim_end_matches(['.', ':']);
    }
    (!value.is_empty()).then_some(Assigned {
        value,
        start,
        quoted: quote.is_some(),
        separator,
    })
}

/// Reads the gap between a name and its value.
struct Gap<'t> {
    text: &'t str,
    at: usize,
    most: usize,
}

impl<'t> Gap<'t> {
    fn peek(&self) -> Option<u8> {
        (self.at < self.most).then(|| self.text.as_bytes().get(self.at).copied())?
    }

    fn one_of(&mut self, bytes: &[u8]) -> bool {
        let is_one = self.peek().is_some_and(|byte| bytes.contains(&byte));
        self.at += usize::from(is_one);
        is_one
    }

    /// Reads quotes and brackets that close a name.
    fn closers(&mut self) -> bool {
        let from = self.at;
        while self.one_of(b"\"'`\\])") {}
        for entity in ["&quot;", "&#34;", "&#39;"] {
            if self.text[self.at..].starts_with(entity) {
                self.at += entity.len();
            }
        }
        self.at > from
    }

    fn spaces(&mut self) -> bool {
        let from = self.at;
        while self.one_of(b" \t") {}
        self.at > from
    }

    /// Reads a sign: `=`, `:`, `:=`, `=>`, `==`, `!=`, or the `>` of a tag.
    fn sign(&mut self) -> Option<()> {
        let from = self.at;
        while self.one_of(b":=>!") {}
        let signs = &self.text[from..self.at];
        if signs.is_empty() || signs == "::" || signs == "!" {
            self.at = from;
            return None;
        }
        Some(())
    }

    fn word(&mut self, word: &str) -> bool {
        let is_next = self
            .text
            .get(self.at..self.at + word.len())
            .is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    /// Reads the quote that opens a value. Returns the quote that closes it.
    fn quote(&mut self) -> Option<&'t str> {
        let rest = self.text.get(self.at..)?;
        for entity in ["&quot;", "&#34;", "&#39;"] {
            if rest.starts_with(entity) {
                let quote = &rest[..entity.len()];
                self.at += entity.len();
                return Some(quote);
            }
        }
        let skipped = rest.len() - rest.trim_start_matches('\\').len();
        let prefix =
            usize::from(rest.starts_with(['b', 'r', 'f', '@']) && rest[1..].starts_with(['"', '\'']));
        let at = skipped.max(prefix);
        let opens = rest
            .as_bytes()
            .get(at)
            .is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        if !opens {
            return None;
        }
        self.at += at + 1;
        // An escaped quote is closed by the escape.
        Some(if skipped > 0 { &rest[..1] } else { &rest[at..=at] })
    }
}
