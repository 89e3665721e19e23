//! Codex: its provider is set in its configuration, in a profile of that, or by arguments.

use std::{ffi::OsString, path::PathBuf};

use toml::{Table, Value};

use super::{AddressChannel, AgentCircumstances, Gateway, GatewayError, read};
use crate::app::run::codex::place;

const AGENT: &str = "Codex";
/// The host's configuration, which the user's overrides.
const HOST: &str = "/etc/codex/config.toml";
/// The provider it uses by default.
const USUAL: &str = "openai";
/// The setting for the URL of that provider.
const USUAL_URL: &str = "openai_base_url";
/// Providers on this host that it knows without configuration, with their ports.
const LOCAL: [(&str, u16); 3] = [("oss", 11434), ("ollama", 11434), ("lmstudio", 1234)];
/// The variables for the URL of those, and for the port only.
const LOCAL_URL: &str = "CODEX_OSS_BASE_URL";
const LOCAL_PORT: &str = "CODEX_OSS_PORT";
/// Providers that are reached without a URL.
const WITHOUT_URL: [&str; 1] = ["amazon-bedrock"];

/// Returns the provider that Codex uses, if it is not the default one at its default URL. Returns `None` for other
/// programs too.
pub(super) fn gateway<V: Fn(&str) -> Option<OsString>>(
    started: &AgentCircumstances<'_, V>,
) -> Result<Option<Gateway>, GatewayError> {
    let Some(place) = place(started.program, started.arguments) else {
        return Ok(None);
    };
    let words = CodexSettings::of(&started.arguments[place..]);
    let configuration = configuration(started, &words)?;
    let text = |name: &str| configuration.get(name).and_then(Value::as_str);
    let id = match (text("model_provider"), words.is_local) {
        (_, true) => words
            .local
            .as_deref()
            .or_else(|| text("oss_provider"))
            .unwrap_or("ollama"),
        (named, false) => named.unwrap_or(USUAL),
    };
    let of_provider = configuration
        .get("model_providers")
        .and_then(|providers| providers.get(id)?.get("base_url")?.as_str());
    if let (Some((_, port)), None) = (LOCAL.iter().find(|(local, _)| *local == id), of_provider) {
        let url = local_url(started, *port);
        let told = AddressChannel::Variable(LOCAL_URL);
        return Gateway::new(AGENT, LOCAL_URL.to_owned(), id, &url, told).map(Some);
    }
    if WITHOUT_URL.contains(&id) || id.contains(['.', '"', '=']) {
        return Err(GatewayError::NoUrl {
            agent: AGENT,
            setting: "model_provider".to_owned(),
            provider: id.to_owned(),
        });
    }
    let (setting, url) = match id {
        USUAL => (USUAL_URL.to_owned(), text(USUAL_URL)),
        _ => (format!("model_providers.{id}.base_url"), of_provider),
    };
    let Some(url) = url else {
        return Ok((id != USUAL).then(|| Gateway::usual(setting)));
    };
    let told = AddressChannel::CodexSetting(setting.clone());
    Gateway::new(AGENT, setting, id, url, told).map(Some)
}

impl Gateway {
    /// Makes the gateway of a provider without a URL: Codex then uses OpenAI's.
    fn usual(setting: String) -> Self {
        Self {
            name: USUAL.to_owned(),
            url: String::new(),
            told: AddressChannel::CodexSetting(setting),
        }
    }
}

/// Returns the URL of models on this host.
fn local_url<V: Fn(&str) -> Option<OsString>>(started: &AgentCircumstances<'_, V>, port: u16) -> String {
    let given = |name: &str| {
        let value = (started.variable)(name)?.into_string().ok()?;
        (!value.is_empty()).then_some(value)
    };
    let port = given(LOCAL_PORT).unwrap_or_else(|| port.to_string());
    given(LOCAL_URL).unwrap_or_else(|| format!("http://localhost:{port}/v1"))
}

/// Returns its merged configuration; later parts override earlier ones.
fn configuration<V: Fn(&str) -> Option<OsString>>(
    started: &AgentCircumstances<'_, V>,
    words: &CodexSettings,
) -> Result<Table, GatewayError> {
    let home = started.path("CODEX_HOME");
    let home = home.or_else(|| Some(started.home()?.join(".codex")));
    let mut whole = table(HOST.into())?;
    if let Some(home) = &home {
        lay_over(&mut whole, table(home.join("config.toml"))?);
    }
    let named = whole.get("profile").and_then(Value::as_str).map(str::to_owned);
    if let Some(profile) = words.profile.clone().or(named) {
        let own = whole
            .get("profiles")
            .and_then(|profiles| profiles.get(&profile)?.as_table());
        let own = own.cloned().unwrap_or_default();
        lay_over(&mut whole, own);
        let is_name = !profile.contains('/');
        if let Some(home) = home.filter(|_| is_name) {
            lay_over(&mut whole, table(home.join(format!("{profile}.config.toml")))?);
        }
    }
    for (key, value) in &words.settings {
        set(&mut whole, key, value.clone());
    }
    Ok(whole)
}

fn table(path: PathBuf) -> Result<Table, GatewayError> {
    let Some(text) = read(AGENT, &path)? else {
        return Ok(Table::new());
    };
    text.parse()
        .map_err(|error: toml::de::Error| GatewayError::Unreadable {
            agent: AGENT,
            cause: error.message().to_owned(),
            path,
        })
}

/// Merges a table into another one, and overrides its values.
fn lay_over(under: &mut Table, over: Table) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(Value::Table(under)), Value::Table(over)) => lay_over(under, over),
            (_, value) => drop(under.insert(name, value)),
        }
    }
}

/// Sets a value by its dotted key.
fn set(table: &mut Table, key: &str, value: Value) {
    let (parents, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut table = table;
    for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
        let entry = table.entry(parent).or_insert_with(|| Value::Table(Table::new()));
        if !entry.is_table() {
            *entry = Value::Table(Table::new());
        }
        let Value::Table(inner) = entry else { return };
        table = inner;
    }
    drop(table.insert(name.to_owned(), value));
}

/// The settings in its arguments.
#[derive(Debug, Default)]
struct CodexSettings {
    settings: Vec<(String, Value)>,
    profile: Option<String>,
    is_local: bool,
    local: Option<String>,
}

impl CodexSettings {
    fn of(arguments: &[OsString]) -> Self {
        let mut words = Self::default();
        let mut rest = arguments.iter().map_while(|word| word.to_str());
        while let Some(word) = rest.next().filter(|word| *word != "--") {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => attached(word),
            };
            let mut given = || value.or_else(|| rest.next()).unwrap_or_default();
            match option {
                "-c" | "--config" => words.settings.extend(setting(given())),
                "-p" | "--profile" => words.profile = Some(given().to_owned()),
                "--local-provider" => words.local = Some(given().to_owned()),
                "--oss" => words.is_local = true,
                _ => {}
            }
        }
        words
    }
}

/// Splits a short option from an attached value: `-cKEY=VALUE`, `-pPROFILE`.
fn attached(word: &str) -> (&str, Option<&str>) {
    let short = ["-c", "-p"].into_iter().find(|short| word.starts_with(short));
    match short.map(|short| word.split_at(short.len())) {
        Some((option, value)) if !value.is_empty() => (option, Some(value)),
        Some(_) | None => (word, None),
    }
}

/// Parses a setting `KEY=VALUE`. A value that is not TOML counts as a string.
fn setting(text: &str) -> Option<(String, Value)> {
    let (key, value) = text.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = format!("value = {value}").parse::<Table>().ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    let as_text = || Value::String(value.trim_matches(['"', '\'']).to_owned());
    Some((key.to_owned(), parsed.unwrap_or_else(as_text)))
}
