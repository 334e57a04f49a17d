//! Messages that have arrived, until the program takes them.

use crate::error::FailureKind;
use clump_am::Payload;
use clump_os::alarm::Alarm;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Words of a fragment: sender and kind, tag, number of the message, its bytes, offset.
pub(crate) type FragmentWords = [u64; 5];

/// Most bytes of a message.
pub(crate) const MAX_BYTES: u64 = 1 << 40;

/// Meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// An object, which `recv` takes.
    Object,
    /// A call of a function, which has an answer.
    Call,
    /// A call without an answer.
    OneWay,
    /// The answer to a call.
    Answer,
    /// Nothing: it has woken this rank.
    Nothing,
}

impl MessageKind {
    /// Returns the kind of a number on the wire.
    pub(crate) fn of(number: u64) -> Option<Self> {
        let all = [Self::Object, Self::Call, Self::OneWay, Self::Answer, Self::Nothing];
        all.get(number as usize).copied()
    }
}

/// Failure of a message, sent or received.
#[derive(Debug)]
pub(crate) struct MessageFailure {
    pub(crate) kind: FailureKind,
    /// The other rank.
    pub(crate) rank: u32,
    pub(crate) why: String,
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Message {
    /// The rank that sent it.
    pub(crate) source: u32,
    /// Number of its [`MessageKind`].
    pub(crate) kind: u64,
    /// Tag of an object; number of a call.
    pub(crate) tag: i64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Queues {
    partial: HashMap<(u64, u64), Message>,
    objects: VecDeque<Message>,
    calls: VecDeque<Message>,
    answers: HashMap<i64, Message>,
    /// Calls whose answers nobody waits for.
    forgotten: HashSet<i64>,
    /// First failure of a message, until a call raises it.
    failure: Option<MessageFailure>,
    /// Rung by each message that is taken in.
    alarms: Vec<Weak<Alarm>>,
}

impl Queues {
    fn ring(&self) {
        self.alarms.iter().filter_map(Weak::upgrade).for_each(|alarm| alarm.ring());
    }
}

/// Messages that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    queues: Mutex<Queues>,
}

impl Mailbox {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a fragment in.
    ///
    /// # Errors
    /// Fails if no sender of this package sends such a fragment, or if memory has run out.
    pub(crate) fn take_in(&self, words: FragmentWords, data: Payload<'_>) -> Result<(), String> {
        let [sender, tag, number, total, offset] = words;
        let (source, kind) = (sender as u32, sender >> 32);
        let wrong = || format!("rank {source} sent what no rank of this version sends");
        let meaning = MessageKind::of(kind).filter(|_| total <= MAX_BYTES).ok_or_else(wrong)?;
        let key = (sender & u64::from(u32::MAX), number);
        let mut queues = self.queues();
        let mut message = match queues.partial.remove(&key) {
            Some(begun) => begun,
            None => {
                let mut bytes = Vec::new();
                let lack = |_| format!("no memory for {total} bytes that rank {source} sent");
                bytes.try_reserve_exact(total as usize).map_err(lack)?;
                Message { source, kind, tag: tag as i64, bytes }
            }
        };
        let end = offset.saturating_add(data.len() as u64);
        if message.bytes.len() as u64 != offset || end > total {
            return Err(wrong());
        }
        data.append_to(&mut message.bytes);
        if end < total {
            queues.partial.insert(key, message);
            return Ok(());
        }
        match meaning {
            MessageKind::Object => queues.objects.push_back(message),
            MessageKind::Call | MessageKind::OneWay => queues.calls.push_back(message),
            MessageKind::Answer => {
                if !queues.forgotten.remove(&message.tag) {
                    queues.answers.insert(message.tag, message);
                }
            }
            MessageKind::Nothing => (),
        }
        queues.ring();
        Ok(())
    }

    /// Takes the oldest object of this source and tag, where they are given.
    pub(crate) fn take(&self, source: Option<u32>, tag: Option<i64>) -> Option<Message> {
        let mut queues = self.queues();
        let at = queues.objects.iter().position(|it| matches(it, source, tag))?;
        queues.objects.remove(at)
    }

    /// Returns source, tag and bytes of the oldest such object.
    pub(crate) fn find(&self, source: Option<u32>, tag: Option<i64>) -> Option<(u32, i64, usize)> {
        let queues = self.queues();
        let found = queues.objects.iter().find(|it| matches(it, source, tag))?;
        Some((found.source, found.tag, found.bytes.len()))
    }

    /// Takes the answer to a call.
    pub(crate) fn answer(&self, number: i64) -> Option<Message> {
        self.queues().answers.remove(&number)
    }

    /// Returns true if the answer to a call has come.
    pub(crate) fn has_answer(&self, number: i64) -> bool {
        self.queues().answers.contains_key(&number)
    }

    /// Drops the answer to a call, now or when it comes.
    pub(crate) fn forget_answer(&self, number: i64) {
        let mut queues = self.queues();
        if queues.answers.remove(&number).is_none() {
            queues.forgotten.insert(number);
        }
    }

    /// Returns true if calls wait.
    pub(crate) fn has_calls(&self) -> bool {
        !self.queues().calls.is_empty()
    }

    /// Takes the oldest call.
    pub(crate) fn next_call(&self) -> Option<Message> {
        self.queues().calls.pop_front()
    }

    /// Rings the alarms.
    pub(crate) fn ring(&self) {
        self.queues().ring();
    }

    /// Has each message ring an alarm, as long as that lives.
    pub(crate) fn add_alarm(&self, alarm: &Arc<Alarm>) {
        let mut queues = self.queues();
        queues.alarms.retain(|known| known.strong_count() > 0);
        queues.alarms.push(Arc::downgrade(alarm));
    }

    /// Keeps the first failure of a message.
    pub(crate) fn fail(&self, why: MessageFailure) {
        let mut queues = self.queues();
        queues.failure.get_or_insert(why);
        queues.ring();
    }

    /// Returns true if a message has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.queues().failure.is_some()
    }

    /// Takes the first failure of a message.
    pub(crate) fn take_failure(&self) -> Option<MessageFailure> {
        self.queues().failure.take()
    }
}

fn matches(message: &Message, source: Option<u32>, tag: Option<i64>) -> bool {
    source.is_none_or(|source| message.source == source) && tag.is_none_or(|tag| message.tag == tag)
}
