//! The files of the servers that were refused or reported most recently, which a person can accept.

use mcpmon_model::PinKey;

use super::Monitor;
use crate::pins::{Pins, ServerFiles};

/// Most servers whose refused files are remembered.
const REFUSED: usize = 64;
/// Most bytes of their manifests; a further package is remembered by its digest only.
const REFUSED_MANIFESTS: usize = 16 << 20;

impl Monitor {
    pub(super) fn remember_refused(&mut self, key: &PinKey, files: ServerFiles) {
        self.refused.retain(|(refused, _)| refused != key);
        if let Ok(pins) = Pins::try_from(files) {
            self.keep_refused(key, pins);
        }
    }

    pub(super) fn keep_refused(&mut self, key: &PinKey, pins: Pins) {
        self.refused.retain(|(refused, _)| refused != key);
        self.refused.truncate(REFUSED - 1);
        let used: usize = self.refused.iter().map(|(_, pins)| pins.manifest_bytes()).sum();
        let pins = pins.with_manifest_within(REFUSED_MANIFESTS.saturating_sub(used));
        self.refused.push_front((key.clone(), pins));
    }
}
