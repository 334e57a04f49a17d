//! clump-sort.
