//! Shared virtual memory: one heap at the same address in all ranks of all nodes, kept consistent
//! by home-based lazy release consistency (paper 003).
//!
//! Layer 6: programs use it through the facade `clump`; agents give its service to the interfaces
//! of their nodes ([`services`]). Pages lie in memory that each node owns. A rank that accesses a
//! page that it has no right on takes a signal, fetches the page from its home under a lease, or
//! calls the interface of its node through a mailbox, and continues with the page. The interface
//! runs the protocol (`clump-hlrc`): no rank is interrupted for another. On one node the hardware
//! keeps memory consistent, and no page is ever protected.
//!
//! Types to know: [`Svm`] (the heap), [`SharedArray`], [`SharedMatrix`] (data in it),
//! [`SharedMutex`], [`SharedLocks`], [`SharedFlags`] (synchronisation), [`Home`] (where pages lie),
//! [`Breakdown`] (where time goes).
//!
//! # Invariants
//! 1. A page is mapped in a rank only with the rights that the protocol has given the rank, until
//!    its next call returns.
//! 2. A rank takes its right to write from itself before it releases anything: what it writes later
//!    is found by a fault.
//! 3. A fault waits for no lock that may be held while the heap is accessed, and runs no handler of
//!    messages but that of its own answer. A mailbox needs no allocation either.
//! 4. The heap is accessed by raw copies and atomics only, never behind `&T` or `&mut T`: other
//!    processes write it.
//! 5. The interface trusts nothing in a mailbox, and accesses pages through a view of its own that
//!    no
//!    protection concerns.

mod access_engine;
mod alone;
mod array;
mod asked_reads;
mod barrier_period;
mod breakdown;
mod caller;
mod condvar;
mod deposit_keeper;
mod domain;
mod dynamic_heap;
mod dynamic_part;
mod error;
mod exclusive_pages;
mod fault_probe;
mod fetch_log;
mod foresight;
mod fragments;
mod handler_watch;
mod heap_rights;
mod heap_service;
mod heap_view;
mod held_lease;
mod home_frames;
mod keeper;
mod kept_locks;
mod late_publisher;
mod local_rank;
mod lock_habit;
mod lock_holder;
mod mailbox;
mod mutex;
mod node_locks;
mod node_pages;
mod node_protocol;
mod node_regions;
mod node_word;
mod opening;
mod own_fetch;
mod page_fault;
mod page_leases;
mod program_globals;
mod protocol_step;
mod protocol_thread;
mod published_time;
mod putting_off;
mod rank_port;
mod rank_stores;
mod rank_threads;
mod read_ahead;
mod rights_table;
mod scan_turn;
mod sent_counts;
mod settings;
#[cfg(feature = "simulation")]
mod simulated_rank;
mod store_lock;
mod svm;
mod sync_object;
mod system_call;
mod thread_barrier;
mod thread_locks;
mod thread_time;
mod time_record;
mod version_record;
mod woken_counts;
mod written_log;

pub use array::{SharedArray, SharedMatrix};
pub use breakdown::{AheadPages, Breakdown, PartSum, SentMessages, WokenRequests};
pub use clump_os::transfer::{TransferCall, TransferPart};
pub use condvar::SharedCondvar;
pub use error::{Error, ErrorKind, Result};
pub use handler_watch::end_handler_watch;
pub use heap_service::{heap_service, services};
pub use lock_holder::lock_holder;
pub use mutex::{HeldLock, SharedFlags, SharedGuard, SharedLocks, SharedMutex};
pub use opening::SvmOptions;
pub use program_globals::ProgramGlobals;
pub use settings::Home;
#[cfg(feature = "simulation")]
pub use simulated_rank::{HeapCall, PAGE_BYTES, SimulatedHeap, SimulatedRank};
pub use svm::Svm;
pub use sync_object::SyncObject;
pub use system_call::SharedPart;
pub use thread_barrier::ThreadBarrier;
