//! A declared server: its URLs, and the limits of requests, streams and sessions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hyper::Uri;
use url::Url;

use super::{Caps, Remote, route::Document};
use crate::{
    shares::{Quota, QuotaOwner, QuotaPermit, QuotaRefusals, Scarce},
    upstream::Upstream,
};

/// The period in which new sessions are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// Most users and addresses whose new sessions are counted. The users of a host are fewer; other hosts need its token.
const MAX_OWNERS: usize = 4096;

/// A declared server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) remote: Arc<Remote>,
    /// A connection pool of its own, if its certificate is pinned.
    pub(super) upstream: Option<Upstream>,
    url: Url,
    /// The URL for requests.
    uri: Uri,
    requests: Quota,
    /// Most streams that are kept open.
    pub(super) most_streams: usize,
    streams: Quota,
    openings: Mutex<Openings>,
    refusals: Mutex<QuotaRefusals>,
    /// The URL the server itself names for its document.
    document: Mutex<Option<Uri>>,
}

/// New sessions since a time, by owner.
#[derive(Debug)]
struct Openings {
    since: Instant,
    counts: BTreeMap<QuotaOwner, u32>,
}

/// The kind of a request, for limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The request ends with its answer.
    Request,
    /// The request stays open.
    Stream,
}

/// A limit is reached. The text gives the limit and the owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMany {
    /// Too many requests or streams at a time.
    #[error("{}", at_once(*kind, server, *scarce))]
    AtOnce {
        /// The kind that is limited.
        kind: Kind,
        server: String,
        scarce: Scarce,
    },
    /// Too many new sessions of one owner.
    #[error(
        "{most} sessions with `{server}` were opened within a minute, which is as many as mcpmon opens for {owner}"
    )]
    Opened {
        server: String,
        most: u32,
        owner: QuotaOwner,
    },
    /// Too many owners that opened sessions within a minute.
    #[error(
        "{most} others opened a session with an MCP server within a minute, which is as many as mcpmon counts"
    )]
    Openers { most: usize },
    /// Too many sessions are open.
    #[error("others have all {most} MCP sessions that mcpmon knows at a time")]
    Known { most: usize },
}

fn at_once(kind: Kind, server: &str, scarce: Scarce) -> String {
    match (kind, scarce) {
        (Kind::Request, Scarce::All(most)) => format!(
            "{most} requests to `{server}` are unanswered already, which is as many as mcpmon lets be"
        ),
        (Kind::Stream, Scarce::All(most)) => {
            format!("{most} streams of `{server}` are open already, which is as many as mcpmon keeps open")
        }
        (Kind::Request, Scarce::Own(owner, own)) => format!(
            "{own} requests of {owner} to `{server}` are unanswered already, and mcpmon leaves as many to others"
        ),
        (Kind::Stream, Scarce::Own(owner, own)) => format!(
            "{own} streams of {owner} with `{server}` are open already, and mcpmon leaves as many to others"
        ),
    }
}

impl Server {
    /// A new server. Returns `None` if its URL cannot be used for requests.
    pub(super) fn new(
        remote: Arc<Remote>,
        upstream: Option<Upstream>,
        caps: &Caps,
        streams: usize,
    ) -> Option<Self> {
        let mut url = Url::parse(&remote.url).ok()?;
        url.set_fragment(None);
        let uri = url.as_str().parse().ok()?;
        Some(Self {
            remote,
            upstream,
            url,
            uri,
            requests: Quota::new(caps.requests),
            most_streams: streams,
            streams: Quota::new(streams),
            openings: Mutex::new(Openings {
                since: Instant::now(),
                counts: BTreeMap::new(),
            }),
            refusals: Mutex::default(),
            document: Mutex::new(None),
        })
    }

    /// Returns its id, for messages.
    pub(super) fn id(&self) -> &str {
        self.remote.id.as_str()
    }

    /// Returns the URL without its query.
    pub(super) fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }

    /// Returns the URI of its endpoint; a client's own query follows the declared one.
    pub(super) fn endpoint(&self, query: Option<&str>) -> Option<Uri> {
        let Some(query) = query.filter(|query| !query.is_empty()) else {
            return Some(self.uri.clone());
        };
        let mut url = self.url.clone();
        let whole = match url.query() {
            Some(declared) => format!("{declared}&{query}"),
            None => query.to_owned(),
        };
        url.set_query(Some(&whole));
        url.as_str().parse().ok()
    }

    /// Resolves a reference that the server gave. Returns `None` if it leads to another origin.
    pub(super) fn referred(&self, reference: &str) -> Option<Url> {
        let url = self.url.join(reference).ok()?;
        (url.origin() == self.url.origin()).then_some(url)
    }

    /// Returns the possible URLs of a document about it, the likeliest first.
    pub(super) fn documents(&self, document: Document) -> Vec<Uri> {
        let name = document.name();
        let path = self.url.path().trim_end_matches('/');
        let mut places = vec![format!("/.well-known/{name}{path}")];
        if document == Document::OpenidConfiguration {
            places.push(format!("{path}/.well-known/{name}"));
        }
        places.push(format!("/.well-known/{name}"));
        places.dedup();
        let announced = match document {
            Document::ProtectedResource => self.document().clone(),
            Document::AuthorizationServer | Document::OpenidConfiguration => None,
        };
        let usual = places.iter().filter_map(|place| {
            let mut url = self.url.clone();
            url.set_query(None);
            url.set_path(place);
            url.as_str().parse().ok()
        });
        announced.into_iter().chain(usual).collect()
    }

    /// Records the server's own URL for its document. A URL on another origin is ignored.
    pub(super) fn announce_document(&self, reference: &str) {
        if let Some(uri) = self.referred(reference).and_then(|url| url.as_str().parse().ok()) {
            *self.document() = Some(uri);
        }
    }

    fn document(&self) -> MutexGuard<'_, Option<Uri>> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a permit for one more request or stream of `owner`, given back when dropped.
    pub(super) fn admit(&self, kind: Kind, owner: QuotaOwner) -> Result<QuotaPermit, TooMany> {
        let shares = match kind {
            Kind::Request => &self.requests,
            Kind::Stream => &self.streams,
        };
        shares.take(owner).map_err(|scarce| TooMany::AtOnce {
            kind,
            server: self.id().to_owned(),
            scarce,
        })
    }

    /// Counts a new session of `owner`. Returns an error if the owner opened too many, so that others can still open
    /// theirs.
    pub(super) fn open(&self, caps: &Caps, owner: QuotaOwner) -> Result<(), TooMany> {
        let mut openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        if openings.since.elapsed() >= MINUTE {
            *openings = Openings {
                since: Instant::now(),
                counts: BTreeMap::new(),
            };
        }
        let count = openings.counts.get(&owner).copied().unwrap_or_default();
        if count == 0 && openings.counts.len() >= MAX_OWNERS {
            return Err(TooMany::Openers { most: MAX_OWNERS });
        }
        if count >= caps.new_sessions {
            return Err(TooMany::Opened {
                server: self.id().to_owned(),
                most: caps.new_sessions,
                owner,
            });
        }
        openings.counts.insert(owner, count + 1);
        Ok(())
    }

    /// Counts a refusal. Returns the number of recent refusals when they are to be recorded.
    pub(super) fn refused(&self) -> Option<u32> {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{ServerId, ServerType};
    use test_case::test_case;

    use super::*;

    fn server(url: &str, caps: &Caps, streams: usize) -> Server {
        let remote = Remote {
            id: ServerId::new("files").unwrap(),
            url: url.to_owned(),
            server_type: ServerType::Http,
            tls: None,
        };
        Server::new(Arc::new(remote), None, caps, streams).unwrap()
    }

    fn usual(url: &str) -> Server {
        server(url, &Caps::default(), 1)
    }

    #[test_case("https://a.example/mcp", None => "https://a.example/mcp"; "as declared")]
    #[test_case("https://a.example", None => "https://a.example/"; "without a path")]
    #[test_case("https://a.example/mcp?team=1#top", None => "https://a.example/mcp?team=1"; "with a query")]
    #[test_case("https://a.example/mcp?team=1", Some("x=2") => "https://a.example/mcp?team=1&x=2"; "with two")]
    #[test_case("https://a.example/mcp", Some("") => "https://a.example/mcp"; "with an empty one")]
    fn endpoints(url: &str, query: Option<&str>) -> String {
        usual(url).endpoint(query).unwrap().to_string()
    }

    #[test_case("/messages?s=1" => Some("https://a.example/messages?s=1".to_owned()); "a path")]
    #[test_case("messages" => Some("https://a.example/v1/messages".to_owned()); "a relative path")]
    #[test_case("https://a.example/m" => Some("https://a.example/m".to_owned()); "a whole URL")]
    #[test_case("https://a.example:444/m" => None; "another port")]
    #[test_case("//b.example/m" => None; "another host")]
    #[test_case("http://a.example/m" => None; "in clear")]
    fn references(reference: &str) -> Option<String> {
        usual("https://a.example/v1/sse")
            .referred(reference)
            .map(Into::into)
    }

    #[test]
    fn documents_are_where_the_server_says_or_where_they_usually_are() {
        let server = usual("https://a.example/v1/mcp?team=1");
        let places = |document| {
            let uris = server.documents(document).into_iter();
            uris.map(|uri| uri.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            places(Document::OpenidConfiguration),
            [
                "https://a.example/.well-known/openid-configuration/v1/mcp",
                "https://a.example/v1/mcp/.well-known/openid-configuration",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
        server.announce_document("https://b.example/meta");
        assert_eq!(places(Document::ProtectedResource).len(), 2);
        server.announce_document("https://a.example/meta");
        assert_eq!(places(Document::ProtectedResource)[0], "https://a.example/meta");
        assert_eq!(
            usual("https://a.example")
                .documents(Document::ProtectedResource)
                .len(),
            1
        );
    }

    #[test]
    fn what_may_be_at_a_time_is_bounded_and_given_back() {
        let caps = Caps {
            requests: 1,
            new_sessions: 1,
            ..Caps::default()
        };
        let server = server("https://a.example/mcp", &caps, 1);
        let (one, two) = (QuotaOwner::User(1), QuotaOwner::User(2));
        let held = server.admit(Kind::Request, one).unwrap();
        let refused = server.admit(Kind::Request, two).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "1 requests to `files` are unanswered already, which is as many as mcpmon lets be"
        );
        assert!(server.admit(Kind::Stream, two).is_ok(), "they are counted apart");
        drop(held);
        drop(server.admit(Kind::Request, two).unwrap());
        server.open(&caps, one).unwrap();
        let refused = server.open(&caps, one).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "1 sessions with `files` were opened within a minute, which is as many as mcpmon opens for user 1"
        );
        assert!(server.open(&caps, two).is_ok(), "others open theirs");
    }

    #[test]
    fn one_user_leaves_as_much_to_others_as_it_has() {
        let caps = Caps {
            requests: 4,
            ..Caps::default()
        };
        let server = server("https://a.example/mcp", &caps, 4);
        let (one, two) = (QuotaOwner::User(1), QuotaOwner::User(2));
        for kind in [Kind::Request, Kind::Stream] {
            let _held = [server.admit(kind, one).unwrap(), server.admit(kind, one).unwrap()];
            let refused = server.admit(kind, one).unwrap_err().to_string();
            assert!(
                refused.starts_with("2 ")
                    && refused.contains("of user 1")
                    && refused.ends_with("mcpmon leaves as many to others"),
                "{refused}"
            );
            drop(server.admit(kind, two).unwrap());
        }
    }
}
