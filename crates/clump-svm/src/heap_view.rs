//! Mappings of the node's regions, and of the heap at an address of all ranks.

use crate::error::{ErrorKind, Result};
use crate::node_pages::PAGE;
use crate::program_globals::ProgramGlobals;
use clump_am::RankContext;
use clump_coll::{Max, Min, Team};
use clump_os::map::Mapping;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use clump_shm::region::Pages;

/// Addresses at which a heap may begin: one in each stride from the first on, far from where
/// programs, their heaps and libraries lie.
const FIRST_ADDRESS: usize = 1 << 44;
const ADDRESS_STRIDE: usize = 1 << 40;
const ADDRESSES: usize = 80;

/// Returns the name of a region of a rank's node.
pub(crate) fn own_region(context: &RankContext, number: u8) -> SegmentName {
    let name = SegmentName::of_node(context.node_number(), number);
    debug_assert_eq!(name.index(), number, "a region of that number");
    name
}

/// Opens a region, made `bytes` bytes long.
pub(crate) fn region(node: &NodeMemory, name: SegmentName, bytes: u64) -> Result<()> {
    debug_assert!(bytes > 0, "a region has bytes");
    node.open_region(name, bytes, Pages::Base)?;
    node.grow_region(name, bytes)?;
    debug_assert!(node.extent_of(name).is_some_and(|extent| extent.bytes >= bytes), "it is open");
    Ok(())
}

/// Maps a region as words.
pub(crate) fn mapped(node: &NodeMemory, name: SegmentName, bytes: u64) -> Result<Cells> {
    region(node, name, bytes)?;
    let missing = clump_shm::Error::NotANode("a region of it is not there");
    Ok(Cells::over(node.map_registered(name)?.ok_or(missing)?.0))
}

/// Maps the heap at an address that is free in all ranks, or over the program's variables.
pub(crate) fn view(
    context: &RankContext,
    team: &Team,
    heap: SegmentName,
    (bytes, globals): (u64, Option<ProgramGlobals>),
) -> Result<Mapping> {
    let place = globals.map_or((0, 0), ProgramGlobals::place);
    let packed = ((place.0 as u64) << 24) | (place.1 / PAGE) as u64;
    if team.all_reduce(packed, Min)? != team.all_reduce(packed, Max)? {
        return Err(ErrorKind::Different.into());
    }
    if globals.is_some() {
        // SAFETY: what the description has been made for (`ProgramGlobals::new`).
        let mapping = unsafe { context.node().map_registered_over(heap, place) }.ok().flatten();
        let all_have = team.all_reduce(u64::from(mapping.is_some()), Min)? == 1;
        return mapping.filter(|_| all_have).ok_or_else(|| ErrorKind::GlobalsEnclosed.into());
    }
    for number in 0..ADDRESSES {
        let address = FIRST_ADDRESS + number * ADDRESS_STRIDE;
        let mapping = context.node().map_registered_at(heap, address).ok().flatten();
        if team.all_reduce(u64::from(mapping.is_some()), Min)? == 1
            && let Some(mapping) = mapping
        {
            return Ok(mapping);
        }
    }
    Err(ErrorKind::NoAddress(bytes).into())
}
