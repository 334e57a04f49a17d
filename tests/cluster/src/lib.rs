//! cluster tests.
