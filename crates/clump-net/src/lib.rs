//! The network interface of a process: it transports messages between nodes.
//!
//! Layer 2: endpoints (`clump-am`), agents and the simulator use it; it packs messages into the
//! units of a `clump-proto` channel per peer, seals them, and sends them through a `clump-driver`.
//!
//! Types to know: [`Stack`] (one driver and everything that goes through it, pure but for the
//! driver), [`EndpointTable`] (a stack's access to endpoints), [`Batch`] (messages handed over),
//! [`seal`] (keys).
//!
//! # Invariants
//! 1. A message is handed over exactly once, or returned with a reason, whatever the network does;
//!    only a lost peer takes with it messages that it had acknowledged.
//! 2. Before a packet is authenticated it costs a counter: no state, no answer, no allocation. One
//!    that names a peer which was never talked to may cost keys, which take the place of the last
//!    such peer's.
//! 3. Memory is bounded: messages waiting to be sent, by a limit per peer; messages waiting to be
//!    handled, by the credit of each sender.
//! 4. No call blocks, and only messages to a peer wait for that peer to poll.
#![forbid(unsafe_code)]

mod batch;
mod bulk_sender;
mod burst;
mod close_handshake;
mod connection;
mod deliveries;
mod endpoint_table;
mod flow;
mod idle_time;
mod message_part;
mod order;
mod payload_pool;
mod peer;
mod peer_directory;
mod peer_maker;
mod peer_path;
mod peer_table;
mod polling;
mod reassembly;
mod schedule;
pub mod seal;
mod stack;
mod stats;
mod stream_notice;
mod stream_port;
mod transmitter;
mod tx_queue;
mod unacked_records;
mod unit_fragments;

pub use batch::{Batch, Words};
pub use endpoint_table::EndpointTable;
pub use flow::{Flow, FlowId, Flows, REQUEST_COST};
pub use message_part::Progress;
pub use peer_directory::{PeerAddress, PeerDirectory};
pub use polling::Polling;
pub use stack::{Mark, Stack, StackConfig};
pub use stats::Stats;
pub use stream_port::StreamUse;
pub use tx_queue::PackedEnd;
