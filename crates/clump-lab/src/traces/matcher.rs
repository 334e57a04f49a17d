//! Sends matched with the handlers of their messages.

use clump_trace::event::send_key;
use std::collections::HashMap;

/// Messages that are remembered at most, per side; those beyond are counted.
const MAX_REMEMBERED: usize = 1 << 22;

/// The name of a message in traces: equal at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageName {
    /// The sender.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// The time of sending, as its stamp has it.
    pub sent: u32,
}

impl MessageName {
    /// Returns the name of the message that rank `from` sends at `now_ns` of its machine's clock.
    pub fn of(from: u32, to: u32, now_ns: u64) -> Self {
        Self { from, to, sent: send_key(now_ns) }
    }
}

/// One end of a message.
#[derive(Debug, Clone, Copy)]
struct End<T> {
    at: T,
    /// Messages of that name: threads of one rank may send several in the same moment.
    count: u32,
}

/// Ends of messages whose other end has not been seen. A handler may be seen before its send where
/// clocks of two machines are compared.
#[derive(Debug)]
pub struct Matcher<T> {
    sends: HashMap<MessageName, End<T>>,
    handles: HashMap<MessageName, End<T>>,
    /// Ends for which there was no room.
    forgotten: u64,
}

impl<T> Default for Matcher<T> {
    fn default() -> Self {
        Self { sends: HashMap::new(), handles: HashMap::new(), forgotten: 0 }
    }
}

impl<T: Copy> Matcher<T> {
    /// Takes a send; returns what was noted of its handler, if that has been seen.
    pub fn send(&mut self, name: MessageName, at: T) -> Option<T> {
        let Self { sends, handles, forgotten } = self;
        let found = take(handles, name);
        if found.is_none() {
            keep(sends, name, at, forgotten);
        }
        found
    }

    /// Takes a handler; returns what was noted of the send, if that has been seen.
    pub fn handle(&mut self, name: MessageName, at: T) -> Option<T> {
        let Self { sends, handles, forgotten } = self;
        let found = take(sends, name);
        if found.is_none() {
            keep(handles, name, at, forgotten);
        }
        found
    }

    /// Returns the number of sends without a handler, and of handlers without a send.
    pub fn unmatched(&self) -> (u64, u64) {
        let sum = |ends: &HashMap<_, End<T>>| ends.values().map(|end| u64::from(end.count)).sum();
        (sum(&self.sends), sum(&self.handles))
    }

    /// Returns the number of ends for which there was no room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

fn take<T: Copy>(ends: &mut HashMap<MessageName, End<T>>, name: MessageName) -> Option<T> {
    let end = ends.get_mut(&name)?;
    let at = end.at;
    debug_assert!(end.count > 0, "an end that is known is of a message");
    end.count -= 1;
    if end.count == 0 {
        ends.remove(&name);
    }
    Some(at)
}

fn keep<T>(ends: &mut HashMap<MessageName, End<T>>, name: MessageName, at: T, forgotten: &mut u64) {
    if let Some(end) = ends.get_mut(&name) {
        end.count += 1;
    } else if ends.len() < MAX_REMEMBERED {
        ends.insert(name, End { at, count: 1 });
    } else {
        *forgotten += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_meet_in_either_order_and_names_count() {
        let mut matcher = Matcher::default();
        let name = |from, sent: u64| MessageName::of(from, 9, 16 * sent);
        assert_eq!(matcher.send(name(1, 5), 100), None);
        assert_eq!(matcher.send(name(1, 5), 101), None, "of another thread, at the same time");
        assert_eq!(matcher.handle(name(2, 5), 70), None, "of another sender");
        assert_eq!(matcher.handle(name(1, 5), 200), Some(100));
        assert_eq!(matcher.handle(name(1, 5), 201), Some(100));
        assert_eq!(matcher.handle(name(1, 5), 202), None);
        assert_eq!(matcher.send(name(2, 5), 60), Some(70), "the clocks differ");
        assert_eq!(matcher.unmatched(), (0, 1));
        assert_eq!(name(1, 1 << 33), name(1, 0), "stamps wrap");
    }
}
