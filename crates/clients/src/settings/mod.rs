//! Settings of clients other than their servers: hooks that call mcpmon, and the addresses of models, set to mcpmon's
//! proxy.
//!
//! Each setting is one value, which is inserted after an opening bracket or as a line of its own, and can be removed
//! again; nothing else in the file changes. `json` and `lines` derive the change of a text, `plan` that of a file, and
//! `run` does the input and output.

mod json;
mod lines;
mod plan;
#[expect(clippy::disallowed_methods, reason = "I/O")]
mod run;
mod switches;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "I/O")]
mod tests;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]
mod version;

use serde::{Deserialize, Serialize};

pub(crate) use self::plan::RecordedSetting;
pub use self::{
    plan::{PlannedSetting, SettingOutcome},
    run::{SettingReport, SettingWish, run_settings, shown_digests},
    switches::{ThrownSwitch, thrown_switches},
    version::{installed_version, is_older},
};

/// The kind of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingKind {
    /// The client calls `mcpmon hook` before it runs one of its own tools.
    Hook,
    /// The client reaches its models through mcpmon's proxy.
    Model,
}

/// The syntax of a file with settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingFormat {
    /// RFC 8259.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    /// TOML; a key at the top of the file is set.
    Toml,
    /// Lines `NAME=value`.
    Env,
}

/// The hooks of a client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientHooks {
    /// The file, with a prefix that says in which directory it is.
    pub path: String,
    /// Its syntax.
    pub format: SettingFormat,
    /// The client's name for `mcpmon hook`.
    pub name: String,
    /// The events, of which each has a list of hooks.
    pub events: Vec<String>,
    /// The pattern of tools to which a hook applies; without one, an entry is the hook itself.
    pub matcher: Option<String>,
    /// The version number at the beginning of a new file.
    pub version: Option<u32>,
    /// The first version of the client with these hooks.
    pub since: String,
    /// The npm package with the client.
    pub package: Option<String>,
    /// Members of files that turn hooks off.
    #[serde(default)]
    pub switches: Vec<HookSwitch>,
    /// A limitation that users have to know.
    pub note: Option<String>,
}

/// A member at the root of a JSON file that turns hooks off if it is true.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSwitch {
    /// The file, with a prefix that says in which directory it is.
    pub path: String,
    /// The member.
    pub member: String,
}

/// A setting with the address of a client's models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAddress {
    /// The files that may contain it, with a prefix that says in which directory they are: the first existing one, or
    /// else the first.
    pub paths: Vec<String>,
    /// Their syntax.
    pub format: SettingFormat,
    /// The members from the root to the setting.
    pub member: Vec<String>,
    /// The path of its provider at the proxy.
    pub route: String,
    /// A member at the root that makes the setting ineffective.
    pub overruled_by: Option<String>,
    /// A limitation that users have to know.
    pub note: Option<String>,
}
