//! PMI-1 and PMI-2: what a process says to the engine that started it, and what it hears. Pure.
//!
//! Both are lists of `name=value` that begin with `cmd`. The first version ends each with a line
//! and separates by spaces; the second says the length in six digits, and separates by semicolons,
//! of which two stand for one. The first words of the second version are a line of the first.

mod dialogue;
mod reply;

pub use dialogue::{Dialogue, EngineRequest, Version};
pub use reply::{MAX_BYTES, Reply, WireError};
