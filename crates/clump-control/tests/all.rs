//! The rules together: many agents and a launcher in virtual time, and random events.

mod cluster;
mod orders;
mod partitions;
