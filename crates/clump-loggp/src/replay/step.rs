//! A step of a rank in a run that is played.

use crate::knobs::{KnobClass, KnobScope};

/// Target of messages that occur in no other trace: operations of an interface, whose sender waits
/// for a later answer.
pub const NOBODY: u32 = u32::MAX;

/// A step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The rank computes.
    Compute {
        /// Time in ns.
        ns: u64,
    },
    /// Waits until all has arrived that it has handled by [`Step::WaitEnd`].
    Wait,
    /// End of the wait.
    WaitEnd,
    /// Sends a message.
    Send {
        /// The target.
        to: u32,
        /// The message's name: equal at both ends, and at no other message under way between them.
        key: u64,
        /// Bytes of its payload.
        bytes: u32,
        /// The path and class of the message.
        row: (KnobScope, KnobClass),
        /// True for a request, which waits for room in the interface; replies wait for none.
        waits: bool,
        /// Time that its bytes took the interface when the run was recorded, in ns, if that is
        /// known. The next message then leaves after the longer of a gap and the time of the bytes;
        /// else after a gap and the time that knobs add to the bytes.
        bytes_ns: Option<u64>,
    },
    /// Handles a message.
    Receive {
        /// The sender.
        from: u32,
        /// The message's name.
        key: u64,
        /// Time between its sending and its arrival.
        transit_ns: u64,
    },
    /// The handler of that message is done.
    Handled,
    /// Meets others: none continues before all are there.
    Meet {
        /// The meeting.
        key: u64,
        /// Ranks that meet.
        ranks: u32,
    },
    /// Leaves the meeting.
    Part {
        /// The meeting.
        key: u64,
        /// Time from the last arrival until it leaves.
        after_ns: u64,
    },
    /// Begins a phase that the program times.
    Phase {
        /// Its name.
        name: u64,
    },
    /// Ends that phase.
    PhaseEnd {
        /// Its name.
        name: u64,
    },
}
