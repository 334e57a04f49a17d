//! Active Messages II in C: `<clump/am2.h>` on the endpoints of clump.
//!
//! Names, arguments and constants are those of the 1996 header (Mainwaring and Culler, CSD-96-918),
//! so that programs of that time compile unchanged. It shares only the job and the error texts with
//! the C interface: `AM_*` functions return codes of their own, small positive numbers.
//!
//! Layer 9: `libclump` (`clump-capi`) contains it; it calls `clump-am` directly, and `clump-ffi`
//! for the job, the border and failures.
//!
//! An endpoint is in a [`clump_am::EndpointCell`], because it may change its bundle and with that
//! its threads. The header's functions for 0 to 16 arguments are inline and call the seven
//! functions of `send` and `reply`. docs/design/am2.md maps call by call.
//!
//! # Invariants
//! 1. An `ep_t` or `eb_t` holds an index and a generation, never an address. Both are compared
//!    before anything is done. Endpoints and bundles are never deallocated, only emptied.
//! 2. The data of an endpoint beside its core ([`endpoint::Own`]) is touched only by the thread
//!    that is inside its endpoint cell, and not across a call of a handler, so that handlers may
//!    access it.
//! 3. A token is a number that is valid in one thread while its handler runs, and never again.
//! 4. Words of a message are untrusted: [`message::MessageHead`] is checked before a handler sees
//!    them.
#![allow(non_snake_case, reason = "functions have the names that they have in C")]
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]

mod bundle;
mod bundle_slot;
mod endpoint;
mod endpoint_name;
mod endpoint_slot;
mod events;
mod handlers;
mod invoke;
mod job_context;
mod limits;
mod message;
mod named_endpoint;
mod receive;
mod reply;
mod returned;
mod returned_message;
mod segment;
mod send;
mod start;
mod status;
mod table;
mod token;
mod translation_entry;
