//! Digests of files: an unknown file, a known file, and plain SHA-256 of the same bytes.

use std::{
    fs::{self, File},
    io::Read as _,
    path::PathBuf,
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use mcpmon_bench::{median, site::Site};
use mcpmon_pins::{FileHasher, Root};
use sha2::{Digest as _, Sha256};

use super::seconds;

/// The length of the file, which is that of an agent's executable.
const LENGTH: usize = 100 << 20;
/// The number of bytes that the floor reads at a time.
const BUFFER: usize = 128 << 10;
/// The number of look-ups of one measurement.
const LOOK_UPS: u32 = 200;
/// The age below which a file is hashed anew each time.
const SETTLED: Duration = Duration::from_millis(50);

/// A file, and a hasher that knows its digest.
pub(crate) struct Digests {
    root: Root,
    path: PathBuf,
    known: FileHasher,
    buffer: Vec<u8>,
}

impl Digests {
    /// Writes the file.
    pub(crate) fn make(site: &Site) -> Result<Self> {
        let path = site.path("executable");
        let bytes: Vec<u8> = (0..LENGTH).map(|number| (number % 251) as u8).collect();
        fs::write(&path, bytes)?;
        thread::sleep(SETTLED);
        let mut digests = Self {
            root: Root::at("/".as_ref())?,
            path,
            known: FileHasher::default(),
            buffer: vec![0; BUFFER],
        };
        digests
            .known
            .hash(&digests.root.find(&digests.path)?, &|| false)?;
        Ok(digests)
    }

    /// Returns the seconds that plain SHA-256 takes.
    pub(crate) fn plain(&mut self) -> Result<f64> {
        seconds(|| {
            let mut file = File::open(&self.path)?;
            let mut hasher = Sha256::new();
            loop {
                let count = file.read(&mut self.buffer)?;
                if count == 0 {
                    break;
                }
                hasher.update(&self.buffer[..count]);
            }
            ensure!(hasher.finalize().len() == 32, "a digest");
            Ok(())
        })
    }

    /// Returns the seconds that a hasher takes for an unknown file.
    pub(crate) fn cold(&self) -> Result<f64> {
        let mut hasher = FileHasher::default();
        seconds(|| {
            hasher.hash(&self.root.find(&self.path)?, &|| false)?;
            Ok(())
        })
    }

    /// Returns the microseconds that a hasher takes for a known file, including the look-up of the file.
    pub(crate) fn warm(&mut self) -> Result<f64> {
        let took = (0..LOOK_UPS).map(|_| {
            seconds(|| {
                self.known.hash(&self.root.find(&self.path)?, &|| false)?;
                Ok(())
            })
        });
        Ok(median(&took.collect::<Result<Vec<_>>>()?) * 1e6)
    }
}
