//! Time after which memory counts as idle.

use clump_proto::Nanos;

/// Time without traffic after which memory is given back: much longer than the pauses of a program
/// that communicates, so that its buffers are made once.
pub(crate) const IDLE_NS: Nanos = 1_000_000_000;
