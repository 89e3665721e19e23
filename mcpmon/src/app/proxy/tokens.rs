//! Tokens that identify the session of a request; they are part of the base URL that an agent is given.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcpmon_model::{Digest, SessionId};

/// Random bytes in a token.
const RANDOM: usize = 24;
/// Most tokens that are valid at a time; beyond that the oldest is removed.
const MAX_TOKENS: usize = 4096;

/// The tokens of sessions. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<Mutex<IssuedToken>>);

#[derive(Debug, Default)]
struct IssuedToken {
    /// Keyed by the digest of the token, so that the time of a look-up says nothing about a token that is nearly right.
    sessions: BTreeMap<Digest, Issue>,
    count: u64,
}

#[derive(Debug)]
struct Issue {
    number: u64,
    session: SessionId,
    uid: u32,
}

impl Tokens {
    /// Issues a new token for `session`, which belongs to the user `uid`.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes.
    pub fn issue(&self, session: SessionId, uid: u32) -> io::Result<String> {
        let mut bytes = [0; RANDOM];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.admit(&token, session, uid);
        Ok(token)
    }

    /// Returns whether `text` has the form of a token, of this process or an earlier one.
    pub fn is_one(text: &str) -> bool {
        let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        text.len() == 2 * RANDOM && text.bytes().all(is_hex)
    }

    /// Makes `token` valid for `session`, which belongs to the user `uid`.
    pub fn admit(&self, token: &str, session: SessionId, uid: u32) {
        let mut issued = self.lock();
        issued.count += 1;
        let issue = Issue {
            number: issued.count,
            session,
            uid,
        };
        issued.sessions.insert(Digest::of(token.as_bytes()), issue);
        if issued.sessions.len() > MAX_TOKENS {
            let oldest = issued.sessions.iter().min_by_key(|(_, issue)| issue.number);
            if let Some(oldest) = oldest.map(|(token, _)| *token) {
                issued.sessions.remove(&oldest);
            }
        }
    }

    /// Makes `token` invalid.
    pub fn revoke(&self, token: &str) {
        self.lock().sessions.remove(&Digest::of(token.as_bytes()));
    }

    /// Returns the session of `token`.
    pub fn session(&self, token: &str) -> Option<SessionId> {
        let issued = self.lock();
        let issue = issued.sessions.get(&Digest::of(token.as_bytes()))?;
        Some(issue.session.clone())
    }

    /// Returns the user of `session`, if a token is valid for it.
    pub fn user(&self, session: &SessionId) -> Option<u32> {
        let issued = self.lock();
        let mut issues = issued.sessions.values();
        issues
            .find(|issue| issue.session == *session)
            .map(|issue| issue.uid)
    }

    fn lock(&self) -> MutexGuard<'_, IssuedToken> {
        // No operation leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_its_session_until_it_is_revoked() {
        let tokens = Tokens::default();
        let first = tokens.issue(SessionId::new("run-1"), 1).unwrap();
        let second = tokens.issue(SessionId::new("run-2"), 2).unwrap();
        assert!(Tokens::is_one(&first) && !Tokens::is_one(&first[1..]) && !Tokens::is_one("x"));
        assert_eq!(tokens.session(&first), Some(SessionId::new("run-1")));
        assert_eq!(tokens.session(&second), Some(SessionId::new("run-2")));
        assert_eq!(tokens.session(&first[1..]), None);
        assert_eq!(tokens.user(&SessionId::new("run-2")), Some(2));
        tokens.revoke(&first);
        assert_eq!(tokens.session(&first), None);
        assert_eq!(tokens.user(&SessionId::new("run-1")), None);
    }

    #[test]
    fn the_oldest_makes_room() {
        let tokens = Tokens::default();
        for number in 0..=MAX_TOKENS {
            tokens.admit(&number.to_string(), SessionId::new("s"), 1);
        }
        assert_eq!(tokens.session("0"), None);
        assert!(tokens.session("1").is_some() && tokens.session(&MAX_TOKENS.to_string()).is_some());
    }
}
