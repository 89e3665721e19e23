//! Wrapped servers of clients that use another policy or store than this process: their wrappers get few of the variables
//! that this process has.

use std::path::Path;

use mcpmon_clients::{CLIENTS, Options, PlanOutcome, Roots, SetupDirection, SetupEffect, WrapperCommand};
use mcpmon_config::{Search, Source, Trust};

use super::{Program, wrapper_options};

/// The wrapped servers in files of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrappedServers {
    /// Number of servers in the form of `mcpmon setup`.
    pub count: usize,
    /// The servers whose wrappers use another policy or store, with the file.
    pub elsewhere: Vec<String>,
}

/// Finds the wrapped servers of this user. Returns `None` if they cannot be determined.
pub fn wrapped_servers(search: &Search) -> Option<WrappedServers> {
    let user = nix::unistd::geteuid().as_raw();
    let trust = Trust::for_user(user);
    let roots = Roots::of_process()?;
    if roots.owner_other_than(user).is_some() {
        return None;
    }
    let loaded = mcpmon_config::load(search, trust).ok()?;
    let policy = loaded.sources.iter().rev().find_map(|source| match source {
        Source::File(path) => Some(path.as_path()),
        Source::EmbeddedDefault | Source::Bundle { .. } => None,
    });
    let store = mcpmon_store::own_store()?;
    let wrapper = WrapperCommand {
        program: Program::running().ok()?.path,
        options: wrapper_options(search, trust, &roots.home, policy),
    };
    let reports = mcpmon_clients::run(&Options {
        state: store.parent().map(Path::to_owned)?,
        clients: CLIENTS.iter().collect(),
        projects: Vec::new(),
        user,
        roots,
        direction: SetupDirection::Wrap(wrapper),
        effect: SetupEffect::Preview,
        confirmed: None,
    });
    let mut found = WrappedServers::default();
    for report in reports.ok()? {
        for server in &report.servers {
            let is_update = server.outcome == PlanOutcome::Update;
            found.count += usize::from(is_update || server.outcome == PlanOutcome::Wrapped);
            if is_update && server.before.get(1..) != server.after.get(1..) {
                let name = server.path.last().map_or("", String::as_str);
                found
                    .elsewhere
                    .push(format!("{name} in {}", report.path.display()));
            }
        }
    }
    Some(found)
}
