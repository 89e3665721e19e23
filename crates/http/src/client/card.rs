//! Server cards: what a server publishes about itself, readable without a session (SEP-2127).

use std::time::Duration;

use tokio::time::timeout;

use super::{
    Address, AnswerFault, ClientError,
    wire::{ServerEndpoint, Wire},
};

/// Largest card, bytes.
const MAX_CARD: usize = 1 << 20;
/// Time limit for all requests together.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The path of a card below the address of its server (SEP-2127).
const BELOW: &str = "server-card";
/// Paths of cards for a whole host, from earlier drafts.
const OF_HOST: [&str; 2] = [
    "/.well-known/mcp/server-card.json",
    "/.well-known/mcp-server-card",
];

/// A document that may be a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCard {
    /// Its URL, without what may be secret in it.
    pub url: String,
    /// Its text.
    pub text: String,
}

/// Looks for a card at each address where the server may publish one. Redirects are not followed, and the user's
/// headers are not sent: a card is public. A document that is no card is returned if no address has one.
///
/// # Errors
/// Returns an error if no address answers, or a document is too long or not UTF-8.
pub async fn published_card(asking: ServerEndpoint) -> Result<Option<PublishedCard>, ClientError> {
    let url = asking.address.shown();
    let card = match timeout(TIMEOUT, look(asking)).await {
        Ok(card) => card,
        Err(_elapsed) => Err(AnswerFault::Late(TIMEOUT.as_secs())),
    };
    card.map_err(|fault| ClientError { url, fault })
}

async fn look(asking: ServerEndpoint) -> Result<Option<PublishedCard>, AnswerFault> {
    let address = asking.address.clone();
    let wire = Wire::new(ServerEndpoint {
        headers: Vec::new(),
        max_message: MAX_CARD,
        ..asking
    })?;
    let mut places = vec![address.below(BELOW)?];
    for place in OF_HOST {
        places.push(address.endpoint(place)?);
    }
    // Some servers answer every path. The first document that is not a card, or the first error, is returned only if no
    // address has a card.
    let mut instead = Ok(None);
    for place in places {
        let found = fetch(&wire, &place).await;
        match found {
            Ok(Some(card)) if is_named(&card.text) => return Ok(Some(card)),
            Ok(None) => {}
            other if matches!(instead, Ok(None)) => instead = other,
            Ok(Some(_)) | Err(_) => {}
        }
    }
    instead
}

/// Returns whether a text is an object with a name, as every card is.
fn is_named(text: &str) -> bool {
    let object = serde_json::from_str::<serde_json::Value>(text);
    object.is_ok_and(|object| object.get("name").is_some_and(serde_json::Value::is_string))
}

async fn fetch(wire: &Wire, place: &Address) -> Result<Option<PublishedCard>, AnswerFault> {
    let document = match wire.document(place).await {
        Err(AnswerFault::TooLong(limit)) => Err(AnswerFault::Endless(limit, "bytes of a card")),
        document => document,
    };
    let Some(document) = document? else {
        return Ok(None);
    };
    let text = String::from_utf8(document).map_err(|error| AnswerFault::Message(error.to_string()))?;
    Ok(Some(PublishedCard {
        url: place.shown(),
        text,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{Site, Told};

    const CARD: &str = r#"{"name":"io.example/weather"}"#;

    /// Looks for a card at a server that has one at `place`, and answers everything else by `otherwise`.
    async fn looked(place: &'static str, otherwise: fn() -> Told) -> (Option<PublishedCard>, Site) {
        let site = Site::new(move |asked| {
            assert_eq!(asked.method, "GET");
            assert_eq!(asked.header("authorization"), "-", "a card is for everybody");
            match asked.path == place {
                true => Told::new(200, "application/mcp-server-card+json", CARD),
                false => otherwise(),
            }
        })
        .await;
        let card = published_card(site.asking()).await.expect("it answers");
        (card, site)
    }

    fn error() -> Told {
        Told::new(200, "application/json", r#"{"jsonrpc":"2.0","error":{}}"#)
    }

    fn endless() -> Told {
        Told::new(200, "application/json", vec![b' '; MAX_CARD + 1])
    }

    fn page() -> Told {
        Told::new(200, "text/html", "<h1>not found</h1>")
    }

    fn elsewhere() -> Told {
        Told::empty(302).with("location", "https://elsewhere.example/card")
    }

    #[tokio::test]
    async fn a_card_is_found_where_one_may_be() {
        let places = ["/mcp/server-card", OF_HOST[0], OF_HOST[1]];
        let answers: [fn() -> Told; 3] = [page, error, endless];
        for (place, otherwise) in places
            .into_iter()
            .flat_map(|place| answers.map(|answer| (place, answer)))
        {
            let (card, site) = looked(place, otherwise).await;
            let card = card.expect("a card");
            assert_eq!(card.text, CARD);
            assert!(card.url.ends_with(place), "{}", card.url);
            assert!(
                card.url.starts_with(site.url.trim_end_matches("/mcp")),
                "{}",
                card.url
            );
        }
    }

    #[tokio::test]
    async fn nothing_else_is_a_card_and_nobody_else_is_asked() {
        for otherwise in [page, elsewhere, || Told::empty(404)] {
            let (card, site) = looked("/nowhere", otherwise).await;
            assert_eq!(card, None);
            assert_eq!(site.asked().len(), 3);
        }
    }

    #[tokio::test]
    async fn a_card_without_an_end_is_refused() {
        let site = Site::new(|_| Told::new(200, "application/json", vec![b' '; MAX_CARD + 1])).await;
        let error = published_card(site.asking()).await.expect_err("it is too long");
        assert!(
            error.to_string().contains("more than 1048576 bytes of a card"),
            "{error}"
        );
    }
}
