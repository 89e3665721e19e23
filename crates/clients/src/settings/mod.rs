//! Settings of clients beside their servers: hooks that ask mcpmon, and addresses at which its proxy of models listens.
//!
//! Each is one value that is put into a file behind an opening bracket, or as a line of its own, and taken out again; nothing
//! else of the file changes. `json` and `lines` derive the change of a text, `plan` that of a file, `run` does the input and
//! output.

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

/// The purpose of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingKind {
    /// The client asks `mcpmon hook` before it runs a tool of its own.
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
    /// TOML, of which a member of the root is set.
    Toml,
    /// Lines `NAME=value`.
    Env,
}

/// The hooks of a client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientHooks {
    /// The file, with a prefix that says where it begins.
    pub path: String,
    /// Its syntax.
    pub format: SettingFormat,
    /// The client's name for `mcpmon hook`.
    pub name: String,
    /// The events, of which each has a list of hooks.
    pub events: Vec<String>,
    /// The pattern of tools that a hook is for; without one an entry is the hook itself.
    pub matcher: Option<String>,
    /// The version that a file of the client's begins with.
    pub version: Option<u32>,
    /// The first version of the client with these hooks.
    pub since: String,
    /// The npm package that the client comes in.
    pub package: Option<String>,
    /// The members of files that turn such hooks off.
    #[serde(default)]
    pub switches: Vec<HookSwitch>,
    /// A limit that a user has to know of.
    pub note: Option<String>,
}

/// A member of the root of a JSON file that turns hooks off where it is true.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSwitch {
    /// The file, with a prefix that says where it begins.
    pub path: String,
    /// The member.
    pub member: String,
}

/// A setting with the address of a client's models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAddress {
    /// The files that may hold it, with a prefix that says where they begin: the first that exists does, else the first.
    pub paths: Vec<String>,
    /// Their syntax.
    pub format: SettingFormat,
    /// Members on the way to it.
    pub member: Vec<String>,
    /// The path of its provider at the proxy.
    pub route: String,
    /// A member of the root that gives it no effect.
    pub overruled_by: Option<String>,
    /// A limit that a user has to know of.
    pub note: Option<String>,
}
