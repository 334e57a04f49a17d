//! Reasons why a rank is blocked, as words of shared memory and as text.

use crate::export::SegmentName;
use std::fmt::{self, Display, Formatter};

/// Names of the collective operations, by [`WaitReason::Collective::call`] less 1.
pub const COLLECTIVES: [&str; 9] = [
    "barrier",
    "broadcast",
    "reduce",
    "all-reduce",
    "scan",
    "gather",
    "all-gather",
    "scatter",
    "all-to-all",
];

/// A blocking step of shared virtual memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HeapWait {
    /// A lock, by its number.
    Lock = 1,
    /// A flag, by its number.
    Flag = 2,
    /// A barrier.
    Barrier = 3,
    /// A page, by its number.
    Page = 4,
    /// The interface of the node, with any other call.
    Interface = 5,
}

impl HeapWait {
    const ALL: [Self; 5] = [Self::Lock, Self::Flag, Self::Barrier, Self::Page, Self::Interface];
}

/// Reason why a rank is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// All ranks to arrive at barrier number `epoch`; `missing` has not.
    Barrier {
        /// Number of the barrier, counted from 1.
        epoch: u64,
        /// A rank that has not arrived.
        missing: u32,
    },
    /// A condition of the program, in `poll_until`.
    Condition,
    /// Any message, in `wait`.
    Message,
    /// Room in the queue of an endpoint of `peer`.
    Room {
        /// The rank that has to make room.
        peer: u32,
    },
    /// `peer`'s part in collective number `seq`.
    Collective {
        /// Number of the team: 0 is that of all ranks.
        team: u64,
        /// Number of the collective.
        seq: u64,
        /// The rank whose part is awaited.
        peer: u32,
        /// Place of the operation in [`COLLECTIVES`], from 1; 0 where it is not known.
        call: u8,
    },
    /// Ranks of other nodes to take what was sent to them, before it finalizes.
    Leave,
    /// The answer to a one-sided operation on another node.
    Answer {
        /// The node; none where it is not known any more.
        node: Option<u32>,
    },
    /// A lock of a segment.
    Lock {
        /// The segment.
        segment: SegmentName,
        /// Place of the lock in it.
        offset: u64,
        /// The rank that has it; none where this rank cannot read that.
        holder: Option<u32>,
    },
    /// A word of a segment to change: a flag, or any.
    Word {
        /// The segment.
        segment: SegmentName,
        /// Place of the word in it.
        offset: u64,
        /// The rank that has to change it, if only one can.
        from: Option<u32>,
    },
    /// All of its requests to be taken, in `drain`.
    Requests,
    /// The answer to a function that it called at `peer`.
    Call {
        /// The rank.
        peer: u32,
    },
    /// A step of shared virtual memory.
    Heap {
        /// The step.
        what: HeapWait,
        /// Number of the lock, flag or page.
        number: u64,
        /// The rank that has the lock, where this rank can read that.
        holder: Option<u32>,
    },
}

/// A reason in three words, of which the first is never 0.
pub(crate) type ReasonWords = [u64; 3];

/// Bits in the first word: the reason, a detail of it, and a rank or node.
const REASON_SHIFT: u32 = 56;
const CALL_SHIFT: u32 = 48;
/// The number of no rank or node.
const NONE: u32 = u32::MAX;

impl WaitReason {
    /// Returns the number of the reason in traces, as `clump_trace::event::waits_for` reads it.
    pub fn number(self) -> u8 {
        match self {
            Self::Barrier { .. } => 1,
            Self::Condition => 2,
            Self::Message => 3,
            Self::Room { .. } => 4,
            Self::Collective { .. } => 5,
            Self::Leave => 6,
            Self::Answer { .. } => 7,
            Self::Lock { .. } => 8,
            Self::Word { .. } => 9,
            Self::Requests => 10,
            Self::Call { .. } => 11,
            Self::Heap { .. } => 12,
        }
    }

    /// Returns the rank that has to act, if it is a single one that is known.
    pub fn peer(self) -> Option<u32> {
        match self {
            Self::Barrier { missing: peer, .. }
            | Self::Room { peer }
            | Self::Collective { peer, .. }
            | Self::Call { peer } => Some(peer),
            Self::Lock { holder, .. } | Self::Heap { holder, .. } => holder,
            Self::Word { from, .. } => from,
            Self::Condition
            | Self::Message
            | Self::Leave
            | Self::Answer { .. }
            | Self::Requests => None,
        }
    }

    /// Returns the name of the reason, for programs.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Barrier { .. } => "barrier",
            Self::Condition => "condition",
            Self::Message => "message",
            Self::Room { .. } => "room",
            Self::Collective { .. } => "collective",
            Self::Leave => "leave",
            Self::Answer { .. } => "answer",
            Self::Lock { .. } => "lock",
            Self::Word { .. } => "word",
            Self::Requests => "requests",
            Self::Call { .. } => "call",
            Self::Heap { what: HeapWait::Lock, .. } => "shared lock",
            Self::Heap { what: HeapWait::Flag, .. } => "shared flag",
            Self::Heap { what: HeapWait::Barrier, .. } => "shared barrier",
            Self::Heap { what: HeapWait::Page, .. } => "shared page",
            Self::Heap { what: HeapWait::Interface, .. } => "shared memory",
        }
    }

    pub(crate) fn pack(self) -> ReasonWords {
        let (call, peer, detail, extra) = match self {
            Self::Barrier { epoch, missing } => (0, missing, epoch, 0),
            Self::Condition | Self::Message | Self::Leave | Self::Requests => (0, NONE, 0, 0),
            Self::Room { peer } | Self::Call { peer } => (0, peer, 0, 0),
            Self::Collective { team, seq, peer, call } => (call, peer, seq, team),
            Self::Answer { node } => (0, node.unwrap_or(NONE), 0, 0),
            Self::Lock { segment, offset, holder: peer }
            | Self::Word { segment, offset, from: peer } => {
                (0, peer.unwrap_or(NONE), offset, segment.to_bits())
            }
            Self::Heap { what, number, holder } => (what as u8, holder.unwrap_or(NONE), number, 0),
        };
        let number = u64::from(self.number()) << REASON_SHIFT;
        let words = [number | u64::from(call) << CALL_SHIFT | u64::from(peer), detail, extra];
        debug_assert_eq!(Self::unpack(words), Some(self), "it is read as it was written");
        words
    }

    /// Reads a reason that any process may have written.
    pub(crate) fn unpack([first, detail, extra]: ReasonWords) -> Option<Self> {
        let (call, number) = ((first >> CALL_SHIFT) as u8, first as u32);
        let peer = Some(number).filter(|&number| number != NONE);
        let segment = SegmentName::from_bits(extra);
        Some(match first >> REASON_SHIFT {
            1 => Self::Barrier { epoch: detail, missing: peer? },
            2 => Self::Condition,
            3 => Self::Message,
            4 => Self::Room { peer: peer? },
            5 => Self::Collective { team: extra, seq: detail, peer: peer?, call },
            6 => Self::Leave,
            7 => Self::Answer { node: peer },
            8 => Self::Lock { segment, offset: detail, holder: peer },
            9 => Self::Word { segment, offset: detail, from: peer },
            10 => Self::Requests,
            11 => Self::Call { peer: peer? },
            12 => {
                let what = *HeapWait::ALL.iter().find(|&&what| what as u8 == call)?;
                Self::Heap { what, number: detail, holder: peer }
            }
            _ => return None,
        })
    }
}

impl Display for WaitReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Barrier { epoch, missing } => {
                write!(f, "in barrier {epoch}, for rank {missing} to arrive")
            }
            Self::Condition => write!(f, "in poll_until, for a condition of the program"),
            Self::Message => write!(f, "in wait, for any message"),
            Self::Room { peer } => write!(f, "for room in the queue of rank {peer}"),
            Self::Collective { team, seq, peer, call } => {
                let call = usize::from(call).checked_sub(1).and_then(|at| COLLECTIVES.get(at));
                let call = call.map_or(String::new(), |call| format!(" ({call})"));
                let team = if team == 0 { String::new() } else { format!(" of team {team:x}") };
                write!(f, "in collective {seq}{call}{team}, for the part of rank {peer}")
            }
            Self::Leave => {
                write!(f, "leaving, for ranks of other nodes to take what it sent")
            }
            Self::Answer { node: Some(node) } => {
                write!(f, "for the answer of node {node} to a one-sided operation")
            }
            Self::Answer { node: None } => {
                write!(f, "for the answer of another node to a one-sided operation")
            }
            Self::Lock { segment, offset, holder } => {
                write!(f, "for the lock at byte {offset} of {segment}{}", Holder(holder))
            }
            Self::Word { segment, offset, from } => {
                write!(f, "for a change of the word at byte {offset} of {segment}")?;
                from.map_or(Ok(()), |from| write!(f, " by rank {from}"))
            }
            Self::Requests => write!(f, "in drain, for its requests to be handled"),
            Self::Call { peer } => write!(f, "for the answer of rank {peer} to a call"),
            Self::Heap { what, number, holder } => match what {
                HeapWait::Lock => {
                    write!(f, "for lock {number} of shared memory{}", Holder(holder))
                }
                HeapWait::Flag => write!(f, "for flag {number} of shared memory"),
                HeapWait::Barrier => write!(f, "in a barrier of shared memory"),
                HeapWait::Page => write!(f, "for page {number} of shared memory"),
                HeapWait::Interface => {
                    write!(f, "for the interface of its node, about shared memory")
                }
            },
        }
    }
}

/// The holder of a lock, as follows its name.
struct Holder(Option<u32>);

impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |rank| write!(f, ", which rank {rank} holds"))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn any_words_are_read_as_a_reason_or_none() {
        let mut known = 0;
        for number in 0..=u8::MAX {
            for call in 0..=u8::MAX {
                for peer in [0, 7, NONE] {
                    let first = u64::from(number) << REASON_SHIFT
                        | u64::from(call) << CALL_SHIFT
                        | u64::from(peer);
                    let Some(reason) = WaitReason::unpack([first, u64::MAX, u64::MAX]) else {
                        continue;
                    };
                    known += 1;
                    assert_eq!(reason.number(), number);
                    assert_eq!(WaitReason::unpack(reason.pack()), Some(reason));
                    assert!(!reason.to_string().is_empty() && !reason.kind().is_empty());
                }
            }
        }
        assert!(known > 12, "{known}");
    }

    #[test]
    fn who_holds_a_lock_is_said() {
        let segment = SegmentName::new(3, 1, 1);
        let lock = |holder| WaitReason::Lock { segment, offset: 64, holder };
        let text = lock(Some(2)).to_string();
        assert_eq!(text, "for the lock at byte 64 of segment 1 of rank 3, which rank 2 holds");
        assert_eq!(lock(None).to_string(), "for the lock at byte 64 of segment 1 of rank 3");
        assert_eq!((lock(Some(2)).peer(), lock(None).peer()), (Some(2), None));
    }
}
