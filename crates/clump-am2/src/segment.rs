//! The segment of an endpoint: memory of the program that long messages are deposited in.
//!
//! Peers write only memory that the node shares, so they deposit into a segment of clump's, of the
//! same length. Their bytes are copied to the program's memory before its handler runs.

use crate::endpoint::memory;
use crate::endpoint_slot::ep_t;
use crate::limits::MAX_SEGMENT;
use crate::named_endpoint::NamedEndpoint;
use crate::status::{AmFailure, Code, bad, call, give, in_handler};
use std::ffi::{c_int, c_void};

/// Address space that the first segment of an endpoint reserves, so that later ones can be longer.
const RESERVED: u64 = 1 << 30;

/// Implements `AM_SetSeg` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetSeg(endpoint: ep_t, address: *mut c_void, bytes: usize) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        if named.slot.cell.is_inside() {
            return Err(in_handler("AM_SetSeg"));
        }
        if address.is_null() && bytes != 0 {
            return Err(bad("a segment is memory of the program, not a null pointer"));
        }
        if bytes > MAX_SEGMENT {
            let what = format!("a segment has at most {MAX_SEGMENT} bytes (AM_MaxSegLength)");
            return Err(AmFailure::new(Code::Resource, what));
        }
        let mut inside = named.visit()?;
        if bytes != 0 {
            inside.export_growing(RESERVED, bytes as u64)?;
        }
        // SAFETY: this thread is inside; nothing is called.
        unsafe { named.slot.own(|own| own.segment = (memory(address), bytes)) };
        Ok(())
    })
}

/// Implements `AM_GetSeg` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetSeg(endpoint: ep_t, address: *mut *mut c_void, bytes: *mut usize) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| {
            let (memory, len) = own.segment;
            give(bytes, "a length", len)?;
            give(address, "an address", memory.cast())
        })
    })
}
