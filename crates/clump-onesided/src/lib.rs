//! One-sided operations as ranks and network interfaces agree on them: requests and answers, the
//! operations on words of a segment, and the requesting side as pure state machines.
//!
//! Layer 2: `clump-rma` makes requests over endpoints, `clump-interface` executes them, and
//! simulations do both over their own transports. Here are no endpoint, clock or thread.
//!
//! Main types: [`protocol`] (numbers and words of messages), [`AtomicOp`] (operations on words, the
//! same code for ranks of the node and for its interface), [`Requester`] (operations in flight),
//! [`LockTurn`] (a rank's wait for a lock of its node),
//! [`GetWindow`] (fragments of gets in flight).
//!
//! # Invariants
//! 1. Everything encoded here is decoded here, to the same; any other words are refused.
//! 2. Ranks and interfaces change a word by the same atomic operation.
//! 3. Every request is known to be executed, refused, or lost with its node.
//! 4. A buffer that a get writes to is borrowed until the get has ended, successfully or not.

mod atomic;
pub mod batch;
mod get_window;
mod lock_turn;
pub mod protocol;
mod refusal;
mod requester;
pub mod runs;
mod watched_words;

pub use atomic::{AtomicOp, Comparison, Given, Width, Word, execute};
pub use batch::{SpreadUpdate, Update};
pub use get_window::{GetWindow, MAX_AHEAD, MIN_AHEAD};
pub use lock_turn::{LockTurn, TurnStatus};
pub use refusal::Refusal;
pub use requester::{AnswerSink, Completion, EncodedRequest, Requester, Successor};
pub use runs::{AdvanceWord, Range};
pub use watched_words::{FLAG_BYTES, FlagWords, note_store, read_watched};
