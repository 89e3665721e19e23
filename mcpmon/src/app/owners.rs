//! Owners of subordinate user ids (`/etc/subuid`): what such an id uses is counted to its owner, so that a user does
//! not get more by starting a user namespace.

use std::{
    fs::File,
    io::Read as _,
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The files that name the ranges and the users.
const RANGES: &str = "/etc/subuid";
const USERS: &str = "/etc/passwd";
/// Largest file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;
/// The interval at which the files are read again.
const INTERVAL: Duration = Duration::from_secs(60);

/// A range of user ids, and their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubordinateRange {
    first: u32,
    count: u32,
    owner: u32,
}

#[derive(Debug, Default)]
struct KnownRanges {
    read_at: Option<Instant>,
    ranges: Vec<SubordinateRange>,
}

static KNOWN: LazyLock<Mutex<KnownRanges>> = LazyLock::new(Mutex::default);

/// Returns the user to whom `uid` is subordinate, or `uid` itself.
pub(crate) fn owner(uid: u32) -> u32 {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.read_at.is_none_or(|read_at| read_at.elapsed() >= INTERVAL) {
        *known = KnownRanges {
            read_at: Some(Instant::now()),
            ranges: parse(&read(RANGES), &read(USERS)),
        };
    }
    find(&known.ranges, uid)
}

fn find(ranges: &[SubordinateRange], uid: u32) -> u32 {
    let range = ranges.iter().find(|range| {
        uid.checked_sub(range.first)
            .is_some_and(|offset| offset < range.count)
    });
    range.map_or(uid, |range| range.owner)
}

/// Reads a file. A missing one has no entries.
fn read(path: &str) -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(path) {
        // A file that is no text has no entries.
        let _length = file.take(MAX_FILE).read_to_string(&mut text);
    }
    text
}

/// Parses `/etc/subuid`: `USER:FIRST:COUNT`, with the name or the number of the user.
fn parse(ranges: &str, users: &str) -> Vec<SubordinateRange> {
    let uid = |name: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then(|| fields.nth(1)?.parse::<u32>().ok())?
        })
    };
    let range = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some(SubordinateRange {
            first: fields.next()?.parse().ok()?,
            count: fields.next()?.trim_end().parse().ok()?,
            owner: uid(name).or_else(|| name.parse().ok())?,
        })
    };
    ranges.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(1000 => 1000; "a user")]
    #[test_case(99_999 => 99_999; "below the range")]
    #[test_case(100_000 => 1000; "the first")]
    #[test_case(165_535 => 1000; "the last")]
    #[test_case(165_536 => 1001; "the next user's, who is named by number")]
    #[test_case(300_000 => 300_000; "a range of a user who does not exist")]
    #[test_case(u32::MAX => u32::MAX; "the largest")]
    fn subordinate_ids_count_for_their_owner(uid: u32) -> u32 {
        let ranges = "alice:100000:65536\n1001:165536:65536\nnobody-here:300000:10\nbroken\nalice:x:1\n";
        let users = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        find(&parse(ranges, users), uid)
    }
}
