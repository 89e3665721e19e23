//! Notes that a daemon leaves in the kernel for the next one, written atomically, and the daemon's heartbeat.

use aya::maps::{Array, Map, MapData, MapError};
use mcpmon_common::state::{Heartbeat, PAGE, PAGES, StatePage};

use super::{
    pinned::PinnedSet,
    sys::{clocks, read_unaligned},
};

/// Most bytes of notes.
pub const MAX_NOTES: usize = PAGE * PAGES as usize;

/// The daemon's notes. There are two copies; a heading says which copy is in force, and its length.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Notes {
    pages: Array<MapData, StatePage>,
    /// Index of the copy in force.
    copy: u32,
}

/// The reason why notes could not be written; the earlier ones remain in force.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// There are too many.
    #[error("{length} bytes of notes do not fit: at most {MAX_NOTES} do")]
    TooLong {
        /// Their length.
        length: usize,
    },
    /// The kernel refused a write.
    #[error("failed to write the notes")]
    Write(#[from] MapError),
}

impl Notes {
    pub(super) fn new(pages: Array<MapData, StatePage>) -> Self {
        let mut notes = Self { pages, copy: 0 };
        notes.copy = notes.heading().map_or(0, |(copy, _)| copy);
        notes
    }

    /// Returns the copy in force, and its length.
    fn heading(&self) -> Option<(u32, usize)> {
        let page = self.pages.get(&0, 0).ok()?;
        let [copy, length]: [u32; 2] = read_unaligned(&page.bytes)?;
        let length = usize::try_from(length).ok()?;
        (copy < 2 && length <= MAX_NOTES).then_some((copy, length))
    }

    /// Returns the notes; empty if none were written.
    pub fn read(&self) -> Vec<u8> {
        let Some((copy, length)) = self.heading() else {
            return Vec::new();
        };
        let mut bytes = Vec::with_capacity(length);
        for page in first_page(copy).. {
            if bytes.len() >= length {
                break;
            }
            let Ok(page) = self.pages.get(&page, 0) else {
                return Vec::new();
            };
            bytes.extend_from_slice(&page.bytes);
        }
        bytes.truncate(length);
        bytes
    }

    /// Replaces the notes.
    ///
    /// # Errors
    /// Returns an error if they do not fit; the earlier ones remain.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NotesError> {
        let too_long = NotesError::TooLong { length: bytes.len() };
        let fitting = u32::try_from(bytes.len())
            .ok()
            .filter(|_| bytes.len() <= MAX_NOTES);
        let length = fitting.ok_or(too_long)?;
        let copy = 1 - self.copy;
        for (page, part) in (first_page(copy)..).zip(bytes.chunks(PAGE)) {
            self.pages.set(page, filled(part), 0)?;
        }
        let [copy_bytes, length] = [copy.to_ne_bytes(), length.to_ne_bytes()];
        self.pages.set(0, filled(&[copy_bytes, length].concat()), 0)?;
        self.copy = copy;
        Ok(())
    }
}

const fn first_page(copy: u32) -> u32 {
    1 + copy * PAGES
}

fn filled(part: &[u8]) -> StatePage {
    let mut page = StatePage { bytes: [0; PAGE] };
    for (slot, byte) in page.bytes.iter_mut().zip(part) {
        *slot = *byte;
    }
    page
}

/// Reads the notes of the daemon that pinned a set, and the nanoseconds since its last heartbeat.
///
/// # Errors
/// Returns an error if they do not exist, or this process may not read them.
pub fn read_pinned(set: &PinnedSet) -> Result<(Vec<u8>, Option<u64>), MapError> {
    let pages = Map::Array(MapData::from_pin(set.map("NOTES"))?);
    let beats = Map::Array(MapData::from_pin(set.map("HEARTBEAT"))?);
    let notes = Notes::new(Array::try_from(pages)?).read();
    let last = Pulse::new(Array::try_from(beats)?).last();
    let silence = (last.boot != 0).then(|| clocks().1.saturating_sub(last.boot));
    Ok((notes, silence))
}

/// The daemon's heartbeat: without it, the kernel suspends rules that would take the host out of service.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct Pulse {
    beats: Array<MapData, Heartbeat>,
}

impl Pulse {
    pub(super) const fn new(beats: Array<MapData, Heartbeat>) -> Self {
        Self { beats }
    }

    /// Returns the last heartbeat of any daemon.
    pub fn last(&self) -> Heartbeat {
        self.beats.get(&0, 0).unwrap_or_default()
    }

    /// Writes a heartbeat with the current time.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses it.
    pub fn beat(&mut self) -> Result<(), MapError> {
        let (monotonic, boot) = clocks();
        self.beat_at(Heartbeat { monotonic, boot })
    }

    /// Writes a heartbeat with another time.
    ///
    /// # Errors
    /// Returns the errors of [`Pulse::beat`].
    pub fn beat_at(&mut self, beat: Heartbeat) -> Result<(), MapError> {
        self.beats.set(0, beat, 0)
    }
}
