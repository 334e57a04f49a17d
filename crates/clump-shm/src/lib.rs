//! Queue blocks, lanes, parking and barriers in memory that the ranks of a node share.
pub mod geometry;
pub mod job;
pub mod park;
pub mod rank;
pub mod shared;
mod error;
#[cfg(not(loom))]
pub mod node;

pub use error::{Error, Result};
