//! The exec gate: the names that make the kernel stop a process at exec, and the stopped processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use aya::{
    Ebpf,
    maps::{Array, HashMap, Map, MapData, MapError},
};
use mcpmon_common::{
    gate::{Gate, GateKey, GateKind, Hold, name_hash},
    limits::{COMM_LEN, GATE_NAMES_OF_USER},
};
use nix::time::{ClockId, clock_gettime};

use super::{
    pinned::{PinDirectory, PinError, PinnedSet},
    sensor::{SensorError, descriptor, take},
};

/// A name that stops a start of one user, or by which a candidate of any user is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatedName {
    /// The user; [`ANY_USER`](mcpmon_common::gate::ANY_USER) for a candidate.
    pub uid: u32,
    /// The part of the start that is compared with the name.
    pub kind: GateKind,
    /// The name.
    pub name: String,
}

/// The kernel's tables of the exec gate.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct ExecGate {
    switch: Array<MapData, Gate>,
    names: HashMap<MapData, GateKey, u32>,
    holds: HashMap<MapData, u32, Hold>,
    shared: GateDescriptors,
}

/// Descriptors of the switch and of the table of stopped processes, for use in another process.
#[derive(Debug)]
pub struct GateDescriptors {
    /// The switch.
    pub switch: OwnedFd,
    /// The stopped processes.
    pub holds: OwnedFd,
}

impl GateDescriptors {
    /// Duplicates the descriptors.
    ///
    /// # Errors
    /// Returns an error if this process may not open more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            switch: self.switch.try_clone()?,
            holds: self.holds.try_clone()?,
        })
    }
}

/// The stopped processes, in another process than the one that opens the gate.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct SharedHolds {
    switch: Array<MapData, Gate>,
    holds: HashMap<MapData, u32, Hold>,
}

impl SharedHolds {
    /// Opens the tables behind descriptors from [`ExecGate::share`].
    ///
    /// # Errors
    /// Returns an error if they are not descriptors of such tables.
    pub fn new(descriptors: GateDescriptors) -> Result<Self, MapError> {
        let GateDescriptors { switch, holds } = descriptors;
        Ok(Self {
            switch: Array::try_from(Map::Array(MapData::from_fd(switch)?))?,
            holds: HashMap::try_from(Map::HashMap(MapData::from_fd(holds)?))?,
        })
    }

    /// Opens the tables of every set that is pinned in a directory and has the layout of this program's tables.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn pinned(directory: &PinDirectory) -> Result<Pinned, PinError> {
        Ok(Pinned::of(directory.sets()?))
    }

    fn open(set: &PinnedSet) -> Result<Self, MapError> {
        Ok(Self {
            switch: Array::try_from(Map::Array(MapData::from_pin(set.map("GATE"))?))?,
            holds: HashMap::try_from(Map::HashMap(MapData::from_pin(set.map("HOLDS"))?))?,
        })
    }

    /// Returns for how long the gate has been closed because its time was not extended. Returns `None` if it is open,
    /// or was closed on purpose.
    ///
    /// # Errors
    /// Returns an error if the table or the clock cannot be read.
    pub fn silence(&self) -> io::Result<Option<Duration>> {
        let gate = self.switch.get(&0, 0).map_err(io::Error::other)?;
        let since = u64::try_from(since_boot()?.as_nanos()).unwrap_or(u64::MAX);
        let is_opened = gate != Gate::default();
        Ok(is_opened
            .then(|| since.checked_sub(gate.open_until))
            .flatten()
            .map(Duration::from_nanos))
    }

    /// Closes the gate: the kernel stops no more processes.
    ///
    /// # Errors
    /// Returns an error if the table cannot be written.
    pub fn close(&mut self) -> io::Result<()> {
        close(&mut self.switch)
    }

    /// Removes and returns every process that is recorded as stopped: the caller has to resume or kill each of them.
    pub fn take(&mut self) -> Vec<Hold> {
        let stopped: Vec<(u32, Hold)> = self.holds.iter().filter_map(Result::ok).collect();
        for (pid, _) in &stopped {
            // Absent if another process has removed it already.
            drop(self.holds.remove(pid));
        }
        stopped.into_iter().map(|(_, hold)| hold).collect()
    }
}

/// The stopped processes of pinned sets.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
#[derive(Default)]
pub struct Pinned {
    /// The tables that could be opened.
    pub holds: Vec<SharedHolds>,
    /// The errors of the sets whose tables could not.
    pub errors: Vec<MapError>,
}

impl Pinned {
    fn of(sets: impl IntoIterator<Item = PinnedSet>) -> Self {
        let mut pinned = Self::default();
        // Sets of other versions may have no such tables.
        let with_holds = sets.into_iter().filter(|set| set.map("HOLDS").exists());
        for set in with_holds {
            match SharedHolds::open(&set) {
                Ok(holds) => pinned.holds.push(holds),
                Err(error) => pinned.errors.push(error),
            }
        }
        pinned
    }
}

/// Records in `holds`, the table of the set `own`, which processes the programs of all other sets have stopped. This is
/// done before those sets are removed, because the processes could not be found afterwards.
pub(super) fn adopt(
    directory: &PinDirectory,
    own: Option<&PinnedSet>,
    holds: BorrowedFd<'_>,
) -> Result<(), PinError> {
    let is_other = |set: &PinnedSet| own.is_none_or(|own| !own.is(set));
    let others = directory.sets()?.into_iter().filter(is_other);
    let mut others = Pinned::of(others);
    let taken = others.holds.iter_mut().map(|other| take_over(other, holds));
    let faults = others.errors.into_iter().map(io::Error::other);
    for error in taken.filter_map(Result::err).chain(faults) {
        tracing::warn!(%error, "processes that an earlier daemon stopped may stay stopped: send them SIGCONT");
    }
    Ok(())
}

fn take_over(other: &mut SharedHolds, holds: BorrowedFd<'_>) -> io::Result<()> {
    let holds = MapData::from_fd(holds.try_clone_to_owned()?).map_err(io::Error::other)?;
    let mut own: HashMap<_, u32, Hold> = HashMap::try_from(Map::HashMap(holds)).map_err(io::Error::other)?;
    let mut first = other.close();
    for hold in other.take() {
        let noted = own.insert(hold.process.pid, hold, 0).map_err(io::Error::other);
        first = first.and(noted);
    }
    first
}

impl ExecGate {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, SensorError> {
        let shared = GateDescriptors {
            switch: descriptor(ebpf, "GATE")?,
            holds: descriptor(ebpf, "HOLDS")?,
        };
        Ok(Self {
            switch: take(ebpf, "GATE", Array::try_from)?,
            names: take(ebpf, "GATED", HashMap::try_from)?,
            holds: take(ebpf, "HOLDS", HashMap::try_from)?,
            shared,
        })
    }

    /// Returns descriptors with which another process can open the tables, see [`SharedHolds`].
    ///
    /// # Errors
    /// Returns an error if this process may not open more descriptors.
    pub fn share(&self) -> io::Result<GateDescriptors> {
        self.shared.try_clone()
    }

    /// Lets the kernel stop processes for this time from now on: starts of pinned servers, and candidates if
    /// `stops_candidates` is true.
    ///
    /// # Errors
    /// Returns an error if the table cannot be written; the gate closes by itself then.
    pub fn open_for(&mut self, time: Duration, stops_candidates: bool) -> io::Result<()> {
        let until = since_boot()? + time;
        let gate = Gate {
            open_until: u64::try_from(until.as_nanos()).unwrap_or(u64::MAX),
            stops_candidates: u64::from(stops_candidates),
        };
        self.switch.set(0, gate, 0).map_err(io::Error::other)
    }

    /// Closes the gate: the kernel stops no more processes.
    ///
    /// # Errors
    /// Returns an error if the table cannot be written.
    pub fn close(&mut self) -> io::Result<()> {
        close(&mut self.switch)
    }

    /// Replaces the names that stop a start. Returns the users with more names than one may have; those that fit are in
    /// force.
    ///
    /// # Errors
    /// Returns the first error, for example if there are more names than the table holds; the names that fit are in
    /// force.
    pub fn replace(&mut self, names: &BTreeSet<GatedName>) -> Result<BTreeSet<u32>, MapError> {
        let wanted: BTreeSet<GateKey> = names.iter().map(key).collect();
        let before: BTreeSet<GateKey> = self.names.keys().filter_map(Result::ok).collect();
        let mut first = Ok(());
        for gone in before.difference(&wanted) {
            let removed = self.names.remove(gone);
            first = first.and(removed);
        }
        let (added, beyond) = added(&wanted, &before);
        for new in added {
            let inserted = self.names.insert(new, 1, 0);
            first = first.and(inserted);
        }
        first.map(|()| beyond)
    }

    /// Records that a process is stopped and has to be compared: from now on the kernel reports who resumes it. Returns
    /// whether it was resumed before.
    ///
    /// # Errors
    /// Returns an error if the table is full.
    pub fn hold(&mut self, pid: u32, mut hold: Hold) -> Result<bool, MapError> {
        let before = self.holds.get(&pid, 0).map_or(0, |hold| hold.flags);
        hold.flags |= before;
        self.holds.insert(pid, hold, 0)?;
        Ok(before & Hold::FLAG_RESUMED != 0)
    }

    /// Records that a process is no longer stopped. To be called before it is sent `SIGCONT`.
    pub fn release(&mut self, pid: u32) {
        // Absent if it was not recorded.
        drop(self.holds.remove(&pid));
    }

    /// Returns every process that is recorded as stopped.
    pub fn holds(&self) -> impl Iterator<Item = (u32, Hold)> {
        self.holds.iter().filter_map(Result::ok)
    }
}

/// Returns the names that are added to those in force, within each user's share, and the users with more. Names that do
/// not fit replace no others. Those of interpreters come first: without them, those of arguments stop nothing.
fn added(wanted: &BTreeSet<GateKey>, before: &BTreeSet<GateKey>) -> (Vec<GateKey>, BTreeSet<u32>) {
    let mut shares = Shares::of(GATE_NAMES_OF_USER);
    for kept in wanted.intersection(before) {
        shares.take(kept.uid, 1);
    }
    let mut new: Vec<GateKey> = wanted.difference(before).copied().collect();
    new.sort_by_key(|key| key.kind != GateKind::Interpreter as u32);
    new.retain(|key| shares.take(key.uid, 1));
    (new, shares.beyond)
}

/// The shares of users in a table, so that one user's entries leave room for those of others.
pub(super) struct Shares {
    of_user: usize,
    used: BTreeMap<u32, usize>,
    /// The users that asked for more than their share.
    pub(super) beyond: BTreeSet<u32>,
}

impl Shares {
    /// Lets each user have this many entries.
    pub(super) const fn of(entries: usize) -> Self {
        Self {
            of_user: entries,
            used: BTreeMap::new(),
            beyond: BTreeSet::new(),
        }
    }

    /// Takes some entries for a user; returns false if they are more than are left of the share.
    pub(super) fn take(&mut self, uid: u32, entries: usize) -> bool {
        let used = self.used.entry(uid).or_default();
        let fits = *used + entries <= self.of_user;
        if fits {
            *used += entries;
        } else {
            self.beyond.insert(uid);
        }
        fits
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, uid: u32, entries: usize) {
        let used = self.used.entry(uid).or_default();
        *used = used.saturating_sub(entries);
    }
}

fn since_boot() -> io::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?))
}

fn close(switch: &mut Array<MapData, Gate>) -> io::Result<()> {
    switch.set(0, Gate::default(), 0).map_err(io::Error::other)
}

fn key(name: &GatedName) -> GateKey {
    let bytes = name.name.as_bytes();
    // The kernel truncates command names.
    let kept = match name.kind {
        GateKind::Program | GateKind::Interpreter => bytes.len().min(COMM_LEN - 1),
        GateKind::Argument | GateKind::First => bytes.len(),
    };
    GateKey {
        name: name_hash(&bytes[..kept]),
        uid: name.uid,
        kind: name.kind as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_are_cut_as_the_kernel_cuts_them_and_arguments_are_not() {
        let gated = |kind, name: &str| {
            key(&GatedName {
                uid: 7,
                kind,
                name: name.to_owned(),
            })
        };
        let (whole, cut) = ("mcp-server-of-a-long-name", "mcp-server-of-a");
        assert_eq!(gated(GateKind::Program, whole), gated(GateKind::Program, cut));
        assert_ne!(gated(GateKind::Argument, whole), gated(GateKind::Argument, cut));
        assert_ne!(gated(GateKind::Program, cut), gated(GateKind::Interpreter, cut));
        let mut comm = [0; COMM_LEN];
        comm[..COMM_LEN - 1].copy_from_slice(cut.as_bytes());
        assert_eq!(gated(GateKind::Program, whole).name, name_hash(&comm));
    }
    fn gated(uid: u32, kind: GateKind, names: std::ops::Range<usize>) -> impl Iterator<Item = GateKey> {
        names.map(move |name| GateKey {
            name: name as u64,
            uid,
            kind: kind as u32,
        })
    }

    #[test]
    fn a_user_with_many_names_leaves_room_for_others() {
        let many = gated(7, GateKind::Argument, 0..2 * GATE_NAMES_OF_USER);
        let few: Vec<_> = gated(8, GateKind::Program, 0..10).collect();
        let interpreters: Vec<_> = gated(7, GateKind::Interpreter, 1 << 20..(1 << 20) + 3).collect();
        let wanted = many.chain(few.iter().chain(&interpreters).copied()).collect();
        let (new, beyond) = added(&wanted, &BTreeSet::new());
        let of = |uid: u32| new.iter().filter(|key| key.uid == uid).count();
        assert_eq!((of(7), of(8)), (GATE_NAMES_OF_USER, few.len()));
        assert_eq!(beyond, BTreeSet::from([7]));
        assert!(interpreters.iter().all(|interpreter| new.contains(interpreter)));
    }

    #[test]
    fn names_in_force_stay_and_leave_room_when_they_go() {
        let before: BTreeSet<_> = gated(7, GateKind::Program, 1..GATE_NAMES_OF_USER + 1).collect();
        let mut wanted = before.clone();
        wanted.extend(gated(7, GateKind::Program, 0..1));
        assert_eq!(added(&wanted, &before), (Vec::new(), BTreeSet::from([7])));
        wanted.pop_last();
        let first = gated(7, GateKind::Program, 0..1).collect();
        assert_eq!(added(&wanted, &before), (first, BTreeSet::new()));
    }
}
