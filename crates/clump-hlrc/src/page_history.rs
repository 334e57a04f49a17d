//! Use that a rank made of one page each time after its copy had become stale: what it will use
//! next is predicted so by Karlsson and Stenstrom (HPCA 1997), and Bianchini, Pinto and Amorim
//! (ICPP 1998). Predictions cost or save time, and decide nothing else.

/// Bits of the times in a row.
const TIMES: u8 = 0b11;
/// First bit of the state since the copy became stale last.
const STATE_SHIFT: u32 = 2;
const STATE: u8 = 0b11 << STATE_SHIFT;
/// Not used.
const IDLE: u8 = 0;
/// Used by a fault.
const USED: u8 = 1 << STATE_SHIFT;
/// Fetched ahead with a right: its use is no fault.
const GIVEN: u8 = 2 << STATE_SHIFT;
/// Fetched ahead without a right: its use is a fault.
const TRIED: u8 = 3 << STATE_SHIFT;
/// First bit of the turns since it was tried last.
const TURNS_SHIFT: u32 = 4;
/// Turns of which one is a trial.
const TURNS: u8 = 8;
/// Uses in a row from which on the next one is expected.
const EXPECTED: u8 = 2;

/// Way in which a page comes ahead of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageTurn {
    /// With a right.
    Given,
    /// Without one: a fault will tell that it is used.
    Tried,
}

/// Use of a page by one rank, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageHistory(pub u8);

impl PageHistory {
    fn with_state(self, state: u8) -> Self {
        Self(self.0 & !STATE | state)
    }

    fn with_times(self, times: u8) -> Self {
        debug_assert!(times <= TIMES, "few are counted");
        Self(self.0 & !TIMES | times)
    }

    /// Takes in that the rank has used the page by a fault.
    #[must_use]
    pub fn used(self) -> Self {
        match self.0 & STATE {
            // What the trial has shown holds for the turns to come.
            TRIED => Self((self.0 & TIMES) | USED | 1 << TURNS_SHIFT),
            IDLE => self.with_state(USED),
            _ => self,
        }
    }

    /// Takes in that the copy has become stale. Returns true if the page came ahead, and was
    /// not used.
    #[must_use]
    pub fn stale(self) -> (Self, bool) {
        let times = self.0 & TIMES;
        let (times, wasted) = match self.0 & STATE {
            USED => ((times + 1).min(TIMES), false),
            GIVEN => (times, false),
            TRIED => (0, true),
            _ => (0, false),
        };
        (self.with_times(times).with_state(IDLE), wasted)
    }

    /// Returns true if the rank is likely to use the page again.
    pub fn is_expected(self) -> bool {
        self.0 & STATE == IDLE && self.0 & TIMES >= EXPECTED
    }

    /// Takes in that the page comes ahead of its use. Returns how: one turn in some is a trial, the
    /// first among them.
    #[must_use]
    pub fn ahead(self) -> (Self, PageTurn) {
        debug_assert!(self.is_expected(), "its use is expected");
        let turn = self.0 >> TURNS_SHIFT;
        debug_assert!(turn < TURNS, "turns are counted up to a trial");
        if turn == 0 {
            return (self.with_state(TRIED), PageTurn::Tried);
        }
        let turns = (turn + 1) % TURNS;
        (Self(self.0 & TIMES | GIVEN | turns << TURNS_SHIFT), PageTurn::Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One time of a page's history.
    fn time(history: PageHistory, uses: bool) -> (PageHistory, Option<PageTurn>, bool) {
        let (mut now, mut turn) = (history, None);
        if now.is_expected() {
            let (ahead, how) = now.ahead();
            (now, turn) = (ahead, Some(how));
        }
        if uses && turn != Some(PageTurn::Given) {
            now = now.used();
        }
        let (now, wasted) = now.stale();
        (now, turn, wasted)
    }

    #[test]
    fn a_page_used_twice_in_a_row_comes_ahead_and_is_tried_now_and_then() {
        let mut history = PageHistory::default();
        let mut turns = Vec::new();
        for _ in 0..20 {
            let (next, turn, wasted) = time(history, true);
            assert!(!wasted, "it is used each time");
            turns.push(turn);
            history = next;
        }
        assert_eq!(turns[..2], [None, None], "nothing is known at first");
        let tried = |at: &usize| turns[*at] == Some(PageTurn::Tried);
        assert_eq!((2..20).filter(tried).collect::<Vec<_>>(), [2, 10, 18]);
        assert!(turns[3..10].iter().all(|turn| *turn == Some(PageTurn::Given)));
    }

    #[test]
    fn a_page_no_longer_used_comes_ahead_a_few_times_at_most() {
        let used = (0..3).fold(PageHistory::default(), |history, _| time(history, true).0);
        let (mut history, mut came, mut wasted) = (used, 0, 0);
        for _ in 0..100 {
            let (next, turn, waste) = time(history, false);
            came += u32::from(turn.is_some());
            wasted += u32::from(waste);
            history = next;
        }
        assert!(came <= 8 && wasted == 1, "{came}, {wasted}");
        assert!(!history.is_expected());
    }

    #[test]
    fn a_page_used_every_other_time_does_not_come_ahead() {
        let mut history = PageHistory::default();
        for at in 0..50 {
            let (next, turn, _) = time(history, at % 2 == 0);
            assert_eq!(turn, None);
            history = next;
        }
    }
}
