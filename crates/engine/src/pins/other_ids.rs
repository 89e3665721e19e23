//! Comparison with the pins of the same files under another id of their server.

use std::collections::BTreeMap;

use mcpmon_model::{PinKey, PinPart};
use mcpmon_policy::{Mode, Pinning};

use super::{
    AcceptedSets, Part, PinBook, PinMismatch, PinVerdict, PinnedPackage, Pins, ServerFiles, compare, nearest,
};

impl PinBook {
    /// Compares a start with what is accepted for `key`. If nothing is, the same files may be known under another id of
    /// the server, for a client can call it by any name: files that changed there are no first use here.
    pub fn compare(
        &self,
        key: &PinKey,
        accepted: AcceptedSets<'_>,
        actual: ServerFiles,
        policy: Pinning,
        mode: Mode,
    ) -> PinVerdict {
        if let (AcceptedSets::Nothing | AcceptedSets::NoRoom(_), true) = (accepted, policy.enabled) {
            let elsewhere = self
                .under_other_ids(key)
                .filter(|pins| pins.is_at_the_place_of(&actual));
            // Another interpreter or launcher may belong to the other id.
            let elsewhere = elsewhere.map(|pins| Pins {
                launcher: None,
                ..pins.clone()
            });
            let elsewhere: BTreeMap<u32, Pins> = (0..).zip(elsewhere).collect();
            let own = ServerFiles {
                launcher: None,
                ..actual.clone()
            };
            if let Some(changed) = nearest(&elsewhere, &own, policy, mode)
                && changed
                    .mismatches
                    .iter()
                    .any(|mismatch| mismatch.is_of_the_server(&actual))
            {
                return changed;
            }
        }
        compare(accepted, actual, policy, mode)
    }
}

impl PinMismatch {
    /// Returns whether the part is the server itself, and not the interpreter of its script or package.
    fn is_of_the_server(&self, files: &ServerFiles) -> bool {
        match self.part {
            PinPart::Script | PinPart::Package => true,
            PinPart::Executable => files.script.is_none() && files.package.is_none(),
            PinPart::Launcher => false,
        }
    }
}

impl Pins {
    /// Returns whether these files are pinned where the others are: the script or package, else the program.
    fn is_at_the_place_of(&self, actual: &ServerFiles) -> bool {
        let script = actual
            .script
            .as_ref()
            .and_then(Part::hashed)
            .map(|script| &script.path);
        let package = actual
            .package
            .as_ref()
            .and_then(Part::hashed)
            .map(PinnedPackage::root);
        let pinned_script = self.script.as_ref().map(|script| &script.path);
        let pinned_package = self.package.as_ref().map(|package| package.root.as_path());
        match (pinned_script, pinned_package) {
            (Some(pinned), _) => script == Some(pinned),
            (None, Some(pinned)) => package == Some(pinned),
            (None, None) => {
                let program = actual.executable.hashed().map(|program| &program.path);
                script.is_none() && package.is_none() && program == Some(&self.executable.path)
            }
        }
    }
}
