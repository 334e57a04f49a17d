//! The interfaces that inject a rank's messages while its network is to seem slower than it is
//! (docs/adr/0038), and the injections of messages that are tried again.

use crate::message::OutgoingMessage;
use clump_loggp::{Injection, Injector, KnobScope, Knobs};
use clump_os::clock;
use clump_shm::name::Name;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most messages of an endpoint that are tried again at a time: one for each of its threads, and
/// those that were tried once and given up by programs that do not wait.
const MAX_RESERVED: usize = 64;

/// The interfaces of a rank, one for each path, which its threads share.
#[derive(Debug, Default)]
pub(crate) struct Interfaces([Mutex<Injector>; 2]);

impl Interfaces {
    fn of(&self, scope: KnobScope) -> MutexGuard<'_, Injector> {
        self.0[scope as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects a message of so many bytes, or a further fragment of the last one.
    pub(crate) fn inject(&self, scope: KnobScope, knobs: &Knobs, part: (usize, bool)) -> Injection {
        let mut injector = self.of(scope);
        let before_ns = injector.free_ns();
        let injection = injector.inject(knobs, clock::now_ns(), part);
        debug_assert!(injector.free_ns() >= before_ns, "time goes on");
        injection
    }

    /// Does the same, unless as many messages as an interface holds wait already.
    pub(crate) fn inject_if_room(
        &self,
        scope: KnobScope,
        knobs: &Knobs,
        part: (usize, bool),
    ) -> Option<Injection> {
        let mut injector = self.of(scope);
        let now_ns = clock::now_ns();
        debug_assert!(now_ns > 0, "the clock runs");
        (injector.room_ns() <= now_ns).then(|| injector.inject(knobs, now_ns, part))
    }
}

/// Messages that were injected and then found no room, with the times at which they have been:
/// another attempt at the same message is not injected again, and one at another message is.
#[derive(Debug, Default)]
pub(crate) struct Reservations(VecDeque<(u64, u64)>);

impl Reservations {
    /// Returns the number by which a message is recognised: by all that it carries but the bytes of
    /// its payload.
    fn number(to: Name, message: &OutgoingMessage<'_>) -> u64 {
        let OutgoingMessage { kind, handler, words, payload } = *message;
        debug_assert!(handler.0 != 0, "as it was given, without a stamp");
        let mut hasher = DefaultHasher::new();
        (to.to_bits(), kind as u8, handler.0, words, payload.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the time at which a message that is tried again will have been injected.
    pub(crate) fn find(&self, to: Name, message: &OutgoingMessage<'_>) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        let number = Self::number(to, message);
        self.0.iter().find(|&&(known, _)| known == number).map(|&(_, end_ns)| end_ns)
    }

    /// Keeps the injection of a message until it is dropped.
    pub(crate) fn keep(&mut self, to: Name, message: &OutgoingMessage<'_>, end_ns: u64) {
        debug_assert!(self.find(to, message).is_none(), "it is injected once");
        if self.0.len() == MAX_RESERVED {
            self.0.pop_front();
        }
        self.0.push_back((Self::number(to, message), end_ns));
        debug_assert!(self.0.len() <= MAX_RESERVED, "memory is bounded");
    }

    /// Drops the injection of a message that is not tried again.
    pub(crate) fn drop(&mut self, to: Name, message: &OutgoingMessage<'_>) {
        if !self.0.is_empty() {
            let number = Self::number(to, message);
            self.0.retain(|&(known, _)| known != number);
        }
        debug_assert!(self.find(to, message).is_none(), "nothing takes it for another message");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Handler;

    #[test]
    fn a_reservation_is_of_one_message() {
        let to = Name::new(1, 0, 1);
        let one = OutgoingMessage::short(Handler(3), &[7]);
        let others = [
            (to, OutgoingMessage::short(Handler(4), &[7])),
            (to, OutgoingMessage::short(Handler(3), &[8])),
            (Name::new(2, 0, 1), one),
            (to, OutgoingMessage { payload: &[0; 9], ..one }),
        ];
        let mut reserved = Reservations::default();
        reserved.keep(to, &one, 50);
        assert_eq!(reserved.find(to, &one), Some(50));
        for (to, other) in &others {
            assert_eq!(reserved.find(*to, other), None, "{other:?}");
            reserved.drop(*to, other);
        }
        reserved.keep(others[0].0, &others[0].1, 60);
        reserved.drop(to, &one);
        let found = (reserved.find(to, &one), reserved.find(others[0].0, &others[0].1));
        assert_eq!(found, (None, Some(60)));
    }

    #[test]
    fn messages_that_nobody_tries_again_are_forgotten() {
        let (to, mut reserved) = (Name::new(1, 0, 1), Reservations::default());
        for number in 0..=MAX_RESERVED as u64 {
            reserved.keep(to, &OutgoingMessage::short(Handler(3), &[number]), number);
        }
        let find = |number| reserved.find(to, &OutgoingMessage::short(Handler(3), &[number]));
        assert_eq!((find(0), find(1)), (None, Some(1)));
    }
}
