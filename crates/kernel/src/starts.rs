//! Checked starts: programs that are pinned servers themselves, which the kernel refuses to start unless their digest
//! is accepted. The digest is that of IMA, and the program that asks for it is one for BPF LSM.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use mcpmon_common::{
    event::Counter,
    gate::{AcceptedDigest, CheckedProgram, Gate, name_hash},
    limits::{ACCEPTED_DIGESTS_OF_USER, CHECKED_PROGRAMS_OF_USER, FILENAME_MAX},
};
use mcpmon_model::Digest;
use nix::{errno::Errno, unistd::getuid};

use super::{
    children::{self, CANARY_LIMIT},
    counters::Counters,
    gate::Shares,
    preflight, sys,
};

/// The oldest kernel with `bpf_ima_file_hash`.
const MINIMUM: (u32, u32) = (5, 18);
/// The active security modules.
const MODULES: &str = "/sys/kernel/security/lsm";
/// Name of the canary's file in memory, and the path by which the kernel knows it.
const CANARY_NAME: &core::ffi::CStr = c"mcpmon-canary";
/// The path that the kernel reports for a canary.
pub const CANARY_PATH: &str = "/memfd:mcpmon-canary (deleted)";

/// A program with a digest that is accepted for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedProgram {
    /// The user.
    pub uid: u32,
    /// Its path.
    pub path: PathBuf,
    /// The digest.
    pub digest: Digest,
    /// True if the program is all that is pinned of its server: its start needs no other comparison.
    pub is_whole: bool,
}

/// The kernel's tables of checked programs.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct StartTables {
    programs: HashMap<MapData, CheckedProgram, u32>,
    digests: HashMap<MapData, AcceptedDigest, u32>,
}

/// Returns why this kernel cannot check starts; `None` if it may.
pub fn unsupported() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if preflight::parse_release(&release).is_none_or(|version| version < MINIMUM) {
        let (major, minor) = MINIMUM;
        return Some(format!(
            "kernel {} is older than {major}.{minor}, which gives programs IMA's digest",
            release.trim()
        ));
    }
    // Without this file the canary tells.
    let modules = fs::read_to_string(MODULES).ok()?;
    without_bpf(modules.trim())
}

/// Returns why no program for BPF LSM is called where these security modules are active.
fn without_bpf(modules: &str) -> Option<String> {
    let is_active = modules.split(',').any(|name| name == "bpf");
    (!is_active).then(|| {
        format!("`bpf` is not among the active security modules ({modules}): start the kernel with `lsm={modules},bpf`")
    })
}

impl StartTables {
    pub(super) const fn new(
        programs: HashMap<MapData, CheckedProgram, u32>,
        digests: HashMap<MapData, AcceptedDigest, u32>,
    ) -> Self {
        Self { programs, digests }
    }

    /// Replaces the checked programs with their accepted digests. No start of a program is refused meanwhile whose
    /// digest is accepted before and after. Returns the users with more than one may have; programs beyond that are not
    /// checked.
    ///
    /// # Errors
    /// Returns the first error, for example if there are more than the tables hold; programs whose digests do not all
    /// fit are not checked.
    pub fn replace(&mut self, accepted: &BTreeSet<AcceptedProgram>) -> Result<BTreeSet<u32>, MapError> {
        // Entries of the canary belong to the self-test, which runs beside this.
        let canary = checked(0, Path::new(CANARY_PATH)).path;
        let is_own = |program: &CheckedProgram| program.path != canary;
        let known = self.programs.keys().filter_map(Result::ok).filter(is_own);
        let checked: BTreeSet<CheckedProgram> = known.collect();
        let known = self.digests.iter().filter_map(Result::ok);
        let before: BTreeMap<AcceptedDigest, u32> =
            known.filter(|(entry, _)| is_own(&entry.program)).collect();
        let (wanted, beyond) = fitting(wanted(accepted), &checked, &before);
        let programs: BTreeSet<CheckedProgram> = wanted.keys().map(|entry| entry.program).collect();
        let mut first = Ok(());
        for gone in checked.difference(&programs) {
            let removed = self.programs.remove(gone);
            first = first.and(removed);
        }
        for gone in before.keys().filter(|entry| !programs.contains(&entry.program)) {
            let removed = self.digests.remove(gone);
            first = first.and(removed);
        }
        let mut whole = programs;
        for (entry, extent) in wanted
            .iter()
            .filter(|(entry, extent)| before.get(entry) != Some(extent))
        {
            if let Err(error) = self.digests.insert(entry, extent, 0) {
                whole.remove(&entry.program);
                drop(self.programs.remove(&entry.program));
                first = first.and(Err(error));
            }
        }
        for new in whole.difference(&checked) {
            let inserted = self.programs.insert(new, 1, 0);
            first = first.and(inserted);
        }
        for gone in before
            .keys()
            .filter(|entry| whole.contains(&entry.program) && !wanted.contains_key(entry))
        {
            let removed = self.digests.remove(gone);
            first = first.and(removed);
        }
        first.map(|()| beyond)
    }
}

/// The entries for these programs. A path that does not fit into the kernel's buffer is none.
fn wanted(accepted: &BTreeSet<AcceptedProgram>) -> BTreeMap<AcceptedDigest, u32> {
    let mut wanted = BTreeMap::new();
    for program in accepted
        .iter()
        .filter(|program| program.path.as_os_str().len() < FILENAME_MAX)
    {
        let entry = AcceptedDigest {
            program: checked(program.uid, &program.path),
            digest: *program.digest.as_bytes(),
        };
        let extent = if program.is_whole {
            AcceptedDigest::WHOLE
        } else {
            AcceptedDigest::PART
        };
        // If only one of two servers is whole, the program is stopped.
        let known = wanted.entry(entry).or_insert(extent);
        *known = extent.max(*known);
    }
    wanted
}

/// Returns the entries within each user's share, and the users with more. A program is checked with all its digests or
/// not at all, and replaces none that is checked already, even if it is one of these and gets more digests.
fn fitting(
    mut wanted: BTreeMap<AcceptedDigest, u32>,
    checked: &BTreeSet<CheckedProgram>,
    before: &BTreeMap<AcceptedDigest, u32>,
) -> (BTreeMap<AcceptedDigest, u32>, BTreeSet<u32>) {
    // The digests of each program, those in force apart from the others.
    let mut digests: BTreeMap<CheckedProgram, (usize, usize)> = BTreeMap::new();
    for entry in wanted.keys() {
        let (in_force, others) = digests.entry(entry.program).or_default();
        let is_in_force = checked.contains(&entry.program) && before.contains_key(entry);
        *(if is_in_force { in_force } else { others }) += 1;
    }
    let mut room = Room {
        programs: Shares::of(CHECKED_PROGRAMS_OF_USER),
        digests: Shares::of(ACCEPTED_DIGESTS_OF_USER),
    };
    let mut fits = BTreeSet::new();
    for (program, (in_force, _)) in digests.iter().filter(|(program, _)| checked.contains(program)) {
        if room.take(program.uid, *in_force) {
            fits.insert(*program);
        }
    }
    for (program, (in_force, others)) in digests.iter().filter(|(program, _)| checked.contains(program)) {
        if fits.contains(program) && !room.digests.take(program.uid, *others) {
            room.give_back(program.uid, *in_force);
            fits.remove(program);
        }
    }
    for (program, (_, all)) in digests.iter().filter(|(program, _)| !checked.contains(program)) {
        if room.take(program.uid, *all) {
            fits.insert(*program);
        }
    }
    wanted.retain(|entry, _| fits.contains(&entry.program));
    (wanted, room.beyond())
}

/// The rest of each user's shares of the tables.
struct Room {
    programs: Shares,
    digests: Shares,
}

impl Room {
    /// Takes the entries for one program with its digests, or none if they do not all fit.
    fn take(&mut self, uid: u32, digests: usize) -> bool {
        let has_slot = self.programs.take(uid, 1);
        let fits = has_slot && self.digests.take(uid, digests);
        if has_slot && !fits {
            self.programs.give_back(uid, 1);
        }
        fits
    }

    /// Gives back the entries of one program.
    fn give_back(&mut self, uid: u32, digests: usize) {
        self.programs.give_back(uid, 1);
        self.digests.give_back(uid, digests);
    }

    /// Returns the users that have more than their shares.
    fn beyond(self) -> BTreeSet<u32> {
        self.programs
            .beyond
            .union(&self.digests.beyond)
            .copied()
            .collect()
    }
}

fn checked(uid: u32, path: &Path) -> CheckedProgram {
    CheckedProgram {
        path: name_hash(path.as_os_str().as_encoded_bytes()),
        uid,
        reserved: 0,
    }
}

/// The reason why it is not proved that starts are checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// This host has nothing for it, or it was never possible to find out.
    #[error("{0}")]
    Absent(String),
    /// It does not work, or the proof cannot be made.
    #[error("{0}")]
    Failed(String),
}

/// A proof that starts are checked: a file that must not start, and starts once its digest is accepted.
pub struct StartCanary {
    tables: StartTables,
    switch: Array<MapData, Gate>,
    counters: Counters,
    is_proved: bool,
}

impl std::fmt::Debug for StartCanary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartCanary").finish_non_exhaustive()
    }
}

impl StartCanary {
    /// Opens the tables among the maps of a loaded object.
    pub(super) fn open(maps: &[(String, OwnedFd)]) -> Result<Self, MapError> {
        let data = |wanted: &str| -> Result<MapData, MapError> {
            let found = maps.iter().find(|(name, _)| name == wanted);
            let (_, map) = found.ok_or_else(|| MapError::InvalidName {
                name: wanted.to_owned(),
            })?;
            MapData::from_fd(map.try_clone()?)
        };
        Ok(Self {
            tables: StartTables::new(
                HashMap::try_from(Map::HashMap(data("CHECKED_PROGRAMS")?))?,
                HashMap::try_from(Map::HashMap(data("ACCEPTED_DIGESTS")?))?,
            ),
            switch: Array::try_from(Map::Array(data("GATE")?))?,
            counters: Counters {
                values: PerCpuArray::try_from(Map::PerCpuArray(data("COUNTERS")?))?,
            },
            is_proved: false,
        })
    }

    /// Returns whether the proof succeeded once.
    pub const fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// Starts a script of this text, which names its interpreter: once as a program whose digest is not accepted, and
    /// once as one whose digest is.
    ///
    /// # Errors
    /// Returns why starts are not checked. Where the proof succeeded before, this host has what it needs.
    pub fn prove(&mut self, script: &str) -> Result<(), Unproved> {
        let outcome = since(self.is_proved, self.try_prove(script));
        self.is_proved |= outcome.is_ok();
        outcome
    }

    fn try_prove(&mut self, script: &str) -> Result<(), Unproved> {
        let canary =
            Canary::make(script).map_err(|error| absent(format!("no canary can be made: {error}")))?;
        let program = checked(getuid().as_raw(), Path::new(CANARY_PATH));
        let entry = AcceptedDigest {
            program,
            digest: *Digest::of(script.as_bytes()).as_bytes(),
        };
        let refused = self.tables.programs.insert(program, 1, 0);
        let outcome = refused
            .map_err(failed)
            .and_then(|()| self.is_refused(&canary))
            .and_then(|()| {
                let accepted = self.tables.digests.insert(entry, AcceptedDigest::WHOLE, 0);
                accepted.map_err(failed)
            })
            .and_then(|()| {
                canary.start().map_err(|error| {
                    failed(format!(
                        "a canary with an accepted digest does not run to its end: {error}"
                    ))
                })
            });
        drop(self.tables.programs.remove(&program));
        drop(self.tables.digests.remove(&entry));
        outcome
    }

    fn is_refused(&self, canary: &Canary) -> Result<(), Unproved> {
        let unhashed = || self.counters.get(Counter::StartUnhashed).unwrap_or_default();
        let before = unhashed();
        match canary.start() {
            Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(failed(format!(
                "the canary was not refused, and does not end: {error}"
            ))),
            Err(error) => Err(failed(format!(
                "the canary does not start, though nothing refused it: {error}"
            ))),
            Ok(()) if unhashed() > before => Err(absent(
                "IMA gives no SHA-256: it is not built into the kernel, or `ima_hash=` names another digest",
            )),
            Ok(()) if self.is_closed() => Err(absent("the exec gate is closed")),
            Ok(()) => Err(absent(
                "the canary was not refused: the kernel accepts the program, and does not call it",
            )),
        }
    }

    fn is_closed(&self) -> bool {
        let (_, now) = sys::clocks();
        self.switch.get(&0, 0).is_ok_and(|gate| gate.open_until <= now)
    }
}

/// Judges the outcome of a proof. What this host had when the proof succeeded before is not absent.
fn since(was_proved: bool, outcome: Result<(), Unproved>) -> Result<(), Unproved> {
    match outcome {
        Err(Unproved::Absent(cause)) if was_proved => Err(failed(cause)),
        outcome => outcome,
    }
}

fn absent(cause: impl ToString) -> Unproved {
    Unproved::Absent(cause.to_string())
}

fn failed(cause: impl ToString) -> Unproved {
    Unproved::Failed(cause.to_string())
}

/// A script in memory, so that no file system has to be writable or may forbid programs.
struct Canary(File);

impl Canary {
    fn make(script: &str) -> io::Result<Self> {
        let mut written = sys::executable_in_memory(CANARY_NAME)?;
        written.write_all(script.as_bytes())?;
        // A file that is open for writing cannot be executed.
        let file = File::open(format!("/proc/self/fd/{}", written.as_raw_fd()))?;
        Ok(Self(file))
    }

    /// Starts the script, and waits for its end.
    fn start(&self) -> io::Result<()> {
        // A child that another thread has just forked holds the file open for writing until it executes.
        const MAX_BUSY: usize = 100;
        for _ in 0..MAX_BUSY {
            match self.start_once() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                outcome => return outcome,
            }
        }
        self.start_once()
    }

    fn start_once(&self) -> io::Result<()> {
        let child = Command::new(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        children::wait(child, CANARY_LIMIT).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use test_case::test_case;

    use super::*;

    #[test_case("lockdown,capability,bpf" => None)]
    #[test_case("lockdown,bpfx" => Some("`bpf` is not among the active security modules (lockdown,bpfx): start the kernel with `lsm=lockdown,bpfx,bpf`".to_owned()))]
    fn without_bpf_the_remedy_is_told(modules: &str) -> Option<String> {
        without_bpf(modules)
    }

    #[test]
    fn what_was_proved_once_is_not_absent_later() {
        let absent = || Err(Unproved::Absent("not called".to_owned()));
        assert_eq!(since(false, absent()), absent());
        assert_eq!(since(true, absent()), Err(failed("not called")));
        for was_proved in [false, true] {
            let closed = Err(failed("closed"));
            assert_eq!(since(was_proved, closed.clone()), closed);
            assert_eq!(since(was_proved, Ok(())), Ok(()));
        }
    }

    #[test]
    fn a_program_of_two_servers_is_whole_if_it_is_for_both() {
        let of = |digest: &str, is_whole, path: &str| AcceptedProgram {
            uid: 7,
            path: PathBuf::from(path),
            digest: Digest::of(digest.as_bytes()),
            is_whole,
        };
        let long = format!("/{}", "x".repeat(FILENAME_MAX));
        let accepted = BTreeSet::from([
            of("one", true, "/a"),
            of("one", false, "/a"),
            of("two", true, "/a"),
            of("one", true, &long),
        ]);
        let extents = |digest: &str| {
            let entry = AcceptedDigest {
                program: checked(7, Path::new("/a")),
                digest: *Digest::of(digest.as_bytes()).as_bytes(),
            };
            wanted(&accepted).get(&entry).copied()
        };
        assert_eq!(extents("one"), Some(AcceptedDigest::PART));
        assert_eq!(extents("two"), Some(AcceptedDigest::WHOLE));
        assert_eq!(wanted(&accepted).len(), 2, "a path that is too long");
    }

    fn entries(
        uid: u32,
        programs: Range<usize>,
        digests: usize,
    ) -> impl Iterator<Item = (AcceptedDigest, u32)> {
        let digest = |number: usize| *Digest::of(&number.to_ne_bytes()).as_bytes();
        programs.flat_map(move |path| {
            (0..digests).map(move |number| {
                let entry = AcceptedDigest {
                    program: CheckedProgram {
                        path: path as u64,
                        uid,
                        reserved: 0,
                    },
                    digest: digest(number),
                };
                (entry, AcceptedDigest::WHOLE)
            })
        })
    }

    #[test_case(0..2 * CHECKED_PROGRAMS_OF_USER, 1 => CHECKED_PROGRAMS_OF_USER; "programs")]
    #[test_case(0..3, ACCEPTED_DIGESTS_OF_USER / 2 + 1 => ACCEPTED_DIGESTS_OF_USER / 2 + 1; "digests of a whole program")]
    fn a_user_with_many_leaves_room_for_others(programs: Range<usize>, digests: usize) -> usize {
        let few: BTreeMap<_, _> = entries(8, 0..10, 2).collect();
        let many = entries(7, programs, digests);
        let (fits, beyond) = fitting(
            many.chain(few.clone()).collect(),
            &BTreeSet::new(),
            &BTreeMap::new(),
        );
        assert_eq!(beyond, BTreeSet::from([7]));
        assert!(few.keys().all(|entry| fits.contains_key(entry)));
        fits.len() - few.len()
    }

    #[test]
    fn what_is_checked_gives_way_to_nothing() {
        let before: BTreeMap<_, _> = entries(7, 1..CHECKED_PROGRAMS_OF_USER + 1, 1).collect();
        let checked = before.keys().map(|entry| entry.program).collect();
        let all = before.clone().into_iter().chain(entries(7, 0..1, 1)).collect();
        let fits = fitting(all, &checked, &before);
        assert_eq!(fits, (before, BTreeSet::from([7])));
    }

    #[test]
    fn what_is_checked_gives_way_to_no_more_digests_of_another() {
        let half = ACCEPTED_DIGESTS_OF_USER / 2;
        let first: BTreeMap<_, _> = entries(7, 0..1, half).collect();
        let second: BTreeMap<_, _> = entries(7, 1..2, half).collect();
        let before: BTreeMap<_, _> = first.into_iter().chain(second.clone()).collect();
        let checked = before.keys().map(|entry| entry.program).collect();
        let more = entries(7, 0..1, half + 1).chain(second.clone()).collect();
        let (fits, beyond) = fitting(more, &checked, &before);
        assert_eq!((fits.len(), beyond), (half, BTreeSet::from([7])));
        assert!(second.keys().all(|entry| fits.contains_key(entry)));
    }

    #[test]
    fn a_program_with_too_many_digests_keeps_no_slot() {
        let large = entries(7, 0..1, ACCEPTED_DIGESTS_OF_USER + 1);
        let small: BTreeMap<_, _> = entries(7, 1..CHECKED_PROGRAMS_OF_USER + 1, 1).collect();
        let all = large.chain(small.clone()).collect();
        let fits = fitting(all, &BTreeSet::new(), &BTreeMap::new());
        assert_eq!(fits, (small, BTreeSet::from([7])));
    }
}
