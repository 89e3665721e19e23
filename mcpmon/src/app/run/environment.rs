//! Environment of an agent: the variables or arguments that direct it to the proxy.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
};

use super::{
    address, codex,
    gateways::{self, Gateway},
};

/// A variable from which clients take a provider's URL.
#[derive(Clone, Copy, Debug)]
struct Variable {
    name: &'static str,
    /// The provider's name in the configuration.
    provider: &'static str,
    /// The path that clients expect after the host.
    path: &'static str,
}

/// Variables that SDKs and agents read. Clients of those with `/v1` only add the rest of the path.
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
    // Read by aider and LiteLLM.
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

/// Hosts for which an HTTP proxy of the environment must not be used.
const NEAR: &str = "127.0.0.1,localhost";
/// Variables that list such hosts.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The environment and arguments an agent is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentStart {
    /// Variables to set.
    pub(super) variables: BTreeMap<&'static str, OsString>,
    /// The agent's arguments.
    pub(super) arguments: Vec<OsString>,
}

/// Providers in the user's own environment: the proxy connects to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedProviders {
    /// Their URLs, by name.
    pub(super) providers: BTreeMap<&'static str, String>,
    /// Providers whose URL does not end in the expected path: the client's path follows the whole URL.
    whole: BTreeSet<&'static str>,
    /// The warnings about values that cannot be used.
    pub(super) warnings: Vec<String>,
}

impl NamedProviders {
    /// Reads the providers from these variables.
    pub(super) fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut named = Self::default();
        for known in VARIABLES {
            let Some(given) = variable(known.name).filter(|given| !given.is_empty()) else {
                continue;
            };
            match address::url(known.provider, &given) {
                Ok(url) => named.add(known, &url),
                Err(unusable) => named.warnings.push(format!(
                    "{} is {:?}, {unusable}: the proxy does not speak to that but to the usual or configured `{}`",
                    known.name,
                    address::shown(&given),
                    known.provider
                )),
            }
        }
        named
    }

    fn add(&mut self, known: Variable, url: &str) {
        let expected = url.strip_suffix(known.path);
        let provider = expected.unwrap_or(url);
        match self.providers.get(known.provider) {
            Some(first) if first == provider => {}
            Some(first) => self.warnings.push(format!(
                "{} names another `{}` than a variable before it: the proxy speaks to {first}",
                known.name, known.provider
            )),
            None => {
                if expected.is_none() {
                    self.whole.insert(known.provider);
                }
                self.providers.insert(known.provider, provider.to_owned());
            }
        }
    }
}

/// The URLs at which an agent reaches models.
#[derive(Clone, Debug)]
pub(super) struct ModelRoutes {
    /// The base URL of the session at the proxy.
    pub(super) base: String,
    /// URLs of the proxy's providers, by name.
    pub(super) providers: BTreeMap<String, String>,
}

impl ModelRoutes {
    /// Returns the URL for clients of `provider`, which expect `path` after the host.
    fn url(&self, named: &NamedProviders, provider: &str, path: &str) -> Option<String> {
        let spoken_to = self.providers.get(provider)?;
        let is_whole = named.whole.contains(provider) && named.providers.get(provider) == Some(spoken_to);
        let path = if is_whole { "" } else { path };
        Some(format!("{}/{provider}{path}", self.base))
    }

    /// Returns the URL that replaces a provider's in the agent's configuration. Returns `None` if the proxy does not
    /// connect to that provider.
    fn gateway(&self, named: &NamedProviders, gateway: &Gateway) -> Option<String> {
        if gateway.url.is_empty() {
            return self.openai(named);
        }
        let mut providers = self.providers.iter();
        let (name, _) = providers.find(|(_, url)| **url == gateway.url)?;
        Some(format!("{}/{name}", self.base))
    }

    /// Returns the URL of OpenAI's models, if the proxy connects to them.
    pub(super) fn openai(&self, named: &NamedProviders) -> Option<String> {
        self.url(named, "openai", "/v1")
    }
}

/// Returns the variables and arguments with which `program` connects to the proxy.
pub(super) fn start(
    reached: &ModelRoutes,
    named: &NamedProviders,
    program: &OsStr,
    arguments: &[OsString],
    gateways: &[Gateway],
    variable: impl Fn(&str) -> Option<OsString>,
) -> AgentStart {
    let mut start = AgentStart::default();
    for known in VARIABLES {
        if let Some(url) = reached.url(named, known.provider, known.path) {
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
    let told = gateways::tell(gateways, |gateway| reached.gateway(named, gateway), variable);
    start.variables.extend(told.variables);
    let settings = match (told.codex.is_empty(), reached.openai(named)) {
        (true, Some(url)) => vec![codex::openai(&url)],
        (true, None) | (false, _) => told.codex,
    };
    start.arguments = codex::told(program, arguments.to_vec(), &settings);
    start
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

    fn reached(providers: &[&str]) -> ModelRoutes {
        let url = |name: &&str| ((*name).to_owned(), format!("https://{name}.example"));
        ModelRoutes {
            base: BASE.to_owned(),
            providers: providers.iter().map(url).collect(),
        }
    }

    fn started(program: &str, providers: &[&str]) -> AgentStart {
        let program = OsStr::new(program);
        start(
            &reached(providers),
            &NamedProviders::default(),
            program,
            &["exec".into()],
            &[],
            none,
        )
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
        let start = start(
            &reached(&ALL),
            &NamedProviders::default(),
            OsStr::new("claude"),
            &[],
            &[],
            variable,
        );
        start.variables["NO_PROXY"].to_string_lossy().into_owned()
    }

    #[test]
    fn gateways_of_the_user_stay() {
        let given = |name: &str| match name {
            "OPENAI_BASE_URL" => Some("https://gw.example/openai/v1/".into()),
            "ANTHROPIC_BASE_URL" => Some("https://gw.example/anthropic".into()),
            "OLLAMA_HOST" => Some("0.0.0.0:18100".into()),
            _ => None,
        };
        let named = NamedProviders::of(given);
        assert_eq!(named.warnings, [""; 0]);
        assert_eq!(
            named.providers.into_iter().collect::<Vec<_>>(),
            [
                ("anthropic", "https://gw.example/anthropic".to_owned()),
                ("ollama", "http://127.0.0.1:18100".to_owned()),
                ("openai", "https://gw.example/openai".to_owned())
            ]
        );
    }

    #[test_case("http://127.0.0.1:18120/foo", "http://127.0.0.1:18120/foo" => "http://127.0.0.1:7/s/token/openai"; "as the client alone")]
    #[test_case("http://127.0.0.1:18120/foo/v1", "http://127.0.0.1:18120/foo" => "http://127.0.0.1:7/s/token/openai/v1"; "one that ends as usual")]
    #[test_case("http://127.0.0.1:18120/foo", "https://gw.example" => "http://127.0.0.1:7/s/token/openai/v1"; "another is configured")]
    fn a_path_is_what_clients_would_use_alone(given: &str, spoken_to: &str) -> String {
        let named = NamedProviders::of(|name| (name == "OPENAI_BASE_URL").then(|| given.into()));
        let reached = ModelRoutes {
            base: BASE.to_owned(),
            providers: [("openai".to_owned(), spoken_to.to_owned())].into(),
        };
        let start = start(&reached, &named, OsStr::new("codex"), &[], &[], none);
        let url = start.variables["OPENAI_BASE_URL"].to_string_lossy().into_owned();
        let told = format!("openai_base_url=\"{url}\"");
        assert_eq!(start.arguments, ["-c", &told]);
        url
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let secret = concat!("hun", "ter2");
        let named = NamedProviders::of(|name| match name {
            "ANTHROPIC_BASE_URL" => Some(format!("https://me:{secret}@gw.example/a").into()),
            "OPENAI_BASE_URL" => Some("no url at all".into()),
            "OPENAI_API_BASE" => Some("".into()),
            _ => None,
        });
        assert_eq!(named.providers, BTreeMap::new());
        assert_eq!(
            named.warnings,
            [
                "ANTHROPIC_BASE_URL is \"https://***@gw.example/a\", which has a user name or password in it: the proxy does not speak to that but to the usual or configured `anthropic`",
                "OPENAI_BASE_URL is \"no url at all\", which is no URL such as http://127.0.0.1:8080/v1: the proxy does not speak to that but to the usual or configured `openai`",
            ]
        );
    }

    #[test]
    fn of_two_that_differ_the_first_counts() {
        let named = NamedProviders::of(|name| match name {
            "OPENAI_BASE_URL" => Some("https://gw.example/v1".into()),
            "OPENAI_API_BASE" => Some("https://other.example/v1".into()),
            _ => None,
        });
        assert_eq!(
            named.providers,
            [("openai", "https://gw.example".to_owned())].into()
        );
        assert_eq!(
            named.warnings,
            [
                "OPENAI_API_BASE names another `openai` than a variable before it: the proxy speaks to https://gw.example"
            ]
        );
    }
}
