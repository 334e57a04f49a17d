//! Numbers of handlers, as C gives them.

use clump::am::Handler;
use clump_ffi::fault::{Result, range};
use std::ffi::c_int;

/// Converts the number of a handler.
#[inline(always)]
pub(crate) fn number(handler: c_int) -> Result<Handler> {
    let number = u8::try_from(handler).map_err(|_| range("a handler", handler, "from 0 to 255"))?;
    Ok(Handler(number))
}
