//! The clump program.
