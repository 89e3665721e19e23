//! How an agent learns that its models are reached through the proxy: by variables, or by words of its command.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use super::codex;

/// A variable by which clients find a provider.
#[derive(Clone, Copy, Debug)]
struct Variable {
    name: &'static str,
    /// The provider's name in the configuration.
    provider: &'static str,
    /// What clients expect behind the host.
    path: &'static str,
}

/// Variables that SDKs and agents read. Those with `/v1` are for clients that add the rest of the path only.
const VARIABLES: [Variable; 5] = [
    Variable {
        name: "ANTHROPIC_BASE_URL",
        provider: "anthropic",
        path: "",
    },
    Variable {
        name: "OPENAI_BASE_URL",
        provider: "openai",
        path: "/v1",
    },
    // aider and LiteLLM.
    Variable {
        name: "OPENAI_API_BASE",
        provider: "openai",
        path: "/v1",
    },
    Variable {
        name: "GOOGLE_GEMINI_BASE_URL",
        provider: "gemini",
        path: "",
    },
    Variable {
        name: "OLLAMA_HOST",
        provider: "ollama",
        path: "",
    },
];

/// Hosts that a proxy of the environment must not stand in front of.
const NEAR: &str = "127.0.0.1,localhost";
/// Variables that name such hosts.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// What an agent is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Variables to set.
    pub(super) variables: BTreeMap<&'static str, OsString>,
    /// Its arguments.
    pub(super) arguments: Vec<OsString>,
}

/// Providers that the user's own environment names: they stay what is spoken to, behind the proxy.
pub(super) fn providers_of(variable: impl Fn(&str) -> Option<OsString>) -> BTreeMap<&'static str, String> {
    let mut providers = BTreeMap::new();
    for known in VARIABLES {
        let Some(url) = variable(known.name).and_then(|url| url.into_string().ok()) else {
            continue;
        };
        let url = url.trim_end_matches('/');
        let url = url.strip_suffix(known.path).unwrap_or(url);
        // Ollama's need not be a URL.
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        if is_url {
            providers.entry(known.provider).or_insert_with(|| url.to_owned());
        }
    }
    providers
}

/// How `program` is started so that it speaks to the proxy at `base`, which has these providers.
pub(super) fn start(
    base: &str,
    providers: &[&str],
    program: &OsStr,
    arguments: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Start {
    let mut start = Start::default();
    for known in VARIABLES {
        if providers.contains(&known.provider) {
            let url = format!("{base}/{}{}", known.provider, known.path);
            start.variables.insert(known.name, url.into());
        }
    }
    for name in NO_PROXY {
        let hosts = match variable(name) {
            Some(given) if !given.is_empty() => {
                let mut hosts = given;
                hosts.push(",");
                hosts.push(NEAR);
                hosts
            }
            _ => NEAR.into(),
        };
        start.variables.insert(name, hosts);
    }
    start.arguments = match openai(base, providers) {
        Some(url) => codex::told(program, arguments.to_vec(), &url),
        None => arguments.to_vec(),
    };
    start
}

/// Where OpenAI's models are behind the proxy at `base`, if they are.
pub(super) fn openai(base: &str, providers: &[&str]) -> Option<String> {
    providers.contains(&"openai").then(|| format!("{base}/openai/v1"))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const BASE: &str = "http://127.0.0.1:7/s/token";
    const ALL: [&str; 4] = ["anthropic", "gemini", "ollama", "openai"];

    fn none(_: &str) -> Option<OsString> {
        None
    }

    fn started(program: &str, providers: &[&str]) -> Start {
        start(BASE, providers, OsStr::new(program), &["exec".into()], none)
    }

    #[test]
    fn every_provider_has_its_variables() {
        let start = started("claude", &ALL);
        let of = |name| start.variables.get(name).and_then(|value| value.to_str());
        assert_eq!(
            of("ANTHROPIC_BASE_URL"),
            Some("http://127.0.0.1:7/s/token/anthropic")
        );
        assert_eq!(
            of("OPENAI_BASE_URL"),
            Some("http://127.0.0.1:7/s/token/openai/v1")
        );
        assert_eq!(of("OPENAI_API_BASE"), of("OPENAI_BASE_URL"));
        assert_eq!(
            of("GOOGLE_GEMINI_BASE_URL"),
            Some("http://127.0.0.1:7/s/token/gemini")
        );
        assert_eq!(of("OLLAMA_HOST"), Some("http://127.0.0.1:7/s/token/ollama"));
        assert_eq!(start.arguments, ["exec"]);
    }

    #[test]
    fn a_provider_that_is_not_there_has_none() {
        let start = started("codex", &["anthropic"]);
        assert!(!start.variables.contains_key("OPENAI_BASE_URL"));
        assert_eq!(start.arguments, ["exec"]);
    }

    #[test]
    fn codex_is_told_by_its_command() {
        let url = "openai_base_url=\"http://127.0.0.1:7/s/token/openai/v1\"";
        assert_eq!(started("codex", &ALL).arguments, ["-c", url, "exec"]);
    }

    #[test_case(None => "127.0.0.1,localhost")]
    #[test_case(Some("") => "127.0.0.1,localhost"; "empty")]
    #[test_case(Some("corp.example") => "corp.example,127.0.0.1,localhost"; "more of them")]
    fn no_other_proxy_comes_in_between(given: Option<&str>) -> String {
        let variable = |_: &str| given.map(OsString::from);
        let start = start(BASE, &ALL, OsStr::new("claude"), &[], variable);
        start.variables["NO_PROXY"].to_string_lossy().into_owned()
    }

    #[test]
    fn gateways_of_the_user_stay() {
        let given = |name: &str| match name {
            "OPENAI_BASE_URL" => Some("https://gw.example/openai/v1/".into()),
            "ANTHROPIC_BASE_URL" => Some("https://gw.example/anthropic".into()),
            "OLLAMA_HOST" => Some("0.0.0.0:11434".into()),
            _ => None,
        };
        let providers = providers_of(given);
        assert_eq!(
            providers.into_iter().collect::<Vec<_>>(),
            [
                ("anthropic", "https://gw.example/anthropic".to_owned()),
                ("openai", "https://gw.example/openai".to_owned())
            ]
        );
    }
}
