//! Frames: whole small messages, fragments of large ones, and the credit messages of endpoints.

use crate::append::Append;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Maximum bytes of a frame before its words and payload.
pub const MAX_HEAD_BYTES: usize = 8 + 24 + 8 + 16;
/// Maximum words of one frame: eight arguments, two of an interface above, two of a long message,
/// the stamp of one that is delayed on purpose, one of a returned one.
pub const MAX_WORDS: usize = 14;

/// Kind of a frame's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Words only.
    Short = 1,
    /// Words and a payload.
    Medium = 2,
    /// Words, of which the first two are offset and length of a deposit; the payload is deposited.
    Long = 3,
    /// A request that its target returned to sender; the first word gives the reason and its
    /// original kind.
    Returned = 4,
    /// A further fragment of a message that an earlier frame began; if it is empty, the message
    /// ends there and is not handled.
    Part = 5,
    /// The total bytes of `to`'s requests that the endpoint `from` has consumed.
    Credit = 6,
    /// A credit request: `from` wants a report once `to` has consumed as many bytes as the first
    /// word says.
    Ask = 7,
    /// News of a stream beside the datagrams, between stacks: what has happened, the number of the
    /// stream, and what belongs to it.
    Stream = 8,
}

impl FrameKind {
    /// All kinds, in the order of their numbers, which begin with 1.
    const ALL: [Self; 8] = [
        Self::Short,
        Self::Medium,
        Self::Long,
        Self::Returned,
        Self::Part,
        Self::Credit,
        Self::Ask,
        Self::Stream,
    ];

    /// Returns the kind with that number.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let at = usize::from(bits).wrapping_sub(1);
        Self::ALL.get(at).copied()
    }
}

/// Flag: the frame is a reply, or belongs to one.
const REPLY: u8 = 1;
/// Flag: the route is that of the frame before it in the packet.
const SAME: u8 = 2;
/// Flag: an order number precedes; the message is to be handled in order.
const ORDERED: u8 = 4;
/// Flag: number and length of a message whose payload spans several frames precede.
const PARTED: u8 = 8;

/// Source and target endpoint of a frame, and the tag that admits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// Name of the endpoint that sent it, as one word.
    pub from: u64,
    /// Name of the endpoint that it is for.
    pub to: u64,
    /// The tag by which the sender may send there; replies carry none.
    pub tag: u64,
}

/// Returns the stack of an endpoint: the number in the upper 24 bits of its name.
#[inline]
pub fn stack_of(name: u64) -> u32 {
    (name >> 40) as u32
}

/// Position of a fragment: its message, and the place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFragment {
    /// Number of the message, unique for its channel and direction.
    pub message: u64,
    /// In a frame that begins a message: bytes of its whole payload; in a later fragment: its
    /// offset.
    pub at: u64,
}

/// Everything of a frame but words and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Kind of the content.
    pub kind: FrameKind,
    /// True if it belongs to a reply.
    pub reply: bool,
    /// Index into the handler table of the receiving endpoint.
    pub handler: u8,
    /// Source and target endpoint.
    pub route: Route,
    /// Number in the order of its channel and direction, if the message is ordered.
    pub order: Option<u64>,
    /// Position, if the payload spans several frames.
    pub fragment: Option<MessageFragment>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    kind: u8,
    flags: u8,
    handler: u8,
    words: u8,
    bytes: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRoute {
    from: U64,
    to: U64,
    tag: U64,
}

/// Returns the bytes that a frame takes in a packet.
#[inline]
pub fn frame_bytes(head: &FrameHead, same_route: bool, words: usize, payload: usize) -> usize {
    let route = if same_route || head.kind == FrameKind::Part { 0 } else { 24 };
    let order = 8 * usize::from(head.order.is_some()) + 16 * usize::from(head.fragment.is_some());
    8 + route + order + words * 8 + payload.next_multiple_of(8)
}

/// Appends a frame to a packet's body. `same_route` leaves the route out: the frame before it in
/// the body has the same. Later fragments have none: the frame that began their message has one.
#[inline]
pub fn append(
    out: &mut impl Append,
    head: &FrameHead,
    same_route: bool,
    words: &[u64],
    payload: &[u8],
) {
    debug_assert!(words.len() <= MAX_WORDS, "callers check what programs give");
    let routed = !(same_route || head.kind == FrameKind::Part);
    let flags = if head.reply { REPLY } else { 0 }
        | if routed { 0 } else { SAME }
        | if head.order.is_some() { ORDERED } else { 0 }
        | if head.fragment.is_some() { PARTED } else { 0 };
    let raw = RawHead {
        kind: head.kind as u8,
        flags,
        handler: head.handler,
        words: words.len() as u8,
        bytes: (payload.len() as u32).into(),
    };
    out.append(raw.as_bytes());
    if routed {
        let Route { from, to, tag } = head.route;
        let route = RawRoute { from: from.into(), to: to.into(), tag: tag.into() };
        out.append(route.as_bytes());
    }
    if let Some(order) = head.order {
        out.append(&order.to_le_bytes());
    }
    if let Some(MessageFragment { message, at }) = head.fragment {
        out.append(&message.to_le_bytes());
        out.append(&at.to_le_bytes());
    }
    for word in words {
        out.append(&word.to_le_bytes());
    }
    if !payload.is_empty() {
        out.append(payload);
        let padding = payload.len().next_multiple_of(8) - payload.len();
        out.append([0; 8].get(..padding).unwrap_or_default());
    }
}

/// A frame as it lies in a packet.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Everything but words and payload.
    pub head: FrameHead,
    /// The words, little endian.
    words: &'a [[u8; 8]],
    /// The payload, without its padding.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Returns the number of its words.
    #[inline]
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Copies the words to the beginning of `into` and returns them.
    #[inline]
    pub fn words<'b>(&self, into: &'b mut [u64; MAX_WORDS]) -> &'b [u64] {
        for (word, bytes) in into.iter_mut().zip(self.words) {
            *word = u64::from_le_bytes(*bytes);
        }
        into.get(..self.words.len()).unwrap_or_default()
    }

    /// Returns the first two words; zero where there is none.
    #[inline]
    pub fn first_words(&self) -> [u64; 2] {
        let word = |at| self.words.get(at).map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes));
        [word(0), word(1)]
    }
}

/// Error for bytes that are no frame. They came from an authenticated peer, so the peer is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a malformed frame")]
pub struct Malformed;

/// The frames of a packet's body, in order.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    rest: &'a [u8],
    route: Option<Route>,
}

impl<'a> Frames<'a> {
    /// Iterates over the frames of `body`.
    #[inline]
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body, route: None }
    }

    /// Returns the bytes of the body after the frame returned last.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn take<T: FromBytes + Immutable + KnownLayout + Unaligned>(&mut self) -> Option<&'a T> {
        let (value, rest) = T::ref_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }

    #[inline]
    fn take_bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn parse(&mut self) -> Option<Frame<'a>> {
        let raw: &RawHead = self.take()?;
        let kind = FrameKind::from_bits(raw.kind)?;
        let (flags, words) = (raw.flags, usize::from(raw.words));
        if flags & !(REPLY | SAME | ORDERED | PARTED) != 0 || words > MAX_WORDS {
            return None;
        }
        let route = if kind == FrameKind::Part {
            Route::default()
        } else if flags & SAME != 0 {
            self.route?
        } else {
            let raw: &RawRoute = self.take()?;
            let route = Route { from: raw.from.get(), to: raw.to.get(), tag: raw.tag.get() };
            *self.route.insert(route)
        };
        let order = if flags & ORDERED == 0 { None } else { Some(self.take::<U64>()?.get()) };
        let fragment = if flags & PARTED == 0 {
            None
        } else {
            let message = self.take::<U64>()?.get();
            Some(MessageFragment { message, at: self.take::<U64>()?.get() })
        };
        if kind == FrameKind::Part && fragment.is_none() {
            return None;
        }
        let words = self.take_bytes(words * 8)?.as_chunks::<8>().0;
        let bytes = raw.bytes.get() as usize;
        let payload = self.take_bytes(bytes)?;
        self.take_bytes(bytes.checked_next_multiple_of(8)? - bytes)?;
        let reply = flags & REPLY != 0;
        let head = FrameHead { kind, reply, handler: raw.handler, route, order, fragment };
        Some(Frame { head, words, payload })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = self.parse().ok_or(Malformed);
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }
}
