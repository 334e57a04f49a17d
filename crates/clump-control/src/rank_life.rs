//! One rank as the rules of dying see it.

use crate::death::{DeathManner, KILL, ProcessEnd};
use crate::event::RankStatus;

/// The end of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankEnd {
    /// The end of its process; `None` while it runs.
    pub end: Option<ProcessEnd>,
    /// True if it ended as a rank should.
    pub clean: bool,
    /// True if the end of the job killed it.
    pub killed: bool,
}

/// Everything that is known of one rank.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RankLife {
    pub(crate) joined: bool,
    /// True while it only waits for others to take what it sent.
    pub(crate) leaving: bool,
    pub(crate) stopped: bool,
    /// True once its process runs another program.
    pub(crate) replaced: bool,
    /// True once it has been declared dead.
    pub(crate) declared: bool,
    pub(crate) end: RankEnd,
}

impl RankLife {
    /// Returns true while its process runs.
    pub(crate) fn runs(&self) -> bool {
        self.end.end.is_none()
    }

    /// Returns true if it left with code 0 before it joined, and nobody knows yet that this is a
    /// death.
    pub(crate) fn is_absent(&self) -> bool {
        self.end.end == Some(ProcessEnd::Exit(0)) && !self.joined && !self.declared
    }

    /// Returns true if no other rank has to wait for it.
    pub(crate) fn is_done(&self) -> bool {
        !self.runs() || self.leaving && !self.stopped
    }

    /// Returns the death that such an end is, if it is one (rule 1).
    pub(crate) fn manner_of(
        &self,
        end: ProcessEnd,
        status: RankStatus,
        others_joined: bool,
    ) -> Option<DeathManner> {
        debug_assert!(self.runs(), "a process ends once");
        debug_assert!(!self.end.clean, "it has not ended yet");
        let joined = self.joined || status != RankStatus::Absent;
        match (end, status) {
            _ if self.replaced => Some(DeathManner::Replaced),
            (ProcessEnd::Signal(signal), _) => Some(DeathManner::Signal(signal)),
            (ProcessEnd::OutOfMemory, _) => Some(DeathManner::OutOfMemory),
            (ProcessEnd::Exit(0), RankStatus::Finalized(_)) => None,
            (ProcessEnd::Exit(0), _) if joined => Some(DeathManner::NoFinalize),
            (ProcessEnd::Exit(0), _) if others_joined => Some(DeathManner::NeverJoined),
            (ProcessEnd::Exit(0), _) => None,
            (ProcessEnd::Exit(code), _) => Some(DeathManner::Exit(code)),
            (ProcessEnd::Unknown, _) => None,
        }
    }

    /// Records its end.
    pub(crate) fn handle_ended(
        &mut self,
        end: ProcessEnd,
        status: RankStatus,
        (clean, killing): (bool, bool),
    ) {
        debug_assert!(self.runs(), "a process ends once");
        debug_assert_ne!(end, ProcessEnd::Unknown, "an end is known, or the node was lost");
        debug_assert!(!clean || !self.replaced, "another program's end is not the rank's");
        self.joined |= status != RankStatus::Absent;
        self.stopped = false;
        let killed = killing && end == ProcessEnd::Signal(KILL);
        self.end = RankEnd { end: Some(end), clean, killed };
        self.check_invariants();
    }

    /// Records that its node was lost.
    pub(crate) fn handle_lost(&mut self, killing: bool) {
        debug_assert!(self.runs(), "what has ended is not lost");
        debug_assert!(!self.end.clean && !self.end.killed, "nothing is known of its end");
        self.stopped = false;
        self.end = RankEnd { end: Some(ProcessEnd::Unknown), clean: false, killed: killing };
        self.check_invariants();
    }

    /// Asserts what always holds of a rank.
    pub(crate) fn check_invariants(&self) {
        let RankEnd { end, clean, killed } = self.end;
        debug_assert!(!self.stopped || self.runs(), "what has ended is not stopped");
        debug_assert!(!clean || end == Some(ProcessEnd::Exit(0)), "clean is code 0");
        debug_assert!(!killed || end.is_some(), "the killed have ended");
        debug_assert!(!(clean && killed), "the killed did not end by themselves");
    }
}
