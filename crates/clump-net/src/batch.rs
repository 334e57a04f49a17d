//! The messages that one receive hands over to an endpoint.

use crate::idle_time::IDLE_NS;
use crate::payload_pool::PayloadPool;
use clump_driver::Inbound;
use clump_proto::Nanos;
use clump_wire::frame::{Frame, FrameKind, MAX_WORDS, Route};
use clump_wire::{Message, OwnedMessage};

/// A message that lies in a received packet.
#[derive(Debug, Clone, Copy)]
struct Item {
    datagram: u32,
    kind: FrameKind,
    reply: bool,
    handler: u8,
    words: u8,
    route: u32,
    /// Offset of its words in the datagram; its payload follows them.
    at: u32,
    payload: u32,
}

#[derive(Debug)]
enum Entry {
    Item(Item),
    Queued(Box<OwnedMessage>),
}

/// Buffer for the words of an arrival: in a packet they may lie at any address.
pub type Words = [u64; MAX_WORDS];

/// Messages that one receive hands to one endpoint, in order. Reused from one receive to the next.
#[derive(Debug)]
pub struct Batch {
    pub(crate) inbound: Inbound,
    pub(crate) found: Found,
    /// The time at which a packet came last; none if its buffers take no memory.
    filled_at: Option<Nanos>,
}

/// The messages of a batch.
#[derive(Debug, Default)]
pub(crate) struct Found {
    entries: Vec<Entry>,
    routes: Vec<Route>,
    datagram: u32,
    /// Buffers of payloads that were handled, for those that are reassembled next.
    pub(crate) payloads: PayloadPool,
}

/// Buffers of a batch: as many as one system call fills.
const BUFFERS: usize = 8;

impl Default for Batch {
    fn default() -> Self {
        Self { inbound: Inbound::new(BUFFERS), found: Found::default(), filled_at: None }
    }
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.inbound.clear();
        let Found { entries, payloads, .. } = &mut self.found;
        for entry in entries.drain(..) {
            if let Entry::Queued(queued) = entry {
                payloads.put(queued.payload);
            }
        }
        self.found.routes.clear();
        debug_assert!(self.is_empty(), "a batch begins empty");
    }

    /// Notes a receive at `now` that has brought so many packets: buffers that nothing fills for a
    /// while give their memory back.
    #[inline]
    pub(crate) fn note_received(&mut self, now: Nanos, packets: usize) {
        if packets > 0 {
            self.filled_at = Some(now);
        } else if self.filled_at.is_some_and(|at| now.saturating_sub(at) >= IDLE_NS) {
            self.inbound.release();
            self.filled_at = None;
        }
    }

    /// Returns the number of messages.
    #[inline]
    pub fn len(&self) -> usize {
        self.found.entries.len()
    }

    /// Returns true if it holds no messages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.found.entries.is_empty()
    }

    /// Returns message number `at`; its words are put into `words`.
    #[inline]
    pub fn arrival<'a>(&'a self, at: usize, words: &'a mut Words) -> Option<Message<'a>> {
        let item = match self.found.entries.get(at)? {
            Entry::Item(item) => item,
            Entry::Queued(queued) => return Some(queued.message()),
        };
        debug_assert!((item.route as usize) < self.found.routes.len(), "its route is kept");
        debug_assert!((item.datagram as usize) < self.inbound.len(), "so is its datagram");
        let route = *self.found.routes.get(item.route as usize)?;
        let bytes = self.inbound.bytes(item.datagram as usize);
        let (_, rest) = bytes.split_at_checked(item.at as usize)?;
        let count = usize::from(item.words);
        debug_assert!(count <= MAX_WORDS, "frames carry no more words");
        let end = item.at as usize + count * 8 + item.payload as usize;
        debug_assert!(end <= bytes.len(), "words and payload lie in the datagram");
        let (raw, rest) = rest.split_at_checked(count * 8)?;
        let payload = rest.get(..item.payload as usize)?;
        let words = words.get_mut(..count)?;
        for (word, raw) in words.iter_mut().zip(raw.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*raw);
        }
        let (kind, reply, handler) = (item.kind, item.reply, item.handler);
        Some(Message { kind, reply, handler, route, words, payload })
    }
}

impl Found {
    /// Begins the messages that lie in datagram `number`.
    #[inline]
    pub(crate) fn begin(&mut self, number: usize) {
        debug_assert!(u32::try_from(number).is_ok(), "a batch has few datagrams");
        self.datagram = number as u32;
    }

    pub(crate) fn push_queued(&mut self, queued: OwnedMessage) {
        self.entries.push(Entry::Queued(Box::new(queued)));
    }

    /// Adds a whole frame of the current datagram, whose words lie at `at` of it.
    #[inline]
    pub(crate) fn push_frame(&mut self, frame: &Frame<'_>, at: usize) {
        if self.routes.last() != Some(&frame.head.route) {
            self.routes.push(frame.head.route);
        }
        let words = frame.word_count();
        debug_assert!(words <= MAX_WORDS, "frames carry no more words");
        debug_assert!(self.routes.last() == Some(&frame.head.route), "with its route");
        debug_assert!(self.routes.len() <= self.entries.len() + 1, "routes are of entries");
        self.entries.push(Entry::Item(Item {
            datagram: self.datagram,
            kind: frame.head.kind,
            reply: frame.head.reply,
            handler: frame.head.handler,
            words: words as u8,
            route: (self.routes.len() as u32).wrapping_sub(1),
            at: at as u32,
            payload: frame.payload.len() as u32,
        }));
    }
}
