//! Offers: the decoded lists of a server, with the requests and answers from which they come.

use std::time::Instant;

use hyper::HeaderMap;
use mcpmon_model::ListKind;
use mcpmon_protocol::decode::json::{LoneSurrogate, MAX_DEPTH, Scanner, Value, canonical};

use super::{outline::ClientMessage, params::ToolHeaders};

/// A request and its answer, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAndAnswer {
    /// The time of the request. The answer is not older, however late it is read.
    pub asked: Instant,
    /// The request.
    pub request: String,
    /// The answer, on one line.
    pub answer: Vec<u8>,
    /// The list of which this is a page.
    pub page: Option<ListKind>,
}

impl RequestAndAnswer {
    /// Calls `see` with every definition of the page.
    fn definitions(&self, mut see: impl FnMut(ListKind, Value<'_>)) {
        let Some(kind) = self.page else { return };
        let list = LISTS.iter().find(|list| list.kind == kind);
        reread(&self.answer, |root| {
            let page = root.and_then(|root| root.member("result")?.member(list?.member));
            for definition in page.iter().flat_map(|page| page.items()) {
                see(kind, definition);
            }
        });
    }
}

/// Parses a JSON text and calls `read` with its root, or with `None` if it is invalid. Of several members with one name
/// it uses the last, as most readers do.
pub(super) fn reread<T>(text: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> T {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let text = scanner
        .scan(text, LoneSurrogate::Replace)
        .map(|scan| canonical(scan.document));
    let Ok(text) = text else { return read(None) };
    let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Replace).ok();
    read(scan.map(|scan| scan.document.root()))
}

/// The offer of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOffer {
    /// The negotiated revision.
    pub version: String,
    /// The server's own name.
    pub name: Option<String>,
    /// Its own version.
    pub release: Option<String>,
    /// The text in which it describes itself to models.
    pub instructions: Option<String>,
    /// The answers: to the introduction, then all pages.
    pub turns: Vec<RequestAndAnswer>,
}

impl RequestAndAnswer {
    /// Returns the headers that repeat parts of the request.
    pub fn headers(&self) -> HeaderMap {
        let outline = ClientMessage::read(self.request.as_bytes(), &ToolHeaders::default());
        outline.map(|outline| outline.headers).unwrap_or_default()
    }
}

impl ServerOffer {
    /// Calls `see` with every definition, page by page. Only one page is decoded at a time, because hostile content can
    /// take many times more memory in decoded form.
    pub fn definitions(&self, mut see: impl FnMut(ListKind, Value<'_>)) {
        for turn in &self.turns {
            turn.definitions(&mut see);
        }
    }

    /// Reads the result of `initialize` or `server/discover`.
    pub(super) fn introduced(result: Value<'_>) -> Self {
        let text = |value: Option<Value<'_>>| Some(value?.string()?.into_owned());
        let own = result.member("serverInfo").filter(|own| own.is_object());
        let meta = || {
            result
                .member("_meta")?
                .member("io.modelcontextprotocol/serverInfo")
        };
        let info = own.or_else(meta);
        let of_info = |name: &str| text(info.and_then(|info| info.member(name)));
        let instructions = text(result.member("instructions"));
        Self {
            version: text(result.member("protocolVersion")).unwrap_or_default(),
            name: of_info("name"),
            release: of_info("version"),
            instructions: instructions.filter(|text| !text.trim().is_empty()),
            turns: Vec::new(),
        }
    }
}

/// The extension by which a server offers skills.
const SKILLS: &str = "io.modelcontextprotocol/skills";

/// A list that a server can have.
#[derive(Debug)]
pub(super) struct ListMethod {
    pub(super) kind: ListKind,
    /// The method that requests it.
    pub(super) method: &'static str,
    /// The member of the result with its items.
    pub(super) member: &'static str,
    /// The capability that announces it.
    pub(super) capability: &'static str,
}

/// All lists, in the order in which they are requested.
pub(super) const LISTS: [ListMethod; 5] = [
    ListMethod {
        kind: ListKind::Tools,
        method: "tools/list",
        member: "tools",
        capability: "tools",
    },
    ListMethod {
        kind: ListKind::Prompts,
        method: "prompts/list",
        member: "prompts",
        capability: "prompts",
    },
    ListMethod {
        kind: ListKind::Resources,
        method: "resources/list",
        member: "resources",
        capability: "resources",
    },
    ListMethod {
        kind: ListKind::Templates,
        method: "resources/templates/list",
        member: "resourceTemplates",
        capability: "resources",
    },
    ListMethod {
        kind: ListKind::Skills,
        method: "skills/list",
        member: "skills",
        capability: SKILLS,
    },
];
