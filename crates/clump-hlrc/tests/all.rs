//! The protocol under every interleaving of short programs and under random ones, formats under any
//! bytes, and diffs against brute force.

mod deposit;
mod diffs;
mod every_interleaving;
mod formats;
mod random_programs;
mod world;
