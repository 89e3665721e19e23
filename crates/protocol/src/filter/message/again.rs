//! Recognition of a list that comes again with the same bytes, except for the id of its answer.

use std::{borrow::Cow, ops::Range};

use mcpmon_model::{Content, Digest, FromServer, ListKind, ListedItem, Listing, Message, RawJson, RequestId};

use crate::decode::{json::Value, jsonrpc::Envelope};

/// Shorter texts are read as fast as they are recognised.
const MIN_LENGTH: usize = 1 << 10;
/// Longer texts are not kept.
const MAX_BYTES: usize = 1 << 20;
/// Longest id that is recognised. Readers of numbers do not differ about this many digits.
const MAX_ID: usize = 15;

/// The last list of a server, if lists are recognised.
#[derive(Debug, Default)]
pub(super) struct LastList {
    is_on: bool,
    kept: Option<CachedList>,
}

/// A list, and the text that it stood in.
#[derive(Debug)]
pub(super) struct CachedList {
    text: Box<str>,
    id: Range<usize>,
    pub(super) kind: ListKind,
    digest: Digest,
    result: Range<usize>,
    items: Vec<(Box<str>, Range<usize>)>,
}

impl LastList {
    /// Returns a memory that recognises lists.
    pub(super) const fn recognised() -> Self {
        Self {
            is_on: true,
            kept: None,
        }
    }

    /// Remembers a complete list that was forwarded unchanged.
    pub(super) fn note(&mut self, envelope: &Envelope<'_>, message: &Message<'_>) {
        let Content::Server(FromServer::Listing(listing)) = &message.content else {
            return;
        };
        if self.is_on
            && let Some(kept) = CachedList::of(envelope, listing)
        {
            self.kept = Some(kept);
        }
    }

    /// Returns the list in `text` and the id of its answer, if it is the last list again.
    pub(super) fn find(&self, text: &[u8]) -> Option<(RequestId, &CachedList)> {
        let kept = self.kept.as_ref()?;
        let known = kept.text.as_bytes();
        let id = text
            .strip_prefix(&known[..kept.id.start])?
            .strip_suffix(&known[kept.id.end..])?;
        Some((plain_id(id)?, kept))
    }
}

impl CachedList {
    fn of(envelope: &Envelope<'_>, listing: &Listing<'_>) -> Option<Self> {
        let text = envelope.whole.text();
        if listing.continued
            || listing.more
            || listing.is_part
            || !(MIN_LENGTH..=MAX_BYTES).contains(&text.len())
        {
            return None;
        }
        let within = |part: &str| {
            let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
            let range = start..start + part.len();
            (text.get(range.clone()) == Some(part)).then_some(range)
        };
        let items = listing
            .items
            .iter()
            .map(|item| Some(((&*item.name).into(), within(item.definition.as_str())?)));
        Some(Self {
            text: text.into(),
            id: within(envelope.whole.member("id").map(Value::text)?)?,
            kind: listing.kind,
            digest: Digest::of(listing.result.as_str().as_bytes()),
            result: within(listing.result.as_str())?,
            items: items.collect::<Option<_>>()?,
        })
    }

    /// Returns the list.
    pub(super) fn listing(&self) -> Listing<'_> {
        let part = |range: &Range<usize>| RawJson::trusted(&self.text[range.clone()]);
        let items = self.items.iter().map(|(name, definition)| ListedItem {
            name: Cow::Borrowed(name),
            definition: part(definition),
        });
        Listing {
            kind: self.kind,
            items: items.collect(),
            continued: false,
            more: false,
            is_part: false,
            result: part(&self.result),
            again: Some(self.digest),
        }
    }
}

/// Reads an id in its usual form; the scanner reads all other forms.
fn plain_id(token: &[u8]) -> Option<RequestId> {
    let token = str::from_utf8(token).ok()?;
    if let Some(text) = token.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        return (text.len() <= 4 * MAX_ID && text.bytes().all(is_plain))
            .then(|| RequestId::Text(text.into()));
    }
    let is_number = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    let is_written_once = token == "0" || !token.starts_with('0');
    (is_number && is_written_once && token.len() <= MAX_ID).then(|| RequestId::Number(token.into()))
}
