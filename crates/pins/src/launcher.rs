//! Digests of what starts a server: the file of its command, and the files between the command and the server.

use std::{
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

/// The files of a launcher, in the order they are executed.
#[derive(Debug)]
pub struct Launcher {
    root: Root,
    files: Vec<(PathBuf, io::Result<FoundFile>)>,
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
            files: files.into_iter().map(file).collect::<io::Result<_>>()?,
        })
    }

    /// The files at these paths, as a process sees them.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or may not be examined.
    pub fn of_process(process: &Process, paths: &[String]) -> Result<Self, HashError> {
        let root = process.root()?;
        let directory = process.working_directory()?;
        let file = |path: &String| {
            let path = directory.join(path);
            let node = root.find(&path);
            (path, node)
        };
        let files = paths.iter().map(file).collect();
        Ok(Self { root, files })
    }
}

impl Hasher {
    /// Returns the digest of a launcher, and who can change it. Returns `None` if there is no launcher. The digest of
    /// one file is that of the file, that of several files is that of their digests.
    ///
    /// # Errors
    /// Returns [`HashError::Cancelled`]; a file that cannot be hashed is a [`Part::Unknown`].
    pub fn launcher(
        &mut self,
        launcher: &Launcher,
        cancel: Cancel<'_>,
    ) -> Result<Option<(Part<PinnedFile>, Writers)>, HashError> {
        let Some((first, _)) = launcher.files.first() else {
            return Ok(None);
        };
        let mut digests = Vec::new();
        let mut writers = Writers::Root;
        for (path, node) in &launcher.files {
            let digest = match node {
                Ok(node) => self.launcher_file(path, node, cancel),
                Err(error) => Err(unreadable(path)(io::Error::from(error.kind()))),
            };
            match digest {
                Ok(digest) => digests.push(digest),
                Err(PackageError::Cancelled) => return Err(HashError::Cancelled),
                Err(error) => return Ok(Some((unknown(path.clone(), &error), Writers::Others))),
            }
            let is_roots = node.as_ref().is_ok_and(|node| {
                let path = launcher.root.canonical(path);
                path.is_ok_and(|path| launcher.root.writers(&path, node) == Writers::Root)
            });
            if !is_roots {
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
        let path = first.clone();
        Ok(Some((Part::Hashed(PinnedFile { path, digest }), writers)))
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
    fn a_file_that_is_gone_is_not_known() -> Outcome {
        let process = Process::open(std::process::id())?;
        let launcher = Launcher::of_process(&process, &["/nowhere/launcher".to_owned()])?;
        let (part, writers) = Hasher::default()
            .launcher(&launcher, &|| false)?
            .ok_or("a launcher")?;
        assert!(matches!(part, Part::Unknown { .. }), "{part:?}");
        assert_eq!(writers, Writers::Others);
        Ok(())
    }
}
