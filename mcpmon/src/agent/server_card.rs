//! Server cards, and entries of registries (`server.json`), compared with what their servers offer.

use std::collections::BTreeMap;

use mcpmon_model::DefinitionKind;
use serde_json::Value;

use super::inspection::{InspectedDefinition, ServerOffer};

/// Longest text of a difference that is told, characters.
const MAX_TOLD: usize = 200;

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerCard(Value);

/// The text is no card.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerCardError {
    /// The text is no JSON.
    #[error("the card is no JSON")]
    NotJson(#[source] serde_json::Error),
    /// The JSON says nothing of a server.
    #[error("the card has neither a name nor `serverInfo`")]
    NoServer,
}

/// Something that the card says otherwise than the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CardDifference {
    /// The subject: `name`, `version`, `url`, or a definition such as `tool forecast`.
    pub(crate) subject: String,
    /// What the card says; `None` where it says nothing.
    pub(crate) card: Option<String>,
    /// What the server says; `None` where it says nothing.
    pub(crate) live: Option<String>,
}

impl ServerCard {
    /// Reads a card, or the entry of a registry that has one as `server`.
    ///
    /// # Errors
    /// Returns an error if the text is none.
    pub(crate) fn parse(text: &str) -> Result<Self, ServerCardError> {
        let card: Value = serde_json::from_str(text).map_err(ServerCardError::NotJson)?;
        let card = match card.get("server") {
            Some(server) if server.is_object() => server.clone(),
            Some(_) | None => card,
        };
        let named = card["name"].is_string() || card["serverInfo"]["name"].is_string();
        match named {
            true => Ok(Self(card)),
            false => Err(ServerCardError::NoServer),
        }
    }

    /// Everything in which the card and the server at `url` differ. Of what the card says nothing, nothing differs.
    #[must_use]
    pub(crate) fn differences(
        &self,
        url: Option<&str>,
        offer: &ServerOffer,
        offered: &[InspectedDefinition],
    ) -> Vec<CardDifference> {
        let mut differences = Vec::new();
        // A registry puts a namespace in front of the name.
        let name = self
            .text("name")
            .map(|name| name.rsplit('/').next().unwrap_or(name));
        compare("name", name, offer.name.as_deref(), &mut differences);
        compare(
            "version",
            self.text("version"),
            offer.release.as_deref(),
            &mut differences,
        );
        differences.extend(self.elsewhere(url));
        for (list, kind, key) in [
            ("tools", DefinitionKind::Tool, "name"),
            ("prompts", DefinitionKind::Prompt, "name"),
            ("resources", DefinitionKind::Resource, "uri"),
        ] {
            // A card can say `dynamic` instead.
            if let Some(listed) = self.0.get(list).and_then(Value::as_array) {
                let live = offered.iter().filter(|definition| definition.kind == kind);
                definitions(kind, key, listed, live, &mut differences);
            }
        }
        differences
    }

    /// A text about the server: in the card itself, or in its `serverInfo`.
    fn text(&self, name: &str) -> Option<&str> {
        let own = self.0["serverInfo"].get(name).or_else(|| self.0.get(name));
        own.and_then(Value::as_str)
    }

    /// The difference that the card names other addresses than the one that was asked.
    fn elsewhere(&self, url: Option<&str>) -> Option<CardDifference> {
        let remotes = self.0.get("remotes")?.as_array()?;
        let urls: Vec<&str> = remotes
            .iter()
            .filter_map(|remote| remote["url"].as_str())
            .collect();
        let plain = |url: &str| url.trim_end_matches('/').to_owned();
        let url = url?;
        let is_named = urls.is_empty() || urls.iter().any(|known| plain(known) == plain(url));
        (!is_named).then(|| CardDifference {
            subject: "url".to_owned(),
            card: Some(told(&urls.join(" "))),
            live: Some(told(url)),
        })
    }
}

/// Compares the definitions of one kind.
fn definitions<'d>(
    kind: DefinitionKind,
    key: &str,
    listed: &[Value],
    live: impl Iterator<Item = &'d InspectedDefinition>,
    differences: &mut Vec<CardDifference>,
) {
    let mut unseen: BTreeMap<&str, &Value> = listed
        .iter()
        .filter_map(|definition| Some((definition.get(key)?.as_str()?, definition)))
        .collect();
    for definition in live {
        let subject = format!("{} {}", kind.as_str(), told(&definition.name));
        let live = definition.description.as_deref();
        match unseen.remove(definition.name.as_str()) {
            Some(listed) => compare(&subject, listed["description"].as_str(), live, differences),
            None => differences.push(CardDifference {
                subject,
                card: None,
                live: Some(told(live.unwrap_or_default())),
            }),
        }
    }
    differences.extend(unseen.into_iter().map(|(name, listed)| CardDifference {
        subject: format!("{} {}", kind.as_str(), told(name)),
        card: Some(told(listed["description"].as_str().unwrap_or_default())),
        live: None,
    }));
}

/// Adds the difference of two texts, where the card has one.
fn compare(subject: &str, card: Option<&str>, live: Option<&str>, differences: &mut Vec<CardDifference>) {
    if card.is_some() && card != live {
        differences.push(CardDifference {
            subject: subject.to_owned(),
            card: card.map(told),
            live: live.map(told),
        });
    }
}

/// A text on one line, cut.
fn told(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(MAX_TOLD).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn differences(card: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let offer = ServerOffer {
            name: Some("weather".to_owned()),
            release: Some("1.2".to_owned()),
            ..ServerOffer::default()
        };
        let tool = |name: &str, description: &str| InspectedDefinition {
            kind: DefinitionKind::Tool,
            name: name.to_owned(),
            description: Some(description.to_owned()),
            findings: Vec::new(),
        };
        let offered = [
            tool("forecast", "Tells the weather."),
            tool("history", "Tells it of a day."),
        ];
        let card = ServerCard::parse(card).expect("a card");
        let url = Some("https://mcp.example.com/mcp");
        let differences = card.differences(url, &offer, &offered).into_iter();
        differences
            .map(|difference| (difference.subject, difference.card, difference.live))
            .collect()
    }

    fn difference(
        subject: &str,
        card: Option<&str>,
        live: Option<&str>,
    ) -> (String, Option<String>, Option<String>) {
        (
            subject.to_owned(),
            card.map(str::to_owned),
            live.map(str::to_owned),
        )
    }

    #[test_case(r#"{"name":"io.example/weather","version":"1.2","remotes":[{"type":"streamable-http","url":"https://mcp.example.com/mcp/"}]}"#; "an entry of a registry")]
    #[test_case(r#"{"server":{"name":"io.example/weather","version":"1.2"},"_meta":{}}"#; "an answer of a registry")]
    #[test_case(r#"{"serverInfo":{"name":"weather","version":"1.2"},"tools":["dynamic"],"prompts":[]}"#; "a card")]
    #[test_case(r#"{"serverInfo":{"name":"weather"},"tools":"dynamic"}"#; "a card that lists nothing")]
    fn cards_that_say_the_same(card: &str) {
        let found = differences(card).into_iter();
        let found: Vec<_> = found
            .filter(|(subject, ..)| !subject.starts_with("tool "))
            .collect();
        assert_eq!(found, []);
    }

    #[test]
    fn what_a_card_says_otherwise() {
        let card = r#"{"name":"io.example/other","version":"1.1","remotes":[{"url":"https://elsewhere.example/mcp"}],
            "tools":[{"name":"forecast","description":"Tells the weather of tomorrow."},{"name":"gone","description":"Is not there."}]}"#;
        assert_eq!(
            differences(card),
            [
                difference("name", Some("other"), Some("weather")),
                difference("version", Some("1.1"), Some("1.2")),
                difference(
                    "url",
                    Some("https://elsewhere.example/mcp"),
                    Some("https://mcp.example.com/mcp")
                ),
                difference(
                    "tool forecast",
                    Some("Tells the weather of tomorrow."),
                    Some("Tells the weather.")
                ),
                difference("tool history", None, Some("Tells it of a day.")),
                difference("tool gone", Some("Is not there."), None),
            ]
        );
    }

    #[test_case("{"; "no json")]
    #[test_case("[]"; "a list")]
    #[test_case(r#"{"version":"1"}"#; "no name")]
    fn texts_that_are_no_card(text: &str) {
        drop(ServerCard::parse(text).expect_err("it is none"));
    }
}
