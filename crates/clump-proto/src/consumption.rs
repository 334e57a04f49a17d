//! Requests of one endpoint that another has consumed: the receiving side of credit, and the
//! answers that wait for room.

use std::collections::VecDeque;

/// Bytes that a request costs besides its payload.
pub const REQUEST_COST: u64 = 64;

/// Credit that a receiver can grant beyond what every requester has.
///
/// It comes back from a requester of which nothing was consumed from one time that credit ran
/// short to the next: a second chance, as the clock algorithm of paging gives it (Corbató, 1968).
#[derive(Debug)]
pub struct CreditPool {
    all: u64,
    left: u64,
}

impl CreditPool {
    /// Creates a pool of so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self { all: bytes, left: bytes }
    }

    /// Returns true if less is left than a requester wants that has `granted`.
    pub fn lacks(&self, wanted: u64, granted: u64) -> bool {
        debug_assert!(self.left <= self.all, "no more is left than there was");
        wanted.saturating_sub(granted) > self.left
    }

    /// Takes up to `wanted` bytes.
    fn take(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.left);
        self.left -= taken;
        taken
    }

    /// Puts back what was taken.
    fn put_back(&mut self, bytes: u64) {
        self.left += bytes;
        debug_assert!(self.left <= self.all, "no more comes back than was taken");
    }

    /// Returns the bytes that are left.
    pub fn left(&self) -> u64 {
        self.left
    }
}

/// Account of one requester: the bytes of its requests that were consumed, how many of them it was
/// told of, and answers `K` to it that found no room.
///
/// Counts are cumulative, so reports may arrive late, in any order, or not at all.
#[derive(Debug)]
pub struct Consumption<K> {
    consumed: u64,
    reported: u64,
    /// Bytes that the requester may leave unconsumed, if it was told: as many as all, or more.
    granted: u64,
    /// Bytes consumed when credit last ran short.
    at_shortage: Option<u64>,
    /// The total at which the requester asked for a report.
    asked: Option<u64>,
    kept: VecDeque<K>,
}

impl<K> Default for Consumption<K> {
    fn default() -> Self {
        let (consumed, reported, granted) = (0, 0, 0);
        Self { consumed, reported, granted, at_shortage: None, asked: None, kept: VecDeque::new() }
    }
}

impl<K> Consumption<K> {
    /// Counts a request with so many bytes of payload beside its words.
    #[inline]
    pub fn on_consumed(&mut self, payload: usize) {
        self.consumed += REQUEST_COST + payload as u64;
        debug_assert!(self.reported < self.consumed, "it was not reported before");
    }

    /// Notes that the requester asks for a report at that total. Such requests may overtake each
    /// other. The least is answered soonest: a requester that asked for more asks again after the
    /// answer.
    pub fn on_asked(&mut self, total: Option<u64>) {
        self.asked = self.asked.into_iter().chain(total).min();
        debug_assert!(total.is_none_or(|total| self.asked.is_some_and(|least| least <= total)));
    }

    /// Lets the requester leave up to `wanted` bytes unconsumed instead of `credit`, as far as the
    /// pool suffices: as many as its path holds. The receiving side of a window that grows (as
    /// TCP's: Semke et al., SIGCOMM 1998), by the sender's measurement.
    pub fn grant(&mut self, credit: u64, wanted: u64, pool: &mut CreditPool) {
        let before = self.granted.max(credit);
        let more = pool.take(wanted.saturating_sub(before));
        if more > 0 {
            self.granted = before + more;
            self.asked = Some(0); // a requester without credit waits for the report
        }
        self.at_shortage = None;
        debug_assert!(self.granted <= before.max(wanted), "no more is granted than was wanted");
    }

    /// Gives what was granted beyond `credit` back to the pool, if nothing was consumed since this
    /// was last tried. The next report says so; requests that are on their way are taken.
    pub fn give_back_unused(&mut self, credit: u64, pool: &mut CreditPool) {
        let is_unused = self.at_shortage.replace(self.consumed) == Some(self.consumed);
        if is_unused && self.granted > credit {
            self.give_back(credit, pool);
            self.asked = Some(0);
        }
    }

    /// Gives what was granted beyond `credit` back to the pool.
    pub fn give_back(&mut self, credit: u64, pool: &mut CreditPool) {
        pool.put_back(self.granted.saturating_sub(credit));
        self.granted = self.granted.min(credit);
        debug_assert!(self.granted <= credit, "it has what all have");
    }

    /// Returns the bytes that the requester may leave unconsumed; 0: as many as all, and it was
    /// never told of more.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the total to report now, if a report is due: a quarter of the credit was consumed
    /// since the last one, or what the requester asked for.
    #[inline]
    pub fn poll_report(&mut self, credit: u64) -> Option<u64> {
        debug_assert!(self.reported <= self.consumed, "more is reported than was consumed");
        let due = self.consumed - self.reported >= credit.max(self.granted) / 4
            || self.asked.is_some_and(|asked| self.consumed >= asked);
        if !due {
            debug_assert!(self.asked.is_none_or(|asked| asked > self.consumed), "asked in vain");
            return None;
        }
        (self.reported, self.asked) = (self.consumed, None);
        Some(self.consumed)
    }

    /// Returns the total to report before the endpoint closes, if not all was reported.
    pub fn last_report(&mut self) -> Option<u64> {
        let all = self.reported == self.consumed;
        self.reported = self.consumed;
        (!all).then_some(self.consumed)
    }

    /// Keeps an answer that found no room.
    pub fn keep(&mut self, answer: K) {
        self.kept.push_back(answer);
        debug_assert!(self.is_stuck(), "it waits for room");
    }

    /// Returns true if an answer waits for room; then no more requests are consumed.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Sends kept answers, in their order, until one finds no room: then `send` returns false.
    pub fn flush(&mut self, mut send: impl FnMut(&K) -> bool) {
        while self.kept.front().is_some_and(&mut send) {
            self.kept.pop_front();
        }
    }

    /// Takes all answers that wait for room.
    pub fn take_kept(&mut self) -> VecDeque<K> {
        std::mem::take(&mut self.kept)
    }

    /// Returns the answers that wait for room, in their order.
    pub fn kept(&self) -> impl ExactSizeIterator<Item = &K> + '_ {
        self.kept.iter()
    }

    /// Asserts what always holds between calls. With `credit`: reports that were due were taken.
    pub fn check_invariants(&self, credit: Option<u64>) {
        assert!(self.reported <= self.consumed, "more is reported than was consumed");
        if let Some(credit) = credit {
            let unreported = self.consumed - self.reported;
            let quarter = credit.max(self.granted) / 4;
            assert!(unreported < quarter.max(1), "a requester gets its credit back");
            assert!(self.asked.is_none_or(|asked| asked > self.consumed), "answered when due");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_each_quarter_and_when_they_are_asked_for() {
        let mut account = Consumption::<()>::default();
        assert_eq!(account.poll_report(400), None);
        account.on_consumed(35);
        assert_eq!(account.poll_report(400), None, "99 of 100 bytes");
        account.on_consumed(0);
        assert_eq!(account.poll_report(400), Some(163));
        account.on_asked(Some(300));
        account.on_asked(Some(227));
        account.on_asked(Some(500));
        assert_eq!(account.poll_report(400), None);
        account.on_consumed(0);
        assert_eq!(account.poll_report(1 << 20), Some(227), "the least that was asked for");
        assert_eq!((account.poll_report(1 << 20), account.last_report()), (None, None));
        account.on_consumed(0);
        assert_eq!((account.last_report(), account.last_report()), (Some(291), None));
        account.check_invariants(Some(400));
    }

    #[test]
    fn credit_grows_as_far_as_there_is_some_left() {
        let (mut account, mut pool) = (Consumption::<()>::default(), CreditPool::new(1000));
        account.on_consumed(36);
        assert_eq!(account.poll_report(400), Some(100));
        account.grant(400, 300, &mut pool);
        assert_eq!((account.granted(), pool.left(), account.poll_report(400)), (0, 1000, None));
        account.grant(400, 900, &mut pool);
        assert_eq!((account.granted(), pool.left()), (900, 500));
        assert_eq!(account.poll_report(400), Some(100), "the requester waits for it");
        account.on_consumed(100);
        assert_eq!(account.poll_report(400), None, "164 of 225 bytes");
        account.grant(400, 10_000, &mut pool);
        assert_eq!((account.granted(), pool.left()), (1400, 0));
    }

    #[test]
    fn credit_of_requesters_that_do_nothing_goes_to_those_that_lack_it() {
        let (mut idle, mut busy) = (Consumption::<()>::default(), Consumption::<()>::default());
        let mut pool = CreditPool::new(1000);
        idle.on_consumed(0);
        idle.grant(400, 1300, &mut pool);
        assert_eq!((idle.poll_report(400), pool.lacks(600, 400)), (Some(64), true));
        idle.give_back_unused(400, &mut pool);
        assert_eq!((idle.granted(), idle.poll_report(400)), (1300, None), "its first chance");
        idle.on_consumed(0);
        idle.give_back_unused(400, &mut pool);
        assert_eq!(idle.granted(), 1300, "something was consumed meanwhile");
        idle.give_back_unused(400, &mut pool);
        assert_eq!((idle.granted(), pool.left()), (400, 1000));
        assert_eq!(idle.poll_report(400), Some(128), "it is told");
        assert!(!pool.lacks(1400, 400) && pool.lacks(1401, 400));
        busy.grant(400, 1400, &mut pool);
        busy.give_back_unused(400, &mut pool);
        busy.grant(400, 1400, &mut pool);
        busy.give_back_unused(400, &mut pool);
        assert_eq!((busy.granted(), pool.left()), (1400, 0), "who asks for more is not idle");
        busy.give_back(400, &mut pool);
        assert_eq!((busy.granted(), pool.left()), (400, 1000));
        idle.give_back_unused(400, &mut pool);
        assert_eq!((idle.granted(), idle.poll_report(400)), (400, None), "it has none to give");
    }

    #[test]
    fn answers_that_wait_keep_their_order() {
        let mut account = Consumption::default();
        (0..5).for_each(|answer| account.keep(answer));
        let mut sent = Vec::new();
        account.flush(|&answer| {
            let room = answer < 3;
            if room {
                sent.push(answer);
            }
            room
        });
        assert_eq!((sent, account.is_stuck()), (vec![0, 1, 2], true));
        assert!(account.take_kept().into_iter().eq([3, 4]) && !account.is_stuck());
    }
}
