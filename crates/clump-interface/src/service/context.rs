//! Context of a service's step: memory, answer, and effects that the engine applies.

use crate::memory::Memory;
use clump_onesided::Refusal;
use clump_onesided::protocol::{FIRST_CODE, LAST_CODE, MAX_PIECE};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;

/// Number of a request to a service, while it is under way.
pub type Ticket = u64;

/// Request to the interface of another node.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) node: u32,
    pub(crate) code: u8,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Vec<u8>,
}

/// Part of a request to the interface of another node that requests of several requesters share.
#[derive(Debug)]
pub(crate) struct JointPart {
    pub(crate) node: u32,
    pub(crate) code: u8,
    pub(crate) kind: u64,
    pub(crate) payload: Vec<u8>,
}

/// Effects of a step, applied by the engine after it.
#[derive(Debug, Default)]
pub(crate) struct ServiceEffects {
    /// Word to watch.
    pub(crate) watch: Option<(SegmentName, u64)>,
    /// Ranges that were changed.
    pub(crate) changed: Vec<(SegmentName, u64, u64)>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) joint: Vec<JointPart>,
}

/// Memory, answer and neighbours, for one step of a service.
pub struct ServiceContext<'a> {
    pub(crate) memory: &'a mut dyn Memory,
    pub(crate) ticket: Ticket,
    pub(crate) bytes: &'a mut Vec<u8>,
    pub(crate) effects: &'a mut ServiceEffects,
    /// Requests to other interfaces that may still be sent.
    pub(crate) budget: usize,
}

impl ServiceContext<'_> {
    /// Returns the number of the request at hand, by which it is resumed.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the segment of that name, if `[offset, offset + bytes)` of it may be accessed now.
    ///
    /// # Errors
    /// Fails with the reason if it may not be accessed.
    pub fn segment(
        &mut self,
        name: SegmentName,
        offset: u64,
        bytes: u64,
    ) -> Result<&Cells, Refusal> {
        self.memory.segment(name, offset, bytes)
    }

    /// Returns the bytes of the answer, empty at first; at most [`MAX_PIECE`].
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        self.bytes
    }

    /// Returns memory and answer together, for services that copy between them.
    pub(crate) fn parts(&mut self) -> (&mut dyn Memory, &mut Vec<u8>) {
        (&mut *self.memory, self.bytes)
    }

    /// Requests to be resumed when a word of 8 bytes may have changed, and once at once. A request
    /// watches one word, the last one given.
    pub fn watch(&mut self, segment: SegmentName, offset: u64) {
        debug_assert!(offset.is_multiple_of(8), "a word is watched, not a part of two");
        self.effects.watch = Some((segment, offset));
    }

    /// Reports that bytes have changed: resumes requests that watch them.
    pub fn changed(&mut self, segment: SegmentName, offset: u64, bytes: u64) {
        debug_assert!(offset.checked_add(bytes).is_some(), "what has changed was accessed");
        self.effects.changed.push((segment, offset, bytes));
    }

    /// Wakes a rank of this node in whose segment a signal was given.
    pub fn wake(&mut self, rank: u32) {
        self.memory.wake(rank);
    }

    /// Returns the node of a segment, and whether it is this one.
    pub fn home(&self, name: SegmentName) -> (u32, bool) {
        self.memory.home(name)
    }

    /// Returns the number of requests to other interfaces that this step may make.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Makes a request of `segment offset cookie` and further words to the interface of another
    /// node; the cookie is set by the engine. The request at hand is resumed with the answer.
    ///
    /// # Errors
    /// Fails if too many are under way, or if the request at hand came from an interface.
    pub fn ask(
        &mut self,
        node: u32,
        code: u8,
        (segment, offset): (SegmentName, u64),
        words: &[u64],
        payload: Vec<u8>,
    ) -> Result<(), Refusal> {
        debug_assert!((FIRST_CODE..=LAST_CODE).contains(&code), "a service's");
        debug_assert!(words.len() <= 4, "a request has at most seven words");
        debug_assert!(payload.len() <= MAX_PIECE, "a request is one message");
        self.budget = self.budget.checked_sub(1).ok_or(Refusal::Overloaded)?;
        let mut all = vec![segment.to_bits(), offset, 0];
        all.extend_from_slice(words);
        self.effects.asked.push(Asked { node, code, words: all, payload });
        Ok(())
    }

    /// Adds a payload to the joint request of `0 0 cookie kind` that this turn's requests make to
    /// the interface of another node. It is sent when it is full, or when the turn ends. Every
    /// request that has added to it is resumed with its answer.
    ///
    /// # Errors
    /// Fails as [`ServiceContext::ask`] does.
    pub fn ask_jointly(
        &mut self,
        node: u32,
        code: u8,
        kind: u64,
        payload: Vec<u8>,
    ) -> Result<(), Refusal> {
        debug_assert!((FIRST_CODE..=LAST_CODE).contains(&code), "a service's");
        debug_assert!((1..=MAX_PIECE).contains(&payload.len()), "a part of one message");
        self.budget = self.budget.checked_sub(1).ok_or(Refusal::Overloaded)?;
        self.effects.joint.push(JointPart { node, code, kind, payload });
        Ok(())
    }
}
