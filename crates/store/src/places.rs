//! Locations of stores.

use std::path::{Path, PathBuf};

/// The store of the daemon, and of root if there is no daemon.
pub const DAEMON_STORE: &str = "/var/lib/mcpmon/mcpmon.db";

/// Returns the store of a user: `$XDG_STATE_HOME/mcpmon/mcpmon.db`. `variable` returns the environment's values; a
/// relative path is ignored, as the XDG Base Directory Specification requires.
pub fn users_store(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(home)?;
    Some(state.join("mcpmon/mcpmon.db"))
}

/// Returns the store to which a process of this user writes without a daemon.
pub fn own_store() -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Some(Path::new(DAEMON_STORE).to_owned());
    }
    users_store(|name| std::env::var_os(name).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&[("XDG_STATE_HOME", "/state"), ("HOME", "/home/me")] => Some("/state/mcpmon/mcpmon.db".into()); "state home")]
    #[test_case(&[("XDG_STATE_HOME", "state"), ("HOME", "/home/me")] => Some("/home/me/.local/state/mcpmon/mcpmon.db".into()); "relative state home")]
    #[test_case(&[("HOME", "/home/me")] => Some("/home/me/.local/state/mcpmon/mcpmon.db".into()); "home")]
    #[test_case(&[("HOME", "me")] => None; "relative home")]
    #[test_case(&[] => None; "neither")]
    fn the_store_of_a_user(variables: &[(&str, &str)]) -> Option<PathBuf> {
        users_store(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name)?;
            Some(found.1.into())
        })
    }
}
