//! A collective in two phases as a list of steps: pure. Whatever brings a contribution, a handler
//! or a call, takes it on as far as it goes.

use crate::mailbox::{Mailbox, PartId, PartMismatch};
use crate::signature::Signature;
use std::collections::VecDeque;

/// Combines two lists of values, as bytes: the second into the first, which is of lower ranks if
/// the flag is set.
pub(crate) type Combine = fn(&mut [u8], &[u8], bool);

/// A step. Ranks are those of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Gives the value to a rank.
    Give { to: u32, step: u64 },
    /// Gives one of the parts to a rank.
    GivePart { to: u32, step: u64, part: usize },
    /// Waits for a contribution.
    Take { from: u32, step: u64, then: Taken },
}

/// Use of a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It says that its sender has come.
    Dropped,
    /// It becomes the value.
    Value,
    /// It becomes one of the parts.
    Part(usize),
    /// It is combined with the value; true: it is of lower ranks than that.
    Combined(bool),
}

/// A contribution to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) to: u32,
    pub(crate) step: u64,
    pub(crate) bytes: Vec<u8>,
    /// Bytes that were sent.
    pub(crate) sent: usize,
}

impl Outgoing {
    fn new(to: u32, step: u64, bytes: Vec<u8>) -> Self {
        Self { to, step, bytes, sent: 0 }
    }

    /// Returns the next fragment of at most so many bytes, and the words of its message; `None` if
    /// all were sent.
    pub(crate) fn fragment(
        &self,
        (team, seq): (u64, u64),
        most: usize,
    ) -> Option<([u64; 6], &[u8])> {
        debug_assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        let rest = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty())?;
        let (sent, total) = (self.sent as u64, self.bytes.len() as u64);
        let words = [team, seq, self.step, sent, total, Signature::ANY.word()];
        Some((words, rest.get(..most).unwrap_or(rest)))
    }
}

/// A collective under way at this rank.
#[derive(Debug)]
pub(crate) struct Schedule {
    steps: VecDeque<Step>,
    /// Length of each contribution that is taken; none: any.
    length: Option<usize>,
    pub(crate) value: Vec<u8>,
    pub(crate) parts: Vec<Vec<u8>>,
    combine: Combine,
    /// Contributions that could not be sent where they arose: the next call sends them.
    pub(crate) unsent: Vec<Outgoing>,
    /// Reason why it cannot end.
    pub(crate) failed: Option<PartMismatch>,
    /// True if nobody waits for its end.
    pub(crate) is_dropped: bool,
}

impl Schedule {
    pub(crate) fn new(
        steps: impl IntoIterator<Item = Step>,
        (value, parts): (Vec<u8>, Vec<Vec<u8>>),
        combine: Combine,
    ) -> Self {
        let (steps, length) = (steps.into_iter().collect(), Some(value.len()));
        let (unsent, failed, is_dropped) = Default::default();
        Self { steps, length, value, parts, combine, unsent, failed, is_dropped }
    }

    /// Sets the length of each contribution that is taken, that of the value otherwise; none: any.
    pub(crate) fn of_length(self, length: Option<usize>) -> Self {
        Self { length, ..self }
    }

    /// Returns the ranks that it sends to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        self.steps.iter().filter_map(|step| match *step {
            Step::Give { to, .. } | Step::GivePart { to, .. } => Some(to),
            Step::Take { .. } => None,
        })
    }

    /// Returns true if nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.steps.is_empty() && self.unsent.is_empty()
    }

    /// Takes what has arrived, as far as steps go in order. Returns what is to be sent.
    pub(crate) fn advance(
        &mut self,
        (team, seq): (u64, u64),
        mailbox: &mut Mailbox,
    ) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        while let Some(&next) = self.steps.front() {
            match next {
                Step::Give { to, step } => {
                    outgoing.push(Outgoing::new(to, step, self.value.clone()));
                }
                Step::GivePart { to, step, part } => {
                    let bytes = self.parts.get(part).cloned().unwrap_or_default();
                    outgoing.push(Outgoing::new(to, step, bytes));
                }
                Step::Take { from, step, then } => {
                    let part = PartId { team, seq, from, step };
                    match mailbox.take(part, self.length) {
                        Ok(Some(pieces)) => self.use_bytes(pieces.into_vec(), then),
                        Ok(None) => return outgoing,
                        Err(misfit) => {
                            self.failed = Some(misfit);
                            return outgoing;
                        }
                    }
                }
            }
            self.steps.pop_front();
        }
        outgoing
    }

    fn use_bytes(&mut self, bytes: Vec<u8>, then: Taken) {
        debug_assert!(self.length.is_none_or(|length| bytes.len() == length), "it is checked");
        match then {
            Taken::Dropped => {}
            Taken::Value => self.value = bytes,
            Taken::Part(part) => {
                if let Some(place) = self.parts.get_mut(part) {
                    *place = bytes;
                }
            }
            Taken::Combined(is_lower) => (self.combine)(&mut self.value, &bytes, is_lower),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, Outgoing, PartId, Schedule, Signature, Step, Taken};
    use crate::mailbox::FragmentRange;

    fn add(value: &mut [u8], other: &[u8], _: bool) {
        value[0] += other[0];
    }

    #[test]
    fn steps_are_taken_in_order_whenever_contributions_come() {
        let take = |from, then| Step::Take { from, step: 3, then };
        let steps = [
            Step::Give { to: 1, step: 3 },
            take(1, Taken::Combined(false)),
            Step::Give { to: 2, step: 3 },
            take(2, Taken::Value),
        ];
        let mut schedule = Schedule::new(steps, (vec![5], Vec::new()), add);
        let mut mailbox = Mailbox::default();
        let sent = |to, byte| vec![Outgoing::new(to, 3, vec![byte])];
        assert_eq!(schedule.advance((9, 1), &mut mailbox), sent(1, 5));
        let put = |mailbox: &mut Mailbox, from, byte| {
            let part = PartId { team: 9, seq: 1, from, step: 3 };
            let piece = (Signature::ANY, vec![byte]);
            mailbox.put(part, FragmentRange { offset: 0, total: 1 }, piece).unwrap();
        };
        put(&mut mailbox, 2, 90);
        assert!(schedule.advance((9, 1), &mut mailbox).is_empty(), "it is not its turn");
        put(&mut mailbox, 1, 7);
        assert_eq!(schedule.advance((9, 1), &mut mailbox), sent(2, 12));
        assert!(schedule.is_done() && schedule.value == [90]);
    }
}
