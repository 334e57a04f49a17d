//! clump-am.
