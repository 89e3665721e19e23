//! Apps (MCP Apps): pages of a server that its client shows, and tools that only these pages may call.

use mcpmon_model::{Definition, DefinitionRecord, Digest, RawJson};

use crate::skills::{SkillError, contents};

/// The scheme of pages that clients show.
const SCHEME: &str = "ui:";
/// The members of `_meta` that describe the relation of a page or a tool to apps.
const UI: &str = "ui";
/// Most domains and permissions of one page that are reported.
const MAX_REPORTED: usize = 40;
/// Longest domain that is reported, characters.
const MAX_DOMAIN: usize = 100;

/// Returns whether `uri` is the URI of a page that clients show.
pub(crate) fn is_app(uri: &str) -> bool {
    let scheme = uri.trim_start().get(..SCHEME.len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Returns the definition of the page that was read from `uri`: the digest of its text, its type, and what it asks the
/// client for.
///
/// # Errors
/// Returns an error if clients can understand the result differently.
pub(crate) fn definition(uri: &str, result: RawJson<'_>) -> Result<String, SkillError> {
    let read = contents(result)?;
    let [(told, page)] = read.as_slice() else {
        return Err("a page has one content".into());
    };
    if told.as_deref().is_some_and(|told| told != uri) {
        return Err("the content says that it is another page".into());
    }
    let item = result
        .member("contents")
        .and_then(|contents| contents.items().next());
    let member = |name: &str| item.and_then(|item| item.member(name));
    let mut definition = format!(
        "{{\"uri\":{},\"digest\":\"sha256:{}\",\"size\":{}",
        RawJson::quoted(uri),
        Digest::of(page),
        page.len()
    );
    for name in ["mimeType", "_meta"] {
        if let Some(value) = member(name) {
            definition.push_str(&format!(",\"{name}\":{}", value.as_str()));
        }
    }
    definition.push('}');
    Ok(definition)
}

/// Describes what a page asks the client for: addresses that it connects to, and permissions.
pub(crate) fn demands(page: &Definition) -> Option<String> {
    let ui = RawJson::trusted(&page.canonical).member("_meta")?.member(UI)?;
    let policies = ui.member("csp").into_iter().flat_map(RawJson::members);
    let mut told: Vec<String> = policies
        .map(|(name, domains)| {
            let domains: Vec<String> = domains
                .items()
                .filter_map(RawJson::text)
                .take(MAX_REPORTED)
                .map(|domain| domain.chars().take(MAX_DOMAIN).collect())
                .collect();
            format!("{name}: {}", domains.join(" "))
        })
        .take(MAX_REPORTED)
        .collect();
    let permissions = ui.member("permissions").into_iter().flat_map(RawJson::members);
    let permissions: Vec<String> = permissions
        .map(|(name, _)| name.chars().take(MAX_DOMAIN).collect())
        .take(MAX_REPORTED)
        .collect();
    if !permissions.is_empty() {
        told.push(format!("permissions: {}", permissions.join(" ")));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// Returns whether only apps may call a tool; the model does not see such a tool.
pub(crate) fn is_for_apps_alone(tool: &DefinitionRecord) -> bool {
    let meta = RawJson::trusted(&tool.seen.canonical).member("_meta");
    let visibility = meta.and_then(|meta| meta.member(UI)?.member("visibility"));
    visibility.is_some_and(|visibility| {
        let mut to = visibility.items().filter_map(RawJson::text).peekable();
        to.peek().is_some() && to.all(|to| to != "model")
    })
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{DefinitionKey, DefinitionKind, PinKey, ServerId, Timestamp};
    use test_case::test_case;

    use super::*;

    #[test_case("ui://clock/view" => true)]
    #[test_case("UI://clock" => true)]
    #[test_case("uix://clock" => false)]
    #[test_case("file:///ui://clock" => false)]
    fn pages(uri: &str) -> bool {
        is_app(uri)
    }

    fn read(meta: &str) -> String {
        format!(
            r#"{{"contents":[{{"uri":"ui://a","mimeType":"text/html;profile=mcp-app","text":"<p>","_meta":{meta}}}]}}"#
        )
    }

    #[test]
    fn a_page_is_its_digest_and_what_it_asks_for() {
        let result = read(
            r#"{"ui":{"csp":{"connectDomains":["https://a.example"],"frameDomains":[]},"permissions":{"camera":{}}}}"#,
        );
        let text = definition("ui://a", RawJson::trusted(&result)).expect("a page");
        let page = Definition::of(RawJson::trusted(&text));
        assert_eq!(
            demands(&page).as_deref(),
            Some("connectDomains: https://a.example; frameDomains: ; permissions: camera")
        );
        let other = definition("ui://a", RawJson::trusted(&result.replace("<p>", "<q>"))).expect("a page");
        assert_ne!(Definition::of(RawJson::trusted(&other)).hash, page.hash);
        let plain = definition("ui://a", RawJson::trusted(&read("{}"))).expect("a page");
        assert_eq!(demands(&Definition::of(RawJson::trusted(&plain))), None);
    }

    #[test]
    fn readers_cannot_differ_about_a_page() {
        let error = |uri: &str, result: &str| {
            definition(uri, RawJson::trusted(result)).map_err(|error| error.to_string())
        };
        assert_eq!(
            error("ui://b", &read("{}")),
            Err("the content says that it is another page".to_owned())
        );
        assert_eq!(
            error("ui://a", r#"{"contents":[]}"#),
            Err("a page has one content".to_owned())
        );
    }

    #[test_case(r#"{"ui":{"visibility":["app"]}}"# => true; "for apps")]
    #[test_case(r#"{"ui":{"visibility":["app","model"]}}"# => false; "for both")]
    #[test_case(r#"{"ui":{"visibility":[]}}"# => false; "for nobody that is named")]
    #[test_case(r#"{"ui":{}}"# => false; "nothing said")]
    fn tools_for_apps(meta: &str) -> bool {
        let server = ServerId::new("a").expect("an id");
        is_for_apps_alone(&DefinitionRecord {
            key: DefinitionKey {
                identity: PinKey {
                    server,
                    name: "a".to_owned(),
                    uid: 0,
                },
                kind: DefinitionKind::Tool,
                name: "set".to_owned(),
            },
            seen: Definition::of(RawJson::trusted(&format!(r#"{{"name":"set","_meta":{meta}}}"#))),
            pinned: None,
            approved_by: None,
            first_seen: Timestamp(0),
            last_seen: Timestamp(0),
            findings: std::sync::Arc::default(),
            hidden: false,
        })
    }
}
