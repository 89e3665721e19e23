//! opencode: the URL of each provider is set in files of several directories, and in a variable that overrides them
//! all.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{AddressChannel, AgentCircumstances, Gateway, GatewayError, read};

const AGENT: &str = "opencode";
/// The package of the program.
const PACKAGE: &str = "opencode-ai";
/// Launchers that name the package in their arguments.
const LAUNCHERS: [&str; 4] = ["bunx", "npx", "pnpm", "pnpx"];
/// The variable whose configuration overrides all files.
pub(super) const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";
/// The names of its files in a directory; later ones override earlier ones.
const FILES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// The former name of the file in the user's directory.
const OLD_FILE: &str = "config.json";

/// Returns the providers with a URL in its configuration; none for other programs.
pub(super) fn gateways<V: Fn(&str) -> Option<OsString>>(
    started: &AgentCircumstances<'_, V>,
) -> Result<Vec<Gateway>, GatewayError> {
    if !is_started(started.program, started.arguments) {
        return Ok(Vec::new());
    }
    let mut whole = Value::Null;
    for path in files(started) {
        if let Some(text) = read(AGENT, &path)? {
            let unreadable = |cause| GatewayError::Unreadable {
                agent: AGENT,
                path: path.clone(),
                cause,
            };
            lay_over(&mut whole, parsed(&text).map_err(unreadable)?);
        }
    }
    if let Some(content) = (started.variable)(CONTENT).and_then(|content| content.into_string().ok())
        && !content.trim().is_empty()
    {
        let unreadable = |cause| GatewayError::Unreadable {
            agent: AGENT,
            path: CONTENT.into(),
            cause,
        };
        lay_over(&mut whole, parsed(&content).map_err(unreadable)?);
    }
    let providers = whole.get("provider").and_then(Value::as_object);
    let mut gateways = Vec::new();
    for (id, provider) in providers.into_iter().flatten() {
        let options = provider.get("options");
        let url = options
            .and_then(|options| options.get("baseURL"))
            .and_then(Value::as_str);
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let setting = format!("provider.{id}.options.baseURL");
            let url = substituted(url, &started.variable);
            let told = AddressChannel::Opencode(id.clone());
            gateways.push(Gateway::new(AGENT, setting, id, &url, told)?);
        }
    }
    Ok(gateways)
}

/// Returns the value for the variable: what it has already, overridden by these URLs of providers.
pub(super) fn content(given: Option<OsString>, urls: &[(&str, String)]) -> String {
    let given = given.and_then(|given| given.into_string().ok());
    let mut content = given
        .and_then(|given| parsed(&given).ok())
        .unwrap_or_else(|| json!({}));
    for (provider, url) in urls {
        let over = json!({"provider": {*provider: {"options": {"baseURL": url}}}});
        lay_over(&mut content, over);
    }
    content.to_string()
}

fn is_started(program: &OsStr, arguments: &[OsString]) -> bool {
    let Some(name) = Path::new(program).file_stem().and_then(OsStr::to_str) else {
        return false;
    };
    let is_package = |word: &OsString| {
        let rest = word.to_str().and_then(|word| word.strip_prefix(PACKAGE));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
    };
    name == AGENT || LAUNCHERS.contains(&name) && arguments.iter().any(is_package)
}

/// Returns the paths of its possible files; later ones override earlier ones.
fn files<V: Fn(&str) -> Option<OsString>>(started: &AgentCircumstances<'_, V>) -> Vec<PathBuf> {
    let configuration = started.path("XDG_CONFIG_HOME");
    let configuration = configuration.or_else(|| Some(started.home()?.join(".config")));
    let configuration: Vec<PathBuf> = configuration.into_iter().map(|path| path.join(AGENT)).collect();
    let mut files: Vec<PathBuf> = configuration.iter().map(|path| path.join(OLD_FILE)).collect();
    files.extend(in_each(&configuration));
    files.extend(started.path("OPENCODE_CONFIG"));
    let mut directories: Vec<PathBuf> = started.directory.ancestors().map(Path::to_owned).collect();
    directories.reverse();
    files.extend(in_each(&directories));
    let mut own: Vec<PathBuf> = directories.iter().map(|path| path.join(".opencode")).collect();
    own.extend(started.home().map(|home| home.join(".opencode")));
    own.extend(started.path("OPENCODE_CONFIG_DIR"));
    files.extend(in_each(&own));
    files
}

fn in_each(directories: &[PathBuf]) -> Vec<PathBuf> {
    let files = directories.iter();
    files
        .flat_map(|directory| FILES.map(|name| directory.join(name)))
        .collect()
}

fn parsed(text: &str) -> Result<Value, String> {
    let plain = mcpmon_clients::without_comments(text.as_bytes())?;
    serde_json::from_slice(&plain).map_err(|error| error.to_string())
}

/// Merges a value into another one, and overrides its members.
fn lay_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                lay_over(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under @ Value::Null, Value::Object(over)) => {
            *under = Value::Object(Map::new());
            lay_over(under, Value::Object(over));
        }
        (under, over) => *under = over,
    }
}

/// Replaces `{env:NAME}` in a text by the variable.
fn substituted(text: &str, variable: impl Fn(&str) -> Option<OsString>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{env:") {
        let Some((name, after)) = behind.split_once('}') else {
            break;
        };
        out.push_str(before);
        let value = variable(name.trim()).and_then(|value| value.into_string().ok());
        out.push_str(&value.unwrap_or_default());
        rest = after;
    }
    out + rest
}
