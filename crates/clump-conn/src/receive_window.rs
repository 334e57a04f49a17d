//! The window of one direction of a connection, as its receiver grants it: what the peer may have
//! sent and the program not received.
//!
//! On a path longer than that of one host it grows as TCP's receive buffer does (dynamic
//! right-sizing: Fisk and Feng, LACSI 2001): to twice what the program receives in a round trip. A
//! round trip is the time from a report of credit to the first bytes that could not have been sent
//! before it. The least of them counts: others wait in queues that a larger window makes longer.

use clump_os::sync::{AtomicU64, Ordering};

/// Window of a new connection: 256 KiB, what a path of 10 Gb/s and 200 us holds.
pub(crate) const FIRST_WINDOW: u64 = 256 << 10;
/// Largest window: what a path of 10 Gb/s and 50 ms holds.
const MAX_WINDOW: u64 = 64 << 20;
/// Bytes by which the windows of all connections of a process may have grown.
const MAX_GROWN: u64 = 96 << 20;
/// Least growth, of the window: a quarter.
const MIN_STEP: u64 = 4;
/// Round trip up to which a window stays as it is: it holds more than such paths do, and a larger
/// one would leave the processor's cache.
const SHORT_NS: u64 = 200_000;

/// Bytes by which the windows of all connections have grown.
static GROWN: AtomicU64 = AtomicU64::new(0);

/// A window that grows with what is received in a round trip.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    first: u64,
    bytes: u64,
    round: Option<Round>,
    /// Least round trip, ns; 0: none is known.
    least_ns: u64,
}

/// A round trip that has begun.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Total of arrived bytes beyond which the peer has read the report.
    beyond: u64,
    began_ns: u64,
    /// Total that the program had received.
    received: u64,
}

impl ReceiveWindow {
    pub(crate) fn new(first: u64) -> Self {
        Self { first, bytes: first, round: None, least_ns: 0 }
    }

    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes a report of credit, behind one of `before` in total; the program has received
    /// `received` bytes.
    pub(crate) fn on_report(&mut self, now_ns: u64, before: u64, received: u64) {
        debug_assert!(received >= before, "no more was reported than was received");
        let beyond = before + self.bytes;
        self.round.get_or_insert(Round { beyond, began_ns: now_ns, received });
    }

    /// Notes that bytes have arrived, so many in total, of which the program has received
    /// `received`.
    pub(crate) fn on_arrival(&mut self, now_ns: u64, arrived: u64, received: u64) {
        let Some(round) = self.round.take_if(|round| arrived > round.beyond) else { return };
        debug_assert!(received >= round.received, "counts only grow");
        let took_ns = now_ns.saturating_sub(round.began_ns).max(1);
        self.least_ns = if self.least_ns == 0 { took_ns } else { self.least_ns.min(took_ns) };
        let in_time = u128::from(received - round.received) * u128::from(self.least_ns);
        let in_trip = u64::try_from(in_time / u128::from(took_ns)).unwrap_or(u64::MAX);
        let wanted = in_trip.saturating_mul(2).min(2 * self.bytes).min(MAX_WINDOW);
        if self.least_ns > SHORT_NS && wanted >= self.bytes + self.bytes / MIN_STEP {
            self.bytes += reserve(&GROWN, wanted - self.bytes);
        }
        debug_assert!((self.first..=MAX_WINDOW.max(self.first)).contains(&self.bytes));
    }
}

/// Adds as much of `bytes` to `grown` as all connections together may grow by, and returns it.
fn reserve(grown: &AtomicU64, bytes: u64) -> u64 {
    let taken = |before: u64| Some(before + bytes.min(MAX_GROWN.saturating_sub(before)));
    let before = grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
    bytes.min(MAX_GROWN.saturating_sub(before.unwrap_or(MAX_GROWN)))
}

impl Drop for ReceiveWindow {
    fn drop(&mut self) {
        GROWN.fetch_sub(self.bytes - self.first, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Runs a connection for a while over a path of `trip_ns`, with a sender that always has data,
    /// a line of `line` and a program that receives `program` bytes in a microsecond. Returns the
    /// window, and the bytes in a microsecond in the second half.
    fn run(trip_ns: u64, line: u64, program: u64) -> (u64, u64) {
        const STEP_NS: u64 = 1000;
        let (steps, first) = (400 * trip_ns / STEP_NS, 16 << 10);
        let mut window = ReceiveWindow::new(first);
        let (mut sent, mut limit, mut arrived, mut received, mut reported) = (0, first, 0, 0, 0);
        let (mut data, mut reports) = (VecDeque::new(), VecDeque::new());
        let mut half = 0;
        for now in (0..steps).map(|step| step * STEP_NS) {
            while let Some((_, told)) = reports.pop_front_if(|(at, _)| *at <= now) {
                limit = told;
            }
            let now_sent = line.min(limit - sent);
            sent += now_sent;
            data.push_back((now + trip_ns / 2, now_sent));
            while let Some((_, bytes)) = data.pop_front_if(|(at, _)| *at <= now) {
                arrived += bytes;
                assert!(arrived <= reported + window.bytes(), "never more than was granted");
                window.on_arrival(now, arrived, received);
            }
            received += program.min(arrived - received);
            if received - reported >= window.bytes() / 4 {
                window.on_report(now, reported, received);
                reported = received;
                reports.push_back((now + trip_ns / 2, reported + window.bytes()));
            }
            if now == steps / 2 * STEP_NS {
                half = received;
            }
        }
        (window.bytes(), (received - half) / (steps / 2))
    }

    #[test]
    fn a_window_comes_to_what_the_path_holds_and_to_no_more() {
        // 1250 bytes a microsecond are 10 Gb/s.
        for trip_ns in [500_000, 2_000_000] {
            let (window, rate) = run(trip_ns, 1250, 5000);
            let holds = 1250 * trip_ns / 1000;
            assert!(rate >= 1200, "{trip_ns}: {rate} of 1250 B/us with {window} bytes");
            assert!((holds..=3 * holds).contains(&window), "{trip_ns}: {window} of {holds}");
        }
        assert_eq!(run(100_000, 1250, 5000).0, 16 << 10, "a short path");
        let (window, rate) = run(2_000_000, 1250, 10);
        assert!(rate <= 10 && window <= 60_000, "a slow program holds up no more: {window}");
    }

    #[test]
    fn all_windows_together_grow_to_a_bound() {
        let grown = AtomicU64::new(MAX_GROWN - 30);
        assert_eq!((reserve(&grown, 20), reserve(&grown, 20), reserve(&grown, 20)), (20, 10, 0));
        assert_eq!(grown.load(Ordering::Relaxed), MAX_GROWN);
    }
}
