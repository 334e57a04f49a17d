//! Contributions through memory that the ranks of a node have in common.
//!
//! Every rank of a group writes its contribution once, into memory of its own or, if it is short,
//! into a cell that lies beside those of the others; the ranks that need it read it there. So no
//! particular rank has to be scheduled for others to go on, and a collective of ranks without cores
//! of their own costs one turn of all ranks, as a barrier does (ADR 7, 47).
//!
//! # Invariants
//! 1. Numbers of contributions only grow. A slot is written again after all members have said that
//!    they read what it held.
//! 2. A rank that ends a collective, well or not, says that it has read all of it.
//! 3. A rank that sleeps has written down what it waits for. The rank whose contribution or whose
//!    reading completes that wakes it; others leave it asleep.

pub(crate) mod area;
pub(crate) mod call;
pub(crate) mod group;
pub(crate) mod numbering;
pub(crate) mod pool;
