//! Package managers that the kernel sensor saw run: they explain why packages changed.

use std::{collections::BTreeMap, time::Duration};

use mcpmon_detect::launch::InstallerRun;
use mcpmon_model::{ChangeCause, Ecosystem, Part, ServerFiles, Timestamp};

use crate::pins::PinVerdict;

/// Most users and kinds of packages of which the last run is kept.
const MAX_RUNS: usize = 1024;
/// The time after which a run is no longer named.
const NAMED_FOR: Duration = Duration::from_hours(24);

/// The last run by user and kind of packages.
#[derive(Debug, Default)]
pub(super) struct InstallerRuns(BTreeMap<(u32, Ecosystem), (Timestamp, String)>);

impl InstallerRuns {
    /// Notes a program that this user runs, if it is a package manager that changes packages.
    pub(super) fn note(&mut self, now: Timestamp, uid: u32, argv: &[String]) {
        let Some(run) = InstallerRun::parse(argv) else {
            return;
        };
        let key = (uid, run.ecosystem);
        if self.0.len() >= MAX_RUNS && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| *key);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(key, (now, run.command));
    }

    /// Returns the last run of a package manager of this user or of root, in words, if it can be the reason of the gravest
    /// change of these files.
    pub(super) fn explain(
        &self,
        now: Timestamp,
        uid: u32,
        verdict: &PinVerdict,
        files: &ServerFiles,
    ) -> Option<String> {
        match verdict.gravest()?.cause {
            ChangeCause::Package | ChangeCause::Dependency => {}
            ChangeCause::Tampered
            | ChangeCause::Unknown
            | ChangeCause::RuntimeReplaced
            | ChangeCause::Runtime
            | ChangeCause::Launcher
            | ChangeCause::OwnSource => return None,
        }
        let notes = files
            .package
            .as_ref()
            .and_then(Part::hashed)?
            .manifest()
            .notes()?;
        let ecosystem = notes.packages.first()?.ecosystem;
        let runs = [uid, 0]
            .into_iter()
            .filter_map(|user| self.0.get(&(user, ecosystem)));
        let (at, command) = runs.max_by_key(|(at, _)| *at)?;
        let ago = now.since(*at);
        (ago <= NAMED_FOR).then(|| format!("`{command}` ran {} before", in_words(ago)))
    }
}

fn in_words(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    match time.as_secs() {
        seconds if seconds < MINUTE => format!("{seconds} s"),
        seconds if seconds < HOUR => format!("{} min", seconds / MINUTE),
        seconds if seconds < 48 * HOUR => format!("{} h", seconds / HOUR),
        seconds => format!("{} days", seconds / (24 * HOUR)),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(5 => "5 s")]
    #[test_case(61 => "1 min")]
    #[test_case(3 * 3600 => "3 h")]
    #[test_case(3 * 86_400 => "3 days")]
    fn times(seconds: u64) -> String {
        in_words(Duration::from_secs(seconds))
    }
}
