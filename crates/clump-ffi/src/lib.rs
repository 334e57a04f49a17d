//! Handles, errors and guards for bindings of other languages: what stands between clump and a
//! program that has pointers and numbers instead of types.
//!
//! Layer 8: the C interface (`clump-capi`) and Active Messages II in C (`clump-am2`) are built on
//! it; it calls the facade `clump`. It exports no symbol itself.
//!
//! Types to know: [`slot::Slot`] (the object behind a program's pointer), [`fault::Fault`] (an
//! error on its way to the program) with its [`status::clump_status`], [`border::guard`] (the frame
//! of an exported function), [`job::JobHandle`], [`endpoint_handle::ThreadEndpoint`] and
//! [`endpoint_handle::SharedEndpointHandle`].
//!
//! # Invariants
//! 1. Nothing unwinds across the border: a body runs in a function of `border`.
//! 2. A pointer of the program is never followed before it is known to be the address of a slot, of
//!    the right kind, of this thread where that matters. An object is not closed while a call uses
//!    it.
//! 3. A failure leaves its text with the thread until the thread's next failure.
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]

mod above;
pub mod border;
mod crossing;
pub mod endpoint_handle;
pub mod fault;
pub mod inline;
mod inline_state;
pub mod job;
mod job_state;
mod owned;
pub mod slot;
mod slot_entry;
pub mod status;
pub mod thread;
