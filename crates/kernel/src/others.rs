//! Traces of other daemons in the kernel, wherever their state is pinned. Looking for them needs `CAP_SYS_ADMIN`.

use std::{collections::BTreeMap, io, thread, time::Duration};

use aya::{
    maps::{Array, Map, MapData, loaded_maps},
    programs::{loaded_links, loaded_programs},
};
use mcpmon_common::state::Heartbeat;
use nix::time::{ClockId, clock_gettime};

/// The map in which a daemon gives signs of life.
const HEARTBEAT: &str = "HEARTBEAT";
/// A map that every program uses, so that programs of others with the same names are not counted.
const COUNTERS: &str = "COUNTERS";
/// Longer than the interval of a daemon's signs of life.
const INTERVAL: Duration = Duration::from_millis(1500);

/// Returns whether a daemon gives signs of life, in whatever directory it keeps its state. The caller must give none yet.
/// Waits if there were any recently.
///
/// # Errors
/// Returns an error if the kernel's maps cannot be listed.
pub fn is_daemon_alive() -> io::Result<bool> {
    let now = u64::try_from(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_nanos())
        .unwrap_or(u64::MAX);
    let mut before = heartbeats()?;
    before.retain(|_, beat| *beat != Heartbeat::default() && beat.is_fresh(now));
    if before.is_empty() {
        return Ok(false);
    }
    thread::sleep(INTERVAL);
    let after = heartbeats()?;
    Ok(before.iter().any(|(id, beat)| {
        after
            .get(id)
            .is_some_and(|later| later.monotonic > beat.monotonic)
    }))
}

/// Returns the signs of life in the kernel, by the number of their map.
fn heartbeats() -> io::Result<BTreeMap<u32, Heartbeat>> {
    let mut found = BTreeMap::new();
    for map in loaded_maps() {
        let map = map.map_err(io::Error::other)?;
        if map.name_as_str() != Some(HEARTBEAT) {
            continue;
        }
        // A map that is gone meanwhile belongs to nobody.
        let beat = MapData::from_id(map.id())
            .and_then(|data| Array::<_, Heartbeat>::try_from(Map::Array(data)))
            .and_then(|beats| beats.get(&0, 0));
        if let Ok(beat) = beat {
            found.insert(map.id(), beat);
        }
    }
    Ok(found)
}

/// Returns the numbers of the links that hold programs of a daemon.
///
/// # Errors
/// Returns an error if the kernel's programs cannot be listed.
pub fn links() -> io::Result<Vec<u32>> {
    let counters: Vec<u32> = loaded_maps()
        .filter_map(Result::ok)
        .filter(|map| map.name_as_str() == Some(COUNTERS))
        .map(|map| map.id())
        .collect();
    let is_ours = |maps: Vec<u32>| maps.iter().any(|map| counters.contains(map));
    let mut programs = Vec::new();
    for program in loaded_programs() {
        let program = program.map_err(io::Error::other)?;
        let maps = program.map_ids().map_err(io::Error::other)?;
        if is_ours(maps.unwrap_or_default()) {
            programs.push(program.id());
        }
    }
    let links = loaded_links().filter_map(Result::ok);
    Ok(links
        .filter(|link| programs.contains(&link.program_id()))
        .map(|link| link.id())
        .collect())
}
