//! clump-shm.
