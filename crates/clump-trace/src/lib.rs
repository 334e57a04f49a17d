//! clump-trace.
