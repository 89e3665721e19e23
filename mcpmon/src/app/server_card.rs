//! Comparison of server cards and registry entries (`server.json`) with what their servers offer.

use std::collections::BTreeMap;

use mcpmon_model::{DefinitionKind, Ecosystem, PackageOrigin};
use mcpmon_pins::normalise;
use serde_json::Value;

use super::inspection::{InspectedDefinition, ServerOffer};

/// Longest text of a difference that is shown, characters.
const MAX_REPORTED: usize = 200;

/// A server card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerCard(Value);

/// The reason why a text is not a card.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerCardError {
    /// The text is no JSON.
    #[error("the card is no JSON")]
    NotJson(#[source] serde_json::Error),
    /// The JSON has no name of a server.
    #[error("the card has neither a name nor `serverInfo`")]
    NoServer,
}

/// A value that differs between the card and the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CardDifference {
    /// The subject, such as `name`, `version`, `url`, `npm package`, or a definition such as `tool forecast`.
    pub(crate) subject: String,
    /// The value in the card; `None` if the card has none.
    pub(crate) card: Option<String>,
    /// The value of the server; `None` if the server has none.
    pub(crate) live: Option<String>,
}

impl ServerCard {
    /// Parses a card, or the entry of a registry that contains one as `server`.
    ///
    /// # Errors
    /// Returns an error if the text is neither.
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

    /// Returns all differences between the card and the server at `url`. Values that the card does not have are not
    /// compared.
    pub(crate) fn differences(
        &self,
        url: Option<&str>,
        offer: &ServerOffer,
        offered: &[InspectedDefinition],
    ) -> Vec<CardDifference> {
        let mut differences = Vec::new();
        // A registry puts a namespace before the name.
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
        self.compare_lists(offered, &mut differences);
        differences
    }

    /// Returns all differences between the card and a server of this host: in the package that it ran from, and in its
    /// lists.
    #[must_use]
    pub(crate) fn differences_of_recorded(
        &self,
        origin: Option<&PackageOrigin>,
        listed: &[InspectedDefinition],
    ) -> Vec<CardDifference> {
        let mut differences = Vec::new();
        if let Some(origin) = origin {
            self.compare_package(origin, &mut differences);
        }
        self.compare_lists(listed, &mut differences);
        differences
    }

    /// Adds the differences between the packages of the card and the installed package.
    fn compare_package(&self, origin: &PackageOrigin, differences: &mut Vec<CardDifference>) {
        if let Some(entry) = &origin.registry_entry {
            // A name without a namespace is the server's own name, not that in a registry.
            let name = self.0.get("name").and_then(Value::as_str);
            let name = name.filter(|name| name.contains('/'));
            compare("registry name", name, Some(&entry.name), differences);
        }
        let kind = match origin.ecosystem {
            Ecosystem::Npm => "npm",
            Ecosystem::Pypi => "pypi",
        };
        let packages = self.0.get("packages").and_then(Value::as_array);
        // Before 2025-10 the names of members had underscores.
        let of_kind = |package: &&Value| {
            let given = package
                .get("registryType")
                .or_else(|| package.get("registry_type"));
            given.and_then(Value::as_str) == Some(kind)
        };
        let packages: Vec<&Value> = packages.into_iter().flatten().filter(of_kind).collect();
        let name = spelling(origin.ecosystem, &origin.name);
        let same = packages.iter().find(|package| {
            let given = package["identifier"].as_str();
            given.is_some_and(|given| spelling(origin.ecosystem, given) == name)
        });
        let Some(package) = same else {
            let names = packages
                .iter()
                .filter_map(|package| package["identifier"].as_str());
            let names: Vec<&str> = names.collect();
            let named = (!names.is_empty()).then(|| names.join(" "));
            let subject = format!("{kind} package");
            return compare(&subject, named.as_deref(), Some(&origin.name), differences);
        };
        let subject = format!("version of the {kind} package");
        compare(
            &subject,
            package["version"].as_str(),
            Some(&origin.version),
            differences,
        );
        if let Some(live) = origin
            .integrity
            .as_deref()
            .and_then(|text| text.strip_prefix("sha256:"))
        {
            let card = package["fileSha256"].as_str().map(str::to_ascii_lowercase);
            compare("digest of its archive", card.as_deref(), Some(live), differences);
        }
    }

    /// Adds the differences between the lists of the card and of the server.
    fn compare_lists(&self, offered: &[InspectedDefinition], differences: &mut Vec<CardDifference>) {
        for (list, kind, key) in [
            ("tools", DefinitionKind::Tool, "name"),
            ("prompts", DefinitionKind::Prompt, "name"),
            ("resources", DefinitionKind::Resource, "uri"),
        ] {
            // A card can have the text `dynamic` instead of a list.
            if let Some(listed) = self.0.get(list).and_then(Value::as_array) {
                let live = offered.iter().filter(|definition| definition.kind == kind);
                definitions(kind, key, listed, live, differences);
            }
        }
    }

    /// Returns a text about the server: from the card's `serverInfo`, or from the card itself.
    fn text(&self, name: &str) -> Option<&str> {
        let own = self.0["serverInfo"].get(name).or_else(|| self.0.get(name));
        own.and_then(Value::as_str)
    }

    /// Returns a difference if the card names addresses, and the asked one is not among them.
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

/// Returns the normalised name of a package.
fn spelling(ecosystem: Ecosystem, name: &str) -> String {
    match ecosystem {
        Ecosystem::Npm => name.to_owned(),
        Ecosystem::Pypi => normalise(name),
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

/// Adds a difference if the card has a text and the server's is another.
fn compare(subject: &str, card: Option<&str>, live: Option<&str>, differences: &mut Vec<CardDifference>) {
    if card.is_some() && card != live {
        differences.push(CardDifference {
            subject: subject.to_owned(),
            card: card.map(told),
            live: live.map(told),
        });
    }
}

/// Returns a text on one line, cut to the longest length that is shown.
fn told(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars()
        .filter(|c| !c.is_control())
        .take(MAX_REPORTED)
        .collect()
}

#[cfg(test)]
mod tests {
    use mcpmon_model::RegistryEntry;
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

    const PACKAGED: &str = r#"{"name":"io.github.acme/mail","version":"1.2.0","packages":[
        {"registryType":"oci","identifier":"docker.io/acme/mail:1.0"},
        {"registryType":"npm","identifier":"@acme/mail","version":"1.2.0","transport":{"type":"stdio"}},
        {"registry_type":"pypi","identifier":"acme-mail","version":"1.2.0","fileSha256":"AB"}]}"#;

    #[test_case(Ecosystem::Npm, "@acme/mail", "1.2.0", None => ""; "what it says")]
    #[test_case(Ecosystem::Npm, "@acme/mail", "1.1.0", None => "version of the npm package: 1.2.0, 1.1.0"; "another version")]
    #[test_case(Ecosystem::Npm, "@evil/mail", "1.2.0", None => "npm package: @acme/mail, @evil/mail"; "another package")]
    #[test_case(Ecosystem::Npm, "@acme/mail", "1.2.0", Some("io.github.evil/mail") => "registry name: io.github.acme/mail, io.github.evil/mail"; "a package of another server")]
    #[test_case(Ecosystem::Pypi, "acme-._mail", "1.1.0", None => "version of the pypi package: 1.2.0, 1.1.0; digest of its archive: ab, cd"; "another spelling")]
    #[test_case(Ecosystem::Pypi, "Acme_Mail", "1.2.0", None => "digest of its archive: ab, cd"; "another archive")]
    fn installed_packages(ecosystem: Ecosystem, name: &str, version: &str, entry: Option<&str>) -> String {
        let origin = PackageOrigin {
            ecosystem,
            name: name.to_owned(),
            version: version.to_owned(),
            resolved: None,
            integrity: Some("sha256:cd".to_owned()),
            registry_entry: entry.map(|name| RegistryEntry {
                name: name.to_owned(),
                version: None,
                file: None,
            }),
        };
        let card = ServerCard::parse(PACKAGED).expect("a card");
        let found = card.differences_of_recorded(Some(&origin), &[]).into_iter();
        let found = found.map(|CardDifference { subject, card, live }| {
            format!(
                "{subject}: {}, {}",
                card.unwrap_or_default(),
                live.unwrap_or_default()
            )
        });
        found.collect::<Vec<_>>().join("; ")
    }

    #[test_case(r#"{"serverInfo":{"name":"mail"},"name":"io.github.acme/mail"}"# => 0; "its own name beside that of the registry")]
    #[test_case(r#"{"serverInfo":{"name":"mail"}}"# => 0; "its own name")]
    #[test_case(r#"{"name":"mail"}"# => 0; "its own name where that of the registry would be")]
    #[test_case(r#"{"serverInfo":{"name":"mail"},"name":"io.github.evil/mail"}"# => 1; "another one")]
    fn names_in_the_registry(card: &str) -> usize {
        let origin = PackageOrigin {
            ecosystem: Ecosystem::Npm,
            name: "mail".to_owned(),
            version: "1".to_owned(),
            resolved: None,
            integrity: None,
            registry_entry: Some(RegistryEntry {
                name: "io.github.acme/mail".to_owned(),
                version: None,
                file: None,
            }),
        };
        let card = ServerCard::parse(card).expect("a card");
        card.differences_of_recorded(Some(&origin), &[]).len()
    }

    #[test]
    fn nothing_is_said_of_packages_of_another_kind() {
        let card = r#"{"name":"io.github.acme/mail","packages":[{"registryType":"oci","identifier":"docker.io/acme/mail"}]}"#;
        let card = ServerCard::parse(card).expect("a card");
        let origin = PackageOrigin {
            ecosystem: Ecosystem::Npm,
            name: "mail".to_owned(),
            version: "1".to_owned(),
            resolved: None,
            integrity: None,
            registry_entry: None,
        };
        assert_eq!(card.differences_of_recorded(Some(&origin), &[]), []);
        assert_eq!(card.differences_of_recorded(None, &[]), []);
    }

    #[test_case("{"; "no json")]
    #[test_case("[]"; "a list")]
    #[test_case(r#"{"version":"1"}"#; "no name")]
    fn texts_that_are_no_card(text: &str) {
        drop(ServerCard::parse(text).expect_err("it is none"));
    }
}
