//! Units in flight, as the packets that carry them.

use super::buffer_pool::BufferPool;
use super::layout::HEADROOM;
use super::sealed_buffers::SealedBuffers;
use super::send_buffer::{BufferRange, SendBuffer};
use crate::seal::Sealer;
use std::borrow::Cow;
use std::collections::VecDeque;

/// A unit in flight.
#[derive(Debug)]
pub(super) struct InFlightUnit {
    pub(super) place: BufferRange,
    /// The unit's own send buffer, if it is in none of the pool.
    own: Option<Box<SendBuffer>>,
    /// True if its packet is kept among the sealed buffers, and the unit itself is not kept any
    /// more.
    sealed: bool,
    pub(super) acked: bool,
    /// The last unit of the message that this one holds a fragment of; that message's payload would
    /// have to be returned whole.
    kept_for: u64,
    /// True if the kernel may have got its packet zero-copy, so that it must not change.
    zero_copy: bool,
}

impl InFlightUnit {
    /// Returns the packet's bytes, as far as they lie outside of the sealed buffers.
    #[inline]
    pub(super) fn packet<'a>(&'a self, pool: &'a BufferPool) -> Option<&'a [u8]> {
        let BufferRange { send_buffer, at, end } = self.place;
        let buffer = match &self.own {
            Some(own) => own,
            None => pool.get(send_buffer)?,
        };
        buffer.get(at, end + pool.tail())
    }

    /// Returns the packet's bytes, to be filled in.
    #[inline]
    pub(super) fn packet_mut<'a>(&'a mut self, pool: &'a mut BufferPool) -> Option<&'a mut [u8]> {
        debug_assert!(!self.zero_copy && !self.sealed, "the kernel may read it");
        let BufferRange { send_buffer, at, end } = self.place;
        let end = end + pool.tail();
        match &mut self.own {
            Some(own) => own.get_mut(at, end),
            None => pool.get_mut(send_buffer)?.get_mut(at, end),
        }
    }

    /// Returns the unit's body, decrypted from its packet if only that is kept.
    pub(super) fn body<'a>(
        &'a self,
        pool: &'a BufferPool,
        sealed: &SealedBuffers,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        if self.sealed {
            return sealer.reopen(sealed.get(self.place)?).map(Cow::Owned);
        }
        let packet = self.packet(pool)?;
        debug_assert!(packet.len() >= HEADROOM + pool.tail(), "a packet has its header");
        packet.get(HEADROOM..packet.len() - pool.tail()).map(Cow::Borrowed)
    }
}

/// All units in flight, by their numbers.
#[derive(Debug, Default)]
pub(super) struct InFlightUnits {
    units: VecDeque<InFlightUnit>,
    /// Number of the first of them.
    base: u64,
    /// All units below this are acknowledged.
    acked_through: u64,
    /// Messages of several units: first and last unit.
    spans: VecDeque<(u64, u64)>,
}

impl InFlightUnits {
    /// Gives back the memory of the list of units; none is in flight.
    pub(super) fn release_spare(&mut self) {
        debug_assert!(self.units.is_empty() && self.spans.is_empty(), "units in flight are kept");
        self.units.shrink_to_fit();
        self.spans.shrink_to_fit();
    }

    /// Returns the bytes that [`InFlightUnits::release_spare`] gives back.
    pub(super) fn spare_bytes(&self) -> usize {
        let units = self.units.capacity() * size_of::<InFlightUnit>();
        units + self.spans.capacity() * size_of::<(u64, u64)>()
    }

    /// Returns the number of the first unit kept.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number that the next unit gets.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        debug_assert!(self.base <= self.acked_through, "what is in flight is kept");
        self.base + self.units.len() as u64
    }

    /// Returns the number below which all units are acknowledged.
    #[inline]
    pub(super) fn acked_through(&self) -> u64 {
        self.acked_through
    }

    /// Returns the place of the unit that was sent last.
    #[inline]
    pub(super) fn last_place(&self) -> Option<&BufferRange> {
        self.units.back().map(|unit| &unit.place)
    }

    /// Returns a unit in flight.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&InFlightUnit> {
        self.units.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Returns a unit in flight, mutably.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut InFlightUnit> {
        self.units.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Notes a message whose fragments lie in units `first` to `last`.
    pub(super) fn on_span(&mut self, first: u64, last: u64) {
        debug_assert!(first <= last && last >= self.next(), "its end has not been sent");
        self.spans.push_back((first, last));
    }

    /// Adds a unit that is sent.
    #[inline]
    pub(super) fn push(&mut self, place: BufferRange) {
        let number = self.next();
        // A unit may hold the end of one message and the beginning of another: the last message
        // needs it longest.
        let spans = |&&(first, last): &&(u64, u64)| first <= number && number <= last;
        let span = self.spans.iter().rev().find(spans);
        let kept_for = span.map_or(number, |&(_, last)| last);
        debug_assert!(kept_for >= number, "a unit is kept for itself at least");
        self.add(place, None, kept_for);
    }

    /// Adds a unit that goes ahead of others, in a send buffer of its own. It takes the number that
    /// the next of the others would have had; recorded numbers of those shift by one.
    pub(super) fn push_ahead(&mut self, own: SendBuffer, place: BufferRange) {
        let number = self.next();
        debug_assert!(place.bytes() > 0, "it holds a message");
        debug_assert!(own.units > 0, "its buffer is in use");
        if !self.spans.is_empty() {
            for unit in self.units.iter_mut().filter(|unit| unit.kept_for >= number) {
                unit.kept_for += 1;
            }
        }
        for (first, last) in self.spans.iter_mut().rev().take_while(|(_, last)| *last >= number) {
            *first += u64::from(*first >= number);
            *last += 1;
        }
        self.add(place, Some(Box::new(own)), number);
    }

    #[inline]
    fn add(&mut self, place: BufferRange, own: Option<Box<SendBuffer>>, kept_for: u64) {
        let (sealed, acked, zero_copy) = (false, false, false);
        debug_assert!(kept_for >= self.next(), "a unit is kept for itself at least");
        self.units.push_back(InFlightUnit { place, own, sealed, acked, kept_for, zero_copy });
    }

    /// Notes that unit `number` has arrived; units that nothing needs any more leave `pool`.
    #[inline]
    pub(super) fn on_acked(&mut self, number: u64, pool: &mut BufferPool) {
        let unit = self.get_mut(number);
        debug_assert!(unit.as_ref().is_some_and(|unit| !unit.acked), "each is released once");
        let Some(unit) = unit else { return };
        unit.acked = true;
        while self.acked_through < self.next() && self.is_acked(self.acked_through) {
            self.acked_through += 1;
        }
        while let Some(front) = self.units.front() {
            if !front.acked || front.kept_for >= self.acked_through {
                break;
            }
            let Some(done) = self.units.pop_front() else { break };
            debug_assert!(done.kept_for >= self.base, "a unit is kept for itself at least");
            self.base += 1;
            if done.own.is_none() && !done.sealed {
                pool.release(done.place.send_buffer);
            }
        }
        while self.spans.front().is_some_and(|&(_, last)| last < self.base) {
            self.spans.pop_front();
        }
        debug_assert!(self.base <= self.acked_through, "what is in flight is kept");
    }

    #[inline]
    fn is_acked(&self, number: u64) -> bool {
        debug_assert!(number >= self.base, "what has left is not asked about");
        self.get(number).is_none_or(|unit| unit.acked)
    }

    /// Returns the body of a unit.
    #[inline]
    pub(super) fn body<'a>(
        &'a self,
        number: u64,
        pool: &'a BufferPool,
        sealed: &SealedBuffers,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        self.get(number)?.body(pool, sealed, sealer)
    }

    /// Returns the bytes of a unit; `None` if there is none of that number.
    #[inline]
    pub(super) fn unit_bytes(&self, number: u64) -> Option<usize> {
        self.get(number).map(|unit| unit.place.bytes())
    }

    /// Returns true if the unit's packet must be built elsewhere: the last one must not be touched
    /// any more.
    #[inline]
    pub(super) fn is_zero_copy(&self, number: u64) -> bool {
        self.get(number).is_some_and(|unit| unit.zero_copy || unit.sealed)
    }

    /// Notes that the kernel is about to get the packet of a unit zero-copy.
    #[inline]
    pub(super) fn on_zero_copy_send(&mut self, number: u64) {
        let unit = self.get_mut(number);
        debug_assert!(unit.is_some(), "a packet that is sent is in flight");
        if let Some(unit) = unit {
            debug_assert!(!unit.sealed, "sealed packets lie elsewhere");
            unit.zero_copy = true;
        }
    }

    /// Builds the packet of a unit with `seal`, and keeps it among the sealed ones instead of the
    /// unit. `None`: nothing has changed, since there is no place for it.
    pub(super) fn keep_sealed(
        &mut self,
        number: u64,
        pool: &mut BufferPool,
        sealed: &mut SealedBuffers,
        seal: impl FnOnce(&mut [u8]),
    ) -> Option<BufferRange> {
        let unit = self.get_mut(number)?;
        if unit.sealed || unit.place.bytes() > sealed.capacity() {
            return None;
        }
        debug_assert!(!unit.acked, "what has arrived is not sent");
        let packet = unit.packet_mut(pool)?;
        seal(packet);
        let place = sealed.keep(number, packet);
        let before = std::mem::replace(&mut unit.place, place);
        debug_assert!(before.bytes() == place.bytes(), "sealing keeps the length");
        unit.sealed = true;
        if unit.own.take().is_none() {
            pool.release(before.send_buffer);
        }
        Some(place)
    }

    /// Returns the bytes in flight.
    pub(super) fn bytes(&self) -> usize {
        self.units.iter().map(|unit| unit.place.bytes()).sum()
    }

    /// Returns the number of units that lie in the pool's buffers.
    pub(super) fn pool_units(&self) -> usize {
        self.units.iter().filter(|unit| unit.own.is_none() && !unit.sealed).count()
    }

    /// Iterates over the units whose packets are kept among the sealed ones.
    pub(super) fn sealed_units(&self) -> impl Iterator<Item = u64> + '_ {
        let sealed = |(number, unit): (u64, &InFlightUnit)| unit.sealed.then_some(number);
        (self.base..).zip(&self.units).filter_map(sealed)
    }

    /// Takes all units, after the peer is lost; `arrived` tells which have arrived.
    pub(super) fn take_all(&mut self, arrived: impl Fn(u64) -> bool) -> VecDeque<InFlightUnit> {
        debug_assert!(self.units.iter().all(|unit| unit.place.bytes() > 0), "no unit is empty");
        for (number, unit) in (self.base..).zip(&mut self.units) {
            unit.acked |= arrived(number);
        }
        self.spans.clear();
        // Their numbers are not given again.
        (self.base, self.acked_through) = (self.next(), self.next());
        std::mem::take(&mut self.units)
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        assert!(self.base <= self.acked_through, "what is in flight is kept");
        for (number, unit) in (self.base..).zip(&self.units) {
            assert!(number >= self.acked_through || unit.acked, "acknowledged up to there");
            assert!(unit.kept_for >= number, "a unit is kept for itself at least");
            assert!(!unit.sealed || unit.own.is_none(), "a unit lies in one place");
            assert!(!unit.sealed || !unit.zero_copy, "and is sent from there");
            assert!(unit.place.bytes() > 0, "no unit is empty");
        }
        assert!(self.acked_through <= self.next(), "no more is acknowledged than was sent");
        let open =
            self.acked_through.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let open = open.and_then(|at| self.units.get(at));
        assert!(open.is_none_or(|unit| !unit.acked), "the first open unit has not arrived");
        assert!(self.spans.iter().all(|(first, last)| first <= last), "spans go forward");
        let needed = self.spans.iter().all(|&(_, last)| last >= self.base);
        assert!(needed, "spans are forgotten with their units");
    }
}
