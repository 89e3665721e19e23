//! Repeated losses, which are reported once.

use std::time::{Duration, Instant};

/// The time without a loss after which the next one is reported again.
const OVER: Duration = Duration::from_mins(1);

/// The time of the last loss.
#[derive(Debug, Default)]
pub(super) struct LastLoss(Option<Instant>);

impl LastLoss {
    /// Records a loss. Returns whether to report it: some entries may be stored between two losses.
    pub(super) fn is_news(&mut self, now: Instant) -> bool {
        let last = self.0.replace(now);
        last.is_none_or(|last| now.saturating_duration_since(last) >= OVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_once_until_there_was_none_for_some_time() {
        let mut loss = LastLoss::default();
        let began = Instant::now();
        let told =
            [0, 0, 1, 59, 118, 178, 179].map(|second| loss.is_news(began + Duration::from_secs(second)));
        assert_eq!(told, [true, false, false, false, false, true, false]);
    }
}
