//! Delay that does not fall with the window: it is not this sender's queue, but a longer path, or
//! the queue of senders that fill it.

use crate::Nanos;

/// The window and the delay when delay became high.
#[derive(Debug, Default)]
pub(super) struct StandingDelay {
    /// Window before it was made smaller; 0: delay is not high.
    window: usize,
    queueing: Nanos,
    /// Rounds for which the window has been at most half of it.
    halved: u32,
    /// Rounds with low delay before, less those with high delay, as far as they count.
    calm: u32,
}

/// Such rounds after which delay that rises is not the queue of senders that began together.
const CALM_ROUNDS: u32 = 8;

/// Origin of delay that stays high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may be this sender's queue.
    Unknown,
    /// The next round will show.
    Awaited,
    /// It is not: this was the window before it was made smaller for it.
    NotOurs(usize),
}

impl StandingDelay {
    /// Notes a round with high delay, before the window is made smaller. The effect of half a
    /// window is seen after so many `rounds`.
    pub(super) fn on_high(&mut self, window: usize, queueing: Nanos, rounds: u32) -> Standing {
        debug_assert!(window > 0 && queueing > 0, "a queue behind a window");
        let calm = self.calm >= CALM_ROUNDS;
        self.calm = self.calm.saturating_sub(1);
        if self.window == 0 && !calm {
            return Standing::Unknown; // nothing else was seen on this path for long
        }
        // Half the window leaves less than half the queue, if that is the sender's.
        if self.window == 0 || queueing < self.queueing - self.queueing / 4 {
            (self.window, self.queueing, self.halved) = (window, queueing, 0);
            return Standing::Unknown;
        }
        if window > self.window / 2 {
            return Standing::Unknown;
        }
        self.halved += 1;
        if self.halved < rounds {
            return Standing::Awaited;
        }
        self.calm = 0;
        Standing::NotOurs(std::mem::take(&mut self.window))
    }

    /// Forgets the window and the delay: what follows is judged anew.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.window = 0;
    }

    /// Notes a round with low delay.
    #[inline]
    pub(super) fn on_low(&mut self) {
        self.forget();
        self.calm = (self.calm + 1).min(2 * CALM_ROUNDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_delay_that_half_a_window_leaves_as_it_was_is_not_the_senders() {
        let mut standing = StandingDelay::default();
        assert_eq!(standing.on_high(1000, 900, 2), Standing::Unknown, "nothing was low yet");
        let calm =
            |standing: &mut StandingDelay| (0..2 * CALM_ROUNDS).for_each(|_| standing.on_low());
        calm(&mut standing);
        for window in [1000, 800, 640] {
            assert_eq!(standing.on_high(window, 900, 2), Standing::Unknown);
        }
        assert_eq!(standing.on_high(500, 900, 2), Standing::Awaited);
        assert_eq!(standing.on_high(500, 850, 2), Standing::NotOurs(1000));
        calm(&mut standing);
        for (window, queueing) in [(1000, 900), (800, 750), (640, 600), (500, 400), (400, 300)] {
            assert_eq!(standing.on_high(window, queueing, 2), Standing::Unknown, "it drains");
        }
        standing.on_low();
        assert_eq!(standing.on_high(300, 900, 2), Standing::Unknown);
    }
}
