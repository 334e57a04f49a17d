//! clump-boot.
