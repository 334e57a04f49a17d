//! Failure detection by heartbeats, without sockets: heartbeats and times in, heartbeats to send
//! and silent peers out.
//!
//! The agent reports each heartbeat ([`FailureDetector::handle_heard`]), wakes the detector at
//! [`FailureDetector::next_deadline_ns`] ([`FailureDetector::handle_timeout`], after it has read
//! its sockets), and executes [`FailureDetector::poll_action`].
//!
//! 1. Heartbeats go to every peer [`BEATS`] times in the time after which silence counts.
//! 2. A peer is silent when nothing was heard of it for that time, and this agent has itself been
//!    awake for at least [`MISSED`] heartbeats since: an agent that was stopped, or not scheduled,
//!    hears no peer, through no fault of theirs.
//! 3. A peer that has never been heard has [`STARTING`] times as long: its agent may still be
//!    starting ranks, each of which takes it some scheduler turns on a machine that many nodes
//!    share.
//! 4. A peer that is heard again is reported.

use std::collections::VecDeque;

/// Heartbeats in the time after which silence counts.
pub const BEATS: u64 = 12;
/// Heartbeats that must be missed one after another while this agent is awake.
pub const MISSED: u64 = 6;
/// Multiple of the time after which silence counts, for a peer that has never been heard.
pub const STARTING: u64 = 6;

/// An action of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectorAction {
    /// Send a heartbeat to every peer.
    Beat,
    /// Report that this peer has not been heard for too long.
    Silent(u32),
    /// Report that this peer is heard again.
    Heard(u32),
}

#[derive(Debug)]
struct WatchedPeer {
    node: u32,
    heard_ns: u64,
    /// Checks without a heartbeat since it was heard, a heartbeat interval apart.
    missed: u64,
    silent: bool,
    /// True once it has been heard.
    known: bool,
}

/// The heartbeats between agents, as one of them sees them.
#[derive(Debug)]
pub struct FailureDetector {
    peers: Vec<WatchedPeer>,
    silence_ns: u64,
    beat_ns: u64,
    next_ns: u64,
    actions: VecDeque<DetectorAction>,
}

impl FailureDetector {
    /// Watches `peers`; silence counts after `silence_ns`.
    pub fn new(peers: impl IntoIterator<Item = u32>, silence_ns: u64, now_ns: u64) -> Self {
        debug_assert!(silence_ns >= BEATS, "heartbeats are apart");
        let peer =
            |node| WatchedPeer { node, heard_ns: now_ns, missed: 0, silent: false, known: false };
        Self {
            peers: peers.into_iter().map(peer).collect(),
            silence_ns,
            beat_ns: (silence_ns / BEATS).max(1),
            next_ns: now_ns,
            actions: VecDeque::new(),
        }
    }

    /// Asserts what always holds of the peers.
    pub fn check_invariants(&self) {
        debug_assert!(self.beat_ns > 0, "time passes between heartbeats");
        for peer in &self.peers {
            debug_assert!(!peer.silent || peer.missed > MISSED, "rule 2: silence is noticed awake");
        }
    }

    /// Records an authenticated heartbeat of `node`.
    pub fn handle_heard(&mut self, node: u32, now_ns: u64) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == node) else { return };
        (peer.heard_ns, peer.missed, peer.known) = (now_ns, 0, true);
        if std::mem::take(&mut peer.silent) {
            self.actions.push_back(DetectorAction::Heard(node));
        }
    }

    /// Returns the time for the next call of [`FailureDetector::handle_timeout`].
    pub fn next_deadline_ns(&self) -> u64 {
        self.next_ns
    }

    /// Checks for silent peers. Every heartbeat that has arrived has been reported.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        // However late, this is one check: heartbeats of the time in between were not read.
        self.next_ns = now_ns + self.beat_ns;
        self.actions.push_back(DetectorAction::Beat);
        for peer in &mut self.peers {
            peer.missed += 1;
            let limit = self.silence_ns * if peer.known { 1 } else { STARTING };
            let quiet = now_ns.saturating_sub(peer.heard_ns) >= limit;
            if quiet && peer.missed > MISSED && !peer.silent {
                debug_assert!(now_ns - peer.heard_ns >= self.silence_ns, "rule 2: it had its time");
                peer.silent = true;
                self.actions.push_back(DetectorAction::Silent(peer.node));
            }
        }
        debug_assert!(self.next_ns > now_ns, "the next check lies ahead");
        self.check_invariants();
    }

    /// Returns the next action of the agent.
    pub fn poll_action(&mut self) -> Option<DetectorAction> {
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SILENCE: u64 = 1200 * MS;

    fn actions(detector: &mut FailureDetector) -> Vec<DetectorAction> {
        std::iter::from_fn(|| detector.poll_action()).collect()
    }

    /// Runs to `until`, hearing `heard` before each check; returns the actions other than
    /// heartbeats, and their times.
    fn run(
        detector: &mut FailureDetector,
        heard: &[u32],
        until: u64,
    ) -> Vec<(u64, DetectorAction)> {
        let mut said = Vec::new();
        while detector.next_deadline_ns() <= until {
            let now = detector.next_deadline_ns();
            heard.iter().for_each(|&node| detector.handle_heard(node, now));
            detector.handle_timeout(now);
            said.extend(
                actions(detector)
                    .into_iter()
                    .filter(|a| *a != DetectorAction::Beat)
                    .map(|a| (now, a)),
            );
        }
        said
    }

    #[test]
    fn beats_are_sent_at_their_times() {
        let mut detector = FailureDetector::new([1], SILENCE, 0);
        for beat in 0..5 {
            assert_eq!(detector.next_deadline_ns(), beat * 100 * MS);
            detector.handle_timeout(beat * 100 * MS);
            assert_eq!(actions(&mut detector), [DetectorAction::Beat]);
        }
        detector.handle_timeout(401 * MS);
        assert_eq!(actions(&mut detector), [], "too early");
    }

    #[test]
    fn who_beats_is_never_silent() {
        let mut detector = FailureDetector::new([1, 2], SILENCE, 0);
        assert_eq!(run(&mut detector, &[1, 2], 3600 * 1000 * MS), []);
    }

    #[test]
    fn a_peer_that_stops_is_said_to_be_silent_once_and_in_time() {
        let mut detector = FailureDetector::new([1, 2], SILENCE, 0);
        assert_eq!(run(&mut detector, &[1, 2], 1000 * MS), []);
        assert_eq!(run(&mut detector, &[1], 60_000 * MS), [(2200 * MS, DetectorAction::Silent(2))]);
        detector.handle_heard(2, 60_001 * MS);
        assert_eq!(actions(&mut detector), [DetectorAction::Heard(2)]);
        assert_eq!(run(&mut detector, &[1, 2], 61_000 * MS), []);
    }

    #[test]
    fn a_peer_that_may_still_be_starting_is_waited_for_longer_but_not_for_ever() {
        let mut detector = FailureDetector::new([1, 2], SILENCE, 0);
        assert_eq!(
            run(&mut detector, &[2], 60_000 * MS),
            [(STARTING * SILENCE, DetectorAction::Silent(1))]
        );
        detector.handle_heard(1, 60_001 * MS);
        assert_eq!(actions(&mut detector), [DetectorAction::Heard(1)]);
        assert_eq!(
            run(&mut detector, &[2], 90_000 * MS),
            [(61_300 * MS, DetectorAction::Silent(1))]
        );
    }

    #[test]
    fn a_few_lost_beats_are_not_a_silence() {
        let mut detector = FailureDetector::new([1], SILENCE, 0);
        for round in 1..100 {
            assert_eq!(run(&mut detector, &[], round * 1100 * MS), []);
            detector.handle_heard(1, round * 1100 * MS);
        }
    }

    #[test]
    fn who_was_not_scheduled_itself_accuses_nobody() {
        let mut detector = FailureDetector::new([1], SILENCE, 0);
        assert_eq!(run(&mut detector, &[1], 1000 * MS), []);
        // Stopped for ten seconds; the first check afterwards still finds nothing.
        detector.handle_timeout(11_000 * MS);
        assert_eq!(actions(&mut detector), [DetectorAction::Beat]);
        assert_eq!(run(&mut detector, &[], 11_400 * MS), [], "the peer's next beat is on its way");
        assert_eq!(run(&mut detector, &[1], 20_000 * MS), []);
        // If the peer has gone meanwhile, that is found out soon.
        detector.handle_timeout(31_000 * MS);
        assert_eq!(
            run(&mut detector, &[], 40_000 * MS),
            [(31_500 * MS, DetectorAction::Silent(1))]
        );
    }

    #[test]
    fn looks_that_all_come_late_make_no_false_alarm() {
        // Scheduled every 900 ms only, twelve times less often than asked for: every check finds a
        // heartbeat.
        let mut detector = FailureDetector::new([1], SILENCE, 0);
        for look in 1..200 {
            detector.handle_heard(1, look * 900 * MS);
            detector.handle_timeout(look * 900 * MS);
        }
        assert!(actions(&mut detector).iter().all(|a| *a == DetectorAction::Beat));
    }
}
