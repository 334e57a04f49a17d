//! clump.
