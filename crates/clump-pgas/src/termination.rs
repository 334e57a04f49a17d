//! The decision that nothing is under way any more, from sums over all ranks. Pure.

/// Waves of sums (four counters, Mattern 1987): messages sent and messages received, twice. If all
/// four are equal, and no rank worked, nothing was under way between the two waves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TerminationWaves {
    before: Option<(u64, u64)>,
}

impl TerminationWaves {
    /// Takes the sums of a wave: sent, received, and ranks that have worked since the one before.
    /// Returns true if all is over.
    pub(crate) fn wave(&mut self, [sent, received, worked]: [u64; 3]) -> bool {
        let before = self.before.replace((sent, received));
        debug_assert!(before.is_none_or(|(s, r)| s <= sent && r <= received), "counts grow");
        sent == received && worked == 0 && before == Some((sent, received))
    }
}

#[cfg(test)]
mod tests {
    use super::TerminationWaves;

    #[test]
    fn it_takes_two_equal_waves_without_work() {
        let mut waves = TerminationWaves::default();
        assert!(!waves.wave([5, 5, 0]), "a message may be under way beside the first wave");
        assert!(!waves.wave([5, 5, 1]), "a rank has worked");
        assert!(!waves.wave([6, 5, 0]), "one is under way");
        assert!(!waves.wave([6, 6, 0]));
        assert!(waves.wave([6, 6, 0]));
    }

    #[test]
    fn a_message_that_overtakes_the_wave_is_not_missed() {
        // Rank 0 is counted, then receives a message that rank 1 sends before it is counted, and
        // sends one to rank 2, which has been counted: the sums of the first wave are equal.
        let mut waves = TerminationWaves::default();
        assert!(!waves.wave([1, 1, 0]));
        assert!(!waves.wave([3, 2, 0]), "the second wave has seen it");
    }
}
