//! The users' shares of memory for tapped servers: bytes of lines whose ends have not arrived.

use std::collections::BTreeMap;

/// Most bytes of unfinished lines for the servers of one user.
const MAX_HELD_OF_USER: usize = 64 << 20;

/// The bytes that are held for each user's servers.
#[derive(Debug, Default)]
pub(super) struct HeldBytes(BTreeMap<u32, usize>);

impl HeldBytes {
    /// Returns the bytes that may be held for one of a user's servers, which holds `own` now.
    pub(super) fn room(&self, user: u32, own: usize) -> usize {
        let all = self.0.get(&user).copied().unwrap_or_default();
        MAX_HELD_OF_USER.saturating_sub(all.saturating_sub(own))
    }

    /// Notes that one of a user's servers holds `now` bytes instead of `before`.
    pub(super) fn changed(&mut self, user: u32, before: usize, now: usize) {
        if before == now {
            return;
        }
        let all = self.0.entry(user).or_default();
        *all = all.saturating_sub(before).saturating_add(now);
        if *all == 0 {
            self.0.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_one_user_is_no_other_ones() {
        let mut held = HeldBytes::default();
        held.changed(1000, 0, MAX_HELD_OF_USER - 5);
        assert_eq!(held.room(1000, 0), 5, "of another server of the same user");
        assert_eq!(held.room(1000, MAX_HELD_OF_USER - 5), MAX_HELD_OF_USER);
        assert_eq!(held.room(1001, 0), MAX_HELD_OF_USER);
        held.changed(1000, MAX_HELD_OF_USER - 5, 0);
        assert_eq!(held.room(1000, 0), MAX_HELD_OF_USER);
        assert!(held.0.is_empty(), "nobody is remembered for nothing");
    }
}
