//! Reassembly of messages of several frames.

use crate::endpoint_table::EndpointTable;
use crate::payload_pool::PayloadPool;
use clump_wire::Reason;
use clump_wire::frame::{Frame, FrameHead, FrameKind, MAX_WORDS, MessageFragment};
use std::collections::HashMap;

/// Longest payload of a message that is not long, in bytes. No correct sender sends more.
const MAX_PAYLOAD: u64 = 1 << 20;
/// Bytes of fragments that may wait for the beginning of their message: more than a window holds.
const MAX_EARLY: usize = 8 << 20;

/// A message whose fragments have all arrived.
#[derive(Debug)]
pub(crate) struct CompleteMessage {
    pub(crate) head: FrameHead,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Vec<u8>,
    /// Reason for which its deposit was refused, if it was.
    pub(crate) refused: Option<Reason>,
}

#[derive(Debug)]
struct PartialMessage {
    whole: CompleteMessage,
    total: u64,
    got: u64,
}

/// A frame that no correct peer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolViolation;

/// Messages of one peer that are being reassembled. Units arrive once, so no fragment comes twice.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The message of the last fragment, with its number: the next fragment is mostly for it too.
    last: Option<(u64, PartialMessage)>,
    /// The others.
    building: HashMap<u64, PartialMessage>,
    early: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    early_bytes: usize,
}

impl Reassembly {
    /// Handles the frame that begins a message, with its first fragment.
    pub(crate) fn on_begin(
        &mut self,
        frame: &Frame<'_>,
        fragment: MessageFragment,
        endpoints: &dyn EndpointTable,
        payloads: &mut PayloadPool,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        let total = fragment.at;
        let mut words = [0; MAX_WORDS];
        let words = frame.words(&mut words);
        let head = FrameHead { fragment: None, ..frame.head };
        let mut refused = None;
        let mut payload = Vec::new();
        match (head.kind, words) {
            (FrameKind::Long, &[offset, bytes, ..]) if bytes == total => {
                refused = endpoints.fits(head.route.to, offset, bytes).err();
            }
            (FrameKind::Medium | FrameKind::Returned, _) if total <= MAX_PAYLOAD => {
                payload = payloads.take(total as usize);
            }
            _ => return Err(ProtocolViolation),
        }
        let whole = CompleteMessage { head, words: words.to_vec(), payload, refused };
        let mut building = PartialMessage { whole, total, got: 0 };
        building.add(0, frame.payload, endpoints)?;
        for (at, data) in self.take_early(fragment.message) {
            building.take(at, &data, endpoints)?;
        }
        if building.got == building.total {
            return Ok(Some(building.whole));
        }
        if self.find(fragment.message).is_some() {
            return Err(ProtocolViolation);
        }
        debug_assert!(!self.building.contains_key(&fragment.message), "in one place");
        if let Some((number, before)) = self.last.replace((fragment.message, building)) {
            debug_assert!(number != fragment.message, "a message begins once");
            self.building.insert(number, before);
        }
        Ok(None)
    }

    /// Returns the endpoint and the offset in its segment that a fragment belongs to, if its
    /// message has begun, is long and was not refused, and the offset lies inside of it.
    pub(crate) fn place_of(&mut self, fragment: MessageFragment) -> Option<(u64, u64)> {
        let PartialMessage { whole, total, .. } = self.find(fragment.message)?;
        let open = whole.head.kind == FrameKind::Long && whole.refused.is_none();
        debug_assert!(!open || whole.payload.is_empty(), "it lies in its segment");
        let offset = whole.words.first().filter(|_| open && fragment.at < *total)?;
        Some((whole.head.route.to, offset.checked_add(fragment.at)?))
    }

    /// Handles the beginning of a long message of `total` bytes, of which the first `placed` are in
    /// the segment.
    pub(crate) fn on_begin_placed(
        &mut self,
        head: FrameHead,
        words: &[u64],
        (message, total, placed): (u64, u64, u64),
        refused: Option<Reason>,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        debug_assert!(head.kind == FrameKind::Long, "others come as a whole");
        if placed >= total || self.find(message).is_some() || self.early.contains_key(&message) {
            return Err(ProtocolViolation);
        }
        let whole = CompleteMessage { head, words: words.to_vec(), payload: Vec::new(), refused };
        let building = PartialMessage { whole, total, got: placed };
        if let Some((number, before)) = self.last.replace((message, building)) {
            debug_assert!(number != message, "a message begins once");
            self.building.insert(number, before);
        }
        debug_assert!(self.find(message).is_some(), "its rest is awaited");
        Ok(None)
    }

    /// Handles a further fragment whose bytes are in the segment.
    pub(crate) fn on_placed(
        &mut self,
        fragment: MessageFragment,
        bytes: u64,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        let building = self.find(fragment.message).ok_or(ProtocolViolation)?;
        let end = fragment.at.checked_add(bytes).filter(|&end| end <= building.total);
        end.ok_or(ProtocolViolation)?;
        building.got = building.got.saturating_add(bytes).min(building.total);
        debug_assert!(building.whole.head.kind == FrameKind::Long, "only those are deposited");
        if building.got < building.total {
            return Ok(None);
        }
        Ok(self.last.take().map(|(_, building)| building.whole))
    }

    /// Takes the fragments that came before the beginning of their message.
    fn take_early(&mut self, message: u64) -> Vec<(u64, Vec<u8>)> {
        let early = self.early.remove(&message).unwrap_or_default();
        let bytes: usize = early.iter().map(|(_, data)| data.len()).sum();
        debug_assert!(self.early_bytes >= bytes, "early bytes are counted");
        self.early_bytes -= bytes;
        early
    }

    /// Finds a message that has begun, and makes it the last one.
    #[inline]
    fn find(&mut self, message: u64) -> Option<&mut PartialMessage> {
        if self.last.as_ref().is_none_or(|(number, _)| *number != message) {
            let found = self.building.remove(&message)?;
            if let Some((number, before)) = self.last.replace((message, found)) {
                let twice = self.building.insert(number, before);
                debug_assert!(twice.is_none(), "a message is built in one place");
            }
        }
        self.last.as_mut().map(|(_, building)| building)
    }

    /// Returns the bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        let last = self.last.iter().map(|(_, building)| building);
        let building = self.building.values().chain(last);
        self.early_bytes + building.map(|building| building.whole.payload.len()).sum::<usize>()
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let early: usize = self.early.values().flatten().map(|(_, data)| data.len()).sum();
        assert_eq!(self.early_bytes, early, "early bytes are counted");
        for number in self.building.keys() {
            let twice = self.last.as_ref().is_some_and(|(last, _)| last == number);
            assert!(!twice, "a message is built in one place");
        }
        assert!(self.early.values().all(|early| !early.is_empty()), "each has some fragment");
        assert!(self.early_bytes <= MAX_EARLY, "memory is bounded");
        let last = self.last.iter().map(|(_, building)| building);
        for PartialMessage { whole, total, got } in self.building.values().chain(last) {
            assert!(got < total, "whole messages leave");
            assert!(whole.head.fragment.is_none(), "they leave as if sent in one frame");
            let long = whole.head.kind == FrameKind::Long;
            let room = whole.payload.len() as u64;
            assert!(if long { room == 0 } else { room >= *total }, "payloads have their room");
        }
    }

    /// Handles a further fragment.
    pub(crate) fn handle_fragment(
        &mut self,
        fragment: MessageFragment,
        data: &[u8],
        endpoints: &dyn EndpointTable,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        let Some(building) = self.find(fragment.message) else {
            if self.early_bytes + data.len() > MAX_EARLY {
                return Err(ProtocolViolation);
            }
            self.early_bytes += data.len();
            self.early.entry(fragment.message).or_default().push((fragment.at, data.to_vec()));
            return Ok(None);
        };
        building.take(fragment.at, data, endpoints)?;
        if building.got < building.total {
            return Ok(None);
        }
        debug_assert!(building.got == building.total, "whole messages leave");
        let last = self.last.as_ref().map(|(number, _)| *number);
        debug_assert!(last == Some(fragment.message), "a message that is found is the last");
        Ok(self.last.take().map(|(_, building)| building.whole))
    }
}

impl PartialMessage {
    /// Adds a further fragment. One without payload says that the message ends there, and will not
    /// be handled: its sender is gone.
    fn take(
        &mut self,
        at: u64,
        data: &[u8],
        endpoints: &dyn EndpointTable,
    ) -> Result<(), ProtocolViolation> {
        if !data.is_empty() {
            return self.add(at, data, endpoints);
        }
        if at < self.got || at >= self.total {
            return Err(ProtocolViolation);
        }
        debug_assert!(self.got <= at && at < self.total, "it ends behind what has come");
        self.total = at;
        self.whole.refused.get_or_insert(Reason::PeerLost);
        Ok(())
    }

    fn add(
        &mut self,
        at: u64,
        data: &[u8],
        endpoints: &dyn EndpointTable,
    ) -> Result<(), ProtocolViolation> {
        let bytes = data.len() as u64;
        let end =
            at.checked_add(bytes).filter(|&end| end <= self.total).ok_or(ProtocolViolation)?;
        debug_assert!(self.got <= self.total, "no more has come than there is");
        self.got = self.got.saturating_add(bytes).min(self.total);
        let CompleteMessage { head, words, payload, refused } = &mut self.whole;
        match (head.kind, words.first()) {
            (FrameKind::Long, Some(offset)) if refused.is_none() => {
                // The segment may have gone since the message began.
                *refused = endpoints.deposit(head.route.to, offset.saturating_add(at), data).err();
            }
            (FrameKind::Long, _) => {}
            _ => {
                let place = payload.get_mut(at as usize..end as usize).ok_or(ProtocolViolation)?;
                place.copy_from_slice(data);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

    use super::*;
    use clump_wire::frame::{self, Frames, Route};

    /// Endpoints that accept everything.
    struct Open;

    impl EndpointTable for Open {
        fn admit(&self, _: u64, _: Option<u64>) -> Result<u8, Reason> {
            Ok(0)
        }

        fn fits(&self, _: u64, _: u64, _: u64) -> Result<(), Reason> {
            Ok(())
        }

        fn deposit(&self, _: u64, _: u64, _: &[u8]) -> Result<(), Reason> {
            Ok(())
        }
    }

    fn early(
        reassembly: &mut Reassembly,
        at: u64,
        bytes: usize,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        let fragment = MessageFragment { message: 1, at };
        let result = reassembly.handle_fragment(fragment, &vec![1; bytes], &Open);
        reassembly.check_invariants();
        result
    }

    /// Begins message 1, of `total` bytes.
    fn begin(
        reassembly: &mut Reassembly,
        total: u64,
    ) -> Result<Option<CompleteMessage>, ProtocolViolation> {
        let fragment = MessageFragment { message: 1, at: total };
        let route = Route { from: 1, to: 2, tag: 3 };
        let (kind, fragment) = (FrameKind::Medium, Some(fragment));
        let head = FrameHead { kind, reply: false, handler: 1, route, order: None, fragment };
        let mut unit = Vec::new();
        frame::append(&mut unit, &head, false, &[], &[2; 8]);
        let first = Frames::new(&unit).next().unwrap().unwrap();
        let fragment = first.head.fragment.unwrap();
        let result = reassembly.on_begin(&first, fragment, &Open, &mut PayloadPool::default());
        reassembly.check_invariants();
        result
    }

    #[test]
    fn what_is_refused_takes_no_room_from_what_comes_later() {
        let mut reassembly = Reassembly::default();
        assert!(early(&mut reassembly, 8, MAX_EARLY).unwrap().is_none(), "as much as may wait");
        assert!(early(&mut reassembly, 16, 8).is_err(), "and no more");
        assert_eq!(reassembly.bytes(), MAX_EARLY);
        assert!(begin(&mut reassembly, 16).is_err(), "it lies beyond the end");
        assert_eq!(reassembly.bytes(), 0);
        for at in [100, 8] {
            assert!(early(&mut reassembly, at, 8).unwrap().is_none());
        }
        assert!(begin(&mut reassembly, 16).is_err(), "the first lies beyond the end");
        assert_eq!(reassembly.bytes(), 0, "the second is forgotten too");
        assert!(early(&mut reassembly, 8, 8).unwrap().is_none());
        let whole = begin(&mut reassembly, 16).unwrap().unwrap();
        assert_eq!(whole.payload, [[2; 8], [1; 8]].concat());
    }
}
