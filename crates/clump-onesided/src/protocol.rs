//! Messages between ranks and network interfaces: numbers of handlers, and the words of each
//! message.
//!
//! A request names a segment and an offset in it. A *cookie*, chosen by the requester and not 0, is
//! returned with the answer; a request without an answer carries 0, or no cookie where that is
//! stated.

use crate::atomic::{AtomicOp, Width};
use clump_shm::export::{EXPORTS, SegmentName, SegmentOwner};
use clump_shm::geometry::{MAX_LOCAL_RANKS, NODE_REGIONS, REGION_SPACE, SEGMENT_SPACE};
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

/// First number of a service's requests; there are 32.
pub const FIRST_CODE: u8 = 0x60;
/// Last number of a service's requests.
pub const LAST_CODE: u8 = 0x7f;
/// First number that is free for services of upper layers.
pub const FREE_CODE: u8 = 0x68;

/// Requests of the services that every interface has; all begin with `segment offset cookie`.
pub mod code {
    /// `... kind` and updates or indexes: operations of one kind on words, by index from `offset`.
    pub const BATCH: u8 = super::FIRST_CODE;
    /// Ranges as payload, and maybe `second before behind`: the first `before` ranges and the last
    /// `behind` are of the segment `second`. Answered by their bytes, one after the other.
    pub const GATHER: u8 = super::FIRST_CODE + 1;
    /// `... runs advances [second]`: runs to write, and words, maybe of the segment `second`, that
    /// change after them.
    pub const APPLY: u8 = super::FIRST_CODE + 2;
    /// `... comparison value`: answered by the word, once it compares in this way.
    pub const WHEN: u8 = super::FIRST_CODE + 3;
    /// `0 0 cookie kind` and updates with segments of any nodes: split, and forwarded.
    pub const SPREAD: u8 = super::FIRST_CODE + 4;
    /// `0 0 cookie kind` and updates with segments of this node: answered by those refused.
    pub const DELIVER: u8 = super::FIRST_CODE + 5;
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

/// Bits of an offset in the interface's segment, for what a rank exports: 10 of the number of the
/// rank on its node, 6 of the index in its table, 12 of the generation, 36 of the offset.
const EXPORT_BITS: [u32; 4] = [10, 6, 12, 36];
/// Bits of such an offset for a region of the node: 10 that no rank has, 14 of the number, 40 of
/// the offset.
const REGION_BITS: [u32; 3] = [10, 14, 40];
/// Number of the owner of a node's regions, in place of that of a rank on its node. Deposits come
/// from other nodes, and each of several nodes has one rank less than a node alone may have.
const NODE_OWNED: u64 = (1 << EXPORT_BITS[0]) - 1;
const _: () = assert!(MAX_LOCAL_RANKS as u64 - 1 <= NODE_OWNED);
const _: () = assert!(EXPORTS <= 1 << EXPORT_BITS[1]);
const _: () = assert!(SEGMENT_SPACE == 1 << EXPORT_BITS[3] && REGION_SPACE == 1 << REGION_BITS[2]);
const _: () = assert!(NODE_REGIONS <= 1 << REGION_BITS[1]);
/// Mask of the bits of a generation that a deposit carries.
pub const GENERATION_MASK: u32 = (1 << EXPORT_BITS[2]) - 1;

/// Place in the memory of a node to which bytes are deposited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositPlace {
    /// The owner: a rank, or the node itself.
    pub owner: SegmentOwner,
    /// Index in the owner's table.
    pub index: u8,
    /// Generation of the index, masked by [`GENERATION_MASK`]; 0 for a region.
    pub generation: u32,
    /// Offset in the segment or region.
    pub offset: u64,
}

/// Returns the offset, in an interface's segment, of `[offset, offset + bytes)` of a segment or
/// region. The interface's segment covers its whole node, whose lowest rank is `first`. `None` if
/// no segment holds that.
pub fn deposit_offset(segment: SegmentName, first: u32, offset: u64, bytes: u64) -> Option<u64> {
    let (index, end) = (u64::from(segment.index()), offset.checked_add(bytes)?);
    let [_, index_bits, generation_bits, offset_bits] = EXPORT_BITS;
    let deposit = match segment.owner() {
        SegmentOwner::Rank(rank) => {
            let rank = u64::from(rank.checked_sub(first)?);
            let generation = u64::from(segment.generation() & GENERATION_MASK);
            let fits = rank < NODE_OWNED && index < EXPORTS as u64 && end <= SEGMENT_SPACE;
            let place = (rank << index_bits | index) << generation_bits | generation;
            (fits && offset < SEGMENT_SPACE).then_some(place << offset_bits | offset)?
        }
        SegmentOwner::Node(_) => {
            let fits = index < NODE_REGIONS as u64 && end <= REGION_SPACE && offset < REGION_SPACE;
            let place = NODE_OWNED << REGION_BITS[1] | index;
            fits.then_some(place << REGION_BITS[2] | offset)?
        }
    };
    debug_assert_eq!(deposit_place(deposit, first).offset, offset, "decoding undoes encoding");
    debug_assert_eq!(deposit_place(deposit, first).index, segment.index(), "as for the offset");
    Some(deposit)
}

/// Returns the place that an offset in an interface's segment means: of a rank whose node's lowest
/// is `first`, or of that node.
pub fn deposit_place(deposit: u64, first: u32) -> DepositPlace {
    let [rank_bits, index_bits, generation_bits, offset_bits] = EXPORT_BITS;
    let number = deposit >> (u64::BITS - rank_bits);
    if number == NODE_OWNED {
        let index = (deposit >> REGION_BITS[2] & ((1 << REGION_BITS[1]) - 1)).min(0xff) as u8;
        let offset = deposit & (REGION_SPACE - 1);
        return DepositPlace { owner: SegmentOwner::Node(0), index, generation: 0, offset };
    }
    let owner = SegmentOwner::Rank(first.saturating_add(number as u32));
    let index = (deposit >> (offset_bits + generation_bits) & ((1 << index_bits) - 1)) as u8;
    let generation = (deposit >> offset_bits) as u32 & GENERATION_MASK;
    debug_assert!(u64::from(generation) >> generation_bits == 0, "bits of their own");
    DepositPlace { owner, index, generation, offset: deposit & (SEGMENT_SPACE - 1) }
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
        let name = SegmentName::new(700, 63, 0x1_2bcd);
        let last = SEGMENT_SPACE - 1;
        let deposit = deposit_offset(name, 100, last, 1).unwrap();
        let place = deposit_place(deposit, 100);
        let owner = SegmentOwner::Rank(700);
        assert_eq!(place, DepositPlace { owner, index: 63, generation: 0xbcd, offset: last });
        assert_eq!(deposit_offset(name, 701, 0, 1), None);
        assert_eq!(deposit_offset(name, 100, SEGMENT_SPACE, 0), None);
        assert_eq!(deposit_offset(name, 100, last, 2), None, "it would end in another generation");
        assert_eq!(deposit_offset(name, 100, last, u64::MAX), None);
    }

    #[test]
    fn places_in_regions_of_a_node_survive_the_journey() {
        let last = REGION_SPACE - 8;
        for number in 0..NODE_REGIONS as u8 {
            let name = SegmentName::of_node(3, number);
            let deposit = deposit_offset(name, 100, last, 8).unwrap();
            let place = deposit_place(deposit, 100);
            let owner = SegmentOwner::Node(0);
            assert_eq!(place, DepositPlace { owner, index: number, generation: 0, offset: last });
            assert_eq!(deposit_offset(name, 100, last, 9), None);
        }
        let none = SegmentName::of_node(3, NODE_REGIONS as u8);
        assert_eq!(deposit_offset(none, 0, 0, 1), None);
        // No rank has the number that stands for the node.
        let last = SegmentName::new(NODE_OWNED as u32, 0, 1);
        assert_eq!(deposit_offset(last, 0, 0, 1), None);
        assert!(deposit_offset(last, 1, 0, 1).is_some());
    }
}
