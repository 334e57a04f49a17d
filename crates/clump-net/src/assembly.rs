//! Messages of several frames, put together again.

use crate::doors::{Doors, Refusal};
use clump_wire::frame::{Frame, Head, Kind, MOST_WORDS, Piece};
use std::collections::HashMap;

/// Longest payload of a message that is not long, in bytes. Longer ones come from no correct sender.
const MOST_PAYLOAD: u64 = 1 << 20;
/// Bytes of pieces that may wait for the beginning of their message: more than a window holds.
const MOST_EARLY: usize = 8 << 20;

/// A message whose pieces have all arrived.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: Head,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Vec<u8>,
    /// Why its deposit was refused, if it was.
    pub(crate) refused: Option<Refusal>,
}

#[derive(Debug)]
struct Building {
    whole: Whole,
    total: u64,
    got: u64,
}

/// Something that no correct peer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Messages of one peer that are being put together. Units arrive once, so no piece comes twice.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The message that a piece came for last, with its number: mostly the next is for it too.
    last: Option<(u64, Building)>,
    /// The others.
    building: HashMap<u64, Building>,
    early: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    early_bytes: usize,
}

impl Assembly {
    /// The frame that begins a message, with its first piece.
    pub(crate) fn on_begin(
        &mut self,
        frame: &Frame<'_>,
        piece: Piece,
        doors: &dyn Doors,
    ) -> Result<Option<Whole>, Nonsense> {
        let total = piece.at;
        let mut words = [0; MOST_WORDS];
        let words = frame.words(&mut words);
        let head = Head { piece: None, ..frame.head };
        let mut refused = None;
        let mut payload = Vec::new();
        match (head.kind, words) {
            (Kind::Long, &[offset, bytes, ..]) if bytes == total => {
                refused = doors.fits(head.route.to, offset, bytes).err();
            }
            (Kind::Medium | Kind::Returned, _) if total <= MOST_PAYLOAD => {
                payload = vec![0; total as usize];
            }
            _ => return Err(Nonsense),
        }
        let whole = Whole { head, words: words.to_vec(), payload, refused };
        let mut building = Building { whole, total, got: 0 };
        building.add(0, frame.payload, doors)?;
        for (at, data) in self.early.remove(&piece.message).unwrap_or_default() {
            self.early_bytes -= data.len();
            building.take(at, &data, doors)?;
        }
        if building.got == building.total {
            return Ok(Some(building.whole));
        }
        if self.find(piece.message).is_some() {
            return Err(Nonsense);
        }
        if let Some((number, before)) = self.last.replace((piece.message, building)) {
            self.building.insert(number, before);
        }
        Ok(None)
    }

    /// A message that has begun; it is the last from now on.
    #[inline]
    fn find(&mut self, message: u64) -> Option<&mut Building> {
        if self.last.as_ref().is_none_or(|(number, _)| *number != message) {
            let found = self.building.remove(&message)?;
            if let Some((number, before)) = self.last.replace((message, found)) {
                self.building.insert(number, before);
            }
        }
        self.last.as_mut().map(|(_, building)| building)
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        let last = self.last.iter().map(|(_, building)| building);
        let building = self.building.values().chain(last);
        self.early_bytes + building.map(|building| building.whole.payload.len()).sum::<usize>()
    }

    /// A further piece.
    pub(crate) fn on_part(
        &mut self,
        piece: Piece,
        data: &[u8],
        doors: &dyn Doors,
    ) -> Result<Option<Whole>, Nonsense> {
        let Some(building) = self.find(piece.message) else {
            self.early_bytes += data.len();
            if self.early_bytes > MOST_EARLY {
                return Err(Nonsense);
            }
            self.early.entry(piece.message).or_default().push((piece.at, data.to_vec()));
            return Ok(None);
        };
        building.take(piece.at, data, doors)?;
        if building.got < building.total {
            return Ok(None);
        }
        Ok(self.last.take().map(|(_, building)| building.whole))
    }
}

impl Building {
    /// A further piece. One without payload says that the message ends there, and will not be handled: whoever sent
    /// it is gone.
    fn take(&mut self, at: u64, data: &[u8], doors: &dyn Doors) -> Result<(), Nonsense> {
        if !data.is_empty() {
            return self.add(at, data, doors);
        }
        if at < self.got || at >= self.total {
            return Err(Nonsense);
        }
        self.total = at;
        self.whole.refused.get_or_insert(Refusal::PeerLost);
        Ok(())
    }

    fn add(&mut self, at: u64, data: &[u8], doors: &dyn Doors) -> Result<(), Nonsense> {
        let bytes = data.len() as u64;
        let end = at.checked_add(bytes).filter(|&end| end <= self.total).ok_or(Nonsense)?;
        self.got = self.got.saturating_add(bytes).min(self.total);
        let Whole { head, words, payload, refused } = &mut self.whole;
        match (head.kind, words.first()) {
            (Kind::Long, Some(offset)) if refused.is_none() => {
                // The segment may have gone since the message began.
                *refused = doors.deposit(head.route.to, offset.saturating_add(at), data).err();
            }
            (Kind::Long, _) => {}
            _ => {
                let place = payload.get_mut(at as usize..end as usize).ok_or(Nonsense)?;
                place.copy_from_slice(data);
            }
        }
        Ok(())
    }
}
