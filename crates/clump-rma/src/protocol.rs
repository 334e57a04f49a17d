//! Messages between ranks and network interfaces: numbers of handlers, and the words of each
//! message.
//!
//! A request names a segment and an offset in it. A *cookie*, chosen by the requester and not 0, is
//! returned with the answer; a request that wants no answer carries 0, or no cookie where that is
//! stated.

use crate::atomic::{AtomicOp, Width};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;

/// Tag of the virtual network of network interfaces.
pub const TAG: u64 = 0x6f6e_6573_6964_6564;

/// Maximum bytes of one get, and of one put that is not long.
pub const MAX_PIECE: usize = 16 << 10;

/// Returns the name of the network interface of `node`.
pub fn interface_name(memory: &NodeMemory, node: u32) -> Name {
    debug_assert!(node < memory.nnodes(), "nodes of the job have interfaces");
    Name::new(memory.interface_id(node), 0, 1)
}

/// Requests.
pub mod ask {
    /// `segment offset cookie bytes`: answered by a value (up to 8 bytes) or by bytes.
    pub const GET: u8 = 1;
    /// `segment offset cookie`, a payload, and maybe a signal: `segment offset value adds`.
    pub const PUT: u8 = 2;
    /// The words of [`PUT`]; the payload has been deposited when the request is handled.
    pub const PUT_LONG: u8 = 3;
    /// `segment offset cookie stride block count`: answered by bytes.
    pub const GET_STRIDED: u8 = 4;
    /// `segment offset cookie stride block` and a payload of whole blocks.
    pub const PUT_STRIDED: u8 = 5;
    /// `requests cookie`: answered once this many requests of this endpoint have been executed.
    pub const QUIET: u8 = 6;
    /// `segment offset cookie comparison value`: answered once the word compares in this way.
    pub const WAIT: u8 = 7;
    /// `segment offset cookie how`, one of [`super::how`]: answered once it holds the lock.
    pub const LOCK: u8 = 8;
    /// `segment offset 0 position word passed`: releases a lock, with its word. `passed` is 1 when
    /// the requester has granted it to its successor itself ([`super::tell::NEXT`]), else 0.
    pub const UNLOCK: u8 = 9;
    /// `cookie`: the requester no longer waits for that answer; answered by a failure, or by the
    /// answer itself.
    pub const CANCEL: u8 = 10;
    /// `segment offset 0 adds value`: sets a flag, or adds to it.
    pub const SET: u8 = 11;
    /// `cookie port`: answered by a value, the name of the endpoint at that port of the node, or 0.
    pub const PORT: u8 = 12;
    /// An atomic operation, combined with its number and width: `segment offset cookie operand
    /// [other]`.
    pub const ATOMIC: u8 = 0x20;
    /// An atomic operation without an answer: `segment offset operand [other]`.
    pub const ATOMIC_SILENT: u8 = 0x40;
    /// Flag in any of these: one more word gives the number of requests of this endpoint that come
    /// before it.
    pub const AFTER: u8 = 0x80;
}

/// Modes of a lock request.
pub mod how {
    /// Waits, possibly until it is cancelled: only the home grants it.
    pub const WAITS: u64 = 0;
    /// Only tries: answered at once.
    pub const TRIES: u64 = 1;
    /// Waits without a limit: the rank of the claim before it may grant it.
    pub const STAYS: u64 = 2;
}

/// Answers; all begin with the cookie.
pub mod tell {
    /// `cookie value`.
    pub const VALUE: u8 = 1;
    /// `cookie at` and a payload.
    pub const BYTES: u8 = 2;
    /// `cookie`.
    pub const DONE: u8 = 3;
    /// `cookie code segment offset`.
    pub const FAILED: u8 = 4;
    /// `cookie executed failed code segment offset`: the last three describe the first failure.
    pub const QUIET: u8 = 5;
    /// `cookie position word`: a lock was granted, by its home, or, as a request, by the rank of
    /// the claim before.
    pub const GRANTED: u8 = 6;
    /// `cookie name cookie position`: the claim of the first cookie, waiting or holding the lock,
    /// has as successor the claim of the second cookie, of the endpoint of that name. It answers no
    /// request, and may arrive too late.
    pub const NEXT: u8 = 7;
}

/// Returns the number of the handler of an atomic operation.
pub fn atomic_handler(op: AtomicOp, width: Width, answered: bool) -> u8 {
    let base = if answered { ask::ATOMIC } else { ask::ATOMIC_SILENT };
    debug_assert_eq!(base & (ask::AFTER | 0x1f), 0, "operation and width have bits of their own");
    base | op as u8 | if width == Width::Half { 0x10 } else { 0 }
}

/// Decodes the result of [`atomic_handler`].
pub fn atomic_of(handler: u8) -> Option<(AtomicOp, Width, bool)> {
    let answered = match handler & 0x60 {
        ask::ATOMIC => true,
        ask::ATOMIC_SILENT => false,
        _ => return None,
    };
    debug_assert_eq!(handler & ask::AFTER, 0, "the flag of held requests was removed");
    let width = if handler & 0x10 == 0 { Width::Word } else { Width::Half };
    let op = AtomicOp::from_bits(handler & 0xf)?;
    debug_assert_eq!(atomic_handler(op, width, answered), handler, "decoding undoes encoding");
    Some((op, width, answered))
}

/// Returns the offset, in an interface's segment, of a place in a segment. The interface's segment
/// covers its whole node; the offset encodes the number of the rank on its node, index and
/// generation of the segment, and the offset in it.
pub fn deposit_offset(segment: SegmentName, first: u32, offset: u64) -> Option<u64> {
    let rank = u64::from(segment.rank().checked_sub(first)?);
    let (index, generation) = (u64::from(segment.index()), u64::from(segment.generation()));
    let fits = rank < 1 << 10 && index < 1 << 6 && offset < 1 << 36;
    let deposit = fits.then_some(rank << 54 | index << 48 | (generation & 0xfff) << 36 | offset);
    let place = (segment.rank(), segment.index(), segment.generation() & 0xfff, offset);
    debug_assert!(deposit.is_none_or(|deposit| deposit_place(deposit, first) == place));
    deposit
}

/// Returns rank, index, generation (its lower 12 bits) and offset of a deposit.
pub fn deposit_place(offset: u64, first: u32) -> (u32, u8, u32, u64) {
    let rank = first.saturating_add((offset >> 54) as u32);
    let index = (offset >> 48 & 0x3f) as u8;
    (rank, index, (offset >> 36 & 0xfff) as u32, offset & ((1 << 36) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_of_atomics_are_told_apart() {
        let mut seen = std::collections::HashSet::new();
        for op in AtomicOp::ALL {
            for width in [Width::Word, Width::Half] {
                for answered in [true, false] {
                    let handler = atomic_handler(op, width, answered);
                    assert_eq!(atomic_of(handler), Some((op, width, answered)));
                    assert!(handler & ask::AFTER == 0 && handler > ask::PORT);
                    assert!(seen.insert(handler));
                }
            }
        }
        assert_eq!(atomic_of(ask::GET), None);
        assert_eq!(atomic_of(ask::ATOMIC | 0xf), None);
    }

    #[test]
    fn places_of_deposits_survive_the_journey() {
        let name = SegmentName::new(700, 63, 0x1_2345);
        let offset = deposit_offset(name, 100, (1 << 36) - 1).unwrap();
        assert_eq!(deposit_place(offset, 100), (700, 63, 0x345, (1 << 36) - 1));
        assert_eq!(deposit_offset(name, 701, 0), None);
        assert_eq!(deposit_offset(name, 100, 1 << 36), None);
    }
}
