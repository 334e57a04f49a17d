//! clump-loggp.
