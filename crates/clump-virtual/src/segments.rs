//! Recorded computation: what each part of a program and of its handlers has cost, to be charged
//! again on other machines.
//!
//! A loop that waits polls more or less often on another machine, and handlers run at other polls.
//! So parts of the program are found by the number of the last call that is no poll, and within it
//! by the number of the poll; parts of a handler by the message that it handles.

use std::collections::HashMap;

/// First word of a record.
const MAGIC: u64 = u64::from_le_bytes(*b"clumpcp2");
/// Calls among which one of the right kind is searched when the program took another way.
const WINDOW: usize = 64;

/// Kind of a call of the runtime, at which a part of the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum CallKind {
    /// A poll, a wait, or the reading of a clock: of these there may be more or fewer.
    Poll = 0,
    /// A message.
    Send = 1,
    /// An access to a word that ranks of a node share.
    Word = 2,
    /// Anything else.
    Other = 3,
}

/// Kinds of calls.
const KINDS: usize = 4;

/// The parts up to a call that is no poll: each poll in between ends one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Segment {
    kind: u64,
    parts: Vec<u64>,
}

/// Returns the sum of parts.
fn sum(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
}

/// Costs of the parts of a program and of its handlers, in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    segments: Vec<Segment>,
    /// The parts since the last call that was no poll.
    current: Vec<u64>,
    /// By the key of the message.
    handlers: HashMap<u64, Vec<u64>>,
    /// The message whose handler runs.
    handled: Option<u64>,
}

impl Recording {
    /// Notes the part that a call ends.
    pub fn note(&mut self, kind: CallKind, ns: u64) {
        if let Some(message) = self.handled {
            return self.handlers.entry(message).or_default().push(ns);
        }
        self.current.push(ns);
        debug_assert!(!self.current.is_empty(), "each segment has a part");
        if kind != CallKind::Poll {
            let parts = std::mem::take(&mut self.current);
            self.segments.push(Segment { kind: kind as u64, parts });
        }
    }

    /// Begins or ends the handler of a message.
    pub fn set_handled(&mut self, message: Option<u64>) {
        debug_assert!(message.is_none() || self.handled.is_none(), "no handler inside another");
        self.handled = message;
    }

    /// Keeps the least that has been recorded of each segment and of each handler, here and in
    /// `other`, a recording of the same program. Behind the first call of another kind, where the
    /// program took another way, segments stay as they are here.
    pub fn lower_to(&mut self, other: Self) {
        let alike = |(here, there): &(&mut Segment, Segment)| here.kind == there.kind;
        for (here, there) in self.segments.iter_mut().zip(other.segments).take_while(alike) {
            if sum(&there.parts) < sum(&here.parts) {
                here.parts = there.parts;
            }
        }
        for (message, parts) in other.handlers {
            let here = self.handlers.get(&message);
            if here.is_none_or(|here| sum(&parts) < sum(here)) {
                self.handlers.insert(message, parts);
            }
        }
        debug_assert!(self.segments.iter().all(|all| !all.parts.is_empty()), "parts stay together");
    }

    /// Returns it as words, as one of the recordings of so many ranks.
    pub fn to_words(&self, ranks: u32) -> Vec<u64> {
        let mut words = vec![MAGIC, u64::from(ranks), self.segments.len() as u64];
        for Segment { kind, parts } in &self.segments {
            words.extend([*kind, parts.len() as u64]);
            words.extend(parts);
        }
        let mut handlers: Vec<_> = self.handlers.iter().collect();
        handlers.sort_unstable();
        words.push(handlers.len() as u64);
        for (message, parts) in handlers {
            words.extend([*message, parts.len() as u64]);
            words.extend(parts);
        }
        debug_assert!(words.len() >= 4, "a head and three counts");
        words
    }

    /// Reads [`Recording::to_words`]; `None` if these are no such words, or of another number of
    /// ranks.
    pub fn from_words(words: &[u64], ranks: u32) -> Option<Self> {
        let mut rest = words.iter().copied();
        let mut recording = Self::default();
        if (rest.next()?, rest.next()?) != (MAGIC, u64::from(ranks)) {
            return None;
        }
        for _ in 0..rest.next()? {
            let (kind, count) = (rest.next()?, rest.next()?);
            let parts = taken(&mut rest, count)?;
            if kind as usize >= KINDS || parts.is_empty() {
                return None;
            }
            recording.segments.push(Segment { kind, parts });
        }
        for _ in 0..rest.next()? {
            let (message, count) = (rest.next()?, rest.next()?);
            let parts = taken(&mut rest, count)?;
            recording.handlers.insert(message, parts);
        }
        rest.next().is_none().then_some(recording)
    }
}

/// Takes so many words, if there are as many.
fn taken(rest: &mut impl Iterator<Item = u64>, count: u64) -> Option<Vec<u64>> {
    let parts: Vec<u64> = rest.take(usize::try_from(count).ok()?).collect();
    debug_assert!(parts.len() as u64 <= count, "no more than that");
    (parts.len() as u64 == count).then_some(parts)
}

/// A recording that is charged again.
#[derive(Debug)]
pub struct RecordedCosts {
    recording: Recording,
    /// Number of the segment, and of polls in it.
    at: usize,
    polls: usize,
    /// Parts of the handler that runs, and how many of them were charged.
    handled: Option<(Option<Vec<u64>>, usize)>,
    /// Mean of segments by kind, and of handlers.
    means: [u64; KINDS],
    handler_mean: u64,
    /// Cost of what the program did that was not recorded.
    diverged_ns: u64,
}

impl RecordedCosts {
    /// Begins at the beginning of a recording.
    pub fn new(recording: Recording) -> Self {
        let mean = |sums: Vec<u64>| sum(&sums) / (sums.len() as u64).max(1);
        let of_kind = |kind: usize| {
            let same = recording.segments.iter().filter(|segment| segment.kind == kind as u64);
            mean(same.map(|segment| sum(&segment.parts)).collect())
        };
        let means = [0, 1, 2, 3].map(of_kind);
        let handler_mean = mean(recording.handlers.values().map(|all| sum(all)).collect());
        debug_assert!(recording.current.is_empty() || recording.handled.is_none(), "it has ended");
        let (at, polls, handled, diverged_ns) = (0, 0, None, 0);
        Self { recording, at, polls, handled, means, handler_mean, diverged_ns }
    }

    /// Returns the cost of the part that a call ends.
    pub fn part(&mut self, kind: CallKind) -> u64 {
        if let Some((parts, charged)) = &mut self.handled {
            let part = parts.as_ref().and_then(|parts| parts.get(*charged));
            *charged += 1;
            return part.copied().unwrap_or(0);
        }
        let segment = self.recording.segments.get(self.at);
        if kind == CallKind::Poll {
            // The last part belongs to the call behind all polls.
            let last = segment.map_or(0, |segment| segment.parts.len() - 1);
            let part = segment.filter(|_| self.polls < last).map(|all| all.parts[self.polls]);
            self.polls += usize::from(part.is_some());
            return part.unwrap_or(0);
        }
        if segment.is_none_or(|segment| segment.kind != kind as u64) {
            return self.diverge(kind);
        }
        let rest = segment.and_then(|segment| segment.parts.get(self.polls..));
        let ns = rest.map_or(0, sum);
        (self.at, self.polls) = (self.at + 1, 0);
        debug_assert!(self.at <= self.recording.segments.len(), "it was one of them");
        ns
    }

    /// Returns the cost of a call that was not recorded here: that of the next one of its kind, or
    /// the mean of all.
    fn diverge(&mut self, kind: CallKind) -> u64 {
        let behind = self.recording.segments.iter().enumerate().skip(self.at).take(WINDOW);
        let next = behind.into_iter().find(|(_, segment)| segment.kind == kind as u64);
        let ns = match next {
            Some((at, segment)) => {
                let ns = sum(&segment.parts);
                (self.at, self.polls) = (at + 1, 0);
                ns
            }
            None => self.means[kind as usize],
        };
        debug_assert!(self.at <= self.recording.segments.len(), "one of them, or the end");
        self.diverged_ns = self.diverged_ns.saturating_add(ns);
        ns
    }

    /// Begins the handler of a message, or ends it; returns what is left of its cost then.
    pub fn set_handled(&mut self, message: Option<u64>) -> u64 {
        let Some(message) = message else {
            let Some((parts, charged)) = self.handled.take() else { return 0 };
            let Some(parts) = parts else {
                self.diverged_ns = self.diverged_ns.saturating_add(self.handler_mean);
                return self.handler_mean;
            };
            return parts.get(charged..).map_or(0, sum);
        };
        debug_assert!(self.handled.is_none(), "no handler runs inside another");
        self.handled = Some((self.recording.handlers.remove(&message), 0));
        0
    }

    /// Returns the cost of what was not recorded.
    pub fn diverged_ns(&self) -> u64 {
        self.diverged_ns
    }
}

#[cfg(test)]
mod tests {
    use super::CallKind::{Other, Poll, Send};
    use super::*;

    fn recording() -> Recording {
        let mut recording = Recording::default();
        for (kind, ns) in [(Send, 10), (Poll, 1), (Poll, 2), (Poll, 3), (Send, 40), (Other, 500)] {
            recording.note(kind, ns);
        }
        recording.set_handled(Some(37));
        recording.note(Send, 5);
        recording.note(Other, 6);
        recording.set_handled(None);
        recording
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let words = recording().to_words(2);
        assert_eq!(Recording::from_words(&words, 2), Some(recording()));
        assert_eq!(Recording::from_words(&words, 3), None, "of two ranks");
        for end in 0..words.len() {
            assert_eq!(Recording::from_words(&words[..end], 2), None, "{end}");
        }
    }

    /// Returns a recording of these parts, and of these handlers.
    fn of(parts: &[(CallKind, u64)], handlers: &[(u64, u64)]) -> Recording {
        let mut recording = Recording::default();
        parts.iter().for_each(|(kind, ns)| recording.note(*kind, *ns));
        for (message, ns) in handlers {
            recording.set_handled(Some(*message));
            recording.note(Other, *ns);
            recording.set_handled(None);
        }
        recording
    }

    #[test]
    fn the_least_of_two_recordings_is_kept_as_far_as_they_went_one_way() {
        // Of two and of three polls.
        let first = [(Send, 10), (Poll, 4), (Poll, 5), (Send, 7), (Other, 30), (Send, 9)];
        let second = [(Send, 12), (Poll, 1), (Poll, 1), (Poll, 1), (Send, 2), (Send, 1), (Send, 1)];
        let mut least = of(&first, &[(5, 50), (6, 60)]);
        least.lower_to(of(&second, &[(6, 61), (5, 40), (7, 70)]));
        let expected =
            [(Send, 10), (Poll, 1), (Poll, 1), (Poll, 1), (Send, 2), (Other, 30), (Send, 9)];
        assert_eq!(least, of(&expected, &[(5, 40), (6, 60), (7, 70)]));
        let before = least.clone();
        least.lower_to(before.clone());
        assert_eq!(least, before, "the least of a recording and itself");
    }

    #[test]
    fn more_or_fewer_polls_do_not_change_the_sum() {
        for polls in 0..9 {
            let mut replay = RecordedCosts::new(recording());
            let mut sum = replay.part(Send);
            sum += (0..polls).map(|_| replay.part(Poll)).sum::<u64>();
            sum += replay.part(Send) + replay.part(Other);
            assert_eq!((sum, replay.diverged_ns()), (556, 0), "{polls}");
        }
    }

    #[test]
    fn handlers_split_nothing_and_are_found_by_their_message() {
        let mut replay = RecordedCosts::new(recording());
        replay.part(Send);
        assert_eq!(replay.part(Poll), 1);
        assert_eq!(replay.set_handled(Some(37)), 0);
        assert_eq!([replay.part(Send), replay.set_handled(None)], [5, 6]);
        assert_eq!(replay.part(Poll), 2);
        assert_eq!(replay.set_handled(Some(38)), 0);
        assert_eq!([replay.part(Send), replay.set_handled(None)], [0, 11], "the mean");
        assert_eq!(replay.diverged_ns(), 11);
    }

    #[test]
    fn another_way_is_charged_by_kind_and_counted() {
        let mut replay = RecordedCosts::new(recording());
        assert_eq!(replay.part(Other), 500, "the next of its kind");
        assert_eq!(replay.part(Send), 28, "the mean of its kind");
        assert_eq!(replay.diverged_ns(), 528);
    }
}
