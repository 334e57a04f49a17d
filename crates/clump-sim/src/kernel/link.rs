//! A link: its faults, and its state that datagrams leave behind.

/// Nanoseconds of virtual time.
pub(crate) type Time = u64;

/// Returns the bytes that pass in a time at a rate.
pub(super) fn bytes_in(time: Time, rate: u64) -> u64 {
    (u128::from(time) * u128::from(rate) / 1_000_000_000) as u64
}

/// Faults of the link from one rank to another. Chances are in a million.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFaults {
    /// Delay of each datagram.
    pub delay: Time,
    /// Maximum additional delay; datagrams then overtake each other.
    pub jitter: Time,
    /// True if they stay in order nevertheless.
    pub ordered: bool,
    /// Chance of being lost.
    pub loss: u32,
    /// Chance that a run of losses begins.
    pub burst: u32,
    /// Datagrams in such a run.
    pub burst_length: u32,
    /// Chance of arriving more than once.
    pub duplicate: u32,
    /// Chance of being held back.
    pub reorder: u32,
    /// Longest time for which it is held back.
    pub held: Time,
    /// Chance of corruption: bits flipped, or cut short.
    pub corrupt: u32,
    /// Chance of arriving again long after.
    pub stale: u32,
    /// Limit of the bytes that pass in a time.
    pub policer: Option<Policer>,
    /// Longest datagram that is delivered; longer ones are dropped.
    pub mtu: usize,
    /// True if all datagrams are dropped.
    pub cut: bool,
}

impl LinkFaults {
    /// Returns a link without faults.
    pub fn clean(delay: Time, mtu: usize) -> Self {
        Self {
            delay,
            jitter: 0,
            ordered: false,
            loss: 0,
            burst: 0,
            burst_length: 1,
            duplicate: 0,
            reorder: 0,
            held: 0,
            corrupt: 0,
            stale: 0,
            policer: None,
            mtu,
            cut: false,
        }
    }
}

/// A limit of the rate without a queue: what exceeds it is dropped. A token bucket (RFC 2697, 3,
/// with one colour).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may pass at once.
    pub burst: u64,
}

/// State of a link that datagrams leave behind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkState {
    /// Datagrams left of a run of losses.
    pub(super) burst: u32,
    /// Bytes that have passed the policer beyond its rate, at the time of the last datagram.
    beyond: u64,
    at: Time,
    /// Latest arrival at the other end so far.
    arrival: Time,
}

impl LinkState {
    /// Returns true if the link's policer lets a datagram of so many bytes pass.
    pub(super) fn passes(&mut self, link: &LinkFaults, now: Time, bytes: u64) -> bool {
        let Some(policer) = link.policer else { return true };
        self.beyond =
            self.beyond.saturating_sub(bytes_in(now.saturating_sub(self.at), policer.rate));
        self.at = self.at.max(now);
        let passes = self.beyond + bytes <= policer.burst;
        self.beyond += if passes { bytes } else { 0 };
        passes
    }

    /// Returns the time at which a datagram arrives that would at `at`, behind those before if they
    /// stay in order.
    pub(super) fn arrival(&mut self, link: &LinkFaults, at: Time) -> Time {
        self.arrival = self.arrival.max(at);
        if link.ordered { self.arrival } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policer_lets_its_rate_and_one_burst_pass() {
        let policer = Some(Policer { rate: 1_000_000, burst: 5_000 });
        let link = LinkFaults { policer, ..LinkFaults::clean(0, 1500) };
        let mut state = LinkState::default();
        let mut passed = |from: Time, count: u64| {
            (0..count).filter(|at| state.passes(&link, from + at * 100_000, 1_000)).count()
        };
        assert_eq!(passed(0, 1_000), 104, "100 kB in 100 ms, and a burst less a datagram");
        assert_eq!(passed(1_000_000_000, 5), 5, "a pause earns a burst");
    }
}
