//! Servers whose files of code were not all watched by themselves when they were last started: a state of theirs, told once and
//! not at each start.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mcpmon_model::{InstanceId, ServerId};

use super::Core;

/// Most servers that are remembered.
const MAX_SERVERS: usize = 64;
/// The time after which a server that was not started again is forgotten.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The servers, by id and user, with the time of the latest start.
#[derive(Debug, Default)]
pub(super) struct CrowdedServers {
    latest: BTreeMap<(ServerId, u32), Instant>,
}

impl CrowdedServers {
    /// Takes note of a start, with files that are not all watched if it `is_crowded`.
    pub(super) fn note(&mut self, now: Instant, server: ServerId, uid: u32, is_crowded: bool) {
        let key = (server, uid);
        if !is_crowded {
            self.latest.remove(&key);
            return;
        }
        let oldest = self.latest.iter().min_by_key(|(_, at)| **at);
        let oldest = oldest.map(|(key, _)| key.clone());
        if self.latest.len() >= MAX_SERVERS
            && !self.latest.contains_key(&key)
            && let Some(oldest) = oldest
        {
            self.latest.remove(&oldest);
        }
        self.latest.insert(key, now);
    }

    /// Forgets all: under another policy others may be watched, or none.
    pub(super) fn clear(&mut self) {
        self.latest.clear();
    }

    /// The consequence, which changes with the servers only; `None` where there is none.
    pub(super) fn cause(&mut self, now: Instant) -> Option<String> {
        self.latest
            .retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
        if self.latest.is_empty() {
            return None;
        }
        let servers = self.latest.keys();
        let servers = servers.map(|(id, uid)| format!("{id} of user {uid}"));
        let servers = servers.collect::<Vec<_>>().join(", ");
        Some(format!(
            "at the latest start of {servers}, not all files of code were watched by themselves, which are more than one server may have or than there is room for: writes \
             through a name elsewhere are found by the comparison two seconds after a start; raise fs.inotify.max_user_watches where it is below 262144"
        ))
    }
}

impl Core {
    /// A server was started; the rest as in [`CrowdedServers::note`]. One that has ended and is forgotten is no news.
    pub(super) fn crowded(&mut self, instance: InstanceId, uid: u32, is_crowded: bool) {
        if let Some(server) = self.monitor.server_named(instance).cloned() {
            self.troubles
                .crowded
                .note(Instant::now(), server, uid, is_crowded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ServerId {
        ServerId::new(format!("s{number:03}")).expect("id")
    }

    #[test]
    fn a_server_is_news_once_until_it_is_watched_whole() {
        let start = Instant::now();
        let mut servers = CrowdedServers::default();
        assert_eq!(servers.cause(start), None);
        let mut starts = |minute: u64, server: usize, uid: u32, is_crowded: bool| {
            let now = start + Duration::from_mins(minute);
            servers.note(now, id(server), uid, is_crowded);
            servers.cause(now)
        };
        let first = starts(0, 1, 7, true);
        assert!(
            first
                .as_ref()
                .is_some_and(|cause| cause.contains("s001 of user 7,"))
        );
        assert_eq!(starts(10, 1, 7, true), first, "no news, whatever its files");
        let second = starts(30, 2, 7, true);
        assert!(second.is_some_and(|cause| cause.contains("s001") && cause.contains("s002")));
        starts(40, 2, 8, false);
        assert!(starts(40, 1, 7, false).is_some_and(|cause| cause.contains("s002 of user 7")));
        assert_eq!(starts(50, 2, 7, false), None);
    }

    #[test]
    fn a_server_that_nobody_starts_again_is_forgotten() {
        let start = Instant::now();
        let mut servers = CrowdedServers::default();
        servers.note(start, id(1), 7, true);
        assert!(servers.cause(start + REMEMBERED / 2).is_some());
        assert_eq!(servers.cause(start + REMEMBERED), None);
        servers.note(start, id(1), 7, true);
        servers.clear();
        assert_eq!(servers.cause(start), None);
    }

    #[test]
    fn the_one_started_longest_ago_makes_room() {
        let start = Instant::now();
        let mut servers = CrowdedServers::default();
        for number in 0..=MAX_SERVERS {
            let now = start + Duration::from_secs(number as u64);
            servers.note(now, id(number), 7, true);
        }
        let cause = servers.cause(start + Duration::from_mins(2)).expect("some");
        assert_eq!(servers.latest.len(), MAX_SERVERS);
        assert!(!cause.contains("s000") && cause.contains("s001"), "{cause}");
    }
}
