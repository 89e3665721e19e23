//! Configurations of agents, in files and variables, and the gateways that are read from them.

use std::fs;

use test_case::test_case;

use super::*;

/// A user's directory.
struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        for (name, text) in files {
            let path = home.0.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        }
        home
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        match name {
            "HOME" => Some(self.0.path().into()),
            "CORP" => Some("https://corp.example".into()),
            "OPENCODE_CONFIG_CONTENT" => {
                let content = self.0.path().join("content");
                fs::read_to_string(content).ok().map(Into::into)
            }
            _ => None,
        }
    }

    fn gateways(&self, line: &str) -> Result<Vec<Gateway>, GatewayError> {
        let mut words = line.split(' ').map(OsString::from);
        let program = words.next().expect("a program");
        let arguments: Vec<OsString> = words.collect();
        let directory = self.0.path().join("work/below");
        let started = AgentCircumstances {
            program: &program,
            arguments: &arguments,
            variable: |name: &str| self.variable(name),
            directory: &directory,
        };
        started.gateways()
    }

    /// Returns the redirection of an agent, with each provider at `P/NAME`.
    fn told(&self, line: &str) -> Tellings {
        let gateways = self.gateways(line).expect("it can be followed");
        let url = |gateway: &Gateway| Some(format!("P/{}", gateway.name));
        tell(&gateways, url, |name| self.variable(name))
    }
}

const CODEX: &str = r#"
model_provider = "corp"
[model_providers.corp]
name = "Corp"
base_url = "https://corp.example/v1/"
[model_providers.other]
base_url = "https://other.example"
[model_providers.bare]
name = "Bare"
[profiles.work]
model_provider = "other"
[profiles.plain]
model_provider = "openai"
"#;

#[test_case("codex exec hi" => vec![("agent-corp".to_owned(), "https://corp.example/v1".to_owned(), "model_providers.corp.base_url=\"P/agent-corp\"".to_owned())]; "its configuration")]
#[test_case("npx -y @openai/codex exec" => vec![("agent-corp".to_owned(), "https://corp.example/v1".to_owned(), "model_providers.corp.base_url=\"P/agent-corp\"".to_owned())]; "its package")]
#[test_case("codex -p work" => vec![("agent-other".to_owned(), "https://other.example".to_owned(), "model_providers.other.base_url=\"P/agent-other\"".to_owned())]; "a profile")]
#[test_case("codex --profile=work" => vec![("agent-other".to_owned(), "https://other.example".to_owned(), "model_providers.other.base_url=\"P/agent-other\"".to_owned())]; "a profile in one word")]
#[test_case("codex -c model_provider=other" => vec![("agent-other".to_owned(), "https://other.example".to_owned(), "model_providers.other.base_url=\"P/agent-other\"".to_owned())]; "a word of its command")]
#[test_case("codex -c model_providers.corp.base_url=\"https://new.example\"" => vec![("agent-corp".to_owned(), "https://new.example".to_owned(), "model_providers.corp.base_url=\"P/agent-corp\"".to_owned())]; "another URL in its command")]
#[test_case("codex -p plain -c openai_base_url=\"https://gw.example/v1\"" => vec![("agent-openai".to_owned(), "https://gw.example/v1".to_owned(), "openai_base_url=\"P/agent-openai\"".to_owned())]; "another place for the usual one")]
#[test_case("codex -c model_provider=bare" => vec![("openai".to_owned(), String::new(), "model_providers.bare.base_url=\"P/openai\"".to_owned())]; "one that names no URL")]
#[test_case("codex -p plain exec" => Vec::<(String, String, String)>::new(); "the usual one")]
#[test_case("codex exec -p plain -- -p work" => Vec::<(String, String, String)>::new(); "a prompt says nothing")]
#[test_case("other exec" => Vec::<(String, String, String)>::new(); "another program")]
fn codex(line: &str) -> Vec<(String, String, String)> {
    let home = Home::new(&[(".codex/config.toml", CODEX)]);
    let gateways = home.gateways(line).expect("it can be followed");
    let told = home.told(line);
    assert_eq!(told.variables.len(), 0);
    let gateways = gateways.into_iter().zip(told.codex);
    gateways
        .map(|(gateway, told)| (gateway.name, gateway.url, told))
        .collect()
}

#[test]
fn codex_is_told_by_a_variable_of_models_on_this_host() {
    let home = Home::new(&[]);
    for (line, url) in [
        ("codex --oss", "http://localhost:11434/v1"),
        (
            "codex --oss --local-provider lmstudio",
            "http://localhost:1234/v1",
        ),
        ("codex -c model_provider=ollama", "http://localhost:11434/v1"),
    ] {
        assert_eq!(home.gateways(line).expect("one")[0].url, url);
        let told = home.told(line);
        assert_eq!(told.codex, [""; 0]);
        let variables: Vec<_> = told.variables.keys().copied().collect();
        assert_eq!(variables, ["CODEX_OSS_BASE_URL"], "{line}");
    }
}

#[test]
fn codex_without_configuration_asks_the_usual_one() {
    assert_eq!(Home::new(&[]).gateways("codex exec").expect("none is needed"), []);
}

#[test_case("model_provider = \"amazon-bedrock\"", "Codex asks \"amazon-bedrock\" (`model_provider`), which has no URL that could be another"; "no URL")]
#[test_case("openai_base_url = \"https://me:secret-word@gw.example\"", "Codex finds its models at \"https://***@gw.example\" (`openai_base_url`), which has a user name or password in it"; "a password")]
#[test_case("openai_base_url = \"gw.example\"", "(`openai_base_url`), which is no URL such as"; "no scheme")]
#[test_case("model_provider = ", "config.toml, which says where Codex finds its models: "; "no TOML")]
fn codex_does_not_start_where_its_models_would_pass_by(configuration: &str, expected: &str) {
    let home = Home::new(&[(".codex/config.toml", configuration)]);
    let error = home.gateways("codex").expect_err("it would pass by").to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("secret-word"));
}

const OPENCODE: &str = r#"{
  // where the company's models are
  "provider": {
    "corp": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "{env:CORP}/v1", "apiKey": "k"}},
    "anthropic": {"options": {"timeout": 1}},
  },
}"#;

#[test_case("opencode run hi"; "itself")]
#[test_case("npx -y opencode-ai@1.18.33 run hi"; "its package")]
fn opencode(line: &str) {
    let home = Home::new(&[
        (".config/opencode/opencode.jsonc", OPENCODE),
        (
            "work/opencode.json",
            r#"{"provider": {"corp": {"options": {"baseURL": "https://work.example"}}}}"#,
        ),
        ("work/below/.keep", ""),
    ]);
    let gateways = home.gateways(line).expect("it can be followed");
    let known: Vec<_> = gateways
        .iter()
        .map(|gateway| (&*gateway.name, &*gateway.url))
        .collect();
    assert_eq!(
        known,
        [("agent-corp", "https://work.example")],
        "the project's counts"
    );
    let told = home.told(line);
    assert_eq!(
        told.variables[super::opencode::CONTENT],
        r#"{"provider":{"corp":{"options":{"baseURL":"P/agent-corp"}}}}"#
    );
}

#[test]
fn what_opencode_is_told_stands_beside_what_it_was_told_before() {
    let content = r#"{"model": "corp/m", "provider": {"corp": {"options": {"apiKey": "k", "baseURL": "https://a.example"}}}}"#;
    let home = Home::new(&[
        (".config/opencode/opencode.jsonc", OPENCODE),
        ("content", content),
    ]);
    let gateways = home.gateways("opencode").expect("it can be followed");
    assert_eq!(gateways[0].url, "https://a.example");
    let told = home.told("opencode");
    assert_eq!(
        told.variables[super::opencode::CONTENT],
        r#"{"model":"corp/m","provider":{"corp":{"options":{"apiKey":"k","baseURL":"P/agent-corp"}}}}"#
    );
}

#[test]
fn opencode_that_names_no_url_is_told_nothing() {
    let home = Home::new(&[(
        "work/opencode.json",
        r#"{"provider": {"anthropic": {"options": {}}}}"#,
    )]);
    assert_eq!(home.told("opencode"), Tellings::default());
    let home = Home::new(&[(".config/opencode/opencode.jsonc", OPENCODE)]);
    assert_eq!(home.told("claude"), Tellings::default());
}

#[test]
fn opencode_does_not_start_where_its_models_would_pass_by() {
    let home = Home::new(&[(
        "work/opencode.json",
        r#"{"provider": {"x": {"options": {"baseURL": "{file:url}"}}}}"#,
    )]);
    let error = home
        .gateways("opencode")
        .expect_err("it would pass by")
        .to_string();
    assert!(error.contains("provider.x.options.baseURL"), "{error}");
    let home = Home::new(&[("work/opencode.json", "{")]);
    let error = home.gateways("opencode").expect_err("nobody knows").to_string();
    assert!(
        error.contains("work/opencode.json, which says where opencode finds its models"),
        "{error}"
    );
}

#[test_case("corp" => "agent-corp")]
#[test_case("My Corp/EU" => "agent-my-corp-eu")]
#[test_case("x".repeat(99).as_str() => format!("agent-{}", "x".repeat(26)))]
fn names_are_parts_of_a_path(id: &str) -> String {
    name(id)
}
