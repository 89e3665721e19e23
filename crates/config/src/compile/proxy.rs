//! Compilation of the `proxy` section: the address of the LLM proxy, and its providers.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use mcpmon_policy::{ProxyMode, RemoteHost};

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
    settings::{ProviderSettings, ProxySettings},
};

/// Longest name of a provider: it is part of every URL.
const MAX_NAME: usize = 32;
/// Names with which paths at providers, or of sessions, begin, so that no provider may have them.
const TAKEN: [&str; 6] = ["api", "mcp", "s", "v1", "v1alpha", "v1beta"];

/// Compiles the `proxy` section. Returns `None` if the proxy is disabled; mistakes are reported nevertheless.
pub(super) fn compile(raw: &raw::Proxy, mistakes: &mut Vec<KeyMistake>) -> Option<ProxySettings> {
    let section = KeyPath::root().key("proxy");
    let mut file = |key, given: &str| {
        let path = Some(PathBuf::from(given)).filter(|path| !path.as_os_str().is_empty());
        if path.as_ref().is_some_and(|path| path.is_relative()) {
            let message = "expected an absolute path: a daemon has no working directory to speak of";
            mistakes.push(KeyMistake::new(section.key(key), message));
        }
        path
    };
    let token_file = file("token_file", &raw.token_file);
    let listen_unix = file("listen_unix", &raw.listen_unix);
    let listen = raw.listen.0;
    if !listen.ip().to_canonical().is_loopback() && token_file.is_none() {
        let message = format!(
            "`{listen}` is no loopback address, and whoever reaches it could use it: name a file with a token in `token_file`"
        );
        mistakes.push(KeyMistake::new(section.key("listen"), message));
    }
    let providers = providers(raw, &section.key("providers"), mistakes);
    (raw.mode != ProxyMode::Disabled).then_some(ProxySettings {
        listen,
        listen_unix,
        token_file,
        providers,
        bodies: None,
    })
}

/// Compiles the configured providers, in addition to the default ones; an empty URL removes a default.
fn providers(raw: &raw::Proxy, section: &KeyPath, mistakes: &mut Vec<KeyMistake>) -> Vec<ProviderSettings> {
    let urls = urls(raw);
    let mut providers = Vec::with_capacity(urls.len());
    for (name, url) in urls {
        let mistake = name_mistake(&name).or_else(|| url_mistake(&url, raw.listen.0));
        match mistake {
            Some(message) => mistakes.push(KeyMistake::new(section.key(&name), message)),
            None => providers.push(ProviderSettings {
                url: url.trim_end_matches('/').to_owned(),
                name,
            }),
        }
    }
    providers
}

/// Returns the URLs by provider, including invalid ones.
pub(super) fn urls(raw: &raw::Proxy) -> BTreeMap<String, String> {
    let mut urls = raw::Proxy::default().providers;
    urls.extend(raw.providers.clone());
    urls.retain(|_, url| !url.is_empty());
    urls
}

fn name_mistake(name: &str) -> Option<String> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) || name.starts_with('.') {
        return Some(format!(
            "`{name}` cannot be the first part of a path: expected at most {MAX_NAME} of a-z, 0-9, `-`, `_` and `.`"
        ));
    }
    TAKEN
        .contains(&name)
        .then(|| format!("`{name}` begins paths of providers: choose another name"))
}

fn url_mistake(url: &str, listen: SocketAddr) -> Option<String> {
    let parsed = match url.parse::<raw::HttpUrl>() {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.to_string()),
    };
    if url.contains(['?', '#']) {
        return Some("a provider's URL has no query and no fragment: paths are added to it".to_owned());
    }
    let is_near = match parsed.host() {
        RemoteHost::Name(name) => is_local_name(&name.to_string()),
        RemoteHost::Address(address) => is_near(*address),
    };
    let is_plain = !url.trim_start().to_ascii_lowercase().starts_with("https:");
    if is_plain && !is_near {
        return Some(format!(
            "keys and prompts would travel in clear: expected `https`, or an address of this host or a private network, not `{url}`"
        ));
    }
    let is_own = match parsed.host() {
        RemoteHost::Name(name) => is_local_name(&name.to_string()) && listen.ip().is_loopback(),
        RemoteHost::Address(address) => *address == listen.ip().to_canonical(),
    };
    (is_own && parsed.port() == listen.port())
        .then(|| format!("that is `proxy.listen` ({listen}): the proxy would speak to itself"))
}

fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether the address belongs to this host, or to a private network.
const fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn compiled(text: &str) -> (Option<ProxySettings>, Vec<String>) {
        let raw: raw::Proxy = serde_json::from_str(text).expect("a proxy section");
        let mut mistakes = Vec::new();
        let settings = compile(&raw, &mut mistakes);
        (
            settings,
            mistakes.into_iter().map(|finding| finding.message).collect(),
        )
    }

    fn mistake(text: &str) -> String {
        compiled(text).1.join("\n")
    }

    #[test]
    fn the_usual_providers_stay_beside_those_that_are_named() {
        let (settings, mistakes) = compiled(
            r#"{"providers": {"ollama": "", "openai": "https://gw.example.com/openai/", "lan": "http://10.0.0.7:8000"}}"#,
        );
        assert_eq!(mistakes, [""; 0]);
        let providers = settings.expect("not disabled").providers;
        let urls: Vec<_> = providers
            .iter()
            .map(|provider| (provider.name.as_str(), provider.url.as_str()))
            .collect();
        assert_eq!(
            urls,
            [
                ("anthropic", "https://api.anthropic.com"),
                ("gemini", "https://generativelanguage.googleapis.com"),
                ("lan", "http://10.0.0.7:8000"),
                ("openai", "https://gw.example.com/openai"),
            ]
        );
    }

    #[test]
    fn disabled_is_nothing_but_its_mistakes_are_told() {
        assert_eq!(compiled(r#"{"mode": "disabled"}"#), (None, Vec::new()));
        let (settings, mistakes) = compiled(r#"{"mode": "disabled", "token_file": "token"}"#);
        assert_eq!((settings, mistakes.len()), (None, 1));
    }

    #[test_case(r#"{"listen": "0.0.0.0:8484"}"# => "`0.0.0.0:8484` is no loopback address, and whoever reaches it could use it: name a file with a token in `token_file`"; "open to others")]
    #[test_case(r#"{"listen": "[::ffff:127.0.0.1]:1"}"# => ""; "loopback in another form")]
    #[test_case(r#"{"listen": "0.0.0.0:8484", "token_file": "/etc/mcpmon/token"}"# => ""; "with a token")]
    #[test_case(r#"{"listen_unix": "proxy.sock"}"# => "expected an absolute path: a daemon has no working directory to speak of"; "a relative socket")]
    #[test_case(r#"{"providers": {"v1": "https://a.example"}}"# => "`v1` begins paths of providers: choose another name"; "a name that is taken")]
    #[test_case(r#"{"providers": {"A b": "https://a.example"}}"# => "`A b` cannot be the first part of a path: expected at most 32 of a-z, 0-9, `-`, `_` and `.`"; "a name that is no part of a path")]
    #[test_case(r#"{"providers": {"a": "a.example"}}"# => "`a.example` is no URL: did you mean `https://a.example`?"; "no URL")]
    #[test_case(r#"{"providers": {"a": "http://a.example"}}"# => "keys and prompts would travel in clear: expected `https`, or an address of this host or a private network, not `http://a.example`"; "in clear")]
    #[test_case(r#"{"providers": {"a": "https://a.example/?x=1"}}"# => "a provider's URL has no query and no fragment: paths are added to it"; "a query")]
    #[test_case(r#"{"providers": {"a": "http://localhost:8484/v1"}}"# => "that is `proxy.listen` (127.0.0.1:8484): the proxy would speak to itself"; "itself by name")]
    #[test_case(r#"{"providers": {"a": "http://127.0.0.1:8484"}}"# => "that is `proxy.listen` (127.0.0.1:8484): the proxy would speak to itself"; "itself by address")]
    fn mistakes(text: &str) -> String {
        mistake(text)
    }
}
