//! One event of a rank's trace: two words.

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// A message was handed to its path. `peer`: its target; `value`: bytes of words and payload;
    /// `detail`: [`MessageClass`], and the number of words, as [`TraceEvent::payload_bytes`] reads
    /// it.
    Send = 1,
    /// A handler begins. `peer`: the sender; `value`: the time of sending, as [`send_key`] has it.
    Handle = 2,
    /// End of the handler.
    HandleEnd = 3,
    /// The rank begins to wait: it polls, yields or sleeps. `detail`: as [`waits_for`] reads it.
    Wait = 4,
    /// End of the wait.
    WaitEnd = 5,
    /// The rank enters a barrier. `peer`: the ranks that meet; `value`: a number that is equal on
    /// all of them. Their n-th entries with it are of one barrier.
    Barrier = 6,
    /// The rank leaves the barrier.
    BarrierEnd = 7,
    /// A request to the interface of node `peer`. `value`: its number.
    Ask = 8,
    /// The answer of the interface of node `peer` was taken. `value`: the number of the request.
    Answer = 9,
    /// A page fault of shared virtual memory begins.
    Fault = 10,
    /// End of the page fault.
    FaultEnd = 11,
    /// The rank requests a lock, or waits for a flag.
    Lock = 12,
    /// The rank has the lock, or the flag is set.
    LockEnd = 13,
    /// A batch of operations is closed; its message follows. `peer`: its slot in the rank; `value`:
    /// the operations in it.
    Batch = 14,
    /// A request to the interface of node `peer` that has no answer. `value`: bytes of its payload.
    Post = 15,
    /// A phase that the program times begins. Detail, peer and value together: its name, as
    /// [`PhaseName`] has it.
    Phase = 16,
    /// End of the phase with that name.
    PhaseEnd = 17,
}

impl EventKind {
    /// All kinds, by their number from 1.
    pub const ALL: [Self; 17] = [
        Self::Send,
        Self::Handle,
        Self::HandleEnd,
        Self::Wait,
        Self::WaitEnd,
        Self::Barrier,
        Self::BarrierEnd,
        Self::Ask,
        Self::Answer,
        Self::Fault,
        Self::FaultEnd,
        Self::Lock,
        Self::LockEnd,
        Self::Batch,
        Self::Post,
        Self::Phase,
        Self::PhaseEnd,
    ];

    /// Returns the kind with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        let kind = Self::ALL.get(usize::from(number).checked_sub(1)?).copied();
        debug_assert!(kind.is_none_or(|kind| kind as u8 == number), "kinds are in order");
        kind
    }

    /// Returns the kind of event that ends what this one begins.
    pub fn end(self) -> Option<Self> {
        Some(match self {
            Self::Handle => Self::HandleEnd,
            Self::Wait => Self::WaitEnd,
            Self::Barrier => Self::BarrierEnd,
            Self::Fault => Self::FaultEnd,
            Self::Lock => Self::LockEnd,
            Self::Phase => Self::PhaseEnd,
            _ => return None,
        })
    }

    /// Returns true if it ends what another began.
    pub fn is_end(self) -> bool {
        Self::ALL.iter().any(|kind| kind.end() == Some(self))
    }

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Handle | Self::HandleEnd => "handler",
            Self::Wait | Self::WaitEnd => "wait",
            Self::Barrier | Self::BarrierEnd => "barrier",
            Self::Ask => "ask",
            Self::Answer => "answer",
            Self::Fault | Self::FaultEnd => "page fault",
            Self::Lock | Self::LockEnd => "lock",
            Self::Batch => "batch",
            Self::Post => "post",
            Self::Phase | Self::PhaseEnd => "phase",
        }
    }
}

/// Name of a phase in an event: the first eight bytes of its text, zeros behind shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseName([u8; 8]);

impl PhaseName {
    /// Returns the name of a text. Texts with equal first eight bytes have one name.
    pub fn of(text: &str) -> Self {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        Self(bytes)
    }

    /// Returns what [`crate::Recorder::note`] takes: peer, detail and value of the event.
    pub fn to_event(self) -> (u32, u8, u32) {
        let [a, b, c, detail, value @ ..] = self.0;
        (u32::from_be_bytes([0, a, b, c]), detail, u32::from_be_bytes(value))
    }

    /// Reads [`PhaseName::to_event`] from a phase's event.
    pub fn of_event(event: &TraceEvent) -> Self {
        debug_assert!(matches!(event.kind, EventKind::Phase | EventKind::PhaseEnd), "{event:?}");
        let ([_, a, b, c], value) = (event.peer.to_be_bytes(), event.value.to_be_bytes());
        Self([a, b, c, event.detail, value[0], value[1], value[2], value[3]])
    }

    /// Returns it as a number.
    pub fn number(self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

impl std::fmt::Display for PhaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        f.write_str(&String::from_utf8_lossy(&self.0[..length]))
    }
}

/// Events that a wait may be for, by the detail of [`EventKind::Wait`]; 0 is unknown.
pub const AWAITED: [&str; 13] = [
    "something",
    "barrier",
    "condition",
    "message",
    "room",
    "collective",
    "leaving the job",
    "answer",
    "lock",
    "word",
    "requests",
    "call",
    "shared memory",
];

/// Returns the event that a wait is for, by the detail of [`EventKind::Wait`].
pub fn waits_for(detail: u8) -> &'static str {
    AWAITED.get(usize::from(detail)).copied().unwrap_or(AWAITED[0])
}

/// Properties of a message, the detail of [`EventKind::Send`] and [`EventKind::Handle`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageClass {
    /// True for a reply.
    pub reply: bool,
    /// True for a message to another node.
    pub remote: bool,
    /// True for a message with a payload.
    pub bulk: bool,
}

impl MessageClass {
    /// Returns it as the detail of an event.
    pub fn to_detail(self) -> u8 {
        u8::from(self.reply) | u8::from(self.remote) << 1 | u8::from(self.bulk) << 2
    }

    /// Returns it as the detail of the sending of a message of so many words, which is cut to 31.
    pub fn to_send_detail(self, words: usize) -> u8 {
        debug_assert!(words <= MAX_WORDS, "{words} words");
        self.to_detail() | (words.min(MAX_WORDS) as u8) << CLASS_BITS
    }

    /// Reads [`MessageClass::to_detail`] or [`MessageClass::to_send_detail`].
    pub fn of_detail(detail: u8) -> Self {
        Self { reply: detail & 1 != 0, remote: detail & 2 != 0, bulk: detail & 4 != 0 }
    }
}

/// Bits of a message's class in its detail; the others have its number of words.
const CLASS_BITS: u32 = 3;
/// Most words of a message that a detail tells.
const MAX_WORDS: usize = (1 << (u8::BITS - CLASS_BITS)) - 1;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time since the beginning of the rank's trace, in ns.
    pub at_ns: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Number of the thread; beyond 255 threads share numbers.
    pub track: u8,
    /// Properties of the message, or the reason of a wait.
    pub detail: u8,
    /// Another rank; a number.
    pub peer: u32,
    /// A number; its meaning depends on the kind.
    pub value: u32,
}

/// Bits of a time: a trace lasts three days at most.
const TIME_BITS: u32 = 48;
/// Bits of a rank's number.
const PEER_BITS: u32 = 24;
/// Longest time of an event, in ns.
pub const MAX_NS: u64 = (1 << TIME_BITS) - 1;

impl TraceEvent {
    /// Returns the event as two words; the first is never 0.
    pub fn to_words(self) -> [u64; 2] {
        let time = self.at_ns.min(MAX_NS) << (64 - TIME_BITS);
        let first = time | u64::from(self.kind as u8) << 8 | u64::from(self.track);
        let peer = u64::from(self.peer & ((1 << PEER_BITS) - 1)) << (64 - PEER_BITS);
        let second = peer | u64::from(self.detail) << 32 | u64::from(self.value);
        debug_assert_ne!(first, 0, "0 is no event");
        [first, second]
    }

    /// Returns the bytes of the payload of a message that was sent: those of its words left out.
    pub fn payload_bytes(&self) -> u32 {
        debug_assert_eq!(self.kind, EventKind::Send, "a message");
        self.value.saturating_sub(u32::from(self.detail >> CLASS_BITS) * 8)
    }

    /// Reads [`TraceEvent::to_words`]; `None`: they are no event.
    pub fn of_words([first, second]: [u64; 2]) -> Option<Self> {
        let kind = EventKind::of_number((first >> 8) as u8)?;
        Some(Self {
            at_ns: first >> (64 - TIME_BITS),
            kind,
            track: first as u8,
            detail: (second >> 32) as u8,
            peer: (second >> (64 - PEER_BITS)) as u32,
            value: second as u32,
        })
    }
}

/// Nanoseconds of a unit of [`send_key`].
pub const KEY_UNIT_NS: u64 = 16;

/// Returns the time of sending by which a receiver names a message: in units, wrapping after 68 s.
/// `now_ns`: of the sender's clock, not of its trace.
pub fn send_key(now_ns: u64) -> u32 {
    (now_ns / KEY_UNIT_NS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_what_is_not_words() {
        let class = MessageClass { reply: true, remote: false, bulk: true };
        for words in [0_usize, 1, 8, 31] {
            let (detail, value) = (class.to_send_detail(words), words as u32 * 8 + 700);
            let event =
                TraceEvent { at_ns: 1, kind: EventKind::Send, track: 0, detail, peer: 0, value };
            assert_eq!((event.payload_bytes(), MessageClass::of_detail(detail)), (700, class));
        }
    }

    #[test]
    fn names_of_phases_travel_in_events_of_two_words() {
        for (text, shown) in [("reads", "reads"), ("", ""), ("all of them", "all of t")] {
            let name = PhaseName::of(text);
            let (peer, detail, value) = name.to_event();
            let event =
                TraceEvent { at_ns: 7, kind: EventKind::Phase, track: 3, detail, peer, value };
            let again = TraceEvent::of_words(event.to_words()).unwrap();
            assert_eq!((again, PhaseName::of_event(&again)), (event, name));
            assert_eq!(name.to_string(), shown);
        }
        assert_ne!(PhaseName::of("reads").number(), PhaseName::of("read").number());
    }

    #[test]
    fn events_are_read_back_and_nonsense_is_none() {
        for (at, kind) in EventKind::ALL.into_iter().enumerate() {
            let event = TraceEvent {
                at_ns: MAX_NS - at as u64,
                kind,
                track: 255,
                detail: 7,
                peer: 0x00ff_fffe,
                value: u32::MAX,
            };
            assert_eq!(TraceEvent::of_words(event.to_words()), Some(event));
            assert_eq!(kind as usize, at + 1);
            assert!(kind.end().is_none_or(EventKind::is_end));
        }
        assert_eq!(TraceEvent::of_words([0, 1]), None);
        assert_eq!(TraceEvent::of_words([u64::MAX, 0]), None);
        let class = MessageClass { reply: true, remote: false, bulk: true };
        assert_eq!(MessageClass::of_detail(class.to_detail()), class);
    }
}
