//! Answers of remote calls that this thread waits for.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The answer of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Not arrived yet.
    Awaited,
    /// The result.
    Result(Vec<u8>),
    /// The text of an error.
    Failure(Vec<u8>),
}

/// Answers by the numbers of their calls.
#[derive(Debug, Default)]
pub(crate) struct CallAnswers {
    last: Cell<u64>,
    answers: RefCell<HashMap<u64, Answer>>,
}

impl CallAnswers {
    /// Returns the number of a new call.
    pub(crate) fn expect(&self) -> u64 {
        let cookie = self.last.get() + 1;
        self.last.set(cookie);
        let before = self.answers.borrow_mut().insert(cookie, Answer::Awaited);
        debug_assert!(before.is_none(), "each call has a number of its own");
        cookie
    }

    /// Stores an answer, unless its caller no longer waits.
    pub(crate) fn give(&self, cookie: u64, answer: Answer) {
        debug_assert!(answer != Answer::Awaited, "an answer has come");
        if let Some(place) = self.answers.borrow_mut().get_mut(&cookie) {
            *place = answer;
        }
    }

    /// Returns true if a call's answer has not arrived.
    pub(crate) fn is_awaited(&self, cookie: u64) -> bool {
        self.answers.borrow().get(&cookie) == Some(&Answer::Awaited)
    }

    /// Takes an answer out; a later one is dropped.
    pub(crate) fn take(&self, cookie: u64) -> Option<Answer> {
        debug_assert!(cookie <= self.last.get(), "a call of this thread");
        self.answers.borrow_mut().remove(&cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, CallAnswers};

    #[test]
    fn answers_belong_to_their_calls() {
        let answers = CallAnswers::default();
        let (first, second) = (answers.expect(), answers.expect());
        answers.give(second, Answer::Result(vec![7]));
        assert!(answers.is_awaited(first) && !answers.is_awaited(second));
        assert_eq!(answers.take(second), Some(Answer::Result(vec![7])));
        assert_eq!(answers.take(first), Some(Answer::Awaited));
        answers.give(first, Answer::Failure(vec![]));
        assert!(!answers.is_awaited(first) && answers.take(first).is_none());
    }
}
