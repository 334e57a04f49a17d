//! Inline functions of `clump/am_fast_inline.h`: which endpoints they may use. docs/adr/0023.

use crate::endpoint_handle::ThreadEndpoint;
use crate::fault::Result;
pub use crate::inline_state::{Inline, InlineTable, clump_layout_way};
use clump::am::Dest;
use clump_am::LANE_STRIDE;
use clump_os::sync::Ordering;
use clump_os::thread;

/// Lets inline functions of this thread use an endpoint that it has just opened.
pub fn allow(mine: &ThreadEndpoint, inline: &Inline) {
    inline.view.store(std::ptr::from_ref(&*mine.1.view).cast_mut(), Ordering::Relaxed);
    inline.count.store(0, Ordering::Relaxed);
    inline.stride.store(LANE_STRIDE as u64, Ordering::Relaxed);
    inline.thread.store(thread::pointer(), Ordering::Relaxed);
}

/// Updates the route of a destination that was mapped or unmapped. Updates all routes if the table
/// has moved.
///
/// # Errors
/// Inside a handler of the endpoint.
pub fn note(mine: &ThreadEndpoint, inline: &Inline, dest: Dest) -> Result<()> {
    let (endpoint, table) = (&mine.0, &mine.1);
    let (at, count) = endpoint.table_at()?;
    let mut ways = table.ways.borrow_mut();
    let moved = table.at.replace(at) != at;
    ways.resize(count, clump_layout_way::NONE);
    for (index, way) in ways.iter_mut().enumerate() {
        if moved || index == dest.0 as usize {
            let there = endpoint.local_route(Dest(index as u32))?;
            *way = there.map_or(clump_layout_way::NONE, clump_layout_way::of);
        }
    }
    inline.ways.store(ways.as_mut_ptr(), Ordering::Relaxed);
    inline.count.store(count as u64, Ordering::Relaxed);
    Ok(())
}
