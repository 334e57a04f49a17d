//! clump-sort.

pub mod generate;
pub mod lcg;
pub mod record;
pub mod size;
