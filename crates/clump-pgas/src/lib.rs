//! A global address space, as Split-C has it: global pointers, arrays spread over all ranks,
//! split-phase operations, and aggregation of small ones.
//!
//! Layer 6: programs use it through the facade `clump`. It executes operations through one-sided
//! ones (`clump-rma`), so they never wait for the rank that they concern, and meets other ranks by
//! collectives (`clump-coll`).
//!
//! Main types: [`Pgas`] (a thread's access), [`Spread`] (an array over all ranks),
//! [`GlobalPtr`] (an element's address), [`GlobalRef`] (an element, to operate on), [`Phase`]
//! (gets that complete together), [`GlobalMutex`] (a value under a lock), [`RemoteCalls`]
//! (functions called at other ranks), [`Halo`] (boundaries of neighbours), [`ObjectCache`]
//! (copies of objects of other nodes), [`LockArray`] (locks over all ranks), [`CostZones`]
//! (equal shares of work), [`WorkQueues`] (tasks that ranks steal), [`BulkChannel`] (one-way
//! sends of any length), [`PgasOptions`] and [`Aggregation`] (bounds and counters of
//! aggregation), [`collector::Collector`] and [`NodeGrid`] (its pure parts, which simulations
//! run, too).
//!
//! # Completion
//! 1. Blocking operations (`read`, `write`, [`Pending::wait`]) have happened when they return.
//! 2. Puts, and atomics without a result, have happened when [`Pgas::sync`] returns at the rank
//!    that began them.
//! 3. Gets have happened at the closing brace of [`Pgas::phase`].
//! 4. Stores have landed at a rank when its [`Pgas::store_sync`] has counted their bytes, and
//!    everywhere when [`Pgas::all_store_sync`] returns. A count does not distinguish senders: where
//!    several store to a rank, round after round, use a [`Halo`].
//! 5. Operations between two such points have no order. Programs that need none get the same
//!    results with aggregation and without.
//!
//! # Invariants
//! 1. Nothing outside an array, or outside the memory that a pointer was made of, is accessed: that
//!    is an error of the rank that tries, before anything is sent.
//! 2. An update is in one open batch, or was sent, exactly once.
//! 3. Open batches are bounded in number and size, and old ones are sent before new ones are begun.
//! 4. No batch is open while the rank waits for another.
//! 5. The count of stored bytes follows the stores that it counts, to every node, by the same
//!    route.
#![forbid(unsafe_code)]

mod aggregator;
mod borrowed_call;
mod bulk_channel;
mod cache_table;
mod call_answers;
mod call_outbox;
mod call_record;
mod call_sender;
pub mod collector;
mod cost_zones;
mod dist;
mod element;
mod element_fn;
mod error;
mod executed_batch;
mod global_ptr;
mod global_ref;
mod grid;
mod halo;
mod layout;
mod local_part;
mod lock_array;
mod many;
mod mutex;
mod object_cache;
mod pending;
mod pending_call;
mod pgas;
mod phase;
mod remote_calls;
mod remote_context;
mod remote_fn;
mod ring;
mod spread;
mod stored;
mod strided;
mod termination;
mod work_queues;

pub use aggregator::{Aggregation, PgasOptions};
pub use borrowed_call::BorrowedForm;
pub use bulk_channel::BulkChannel;
pub use cache_table::CacheCounts;
pub use cost_zones::CostZones;
pub use dist::Dist;
pub use element::{AtomicElement, Bits, Element};
pub use element_fn::ElementFn;
pub use error::{Error, ErrorKind, Result};
pub use global_ptr::GlobalPtr;
pub use global_ref::GlobalRef;
pub use grid::NodeGrid;
pub use halo::{Halo, HaloNeighbour};
pub use layout::{ElementPlace, Layout, SpreadLayout};
pub use local_part::LocalPart;
pub use lock_array::{LockArray, LockAttempts, LockKind};
pub use mutex::{GlobalGuard, GlobalMutex};
pub use object_cache::{ByteClass, CacheClass, CacheRequests, ObjectCache};
pub use pending::Pending;
pub use pending_call::PendingCall;
pub use pgas::Pgas;
pub use phase::Phase;
pub use remote_calls::RemoteCalls;
pub use remote_context::RemoteContext;
pub use remote_fn::{DistName, RawBytes, RemoteFn};
pub use spread::Spread;
pub use strided::BlockStride;
pub use work_queues::{WorkCounts, WorkQueues};
