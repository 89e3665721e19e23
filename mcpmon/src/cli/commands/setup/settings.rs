//! `mcpmon setup --hooks` and `--llm`: other settings of clients than servers.

use std::{env, net::TcpStream, time::Duration};

use mcpmon_clients::{
    Client, PlannedSetting, SettingKind, SettingOutcome, SettingReport, SetupEffect, ThrownSwitch,
    installed_version, is_older, is_present, thrown_switches,
};
use mcpmon_config::{LocalConfig, ProxySettings, Search, Trust};
use mcpmon_detect::mask::mask_text;
use serde_json::{Map, Value, json};

use super::servers::told;
use crate::{
    app::listener,
    cli::{CliError, ErrorKind, Globals, text},
};

/// The time within which a local proxy must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the URL of the LLM proxy for clients of this host, and a warning if no proxy listens there.
///
/// # Errors
/// Returns an error if clients must not use that proxy.
pub(super) fn proxy_url(globals: &Globals) -> Result<(String, Option<String>), CliError> {
    let usage = |error| CliError::new(ErrorKind::Usage, error);
    let search = Search::of_process(globals.config.clone(), LocalConfig::Ignore);
    let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
    let loaded = mcpmon_config::load(&search, trust).map_err(|error| usage(error.into()))?;
    let Some(ProxySettings {
        listen, token_file, ..
    }) = loaded.settings.proxy
    else {
        let error = anyhow::anyhow!(
            "`proxy.mode` is disabled in {}: there is nothing to point clients at",
            loaded.path()
        );
        return Err(usage(error));
    };
    if token_file.is_some() {
        let error = anyhow::anyhow!(
            "`proxy.token_file` is set: a client would need its token, which does not belong into a settings file"
        );
        return Err(usage(error).with_hint("`mcpmon run -- AGENT` gives one session a token of its own"));
    }
    listener::check_owner(listen).map_err(|other| {
        CliError::new(ErrorKind::Refused, anyhow::anyhow!(other))
            .with_hint("stop that process, or set another port as `proxy.listen`, then run this again")
    })?;
    let warning = TcpStream::connect_timeout(&listen, CONNECT_TIMEOUT).is_err().then(|| {
        format!(
            "warning: nothing listens at {listen}: until `mcpmon daemon` or `mcpmon proxy` runs, these clients reach no model, and any user of this host can take that port"
        )
    });
    Ok((format!("http://{listen}"), warning))
}

/// Returns notes on clients of this host that get no setting of a kind, or whose version ignores it.
pub(super) fn left_out(
    options: &mcpmon_clients::Options,
    hooks: bool,
    models: bool,
    are_named: bool,
) -> Vec<String> {
    let here = |client: &&'static Client| are_named || is_present(client, &options.roots, &options.projects);
    let clients: Vec<_> = options.clients.iter().copied().filter(here).collect();
    let mut notes = Vec::new();
    if hooks {
        notes.extend(clients.iter().filter_map(|client| version_note(client)));
        let switches = |client: &&'static Client| {
            let thrown = thrown_switches(client, &options.roots).into_iter();
            thrown
                .map(|switch| switch_note(client, &switch))
                .collect::<Vec<_>>()
        };
        notes.extend(clients.iter().flat_map(switches));
        let without: Vec<_> = clients
            .iter()
            .filter(|client| client.hooks.is_none())
            .map(|client| client.name.as_str())
            .collect();
        if !without.is_empty() {
            notes.push(format!("no hooks that mcpmon knows: {}", without.join(", ")));
        }
    }
    if models {
        let without = clients.iter().filter(|client| client.models.is_empty());
        notes.extend(without.map(|client| {
            let reason = client
                .no_models
                .as_deref()
                .unwrap_or("no setting in a file is known that leads its models to a proxy");
            format!("{}: its models are not led to the proxy: {reason}", client.name)
        }));
    }
    notes
}

fn version_note(client: &Client) -> Option<String> {
    let hooks = client.hooks.as_ref()?;
    let name = &client.name;
    let since = &hooks.since;
    match installed_version(client, env::var_os("PATH").as_deref()) {
        Some(version) if is_older(&version, since) => Some(format!(
            "warning: {name} {version} has no such hooks, or they are off: they are there from {since} on"
        )),
        Some(_) => None,
        None => Some(format!(
            "{name}: its version cannot be told; hooks are there from {since} on"
        )),
    }
}

fn switch_note(client: &Client, switch: &ThrownSwitch) -> String {
    let path = switch.path.display().to_string();
    format!(
        "warning: {} does not run these hooks while `{}` is true in {}",
        client.name,
        switch.member,
        text::escape(&path)
    )
}

/// Returns the changed settings in the form of a file difference.
pub(super) fn difference(report: &SettingReport) -> String {
    if !report.is_changed() {
        return String::new();
    }
    let path = report.path.display().to_string();
    let path = text::escape(&path);
    let (old, new) = match (report.is_made, report.is_removed()) {
        (true, true) => (path.as_ref(), "/dev/null"),
        (true, false) => ("/dev/null", path.as_ref()),
        (false, _) => (path.as_ref(), path.as_ref()),
    };
    let mut lines = vec![format!("--- {old}"), format!("+++ {new}")];
    for setting in report.settings.iter().filter(|setting| setting.outcome.changes()) {
        lines.push(format!("@@ {} @@", text::escape(&setting.path.join("."))));
        let shown = |sign: char, value: &Option<String>| {
            value
                .as_ref()
                .map(|value| format!("{sign}{}", text::escape_json(value)))
        };
        lines.extend(shown('-', &setting.before));
        lines.extend(shown('+', &setting.after));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn objects(report: &SettingReport, effect: SetupEffect) -> Vec<Map<String, Value>> {
    let done = effect == SetupEffect::Write && report.trouble.is_none();
    let about = |rest: Value| {
        let mut object = Map::new();
        object.insert("client".to_owned(), json!(report.client.id));
        object.insert("file".to_owned(), json!(report.path));
        object.extend(rest.as_object().cloned().unwrap_or_default());
        object
    };
    let setting = |setting: &PlannedSetting| {
        about(json!({
            "setting": kind(setting.kind),
            "path": setting.path,
            "action": action(&setting.outcome),
            "done": done && setting.outcome.changes(),
            "reason": reason(&setting.outcome),
            "before": setting.before.as_deref().map(mask_text),
            "after": setting.after,
            "backup": report.backup,
        }))
    };
    let mut objects: Vec<_> = report.settings.iter().map(setting).collect();
    if let Some(trouble) = &report.trouble {
        objects.push(about(json!({ "error": told(trouble) })));
    }
    objects
}

const fn kind(kind: SettingKind) -> &'static str {
    match kind {
        SettingKind::Hook => "hook",
        SettingKind::Model => "model",
    }
}

const fn action(outcome: &SettingOutcome) -> &'static str {
    match outcome {
        SettingOutcome::Add => "add",
        SettingOutcome::Update => "update",
        SettingOutcome::Remove => "remove",
        SettingOutcome::Present | SettingOutcome::Absent | SettingOutcome::Left(_) => "none",
    }
}

fn reason(outcome: &SettingOutcome) -> Option<&str> {
    match outcome {
        SettingOutcome::Add | SettingOutcome::Update | SettingOutcome::Remove => None,
        SettingOutcome::Present => Some("it is there already"),
        SettingOutcome::Absent => Some("it is not there any more"),
        SettingOutcome::Left(reason) => Some(reason),
    }
}

/// Returns the notes on a file besides the difference.
pub(super) fn notes(report: &SettingReport, effect: SetupEffect) -> Vec<String> {
    let path = report.path.display();
    if let Some(trouble) = &report.trouble {
        return vec![format!("{path}: {}; it is left as it is", told(trouble))];
    }
    let mut notes = Vec::new();
    for setting in &report.settings {
        let what = match setting.kind {
            SettingKind::Hook => "hook",
            SettingKind::Model => "address of models",
        };
        let place = setting.path.join(".");
        let would = match effect {
            SetupEffect::Write => "",
            SetupEffect::Preview => "to be ",
        };
        let outcome = match &setting.outcome {
            SettingOutcome::Add => format!("{would}added"),
            SettingOutcome::Update => format!("{would}pointed to this mcpmon"),
            SettingOutcome::Remove => format!("{would}taken out"),
            SettingOutcome::Present => "there already".to_owned(),
            SettingOutcome::Absent => "not there any more".to_owned(),
            SettingOutcome::Left(reason) => format!("left as it is: {reason}"),
        };
        notes.push(format!(
            "{}: {path}: {what} {place} {outcome}",
            report.client.name
        ));
    }
    if report.is_changed() && effect == SetupEffect::Write {
        match (&report.backup, report.is_restored) {
            (_, true) if report.is_made => notes.push("  it is removed, as it was made".to_owned()),
            (_, true) => notes.push("  it is byte for byte what it was".to_owned()),
            (Some(backup), false) => notes.push(format!("  a copy from before is {}", backup.display())),
            (None, false) => {}
        }
        notes.push(format!("  restart {} to make it hold", report.client.name));
    }
    let of_models = |address: &&mcpmon_clients::ModelAddress| {
        let is_set = |setting: &PlannedSetting| {
            setting.outcome == SettingOutcome::Add && setting.path == address.member
        };
        report.settings.iter().any(is_set)
    };
    let known = report
        .client
        .models
        .iter()
        .filter(of_models)
        .filter_map(|address| address.note.as_ref());
    let changes_hook = |setting: &PlannedSetting| {
        let is_new = matches!(setting.outcome, SettingOutcome::Add | SettingOutcome::Update);
        setting.kind == SettingKind::Hook && is_new
    };
    let of_hooks = report.settings.iter().any(changes_hook);
    let hooks = report.client.hooks.as_ref().filter(|_| of_hooks);
    let known = known.chain(hooks.and_then(|hooks| hooks.note.as_ref()));
    notes.extend(known.map(|note| format!("  {note}")));
    notes
}
