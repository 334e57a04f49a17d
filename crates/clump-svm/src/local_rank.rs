//! Record of one rank at the interface of its node: calls under way, locks, and the rights that it
//! is still to be told of.

use crate::mailbox::{Call, MAX_STEPS, Mailbox, RightsStep, Slot, op, result};
use crate::rank_stores::RankStores;
use crate::read_ahead::ReadAhead;
use clump_hlrc::{PageAccess, RankWait};
use std::collections::{HashSet, VecDeque};

/// One rank of the node.
#[derive(Debug, Default)]
pub(crate) struct LocalRank {
    /// True once it takes part.
    pub(crate) open: bool,
    /// Page and right that it waits for.
    pub(crate) fault: Option<(u32, PageAccess)>,
    /// Pages that it is likely to read next.
    pub(crate) ahead: ReadAhead,
    /// Calls of its threads that wait, and what for.
    waits: Vec<(Slot, RankWait)>,
    /// Locks that it has, keeps, or waits for.
    pub(crate) locks: HashSet<u64>,
    /// Locks that others want, to be asked for when its turn at scans has ended.
    pub(crate) postponed: Vec<u64>,
    /// Its stores, where the interface finds them.
    pub(crate) stores: RankStores,
    /// Steps that were not sent to it, in their order.
    untold: VecDeque<RightsStep>,
    /// Results of calls whose last step was not sent.
    unfinished: Vec<(Slot, u64)>,
    /// Answers so far. The rank carries out their steps in this order, whichever thread gets them.
    answers: u64,
}

impl LocalRank {
    /// Notes a change of its rights, which it carries out before its next call returns.
    pub(crate) fn tell(&mut self, page: u32, access: Option<PageAccess>) {
        if access.is_some() {
            self.stores.note_given(page);
        }
        let extended = self.untold.back_mut().is_some_and(|last| last.extend(page, access));
        if !extended {
            self.untold.push_back(RightsStep { first: page, pages: 1, access });
        }
    }

    /// Notes a right that the rank has taken by itself; what was not sent to it was before.
    pub(crate) fn note_taken(&mut self, page: u32, access: PageAccess) {
        self.stores.note_given(page);
        let concerns = |step: &RightsStep| page.wrapping_sub(step.first) < step.pages;
        if self.untold.iter().any(concerns) {
            self.tell(page, Some(access));
        }
    }

    /// Answers a call, with all changes that were not sent to the rank.
    pub(crate) fn answer(&mut self, mailbox: &Mailbox<'_>, slot: Slot, outcome: u64) {
        debug_assert!(self.unfinished.iter().all(|call| call.0 != slot), "one call at a time");
        self.unfinished.push((slot, outcome));
        self.answer_rest(mailbox, slot);
    }

    /// Answers with what did not fit before. Returns false if there is nothing.
    pub(crate) fn answer_rest(&mut self, mailbox: &Mailbox<'_>, slot: Slot) -> bool {
        let Some(at) = self.unfinished.iter().position(|call| call.0 == slot) else { return false };
        let count = self.untold.len().min(MAX_STEPS);
        let steps: Vec<_> = self.untold.drain(..count).collect();
        let whole = self.untold.is_empty();
        let outcome = if whole { self.unfinished.swap_remove(at).1 } else { result::MORE };
        self.answers += 1;
        mailbox.answer(self.answers, outcome, &steps);
        true
    }

    /// Returns the number of the last answer, if the rank has been told of all pages that were
    /// taken away.
    pub(crate) fn last_answer(&self) -> Option<u32> {
        let told = self.untold.iter().all(|step| step.access.is_some());
        told.then_some(self.answers as u32)
    }

    /// Notes that a call waits.
    pub(crate) fn begin_wait(&mut self, slot: Slot, wait: RankWait) {
        debug_assert!(self.waits.iter().all(|known| known.0 != slot), "one call at a time");
        self.waits.push((slot, wait));
    }

    /// Returns the call whose wait has ended.
    pub(crate) fn end_wait(&mut self, wait: RankWait) -> Option<Slot> {
        let at = self.waits.iter().position(|known| known.1 == wait)?;
        Some(self.waits.swap_remove(at).0)
    }

    /// Returns all calls that wait, which end.
    pub(crate) fn take_waits(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.waits).into_iter().map(|(slot, _)| slot).collect()
    }

    /// Returns true if a call of the rank waits for that.
    pub(crate) fn awaits(&self, wait: RankWait) -> bool {
        self.waits.iter().any(|known| known.1 == wait)
    }

    /// Returns true if a call makes no sense now: the rank has another under way in this mailbox,
    /// has or has not the lock, or takes no part.
    pub(crate) fn contradicts(&self, slot: Slot, call: &Call) -> bool {
        let [first, ..] = call.words;
        if (call.op == op::FAULT) != (slot == Slot::FAULT) {
            return true;
        }
        let busy = self.waits.iter().any(|known| known.0 == slot)
            || self.unfinished.iter().any(|known| known.0 == slot);
        if busy || self.open == (call.op == op::OPEN) {
            return true;
        }
        match call.op {
            op::FAULT => self.fault.is_some(),
            op::ACQUIRE => self.locks.contains(&first),
            op::RELEASE => !self.locks.contains(&first) || self.awaits(RankWait::Lock(first)),
            op::BARRIER => self.awaits(RankWait::Barrier(first)),
            op::OPEN
            | op::SET_FLAG
            | op::AWAIT_FLAG
            | op::FENCE
            | op::PLACE
            | op::PLACE_ALONE
            | op::WRITTEN => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_rank_wait_for_different_things() {
        let mut rank = LocalRank { open: true, ..LocalRank::default() };
        let mut slots = Slot::waiting();
        let [one, two] = [slots.next().unwrap(), slots.next().unwrap()];
        let call = |op, first| Call { op, words: [first, 0, 0, 0] };
        rank.locks.insert(7);
        rank.begin_wait(one, RankWait::Lock(7));
        rank.begin_wait(two, RankWait::Flag(7, 3));
        assert!(rank.contradicts(one, &call(op::ACQUIRE, 8)), "that thread waits");
        assert!(rank.contradicts(Slot::BRIEF, &call(op::RELEASE, 7)), "nobody has it yet");
        assert!(!rank.contradicts(Slot::BRIEF, &call(op::SET_FLAG, 7)));
        assert!(rank.contradicts(Slot::FAULT, &call(op::SET_FLAG, 7)));
        assert_eq!(rank.end_wait(RankWait::Flag(7, 2)), None);
        assert_eq!(rank.end_wait(RankWait::Lock(7)), Some(one));
        assert!(!rank.contradicts(Slot::BRIEF, &call(op::RELEASE, 7)));
        assert_eq!(rank.take_waits(), [two]);
    }
}
