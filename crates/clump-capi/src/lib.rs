//! libclump: the C interface of clump.
//!
//! Layer 8: C and C++ programs call it; it calls the facade `clump` and the layers below. Built as
//! a shared and as a static library. The headers in `include/` are generated from these sources
//! (`cargo run -p clump-capi --example headers`), except those marked as written by hand. docs/c.md
//! is the introduction.
//!
//! Types to know: [`job::clump_t`] (the job), [`status::clump_status`] (status codes); inside,
//! `slot::Slot` (the object behind a program's pointer) and `fault::Fault` (an error on its way to
//! C).
//!
//! # Invariants
//! 1. Nothing unwinds across the border: every exported function goes through `border::guard`,
//!    cannot fail, or (`border::hot`) ends the process.
//! 2. A pointer from C is never followed before it is known to be the address of a slot, of the
//!    right kind, of this thread where that matters. An object is not closed while a call uses it.
//! 3. Memory that C passes as address and length is used only during the call that it was passed
//!    to, except handlers, their contexts, and buffers of split-phase operations, which say so.
//! 4. All numbers from C are checked before they are used as rank, handler, length or choice.
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]
#![allow(clippy::missing_safety_doc, reason = "what a caller must see to is in the text for C")]

pub mod abi;
pub mod am2;
mod border;
pub mod collective;
mod crossing;
pub mod endpoint;
mod fault;
pub mod flag;
pub mod handler;
mod inline;
pub mod job;
pub mod lock;
pub mod rma;
pub mod send;
mod slot;
pub mod status;
pub mod strided;
mod thread;
pub mod token;
pub mod words;
