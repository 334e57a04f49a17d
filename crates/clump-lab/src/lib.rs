//! clump-lab.
