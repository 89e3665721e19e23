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

/// The servers, by id and user.
#[derive(Debug, Default)]
pub(super) struct CrowdedServers {
    latest: BTreeMap<(ServerId, u32), CrowdedServer>,
}

#[derive(Debug)]
struct CrowdedServer {
    /// Its code, in words.
    code: String,
    at: Instant,
}

impl CrowdedServers {
    /// Takes note of a start: `code` names the files that are not all watched; `None` where each is.
    pub(super) fn note(&mut self, now: Instant, server: ServerId, uid: u32, code: Option<String>) {
        let key = (server, uid);
        let Some(code) = code else {
            self.latest.remove(&key);
            return;
        };
        let oldest = self.latest.iter().min_by_key(|(_, server)| server.at);
        let oldest = oldest.map(|(key, _)| key.clone());
        if self.latest.len() >= MAX_SERVERS
            && !self.latest.contains_key(&key)
            && let Some(oldest) = oldest
        {
            self.latest.remove(&oldest);
        }
        self.latest.insert(key, CrowdedServer { code, at: now });
    }

    /// Forgets all: under another policy others may be watched, or none.
    pub(super) fn clear(&mut self) {
        self.latest.clear();
    }

    /// The consequence, which changes with the servers and their code only; `None` where there is none.
    pub(super) fn cause(&mut self, now: Instant) -> Option<String> {
        self.latest
            .retain(|_, server| now.saturating_duration_since(server.at) < REMEMBERED);
        if self.latest.is_empty() {
            return None;
        }
        let servers = self.latest.iter();
        let servers = servers.map(|((id, uid), server)| format!("{id} of user {uid} ({})", server.code));
        let servers = servers.collect::<Vec<_>>().join(", ");
        Some(format!(
            "at the latest start of {servers}, not all files of code were watched by themselves, which are more than one server may have or than there is room for: writes \
             through a name elsewhere are found by the comparison two seconds after a start; raise fs.inotify.max_user_watches where it is below 262144"
        ))
    }
}

impl Core {
    /// A server was started; `code` as in [`CrowdedServers::note`]. One that has ended and is forgotten is no news.
    pub(super) fn crowded(&mut self, instance: InstanceId, uid: u32, code: Option<String>) {
        if let Some(server) = self.monitor.server_named(instance).cloned() {
            self.troubles.crowded.note(Instant::now(), server, uid, code);
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
        let mut starts = |minute: u64, server: usize, uid: u32, code: Option<&str>| {
            let now = start + Duration::from_mins(minute);
            servers.note(now, id(server), uid, code.map(str::to_owned));
            servers.cause(now)
        };
        let first = starts(0, 1, 7, Some("9 files"));
        assert!(
            first
                .as_ref()
                .is_some_and(|cause| cause.contains("s001 of user 7 (9 files)"))
        );
        assert_eq!(starts(10, 1, 7, Some("9 files")), first, "no news");
        assert_ne!(starts(20, 1, 7, Some("10 files")), first, "other files");
        let second = starts(30, 2, 7, Some("9 files"));
        assert!(second.is_some_and(|cause| cause.contains("s001") && cause.contains("s002")));
        starts(40, 2, 8, None);
        assert!(starts(40, 1, 7, None).is_some_and(|cause| cause.contains("s002 of user 7")));
        assert_eq!(starts(50, 2, 7, None), None);
    }

    #[test]
    fn a_server_that_nobody_starts_again_is_forgotten() {
        let start = Instant::now();
        let mut servers = CrowdedServers::default();
        servers.note(start, id(1), 7, Some("9 files".to_owned()));
        assert!(servers.cause(start + REMEMBERED / 2).is_some());
        assert_eq!(servers.cause(start + REMEMBERED), None);
        servers.note(start, id(1), 7, Some("9 files".to_owned()));
        servers.clear();
        assert_eq!(servers.cause(start), None);
    }

    #[test]
    fn the_one_started_longest_ago_makes_room() {
        let start = Instant::now();
        let mut servers = CrowdedServers::default();
        for number in 0..=MAX_SERVERS {
            let now = start + Duration::from_secs(number as u64);
            servers.note(now, id(number), 7, Some("9 files".to_owned()));
        }
        let cause = servers.cause(start + Duration::from_mins(2)).expect("some");
        assert_eq!(servers.latest.len(), MAX_SERVERS);
        assert!(!cause.contains("s000") && cause.contains("s001"), "{cause}");
    }
}
