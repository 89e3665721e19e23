//! The homes whose clients are scanned: that of this user, or for root those of all users.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use mcpmon_clients::Roots;

/// Largest list of users that is read, bytes.
const MAX_PASSWD_BYTES: usize = 4 << 20;
/// Most homes that are read.
const MAX_HOMES: usize = 10_000;

/// Returns the roots of every user with a home, starting with `own`.
pub(super) fn of_all_users(own: Roots) -> Vec<Roots> {
    let mut seen = BTreeSet::from([own.home.clone()]);
    let host = own.host.clone();
    let mut all = vec![own];
    for home in homes(&host).into_iter().take(MAX_HOMES) {
        if seen.insert(home.clone()) {
            all.push(Roots {
                home,
                variables: BTreeMap::new(),
                host: host.clone(),
            });
        }
    }
    all
}

/// Returns the homes of the users of this host.
pub(in crate::app) fn homes(host: &Path) -> Vec<PathBuf> {
    let users = fs::read_to_string(host.join("etc/passwd")).unwrap_or_default();
    let users = &users[..users.floor_char_boundary(MAX_PASSWD_BYTES)];
    let listed = users.lines().filter_map(|line| line.split(':').nth(5));
    let listed = listed.map(PathBuf::from).filter(|home| {
        // `/`, `/bin` and `/nonexistent` are listed as homes, but of no person.
        home.is_absolute() && home.components().count() > 2 || home == Path::new("/root")
    });
    let present = fs::read_dir(host.join("home")).into_iter().flatten();
    let present = present.filter_map(|entry| Some(entry.ok()?.path()));
    let all: BTreeSet<PathBuf> = listed.chain(present).collect();
    all.into_iter().filter(|home| home.is_dir()).collect()
}
