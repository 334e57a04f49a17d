//! clump-coll.
