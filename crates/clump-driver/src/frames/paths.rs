//! Destinations and their reachability by frames: state of each, times of probes, and closing.
//!
//! A destination begins closed: everything goes by UDP, which also makes the kernel resolve its
//! hardware address. Meanwhile it is probed, less and less often, and opens when it answers. So
//! frames are never used where switches, clouds or peers do not take them. An open destination from
//! which nothing was heard for [`CLOSE_AFTER`] frames closes; halfway it is probed, and a peer that
//! polls at all answers in time. That also bounds the frames that wait in a ring that is not read.
//!
//! Frames name a hardware address, and a peer's may change while it goes on (a bond that fails
//! over, a virtual machine that moves). Its own frames still arrive then, so an open destination is
//! also probed by time, and closes when probes stay unanswered: UDP, and with it the kernel's table
//! of neighbours, takes over until the route was found again.
//!
//! Pure: time comes in, datagrams to send go out.

use super::format::{self, HEAD};
use clump_os::link::Neighbor;
use std::collections::HashMap;
use std::net::SocketAddrV4;

/// Maximum number of destinations; datagrams to others go by UDP.
const MAX_COUNT: usize = 4096;
/// Frames sent in a row without any from the other side, after which it is probed.
const ASK_AFTER: u32 = 24;
/// Frames sent in a row after which they count as not arriving.
const CLOSE_AFTER: u32 = 64;
/// Frames without an answer that was made with the key, after which one is asked for, again and
/// again: other frames may be forged.
const CONFIRM_AFTER: u32 = 256;
/// And after which they are not believed to arrive, whatever else came.
const DOUBT_AFTER: u32 = 1024;
/// Datagrams that follow a burst by UDP, or one that no frame holds, and go by UDP too: by frame
/// they would overtake it, and the protocol would take it for lost.
const AFTER_BURST: u32 = 16;
/// Time after an answer, or after a question without one, at which the next frame asks.
/// Destinations are on the same link, where an answer takes less than a few ms unless the peer does
/// not poll.
const CONFIRM_EVERY_NS: u64 = 50_000_000;
/// Time after the first unanswered question at which frames count as not arriving: three questions.
const ANSWER_WITHIN_NS: u64 = 3 * CONFIRM_EVERY_NS;
/// First and longest pause between probes.
const FIRST_PAUSE_NS: u64 = 200_000;
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

/// State of one destination.
#[derive(Debug)]
pub(super) struct FramePath {
    pub(super) to: SocketAddrV4,
    /// Header of its frames, and their interface.
    pub(super) head: [u8; HEAD],
    pub(super) interface: u32,
    /// Longest datagram that a frame carries there; 0 while closed.
    pub(super) most: usize,
    /// Longest datagram that it would carry, once the route is known; 0: unknown.
    reach: usize,
    /// Frames sent since one was received.
    unheard: u32,
    /// Frames sent since the last answer.
    unconfirmed: u32,
    /// The number of the question asked last, until it is answered.
    question: Option<u64>,
    /// Time of the first question since the last answer, while it is open.
    unanswered_since_ns: Option<u64>,
    /// Time from which the next frame asks, while it is open.
    confirm_at_ns: u64,
    after_burst: u32,
    ask_at_ns: u64,
    pause_ns: u64,
}

/// All destinations.
#[derive(Debug, Default)]
pub(super) struct FramePaths {
    all: Vec<FramePath>,
    index: HashMap<SocketAddrV4, usize>,
    /// Index of the last one; most sends go to the same destination as the one before.
    last: usize,
    open: usize,
}

impl FramePaths {
    /// Returns the destination `to`, added if it is new; `None` when there are too many.
    #[inline]
    pub(super) fn towards(&mut self, to: SocketAddrV4) -> Option<usize> {
        if self.all.get(self.last).is_some_and(|path| path.to == to) {
            return Some(self.last);
        }
        self.last = self.look_up(to)?;
        Some(self.last)
    }

    /// Returns the destination `from`, if it is known.
    #[inline]
    pub(super) fn known(&self, from: SocketAddrV4) -> Option<usize> {
        if self.all.get(self.last).is_some_and(|path| path.to == from) {
            return Some(self.last);
        }
        self.index.get(&from).copied()
    }

    fn look_up(&mut self, to: SocketAddrV4) -> Option<usize> {
        if let Some(&at) = self.index.get(&to) {
            return Some(at);
        }
        if self.all.len() >= MAX_COUNT {
            return None;
        }
        let at = self.all.len();
        self.all.push(FramePath {
            to,
            head: [0; HEAD],
            interface: 0,
            most: 0,
            reach: 0,
            unheard: 0,
            unconfirmed: 0,
            question: None,
            unanswered_since_ns: None,
            confirm_at_ns: 0,
            after_burst: 0,
            ask_at_ns: 0,
            pause_ns: FIRST_PAUSE_NS,
        });
        self.index.insert(to, at);
        Some(at)
    }

    #[inline]
    pub(super) fn at(&mut self, at: usize) -> &mut FramePath {
        &mut self.all[at]
    }

    /// Returns true if frames may arrive from any destination.
    #[inline]
    pub(super) fn any_open(&self) -> bool {
        self.open > 0
    }

    /// Notes that a frame was sent to this destination. Returns true if it is now to be probed.
    #[inline]
    pub(super) fn on_sent(&mut self, at: usize, now_ns: u64) -> bool {
        let path = &mut self.all[at];
        path.unheard += 1;
        path.unconfirmed += 1;
        let asks = path.unheard == ASK_AFTER
            || path.unconfirmed.is_multiple_of(CONFIRM_AFTER)
            || now_ns >= path.confirm_at_ns;
        let silent = |since: u64| now_ns.saturating_sub(since) >= ANSWER_WITHIN_NS;
        if path.unheard >= CLOSE_AFTER
            || path.unconfirmed >= DOUBT_AFTER
            || path.unanswered_since_ns.is_some_and(silent)
        {
            self.close(at);
        }
        asks
    }

    /// Notes question `number` to it; older ones are void.
    pub(super) fn on_asked(&mut self, at: usize, number: u64, now_ns: u64) {
        let path = &mut self.all[at];
        path.question = Some(number);
        if path.most > 0 {
            path.unanswered_since_ns.get_or_insert(now_ns);
            path.confirm_at_ns = now_ns + CONFIRM_EVERY_NS;
        }
    }

    /// A frame came from there, or says so.
    #[inline]
    pub(super) fn on_heard(&mut self, at: usize) {
        self.all[at].unheard = 0;
    }

    /// Notes an answer to question `number`: frames arrive there, if that was the last one. Returns
    /// true if it was.
    pub(super) fn on_answer(&mut self, at: usize, number: u64, now_ns: u64) -> bool {
        let path = &mut self.all[at];
        if path.question != Some(number) {
            return false;
        }
        (path.question, path.unheard, path.unconfirmed) = (None, 0, 0);
        (path.unanswered_since_ns, path.confirm_at_ns) = (None, now_ns + CONFIRM_EVERY_NS);
        path.pause_ns = FIRST_PAUSE_NS;
        if path.most == 0 && path.reach > 0 {
            path.most = path.reach;
            self.open += 1;
        }
        true
    }

    /// Closes the destination, until it answers again.
    pub(super) fn close(&mut self, at: usize) {
        let path = &mut self.all[at];
        if path.most > 0 {
            path.most = 0;
            self.open -= 1;
        }
        path.unanswered_since_ns = None;
        path.ask_at_ns = 0;
    }

    /// Notes its probe: it is there, so probing it need not wait.
    pub(super) fn on_probe(&mut self, at: usize) {
        self.all[at].ask_at_ns = 0;
    }

    /// Returns true if a closed destination is to be probed now; the next time is then later.
    pub(super) fn is_due(&mut self, at: usize, now_ns: u64) -> bool {
        let path = &mut self.all[at];
        if path.most > 0 || now_ns < path.ask_at_ns {
            return false;
        }
        path.ask_at_ns = now_ns + path.pause_ns;
        path.pause_ns = (path.pause_ns * 2).min(LONGEST_PAUSE_NS);
        true
    }

    /// Notes the route that was found.
    pub(super) fn on_neighbor(
        &mut self,
        at: usize,
        from: SocketAddrV4,
        way: &Neighbor,
        max_frame: usize,
    ) {
        let path = &mut self.all[at];
        path.head = format::template(from, path.to, way);
        path.interface = way.interface.index;
        let by_udp = way.interface.mtu.saturating_sub(format::UDP_HEADERS);
        path.reach = max_frame.saturating_sub(HEAD).min(by_udp);
    }

    /// Returns true if the route is known.
    pub(super) fn has_neighbor(&self, at: usize) -> bool {
        self.all[at].reach > 0
    }
}

impl FramePath {
    /// Returns true if a datagram may go there by frame.
    #[inline]
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        if self.after_burst > 0 {
            self.after_burst -= 1;
            return false;
        }
        if self.most == 0 {
            return false;
        }
        let fits = bytes <= self.most;
        if !fits {
            // Over loopback UDP carries more than a frame does.
            self.on_burst();
        }
        fits
    }

    /// Notes that a burst goes there by UDP.
    #[inline]
    pub(super) fn on_burst(&mut self) {
        self.after_burst = AFTER_BURST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::link::EthernetInterface;

    fn neighbor() -> Neighbor {
        let interface = EthernetInterface { index: 3, address: [2; 6], mtu: 1500, loopback: false };
        Neighbor { interface, to: [4; 6] }
    }

    fn answered(paths: &mut FramePaths, at: usize) {
        paths.on_asked(at, 5, 0);
        assert!(paths.on_answer(at, 5, 0));
    }

    fn opened() -> (FramePaths, usize) {
        let mut paths = FramePaths::default();
        let at = paths.towards("10.0.0.2:7".parse().unwrap()).unwrap();
        assert!(paths.is_due(at, 1) && !paths.at(at).takes(0));
        paths.on_neighbor(at, "10.0.0.1:7".parse().unwrap(), &neighbor(), 1982);
        assert!(!paths.at(at).takes(0), "not before it has answered");
        answered(&mut paths, at);
        assert!(paths.any_open());
        (paths, at)
    }

    #[test]
    fn a_destination_opens_with_an_answer_and_takes_what_its_interface_carries() {
        let (mut paths, at) = opened();
        assert!(paths.at(at).takes(1472) && paths.at(at).takes(0) && !paths.at(at).takes(1473));
        assert_eq!(
            (0..20).filter(|_| paths.at(at).takes(9)).count(),
            4,
            "behind what was too long"
        );
        paths.close(at);
        assert!(!paths.at(at).takes(0) && !paths.any_open());
        answered(&mut paths, at);
        assert!(paths.at(at).takes(0));
        let foreign = paths.towards("10.0.0.3:7".parse().unwrap()).unwrap();
        answered(&mut paths, foreign);
        assert!(!paths.at(foreign).takes(0), "an answer does not tell the way");
    }

    #[test]
    fn silence_first_asks_and_then_closes() {
        let (mut paths, at) = opened();
        let asked = (0..40).filter(|_| paths.on_sent(at, 0)).count();
        assert_eq!((asked, paths.at(at).takes(9)), (1, true));
        paths.on_heard(at);
        assert_eq!((0..63).filter(|_| paths.on_sent(at, 0)).count(), 1);
        assert!(paths.at(at).takes(9));
        paths.on_sent(at, 0);
        assert!(!paths.at(at).takes(9) && paths.is_due(at, 0));
    }

    #[test]
    fn only_the_last_question_is_answered_and_only_once() {
        let (mut paths, at) = opened();
        paths.close(at);
        assert!(!paths.on_answer(at, 5, 0), "what was recorded earlier");
        paths.on_asked(at, 6, 0);
        paths.on_asked(at, 7, 0);
        assert!(!paths.on_answer(at, 6, 0) && !paths.any_open());
        assert!(paths.on_answer(at, 7, 0) && paths.any_open() && !paths.on_answer(at, 7, 0));
    }

    #[test]
    fn forged_frames_keep_no_destination_open_that_does_not_answer() {
        let (mut paths, at) = opened();
        let mut sent = 0;
        while paths.at(at).takes(9) {
            paths.on_sent(at, 0);
            paths.on_heard(at);
            sent += 1;
        }
        assert_eq!(sent, DOUBT_AFTER);
        answered(&mut paths, at);
        let asked = (1..DOUBT_AFTER).filter(|_| {
            paths.on_heard(at);
            paths.on_sent(at, 0)
        });
        assert_eq!(asked.count(), 3);
    }

    /// The peer's hardware address changed: its frames and datagrams arrive here, ours do not
    /// there.
    #[test]
    fn a_destination_that_is_heard_but_does_not_answer_closes_in_time() {
        const MS: u64 = 1_000_000;
        let (mut paths, at) = opened();
        let (mut now_ns, mut number, mut asked) = (0, 5, 0);
        // Retransmissions alone: each later than the one before, as the channel sends them.
        let mut pause_ns = MS;
        while paths.at(at).takes(9) {
            assert!(now_ns < 1_000 * MS, "open for a second after {asked} questions");
            if paths.on_sent(at, now_ns) {
                number += 1;
                asked += 1;
                paths.on_asked(at, number, now_ns);
            }
            paths.on_heard(at);
            now_ns += pause_ns;
            pause_ns = (2 * pause_ns).min(100 * MS);
        }
        assert!(asked >= 2, "one lost question closes nothing: {asked}");
        // The kernel has learnt the address meanwhile: UDP arrives, and so does the next question.
        assert!(paths.is_due(at, now_ns));
        paths.on_asked(at, number + 1, now_ns);
        assert!(paths.on_answer(at, number + 1, now_ns) && paths.at(at).takes(9));
        // Answers keep it open, one question in 50 ms.
        let mut questions = 0;
        for ms in 1..=1000 {
            if paths.on_sent(at, now_ns + ms * MS) {
                questions += 1;
                paths.on_asked(at, number + 1 + questions, now_ns + ms * MS);
                assert!(paths.on_answer(at, number + 1 + questions, now_ns + ms * MS));
            }
            paths.on_heard(at);
        }
        assert!(paths.at(at).takes(9) && (15..=25).contains(&questions), "{questions}");
    }

    #[test]
    fn questions_become_rare_and_an_answer_makes_them_quick_again() {
        let (mut paths, at) = (FramePaths::default(), 0);
        paths.towards("10.0.0.2:7".parse().unwrap());
        let questions = (0..100_000).filter(|ms| paths.is_due(at, ms * 1_000_000)).count();
        assert!((100..120).contains(&questions), "{questions} in 100 s");
        paths.on_neighbor(at, "10.0.0.1:7".parse().unwrap(), &neighbor(), 1982);
        answered(&mut paths, at);
        paths.close(at);
        assert!(paths.is_due(at, 0) && !paths.is_due(at, FIRST_PAUSE_NS - 1));
        assert!(paths.is_due(at, FIRST_PAUSE_NS));
    }

    #[test]
    fn what_follows_a_burst_does_not_overtake_it() {
        let (mut paths, at) = opened();
        paths.at(at).on_burst();
        assert_eq!((0..100).filter(|_| paths.at(at).takes(9)).count(), 84);
    }

    #[test]
    fn destinations_are_bounded_and_strangers_are_not_noted() {
        let mut paths = FramePaths::default();
        let address = |i: usize| SocketAddrV4::new((0x0a00_0000 + i as u32).into(), 9);
        assert!((0..MAX_COUNT).all(|i| paths.towards(address(i)) == Some(i)));
        assert_eq!(paths.towards(address(MAX_COUNT)), None);
        assert_eq!((paths.towards(address(5)), paths.known(address(5))), (Some(5), Some(5)));
        assert_eq!((paths.known(address(6)), paths.known(address(MAX_COUNT))), (Some(6), None));
    }
}
