//! Caches of package managers for a server that is not trusted yet. The server may read the caches, and gets a mirror
//! of them in its own temporary directory to write to, because package managers run nothing from a cache that they
//! cannot write to.
//!
//! The upper directories of a mirror are real; what lies below them are links into the cache.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::Path,
};

use mcpmon_engine::sandbox::PackageCache;
use nix::fcntl::OFlag;

/// Most entries of a mirror.
const MAX_ENTRIES: usize = 65_536;
/// Most bytes that are copied to a mirror.
const MAX_COPIED_BYTES: u64 = 64 << 20;
/// Most levels of directories.
const MAX_LEVELS: usize = 8;
/// The prefix of directories that are copied with all their files: npm writes to its index while it reads it.
const COPIED_WHOLE: &str = "index-v";

/// Mirrors caches below `temporary`. Returns the variables by which package managers find the mirrors.
pub(super) fn mirror(caches: &[PackageCache], temporary: &Path) -> Vec<(OsString, OsString)> {
    let mirrored = caches.iter().filter_map(|cache| {
        let told = cache.mirrored.as_ref()?;
        let place = temporary.join(told.variable);
        let mut mirror = Mirror {
            entries: MAX_ENTRIES,
            bytes: MAX_COPIED_BYTES,
        };
        if let Err(error) = mirror.directory(&cache.path, &place, told.levels, MAX_LEVELS) {
            tracing::info!(path = %cache.path.display(), %error, "the cache is not mirrored as a whole");
        }
        Some((told.variable.into(), place.into_os_string()))
    });
    mirrored.collect()
}

/// The entries and bytes that a mirror may still get.
struct Mirror {
    entries: usize,
    bytes: u64,
}

impl Mirror {
    /// Mirrors a directory and `levels` levels below it, at most `most`.
    fn directory(&mut self, from: &Path, to: &Path, levels: usize, most: usize) -> io::Result<()> {
        fs::create_dir(to)?;
        let listing = match fs::read_dir(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listing => listing?,
        };
        for entry in listing {
            let entry = entry?;
            self.entries = self
                .entries
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("it has too many entries"))?;
            let (kind, from, to) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
            let is_whole = entry.file_name().to_string_lossy().starts_with(COPIED_WHOLE);
            let below = if is_whole { most } else { levels }.min(most);
            if kind.is_dir() && below > 0 {
                self.directory(&from, &to, below - 1, most - 1)?;
            } else if !(kind.is_file() && self.copy(&from, &to)?) {
                // The link leads to the real file; the sandbox decides whether the server may read that.
                if let Ok(real) = fs::canonicalize(&from) {
                    symlink(real, to)?;
                }
            }
        }
        Ok(())
    }

    /// Copies a file. Returns false if it is too large or no regular file.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(from)?;
        let about = file.metadata()?;
        if !about.is_file() || about.len() > self.bytes {
            return Ok(false);
        }
        let mut limited = io::Read::take(&mut file, self.bytes);
        let copied = io::copy(
            &mut limited,
            &mut OpenOptions::new().write(true).create_new(true).open(to)?,
        )?;
        self.bytes -= copied;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_engine::sandbox::MirroredCache;

    use super::*;

    #[test]
    fn what_is_written_to_a_mirror_does_not_reach_the_cache() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = directory.path().join("cache");
        for name in [
            "_npx/1/node_modules/a",
            "_cacache/index-v5/00/11",
            "_cacache/content-v2/sha512",
        ] {
            fs::create_dir_all(cache.join(name)).expect("a directory");
        }
        fs::write(cache.join("_npx/1/package.json"), "{}").expect("a file");
        fs::write(cache.join("_cacache/index-v5/00/11/22"), "index").expect("a file");
        let cache = PackageCache {
            path: cache,
            mirrored: Some(MirroredCache {
                variable: "npm_config_cache",
                levels: 2,
            }),
        };
        let told = mirror(std::slice::from_ref(&cache), directory.path());
        let place = directory.path().join("npm_config_cache");
        assert_eq!(
            told,
            [("npm_config_cache".into(), place.clone().into_os_string())]
        );
        for written in ["_npx/1/package.json", "_npx/1/lock", "_cacache/index-v5/00/11/22"] {
            fs::write(place.join(written), "written").expect("a file of the mirror");
        }
        let read = |name: &str| fs::read_to_string(cache.path.join(name)).ok();
        assert_eq!(read("_npx/1/package.json").as_deref(), Some("{}"));
        assert_eq!(read("_npx/1/lock"), None);
        assert_eq!(read("_cacache/index-v5/00/11/22").as_deref(), Some("index"));
        let linked = ["_npx/1/node_modules", "_cacache/content-v2/sha512"];
        for name in linked {
            let target = fs::read_link(place.join(name)).expect("a link");
            assert_eq!(
                target,
                fs::canonicalize(cache.path.join(name)).expect("a directory")
            );
        }
    }

    #[test]
    fn a_cache_that_is_not_there_is_an_empty_mirror() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = PackageCache {
            path: directory.path().join("absent"),
            mirrored: Some(MirroredCache {
                variable: "UV_CACHE_DIR",
                levels: 1,
            }),
        };
        mirror(&[cache], directory.path());
        assert!(directory.path().join("UV_CACHE_DIR").is_dir());
    }
}
