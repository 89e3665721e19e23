//! Switches that turn hooks off, in files of a client that `setup` does not write.

use std::path::PathBuf;

use super::HookSwitch;
use crate::{
    file::Original,
    locate::{self, Roots},
    table::Client,
};

/// A switch that turns hooks off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrownSwitch {
    /// The file.
    pub path: PathBuf,
    /// The member that is true.
    pub member: &'static str,
}

/// Returns the switches of this user and host that keep a client's hooks from running. A file that does not exist, or
/// is not JSON, is ignored, as the client does.
pub fn thrown_switches(client: &'static Client, roots: &Roots) -> Vec<ThrownSwitch> {
    let switches = client.hooks.iter().flat_map(|hooks| &hooks.switches);
    switches.filter_map(|switch| thrown(switch, roots)).collect()
}

fn thrown(HookSwitch { path, member }: &'static HookSwitch, roots: &Roots) -> Option<ThrownSwitch> {
    let path = locate::setting_path(path, roots)?;
    let file = Original::read_only(&path).ok()?;
    let root: serde_json::Value = serde_json::from_slice(&file.bytes).ok()?;
    root.get(member)?
        .as_bool()?
        .then_some(ThrownSwitch { path, member })
}
