//! Clients: the table of the programs that start MCP servers, and edits of the files in which they configure them.
//!
//! `table` describes how clients differ; its data is `clients.toml`, from which detection also takes process names and
//! protected files. `syntax` parses JSON, TOML and YAML with the position of every value. `servers`, `edit` and `plan`
//! derive the new text of a file from bytes alone, and `configured` reads the servers in one. `locate`, `file`,
//! `ledger` and `setup` do the input and output. This crate knows nothing of the daemon and the policy.

mod configured;
mod edit;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]
mod file;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]
mod ledger;
#[expect(clippy::disallowed_methods, reason = "I/O")]
mod locate;
mod plan;
mod remote;
mod servers;
mod settings;
mod setup;
mod syntax;
mod table;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "I/O")]
mod tests;

pub use self::{
    configured::{
        ConfiguredFile, ConfiguredServer, ConfiguredText, ConfiguredTransport, Place, SkillPlace,
        configured_files, parse_servers, projects_below, skills, skills_below,
    },
    file::{FileError, create_file, replace_file},
    ledger::LedgerError,
    locate::{Roots, is_present},
    plan::{PlanOutcome, PlannedServer},
    settings::{
        ClientHooks, HookSwitch, ModelAddress, PlannedSetting, SettingFormat, SettingKind, SettingOutcome,
        SettingReport, SettingWish, ThrownSwitch, installed_version, is_older, run_settings, shown_digests,
        thrown_switches,
    },
    setup::{
        FileReport, FileTrouble, Options, SetupDirection, SetupEffect, WrapperCommand, project_files, run,
    },
    syntax::{SyntaxMistake, without_comments},
    table::{
        CLIENTS, Client, ConfigFile, Format, MemberNames, ProtectedFiles, Scope, client, path_variables,
    },
};
