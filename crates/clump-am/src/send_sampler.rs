//! Times between two sends of an endpoint, of a sample of its messages.
//!
//! The sampler costs a send nothing: it is called at polls that are due anyway, and each send is
//! followed by one. It chooses a message some way ahead, because polls are most frequent where a
//! rank waits, and the messages right behind a wait are not like the others.

use clump_trace::Sampler;

/// Polls between two samples, on average.
const POLLS_APART: u32 = 1 << 15;
/// Messages to let go by before the one that is timed, on average.
const MESSAGES_AHEAD: u32 = 512;

/// Part of the polls so far after which the sampler is called again while nothing is sent: the time
/// of a message is exact to this part, and an endpoint that only receives pays nothing.
const PART: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleState {
    /// No message is chosen.
    Idle,
    /// The message with this number is to be timed, or one soon behind it.
    Seeking(u64),
    /// So many messages had been sent at this time, in ns, and no further one when it was looked
    /// last.
    Timing { sent: u64, since_ns: u64, looked_ns: u64 },
}

/// The choice of messages, and the time of the one that is timed.
#[derive(Debug)]
pub(crate) struct SendSampler {
    state: SampleState,
    /// Messages sent at its last call, and polls since then or since the state changed.
    sent: u64,
    idle: u32,
    /// Polls between its last call and this.
    apart: u32,
    random: Sampler,
}

impl SendSampler {
    /// Creates a sampler; those of different seeds choose different messages.
    pub(crate) fn new(seed: u64) -> Self {
        let (state, random) = (SampleState::Idle, Sampler::new(seed));
        Self { state, sent: 0, idle: 0, apart: 0, random }
    }

    /// Continues at a poll that is due: so many messages were `sent`, the last of them just now if
    /// it is `after_send`. Returns the polls until the next call, and the time between two messages
    /// in ns, if one is known.
    pub(crate) fn on_due(
        &mut self,
        sent: u64,
        after_send: bool,
        now_ns: impl Fn() -> u64,
    ) -> (u32, Option<u64>) {
        let is_idle = std::mem::replace(&mut self.sent, sent) == sent;
        match self.state {
            SampleState::Idle => {
                let ahead = self.random.gap(MESSAGES_AHEAD);
                debug_assert!(ahead > 0 && ahead < 2 * MESSAGES_AHEAD, "of the range");
                (self.begin(SampleState::Seeking(sent.wrapping_add(ahead.into())), ahead), None)
            }
            SampleState::Seeking(number) if sent < number && !is_idle => {
                let polls = u32::try_from(number - sent).unwrap_or(1).max(1);
                (self.begin(self.state, polls), None)
            }
            // A handler's replies were sent within the poll: since the last, if the sampler was
            // called then.
            SampleState::Seeking(number)
                if sent >= number && (after_send || (!is_idle && self.apart == 1)) =>
            {
                let now = now_ns();
                let state = SampleState::Timing { sent, since_ns: now, looked_ns: now };
                (self.begin(state, 1), None)
            }
            SampleState::Seeking(_) => (self.wait(is_idle), None),
            SampleState::Timing { sent: before, since_ns, .. } if sent == before => {
                self.state = SampleState::Timing { sent, since_ns, looked_ns: now_ns() };
                (self.wait(true), None)
            }
            // The counters are in shared memory: another process may have overwritten them.
            SampleState::Timing { sent: before, .. } if sent < before => {
                let polls = self.random.gap(POLLS_APART);
                (self.begin(SampleState::Idle, polls), None)
            }
            SampleState::Timing { sent: before, since_ns, looked_ns } => {
                debug_assert!(sent > before, "the cases before this one");
                // Several may have followed since it looked last: the first came behind that.
                let [since, looked] = [now_ns(), looked_ns].map(|ns| ns.saturating_sub(since_ns));
                let each = since / (sent - before);
                let polls = self.random.gap(POLLS_APART);
                (self.begin(SampleState::Idle, polls), Some(each.max(looked)))
            }
        }
    }

    fn begin(&mut self, state: SampleState, polls: u32) -> u32 {
        debug_assert!(polls > 0, "it is called at a later poll");
        (self.state, self.idle, self.apart) = (state, 0, polls);
        polls
    }

    /// Returns the polls to wait for a message.
    fn wait(&mut self, is_idle: bool) -> u32 {
        if !is_idle {
            self.idle = 0;
        }
        let polls = (self.idle / PART + 1).min(POLLS_APART);
        self.idle = self.idle.saturating_add(polls);
        self.apart = polls;
        debug_assert!(polls > 0, "it is called at a later poll");
        polls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn bursts_and_the_pauses_between_them_are_found_in_their_proportion() {
        // Bursts of 10 messages 100 ns apart, then 50 idle polls over 5,000 ns.
        let (now, mut due, mut sent) = (Cell::new(1), 1_u32, 0_u64);
        let mut sampler = SendSampler::new(3);
        let (mut short, mut long) = (0, 0);
        let mut poll = |sent: u64, after_send: bool, now: &Cell<u64>| {
            due -= 1;
            if due > 0 {
                return;
            }
            let (next, time) = sampler.on_due(sent, after_send, || now.get());
            due = next;
            match time {
                Some(90..=110) => short += 1,
                Some(4_500..=5_800) => long += 1,
                Some(other) => panic!("no two messages are {other} ns apart"),
                None => {}
            }
        };
        for _ in 0..800_000 {
            for _ in 0..10 {
                now.set(now.get() + 100);
                sent += 1;
                poll(sent, true, &now);
            }
            for _ in 0..50 {
                now.set(now.get() + 100);
                poll(sent, false, &now);
            }
        }
        let all = f64::from(short + long);
        assert!(all > 1_000.0, "{all} samples");
        let share = f64::from(long) / all;
        assert!((0.07..0.13).contains(&share), "a tenth of the intervals are pauses: {share}");
    }

    #[test]
    fn an_endpoint_that_only_receives_is_asked_ever_more_rarely() {
        let (mut sampler, mut polls, mut asked) = (SendSampler::new(1), 0_u64, 0);
        assert!(sampler.on_due(1, false, || 1).1.is_none(), "a message alone has no interval");
        sampler.on_due(1, true, || 1);
        sampler.on_due(5_000, true, || 2);
        while polls < 1_000_000 {
            polls += u64::from(sampler.on_due(5_000, false, || 3).0);
            asked += 1;
        }
        assert!(asked < 500, "{asked} of {polls} polls");
    }

    #[test]
    fn a_counter_that_goes_back_while_a_message_is_timed_gives_no_time() {
        let (mut sampler, mut times) = (SendSampler::new(1), 0);
        for lap in 0..1_000_u64 {
            for sent in [1_000_000, 1_000_001, u64::MAX, 0, lap] {
                times += u64::from(sampler.on_due(sent, true, || lap + 1).1.is_some());
            }
        }
        assert!(times > 0, "intervals between messages that go forward are still taken");
    }

    #[test]
    fn an_endpoint_that_only_replies_is_sampled_as_rarely_as_others() {
        let (mut sampler, mut due, mut asked, mut times) = (SendSampler::new(1), 1_u32, 0, 0);
        for poll in 0..1_000_000_u64 {
            due -= 1;
            if due == 0 {
                // One poll in four handles a request and replies to it.
                let (next, time) = sampler.on_due(poll / 4, false, || poll * 100);
                (due, asked, times) = (next, asked + 1, times + u64::from(time.is_some()));
            }
        }
        assert!(times > 10 && asked < 20_000, "{times} times, asked {asked} times");
    }
}
