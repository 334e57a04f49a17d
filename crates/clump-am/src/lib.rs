//! Active Messages II: endpoints, virtual networks, requests and replies.
//!
//! Layer 4: programs use it through the facade `clump`, the collectives use it directly; it sends
//! and receives through `clump-shm` within a node and `clump-transport` between nodes. Semantics
//! are those of paper 000, section 2.2, and the AM-II specification it cites, with two additions:
//! handlers may queue requests ([`Token::defer`]), and blocking calls sleep instead of polling for
//! ever.
//!
//! Main types: [`Endpoint`] (used by one thread), [`SharedEndpoint`] (used by any thread),
//! [`EndpointCell`] (holds an endpoint that moves between threads), [`Token`] (a handler's right to
//! reply), [`Payload`], [`Returned`] (a message returned to its sender), [`Error`].
//!
//! # Invariants
//! 1. A request is handed to a handler exactly once, or returned to handler 0 exactly once.
//! 2. A handler sends at most one reply; it never blocks, and while a reply waits for room no
//!    further request of the same sender is handled. So replies always drain, and requests behind
//!    them.
//! 4. A `Guarded` core holds only handlers that are `Send`.
//!
//! # Sharing
//! `Endpoint` stays on its thread:
//! ```compile_fail
//! fn needs_send<T: Send>() {}
//! needs_send::<clump_am::Endpoint>();
//! ```
//! `SharedEndpoint` can move to and be used from any thread:
//! ```
//! fn needs_both<T: Send + Sync>() {}
//! needs_both::<clump_am::SharedEndpoint>();
//! ```

mod arrived_message;
mod bundle;
mod context;
mod context_nodes;
mod core;
mod delayed;
mod deposit;
mod due_messages;
mod emulation;
mod endpoint;
mod endpoint_cell;
mod error;
mod exported_segment;
mod failures;
mod give_way;
mod handler;
mod handler_context;
mod handler_failure;
mod handling;
mod idle_poll_window;
mod interfaces;
mod kept_failures;
mod layer_error;
mod message;
mod payload;
mod peer;
mod poll;
mod poll_schedule;
mod pollable;
mod progress;
mod receiver;
mod region;
mod remote_side;
mod reply_queue;
mod reply_to;
mod returned;
mod returned_counter;
mod send;
mod send_sampler;
mod sender;
mod serve;
mod short;
mod sleep;
mod spare_batch;
mod thread_number;
mod token;
mod tracing;
mod translation_table;
mod view;
mod virtual_inbox;
mod virtual_poll;
mod wait_for;
mod words;

pub use bundle::poll_also;
pub use clump_shm::name::Name;
pub use clump_shm::segment::Segment;
pub use clump_wire::Reason;
pub use context::{RankContext, Settings};
pub use context_nodes::own_actor;
pub use emulation::RequestNote;
pub use endpoint::{
    AsContext, Endpoint, Events, MultiThread, Ownership, SharedEndpoint, SingleThread,
    belongs_to_runtime, is_in_handler, polled,
};
pub use endpoint_cell::{Access, BorrowedEndpoint, EndpointCell};
pub use error::{Error, ErrorKind, Result};
pub use give_way::{give_way, note_arrival};
pub use handler::HandlerResult;
pub use handler_context::MAX_DEFERRED;
pub use handler_failure::HandlerFailure;
pub use message::{Handler, LayerPayload, MAX_ARGUMENTS, MAX_CARRIED};
pub use payload::Payload;
pub use peer::{Dest, Tag};
pub use pollable::Pollable;
pub use progress::{block_on, refresh_knobs};
pub use region::Region;
pub use returned::Returned;
pub use sender::SendAttempt;
pub use serve::{ServeStep, serve};
pub use thread_number::this_thread;
pub use token::Token;
pub use view::{LANE_STRIDE, LocalRoute, View};
pub use wait_for::WaitFor;
pub use words::{FromWords, Word, Words};
