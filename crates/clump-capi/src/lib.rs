//! libclump: the C interface of clump.
//!
//! Layer 10: C and C++ programs call it; it calls the facade `clump` and the layers below by way of
//! `clump-ffi`, and contains Active Messages II (`clump-am2`). Built as a shared and as a static
//! library. The headers in `include/` are generated from these sources (`cargo run -p clump-capi
//! --example headers`), except those marked as written by hand. docs/c.md is the introduction.
//!
//! Main types: [`clump_ffi::job::clump_t`] (the job), [`clump_ffi::status::clump_status`] (status
//! codes), [`clump_ffi::slot::Slot`] (the object behind a program's pointer).
//!
//! # Invariants
//! 1. Nothing unwinds across the border: every exported function goes through
//!    `clump_ffi::border::guard`, cannot fail, or (`border::hot`) ends the process.
//! 2. Memory that C passes as address and length is used only during the call that it was passed
//!    to, except handlers, their contexts, and buffers of split-phase operations, which say so.
//! 3. All numbers from C are checked before they are used as rank, handler, length or choice.
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]
#![allow(clippy::missing_safety_doc, reason = "what a caller must see to is in the text for C")]

// Its functions are part of the library.
use clump_am2 as _;

pub mod abi;
mod collective_table;
pub mod collectives;
pub mod element;
pub mod endpoint;
pub mod flag;
pub mod handler;
mod handler_number;
pub mod job;
pub mod lock;
pub mod pending;
pub mod pgas;
pub mod pgas_access;
pub mod pgas_atomic;
pub mod pgas_cache;
pub mod pgas_calls;
pub mod pgas_channel;
pub mod pgas_halo;
pub mod pgas_locks;
pub mod pgas_many;
pub mod pgas_mutex;
pub mod pgas_objects;
pub mod pgas_queues;
pub mod pgas_sync;
pub mod rma;
pub mod send;
pub mod status;
pub mod strided;
pub mod svm;
pub mod svm_sync;
pub mod svm_transfer;
pub mod svm_workers;
mod svm_workers_globals;
pub mod team;
pub mod team_bytes;
pub mod team_elements;
pub mod team_start;
pub mod threads;
mod threads_arguments;
pub mod threads_files;
pub mod threads_gather;
mod threads_globals;
mod threads_heap;
mod threads_kernel;
pub mod threads_kernel_calls;
pub mod threads_keys;
pub mod threads_main;
pub mod threads_maps;
pub mod threads_memory;
pub mod threads_mutex;
mod threads_object;
pub mod threads_odd_calls;
pub mod threads_others;
pub mod threads_output;
#[cfg(target_arch = "x86_64")]
pub mod threads_print;
mod threads_timed;
pub mod token;
pub mod virtual_time;
pub mod words;
