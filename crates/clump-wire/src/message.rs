//! A message between two endpoints: from the call that sends it to the frame, and from the frame to
//! the handler.

use crate::frame::{FrameHead, FrameKind, MAX_WORDS, Route};
use crate::original::Original;
use crate::reason::Reason;

/// A message whose words and payload are borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Kind of its contents.
    pub kind: FrameKind,
    /// True if it is a reply, or goes the way that replies go.
    pub reply: bool,
    /// Index into the handler table of the receiving endpoint.
    pub handler: u8,
    /// Sending and receiving endpoint, and the tag of a request.
    pub route: Route,
    /// Its words; those of a long message begin with offset and length of the deposit.
    pub words: &'a [u64],
    /// Bytes that are copied, or deposited in the receiver's segment.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns the first two words; zero where there is none.
    #[inline]
    pub fn first_words(&self) -> [u64; 2] {
        let word = |at| self.words.get(at).copied().unwrap_or(0);
        [word(0), word(1)]
    }

    /// Creates a request. The words of a long one begin with offset and length of the deposit.
    #[inline]
    pub fn request(
        (kind, handler): (FrameKind, u8),
        route: Route,
        (words, payload): (&'a [u64], &'a [u8]),
    ) -> Self {
        let message = Self { kind, reply: false, handler, route, words, payload };
        debug_assert!(message.is_request(), "no kind of a request");
        message
    }

    /// Creates a message that answers: a reply, a report, or a message that goes back.
    #[inline]
    pub fn answer(
        (kind, handler): (FrameKind, u8),
        (from, to): (u64, u64),
        (words, payload): (&'a [u64], &'a [u8]),
    ) -> Self {
        let route = Route { from, to, tag: 0 };
        debug_assert!(kind != FrameKind::Part, "messages are sent whole");
        Self { kind, reply: true, handler, route, words, payload }
    }

    /// Returns the head of a frame that carries all of it.
    #[inline]
    pub fn head(&self) -> FrameHead {
        let Self { kind, reply, handler, route, .. } = *self;
        FrameHead { kind, reply, handler, route, order: None, fragment: None }
    }

    /// Returns true if it is a request: its handler may reply.
    #[inline]
    pub fn is_request(&self) -> bool {
        matches!(self.kind, FrameKind::Short | FrameKind::Medium | FrameKind::Long) && !self.reply
    }

    /// Copies it, so that it outlives the call.
    pub fn to_owned(&self) -> OwnedMessage {
        debug_assert!(self.words.len() <= MAX_WORDS, "frames carry no more words");
        OwnedMessage::of(&self.head(), self.words, self.payload.to_vec())
    }
}

/// A message that is kept: it waits for room, for its turn, or for its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedMessage {
    /// Kind of its contents.
    pub kind: FrameKind,
    /// True if it is a reply, or goes the way that replies go.
    pub reply: bool,
    /// Index into the handler table of the receiving endpoint.
    pub handler: u8,
    /// Sending and receiving endpoint, and the tag of a request.
    pub route: Route,
    /// Its words; those of a long message begin with offset and length of the deposit.
    pub words: Vec<u64>,
    /// Its payload; empty for a long message whose payload is in its segment.
    pub payload: Vec<u8>,
}

impl OwnedMessage {
    /// Creates the message that frames with this head, these words and this payload carried.
    pub fn of(head: &FrameHead, words: &[u64], payload: Vec<u8>) -> Self {
        debug_assert!(words.len() <= MAX_WORDS, "frames carry no more words");
        let FrameHead { kind, reply, handler, route, .. } = *head;
        Self { kind, reply, handler, route, words: words.to_vec(), payload }
    }

    /// Borrows it.
    #[inline]
    pub fn message(&self) -> Message<'_> {
        let Self { kind, reply, handler, route, words, payload } = self;
        let (kind, reply, handler, route) = (*kind, *reply, *handler, *route);
        debug_assert!(words.len() <= MAX_WORDS, "frames carry no more words");
        Message { kind, reply, handler, route, words, payload }
    }

    /// Returns the bytes of words and payload.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.words.len() * 8
    }

    /// Returns the message that goes back to its sender in its place, with the reason in front;
    /// `None` if it is being returned already, or concerns flow control only.
    pub fn returned(self, reason: Reason) -> Option<Self> {
        if !matches!(self.kind, FrameKind::Short | FrameKind::Medium | FrameKind::Long) {
            return None;
        }
        let Self { kind, reply, handler, route, words, payload } = self;
        let reason = if reply { Reason::ReplyRejected } else { reason } as u8;
        debug_assert!(words.len() < MAX_WORDS, "a frame has room for one more");
        let original = Original { reason, kind: kind as u8, handler, reply };
        let words = [original.pack()].into_iter().chain(words).collect();
        let route = Route { from: route.to, to: route.from, tag: 0 };
        Some(Self { kind: FrameKind::Returned, reply: true, handler: 0, route, words, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: FrameKind, reply: bool) -> OwnedMessage {
        let route = Route { from: 1, to: 2, tag: 3 };
        OwnedMessage { kind, reply, handler: 9, route, words: vec![4, 5], payload: vec![6] }
    }

    #[test]
    fn a_message_goes_back_the_way_it_came_with_the_reason_in_front() {
        for (kind, reply) in [(FrameKind::Short, false), (FrameKind::Medium, true)] {
            let back = message(kind, reply).returned(Reason::BadTag).unwrap();
            assert_eq!((back.kind, back.reply, back.handler), (FrameKind::Returned, true, 0));
            assert_eq!(back.route, Route { from: 2, to: 1, tag: 0 });
            let original = Original::unpack(back.words[0]);
            let reason = if reply { Reason::ReplyRejected } else { Reason::BadTag } as u8;
            assert_eq!(original, Original { reason, kind: kind as u8, handler: 9, reply });
            assert_eq!((&back.words[1..], &back.payload[..]), (&[4, 5][..], &[6][..]));
            assert_eq!(back.returned(Reason::BadTag), None, "once");
        }
        for kind in [FrameKind::Credit, FrameKind::Ask, FrameKind::Stream] {
            assert_eq!(message(kind, false).returned(Reason::PeerLost), None);
        }
    }

    #[test]
    fn a_copy_borrows_as_what_it_was_made_of() {
        let kept = message(FrameKind::Long, false);
        assert_eq!(kept.message().to_owned(), kept);
        assert_eq!(kept.bytes(), 17);
        assert!(
            kept.message().is_request() && !message(FrameKind::Ask, false).message().is_request()
        );
    }
}
