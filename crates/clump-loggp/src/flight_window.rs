//! A window of requests in flight, as the rig of paper 001 has one: its size does not grow with L,
//! so that a large L raises g. Pure; times are arguments.

use std::collections::VecDeque;

/// Requests in flight, by the times at which they no longer are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlightWindow {
    ends_ns: VecDeque<u64>,
}

impl FlightWindow {
    /// Returns true if fewer than `most` requests are in flight at `now_ns`; 0: any number may be.
    pub fn has_room(&mut self, now_ns: u64, most: u64) -> bool {
        while self.ends_ns.front().is_some_and(|&end_ns| end_ns <= now_ns) {
            self.ends_ns.pop_front();
        }
        most == 0 || (self.ends_ns.len() as u64) < most
    }

    /// Adds a request whose credit is back at `end_ns`: after the latency of both directions.
    pub fn add(&mut self, end_ns: u64) {
        let last_ns = self.ends_ns.back().copied().unwrap_or(0);
        self.ends_ns.push_back(end_ns.max(last_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_come_back_in_their_order_and_bound_what_is_in_flight() {
        let mut window = FlightWindow::default();
        for end_ns in [100, 300, 200] {
            assert!(window.has_room(0, 3));
            window.add(end_ns);
        }
        assert!(!window.has_room(99, 3) && window.has_room(99, 0) && window.has_room(100, 3));
        assert!(!window.has_room(299, 2), "the third ends behind the second");
        assert!(window.has_room(300, 1));
    }
}
