//! Due times of messages on a path that is to seem slower than it is: its sender's interface holds
//! messages ([`crate::Injector`]), and its receiver hides them until they are due. Pure; times are
//! arguments.
//!
//! A message carries a [`Stamp`]: the time at which it was sent, and how long its sender's
//! interface holds it. The arrival time follows from the stamp, not from the time of the poll: the
//! smallest difference among a sender's messages is the length of the path, and each message
//! arrived that long after it was sent. That holds for clocks of two machines, too: the
//! difference between them cancels.

/// Nanoseconds of one unit of a stamp.
const UNIT_NS: u64 = 16;
/// Bits of the time of sending, in units; it wraps after 68 seconds.
const SENT_BITS: u32 = 32;
/// Bits of the time that a message is held, in units shifted by as many places as the five bits
/// above say: exact up to 8 ms, beyond that to 4 millionths.
const HELD_BITS: u32 = 19;
/// Longest time that a message can be held: 208 days, longer than any sum of knobs.
const MAX_HELD_NS: u64 = (((1 << HELD_BITS) - 1) << 31) * UNIT_NS;
/// Time for which the promptest message counts.
const WINDOW_NS: u64 = 1_000_000_000;

/// The last word of a message that is delayed on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time of sending in units, of the sender's clock; it wraps.
    sent: u32,
    /// Time that it is held at its sender, in ns.
    pub held_ns: u64,
    /// The handler that it is for.
    pub handler: u8,
}

impl Stamp {
    /// Stamps a message for `handler` that is sent at `now_ns` and held for `held_ns`.
    pub fn new(now_ns: u64, held_ns: u64, handler: u8) -> Self {
        Self { sent: units(now_ns), held_ns: held_ns.min(MAX_HELD_NS), handler }
    }

    /// Returns the time of sending in units of 16 ns; it wraps after 68 s.
    pub fn sent_units(self) -> u32 {
        self.sent
    }

    /// Returns it as a word.
    pub fn to_word(self) -> u64 {
        let units = self.held_ns / UNIT_NS;
        let places = (u64::BITS - units.leading_zeros()).saturating_sub(HELD_BITS);
        // Rounded up: no message is due before its time.
        let held = (units + ((1 << places) - 1)) >> places;
        // Rounding may have carried into another place.
        let carried = held >> HELD_BITS;
        let (held, places) = (held >> carried, u64::from(places) + carried);
        debug_assert!(places < 32, "as long as a message can be held");
        let held = places << HELD_BITS | held;
        held << (SENT_BITS + 8) | u64::from(self.sent) << 8 | u64::from(self.handler)
    }

    /// Reads [`Stamp::to_word`].
    pub fn from_word(word: u64) -> Self {
        let held = word >> (SENT_BITS + 8);
        let (places, held) = (held >> HELD_BITS, held & ((1 << HELD_BITS) - 1));
        let held_ns = (held << places) * UNIT_NS;
        Self { sent: (word >> 8) as u32, held_ns, handler: (word & 0xff) as u8 }
    }
}

fn units(now_ns: u64) -> u32 {
    (now_ns / UNIT_NS) as u32
}

/// Arrival times of one sender's messages at one receiver.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArrivalClock {
    /// Age of the first message when it was seen, in units: what ages are compared with.
    first_age: Option<u32>,
    /// Least age in this window and the one before, relative to that.
    least: [i32; 2],
    /// End of the window.
    until_ns: u64,
    /// Time at which the last message is due.
    last_due_ns: u64,
}

impl ArrivalClock {
    /// Returns the time at which a message is due that was seen at `now_ns`, on a path to which
    /// `latency_ns` is added. Messages of one sender are due in their order. `most_ns`: what the
    /// path takes at most where both ends read one clock, so that a receiver which always polls
    /// late is distinguished from a long path.
    pub fn due_ns(
        &mut self,
        stamp: Stamp,
        now_ns: u64,
        latency_ns: u64,
        most_ns: Option<u64>,
    ) -> u64 {
        let age = units(now_ns).wrapping_sub(stamp.sent);
        let first_age = *self.first_age.get_or_insert(age);
        // Ages are within half of a stamp's range of each other.
        let relative = age.wrapping_sub(first_age).cast_signed();
        if now_ns >= self.until_ns {
            let begins = self.until_ns == 0 || now_ns - self.until_ns > WINDOW_NS;
            self.least[1] = if begins { relative } else { self.least[0] };
            self.least[0] = relative;
            self.until_ns = now_ns + WINDOW_NS;
        }
        self.least[0] = self.least[0].min(relative);
        let promptest = self.least[0].min(self.least[1]);
        debug_assert!(promptest <= relative, "no message is prompter than the promptest");
        let late_ns = u64::from(relative.abs_diff(promptest)) * UNIT_NS;
        let late_ns = match most_ns {
            Some(most_ns) => late_ns.max((u64::from(age) * UNIT_NS).saturating_sub(most_ns)),
            None => late_ns,
        };
        let arrived_ns = now_ns.saturating_sub(late_ns);
        let due_ns = arrived_ns.saturating_add(stamp.held_ns).saturating_add(latency_ns);
        self.last_due_ns = due_ns.max(self.last_due_ns);
        self.last_due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 70_000_000_000;

    #[test]
    fn a_stamp_is_read_back() {
        let stamp = Stamp::new(START, 48_000, 200);
        assert_eq!(Stamp::from_word(stamp.to_word()), stamp);
    }

    #[test]
    fn a_message_is_held_for_as_long_as_its_bytes_take() {
        // 2 MiB at 1000 ns/B: 2,097 ms; and a week.
        for held_ns in [16, 8_388_592, (2 << 20) * 1_000, (1 << 40) - 1, 7 * 86_400_000_000_000] {
            let read = Stamp::from_word(Stamp::new(START, held_ns, 255).to_word());
            assert_eq!((read.sent_units(), read.handler), (units(START), 255));
            let error = read.held_ns as f64 / held_ns as f64 - 1.0;
            assert!(read.held_ns + UNIT_NS > held_ns && error < 4e-6, "{held_ns}: {error}");
        }
    }

    #[test]
    fn a_message_that_was_seen_late_is_due_as_if_it_had_been_seen_at_once() {
        for skew in [0, 5_000_000_000, u64::MAX - 3_000_000_000] {
            let mut clock = ArrivalClock::default();
            let sent = |at: u64| Stamp::new(at.wrapping_add(skew), 0, 1);
            // The path takes 1 us; the second message is polled 500 us late.
            assert_eq!(clock.due_ns(sent(START), START + 1_008, 20_000, None), START + 21_008);
            let later = START + 100_000;
            let due = clock.due_ns(sent(later), later + 501_008, 20_000, None);
            assert!(due.abs_diff(later + 21_008) <= UNIT_NS, "{skew}: {due}");
        }
    }

    #[test]
    fn a_receiver_that_never_looks_at_once_does_not_lengthen_the_path() {
        let mut clock = ArrivalClock::default();
        let due = clock.due_ns(Stamp::new(START, 0, 1), START + 9_000_000, 20_000, Some(1_000));
        assert!(due.abs_diff(START + 21_000) <= 2 * UNIT_NS, "{due}");
    }

    proptest! {
        #[test]
        fn messages_of_a_sender_are_due_in_order_and_not_before_their_latency(
            steps in proptest::collection::vec((0_u64..50_000_000, 0_u64..30_000_000, 0_u64..9_000), 1..60),
            latency in 0_u64..200_000,
        ) {
            let mut clock = ArrivalClock::default();
            let (mut now, mut last) = (START, 0);
            for (pause, looked_late, held) in steps {
                let sent = now + pause;
                now = sent + looked_late;
                let due = clock.due_ns(Stamp::new(sent, held, 1), now, latency, Some(1_000));
                prop_assert!(due >= last);
                prop_assert!(due + UNIT_NS * 2 >= sent + held / UNIT_NS * UNIT_NS + latency);
                last = due;
            }
        }
    }
}
