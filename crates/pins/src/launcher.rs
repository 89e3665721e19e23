//! Digests of what starts a server: the file of its command, and the files between the command and the server.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use mcpmon_model::{Digest, Part, PinnedFile, Writers};

use super::{
    Cancel, HashError, Hasher, Process,
    package::{PackageError, unreadable},
    root::{FoundFile, Root},
    unknown,
};

/// The name of this program.
const OWN_NAME: &str = "mcpmon";

/// A file at the path at which it was found.
type LauncherFile = (PathBuf, io::Result<FoundFile>);

/// The files of a launcher.
#[derive(Debug)]
pub struct Launcher {
    root: Root,
    /// The files of each process, in the order they are executed.
    processes: Vec<Vec<LauncherFile>>,
}

impl Launcher {
    /// The open files of this process, with the paths at which they were found.
    ///
    /// # Errors
    /// Returns an error if they cannot be examined.
    pub fn of_files<'f>(files: impl IntoIterator<Item = (&'f Path, &'f File)>) -> io::Result<Self> {
        let file = |(path, file): (&Path, &File)| {
            let path = std::path::absolute(path)?;
            Ok((path, FoundFile::new(file.try_clone()?.into())))
        };
        Ok(Self {
            root: Root::at(Path::new("/"))?,
            processes: vec![files.into_iter().map(file).collect::<io::Result<_>>()?],
        })
    }

    /// The files at these paths, as a process sees them. Each list belongs to one process of a launch.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or may not be examined.
    pub fn of_process(process: &Process, paths: &[Vec<String>]) -> Result<Self, HashError> {
        let root = process.root()?;
        let directory = process.working_directory()?;
        let file = |path: &String| {
            let path = directory.join(path);
            let node = root.find(&path);
            (path, node)
        };
        let processes = paths.iter().map(|paths| paths.iter().map(file).collect());
        let processes = processes.collect();
        Ok(Self { root, processes })
    }

    /// Returns who can change a file.
    fn writers(&self, (path, node): &LauncherFile) -> Writers {
        let Ok(node) = node else {
            return Writers::Others;
        };
        let path = self.root.canonical(path);
        path.map_or(Writers::Others, |path| self.root.writers(&path, node))
    }
}

impl Hasher {
    /// Returns the digest of a launcher, and who can change it. Returns `None` if there is no launcher. The digest of
    /// one file is that of the file, that of several files is that of their digests. The launcher is the first process
    /// that executed anything but mcpmon, whose shims and wrappers are part of no server.
    ///
    /// # Errors
    /// Returns [`HashError::Cancelled`]; a file that cannot be hashed is a [`Part::Unknown`].
    pub fn launcher(
        &mut self,
        launcher: &Launcher,
        cancel: Cancel<'_>,
    ) -> Result<Option<(Part<PinnedFile>, Writers)>, HashError> {
        let mut others = launcher.processes.iter().map(|files| {
            let others = files.iter().filter(|file| !self.is_own(launcher, file, cancel));
            others.collect::<Vec<_>>()
        });
        let Some(files) = others.find(|files| !files.is_empty()) else {
            return Ok(None);
        };
        let mut digests = Vec::new();
        let mut writers = Writers::Root;
        for file in &files {
            let (path, node) = file;
            let digest = match node {
                Ok(node) => self.launcher_file(path, node, cancel),
                Err(error) => Err(unreadable(path)(io::Error::from(error.kind()))),
            };
            match digest {
                Ok(digest) => digests.push(digest),
                Err(PackageError::Cancelled) => return Err(HashError::Cancelled),
                Err(error) => return Ok(Some((unknown(path.clone(), &error), Writers::Others))),
            }
            if launcher.writers(file) == Writers::Others {
                writers = Writers::Others;
            }
        }
        let digest = match &digests[..] {
            [digest] => *digest,
            digests => {
                let texts: Vec<String> = digests.iter().map(Digest::to_string).collect();
                Digest::of(texts.join("\n").as_bytes())
            }
        };
        let path = files[0].0.clone();
        Ok(Some((Part::Hashed(PinnedFile { path, digest }), writers)))
    }

    /// Returns whether a file is mcpmon: this program, a copy of it, or one of that name that only root can change.
    /// The name and place of a shim prove nothing, because any program can have them.
    fn is_own(&mut self, launcher: &Launcher, file: &LauncherFile, cancel: Cancel<'_>) -> bool {
        let (path, Ok(node)) = file else {
            return false;
        };
        let Ok(own) = File::open("/proc/self/exe").and_then(|own| FoundFile::new(own.into())) else {
            return false;
        };
        let is_named = || {
            let path = launcher.root.canonical(path);
            path.is_ok_and(|path| path.file_name() == Some(OsStr::new(OWN_NAME)))
        };
        let same_size = own.stat().st_size == node.stat().st_size;
        own.identity() == node.identity()
            || is_named() && launcher.writers(file) == Writers::Root
            || same_size
                && matches!(
                    (self.files.hash(&own, cancel), self.files.hash(node, cancel)),
                    (Ok(own), Ok(other)) if own == other
                )
    }

    fn launcher_file(
        &mut self,
        path: &Path,
        node: &FoundFile,
        cancel: Cancel<'_>,
    ) -> Result<Digest, PackageError> {
        self.files
            .hash(node, cancel)
            .map_err(|source| PackageError::of(path, source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    type Hashed = Option<(Part<PinnedFile>, Writers)>;

    fn hash(files: &[&Path]) -> Result<Hashed, Box<dyn std::error::Error>> {
        let opened: Vec<File> = files.iter().map(File::open).collect::<io::Result<_>>()?;
        let launcher = Launcher::of_files(files.iter().copied().zip(&opened))?;
        Ok(Hasher::default().launcher(&launcher, &|| false)?)
    }

    #[test]
    fn every_file_on_the_way_counts() -> Outcome {
        let directory = tempfile::tempdir()?;
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        fs::write(&first, "1")?;
        fs::write(&second, "2")?;
        assert_eq!(hash(&[])?, None);
        let file = |digest| {
            let path = first.clone();
            Some((Part::Hashed(PinnedFile { path, digest }), Writers::Others))
        };
        assert_eq!(hash(&[&first])?, file(Digest::of(b"1")));
        let both = hash(&[&first, &second])?;
        assert_ne!(both, file(Digest::of(b"1")));
        fs::write(&second, "3")?;
        assert_ne!(hash(&[&first, &second])?, both);
        let (_, writers) = hash(&[&fs::canonicalize("/bin/sh")?])?.ok_or("a shell")?;
        assert_eq!(writers, Writers::Root);
        Ok(())
    }

    #[test]
    fn a_shim_is_seen_through() -> Outcome {
        let directory = tempfile::tempdir()?;
        let [shim, copy, fake, npx] =
            ["shim", "copy", "mcpmon", "npx"].map(|name| directory.path().join(name));
        let own = fs::read_link("/proc/self/exe")?;
        std::os::unix::fs::symlink(&own, &shim)?;
        fs::copy(&own, &copy)?;
        fs::write(&npx, "1")?;
        fs::write(&fake, "1")?;
        let processes = |lists: &[&[&PathBuf]]| -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
            let texts = |list: &&[&PathBuf]| {
                let texts = list.iter().map(|path| path.display().to_string());
                texts.collect::<Vec<_>>()
            };
            let lists: Vec<Vec<String>> = lists.iter().map(texts).collect();
            let launcher = Launcher::of_process(&Process::open(std::process::id())?, &lists)?;
            let found = Hasher::default().launcher(&launcher, &|| false)?;
            Ok(found.and_then(|(part, _)| Some(part.hashed()?.path.clone())))
        };
        assert_eq!(processes(&[&[&shim]])?, None, "a link");
        assert_eq!(
            processes(&[&[&copy, &npx]])?,
            Some(npx.clone()),
            "a copy of another place"
        );
        assert_eq!(
            processes(&[&[&shim], &[&npx]])?,
            Some(npx.clone()),
            "of the next process"
        );
        assert_eq!(
            processes(&[&[&fake], &[&npx]])?,
            Some(fake.clone()),
            "another program of the name"
        );
        Ok(())
    }

    #[test]
    fn a_file_that_is_gone_is_not_known() -> Outcome {
        let process = Process::open(std::process::id())?;
        let launcher = Launcher::of_process(&process, &[vec!["/nowhere/launcher".to_owned()]])?;
        let (part, writers) = Hasher::default()
            .launcher(&launcher, &|| false)?
            .ok_or("a launcher")?;
        assert!(matches!(part, Part::Unknown { .. }), "{part:?}");
        assert_eq!(writers, Writers::Others);
        Ok(())
    }
}
