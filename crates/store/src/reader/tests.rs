use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::{Access, Store, sample};

/// Runs `work` on a thread without root's rights to files: `setfsuid` applies to one thread only.
fn as_a_member_of_the_group<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if nix::unistd::geteuid().is_root() {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
            }
            work()
        });
        thread.join().unwrap()
    })
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_running_store_is_read_without_rights_to_write() {
    let (directory, mut store) = sample::store();
    sample::fill(&mut store, [sample::started("a", 2)]);
    mode(directory.path(), 0o550);
    for name in ["mcpmon.db", "mcpmon.db-wal", "mcpmon.db-shm"] {
        mode(&directory.path().join(name), 0o440);
    }
    as_a_member_of_the_group(|| {
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        assert_eq!(reader.view, View::Live);
        assert_eq!(reader.events(&Filter::default(), 10).unwrap().len(), 1);
    });
    mode(directory.path(), 0o750);
}

#[test]
fn a_stopped_store_is_read_without_rights_to_write() {
    let (directory, mut store) = sample::store();
    sample::fill(&mut store, [sample::started("a", 2)]);
    drop(store);
    let odd = directory.path().join("50% odd?name#.db");
    fs::rename(directory.path().join("mcpmon.db"), &odd).unwrap();
    mode(directory.path(), 0o555);
    mode(&odd, 0o444);
    as_a_member_of_the_group(|| {
        let reader = StoreReader::open(&odd).unwrap();
        assert_eq!(reader.view, View::Frozen);
        assert_eq!(reader.events(&Filter::default(), 10).unwrap().len(), 1);
    });
    mode(directory.path(), 0o750);
}

#[test]
fn a_store_of_someone_else_says_so() {
    let (directory, _store) = sample::store();
    let path = directory.path().join("mcpmon.db");
    mode(&path, 0o000);
    as_a_member_of_the_group(|| {
        assert!(matches!(StoreReader::open(&path), Err(OpenError::Denied(denied)) if denied == path));
    });
}

#[test]
fn a_missing_store_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mcpmon.db");
    assert!(matches!(StoreReader::open(&path), Err(OpenError::Missing(_))));
    assert!(!path.exists());
}

#[test]
fn an_empty_file_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty");
    fs::write(&path, "").unwrap();
    assert!(matches!(StoreReader::open(&path), Err(OpenError::Missing(_))));
}

#[test]
fn nothing_can_be_written_through_a_reader() {
    let (directory, _store) = sample::store();
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    reader.connection.execute("DELETE FROM events", []).unwrap_err();
}

#[test]
fn readers_see_whole_batches_while_they_are_written() {
    const BATCHES: u32 = 50;
    let (directory, store) = sample::store();
    drop(store);
    let path = directory.path().join("mcpmon.db");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut store = Store::open(&path, Access::default()).unwrap();
            for batch in 1..=BATCHES {
                sample::fill(
                    &mut store,
                    (0..10).map(|pid| sample::started("a", batch * 100 + pid)),
                );
            }
        });
        let reader = StoreReader::open(&path).unwrap();
        let mut seen = 0;
        while seen < BATCHES as usize * 10 {
            let is_written = writer.is_finished();
            let count = reader.events(&Filter::default(), 10_000).unwrap().len();
            assert!(
                count >= seen && count.is_multiple_of(10),
                "{seen} and then {count}"
            );
            assert!(!is_written || count == BATCHES as usize * 10, "{count} of all");
            seen = count;
        }
    });
}
