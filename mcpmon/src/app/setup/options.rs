//! The options with which clients start wrappers: they lead to the policy and the store of this user if those are not at
//! the default places.
//!
//! Clients hand on few variables, and `XDG_CONFIG_HOME`, `XDG_STATE_HOME` and `MCPMON_CONFIG` are not among them.

use std::path::Path;

use mcpmon_config::{Search, Trust};

/// Returns the options for wrappers that clients start with no variable but `HOME`, which is `home`. `policy` is the
/// file of the policy in force.
pub fn wrapper_options(search: &Search, trust: Trust, home: &Path, policy: Option<&Path>) -> Vec<String> {
    let own = search.own_place().filter(|own| policy == Some(*own));
    let config = own.filter(|own| **own != Search::user_place(home));
    let names_store =
        || mcpmon_config::load(search, trust).is_ok_and(|loaded| loaded.settings.record.path.is_some());
    let default = mcpmon_store::users_store(|name| (name == "HOME").then(|| home.to_owned()));
    let store = mcpmon_store::own_store().filter(|store| {
        let is_roots = nix::unistd::geteuid().is_root();
        !is_roots && default.as_ref() != Some(store) && !names_store()
    });
    let option = |name: &str, path: &Path| {
        let path = std::path::absolute(path).ok()?;
        Some([name.to_owned(), path.to_str()?.to_owned()])
    };
    let config = config.and_then(|path| option("--config", path));
    let store = store.and_then(|path| option("--db", &path));
    config.into_iter().chain(store).flatten().collect()
}
