//! Connections: a process binds a port and listens, others connect by node and port, and messages
//! go both ways; within a job, and between jobs that share a token (paper 002, section 2.3).
//!
//! Layer 6: programs use it through the facade `clump`. Within a job it is a user of active
//! messages (`clump-am`): one endpoint carries all connections of a rank, over shared memory and
//! the network alike. Between jobs each connection has a stack of its own (`clump-net`) beside the
//! rank's. Ports lie in the memory of a node (`clump-shm`); ranks of other nodes ask its network
//! interface (`clump-interface`).
//!
//! Types to know: [`Listener`], [`Connection`], [`Port`], [`Order`], [`Received`], [`Token`] (the
//! right to connect from another job), [`wait_any`], [`Error`].
//!
//! # Invariants
//! 1. A message is received exactly once, whole, in the chosen order; or its sender's connection
//!    has ended with a reason.
//! 2. Memory that a connection keeps for a program that does not receive is bounded: its window,
//!    and one message.
//! 3. No lock of a connection is held while anything is sent or a handler runs. The right to send a
//!    message is no such lock: threads wait for it only in a loop that makes progress.
//! 4. No call blocks for ever on a peer that is gone: its death, its finalization, or its silence
//!    ends the connection.
//! 5. Input of a peer is checked; a peer of another job costs only a counter until it has proved
//!    that it has the secret.
//!
//! ```
//! use clump_conn::{Connection, Listener, Order, Port, Received};
//! # fn job() -> std::sync::Arc<clump_am::RankContext> {
//! #     let config = clump_shm::node::NodeConfig::new(1);
//! #     let node = clump_shm::node::NodeMemory::create(&config).unwrap();
//! #     let context = clump_am::RankContext::new(&node, 0, Default::default()).unwrap();
//! #     node.join(0, std::process::id()).unwrap();
//! #     std::sync::Arc::new(context)
//! # }
//! # fn main() -> clump_conn::Result<()> {
//! # let cl = job();
//! let listener = Listener::bind(&cl, Port(7))?;
//! let client = Connection::connect(&cl, 0, Port(7), Order::Ordered)?;
//! let server = listener.accept()?;
//! client.send(b"hello")?;
//! client.finish()?;
//! assert_eq!(server.recv()?.as_deref(), Some(&b"hello"[..]));
//! assert_eq!(server.recv()?, None);
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod between;
mod connection;
mod deadline;
mod error;
mod far;
mod hub;
mod inbound;
mod known;
mod line;
mod listener;
mod local_route;
mod lock;
mod outbound;
mod port;
mod queue;
mod ready;
mod receive_window;
mod route;
mod token;
mod transport;
mod wait;
mod words;

pub use between::Between;
pub use clump_am::SendAttempt;
pub use clump_wire::Security;
pub use connection::{Connection, Received};
pub use error::{ConnectTarget, End, Error, Peer, Refusal, Result};
pub use listener::{Listener, MAX_WAITING};
pub use port::{Order, Port};
pub use ready::{Source, wait_any};
pub use token::Token;
