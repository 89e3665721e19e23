//! The modes of the last valid versions of a user's policy files, in a file beside the user's store: the mode of a file
//! that cannot be used any longer.
//!
//! The user can change this file as well as the policy. See [`mcpmon_policy::mode_of_unusable`].

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use mcpmon_policy::Mode;

/// Name of the file.
const FILE_NAME: &str = "policy-modes";
/// Most policy files whose modes are noted; a new one replaces the oldest.
const MAX_FILES: usize = 16;
/// Largest size of the file, bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Returns the mode of the last valid version of the policy file at `policy`. `db` is the store that was named.
pub(super) fn last_mode(db: Option<&Path>, policy: &Path) -> Option<Mode> {
    let noted = read(&beside(db)?).unwrap_or_default();
    let policy = absolute(policy);
    noted
        .into_iter()
        .find(|(path, _)| *path == policy)
        .map(|(_, mode)| mode)
}

/// Notes the mode of a valid policy file. Nothing depends on it while the policy stays valid, so a failure is logged
/// only.
pub fn note_mode(db: Option<&Path>, policy: &Path, mode: Mode) {
    let Some(file) = beside(db) else { return };
    if let Err(error) = note(&file, absolute(policy), mode) {
        tracing::debug!(%error, file = %file.display(), "the mode of the policy is not noted");
    }
}

fn beside(db: Option<&Path>) -> Option<PathBuf> {
    let store = db.map(Path::to_owned).or_else(mcpmon_store::own_store)?;
    Some(store.with_file_name(FILE_NAME))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn read(file: &Path) -> io::Result<Vec<(PathBuf, Mode)>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn note(file: &Path, policy: PathBuf, mode: Mode) -> io::Result<()> {
    let mut noted = read(file).unwrap_or_default();
    if noted.contains(&(policy.clone(), mode)) {
        return Ok(());
    }
    noted.retain(|(path, _)| *path != policy);
    noted.truncate(MAX_FILES - 1);
    noted.insert(0, (policy, mode));
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = write(&temporary, &serde_json::to_vec(&noted)?).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        // The temporary file may not exist.
        drop(fs::remove_file(&temporary));
    }
    written
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_mode_of_each_file_is_noted() {
        let directory = tempfile::tempdir().expect("a directory");
        let db = directory.path().join("mcpmon.db");
        let policy = |number: usize| PathBuf::from(format!("/policies/{number}.yaml"));
        assert_eq!(last_mode(Some(&db), &policy(0)), None);
        note_mode(Some(&db), &policy(0), Mode::Observe);
        note_mode(Some(&db), &policy(1), Mode::Enforce);
        assert_eq!(last_mode(Some(&db), &policy(0)), Some(Mode::Observe));
        note_mode(Some(&db), &policy(0), Mode::Enforce);
        assert_eq!(last_mode(Some(&db), &policy(0)), Some(Mode::Enforce));
        for number in 2..=MAX_FILES {
            note_mode(Some(&db), &policy(number), Mode::Observe);
        }
        assert_eq!(last_mode(Some(&db), &policy(1)), None, "the oldest is replaced");
        assert_eq!(last_mode(Some(&db), &policy(0)), Some(Mode::Enforce));
    }

    #[test]
    fn damaged_notes_count_as_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let db = directory.path().join("mcpmon.db");
        fs::write(directory.path().join(FILE_NAME), "[[").expect("written");
        assert_eq!(last_mode(Some(&db), Path::new("/a")), None);
        note_mode(Some(&db), Path::new("/a"), Mode::Observe);
        assert_eq!(last_mode(Some(&db), Path::new("/a")), Some(Mode::Observe));
    }
}
