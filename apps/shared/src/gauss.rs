//! Solution of linear equations by elimination in shared virtual memory, with rows
//! that are announced by flags (the application Gauss of paper 002).
//!
//! A program (`clump app gauss`) mounts [`command`]. [`system`] has the equations, whose rows are
//! dealt out one by one: the owner of the next row chooses its pivot and sets the row's flag, and
//! continues; the others wait for that flag alone, not for each other. [`elimination`] are the
//! steps on one row; [`check`] is the serial version, and the residual.
//!
//! Main types: [`command::GaussArgs`], [`system::SharedSystem`].
//!
//! # Invariants
//! 1. A row sees all earlier rows in their order, whichever rank owns it: solutions are equal bit
//!    by bit for any number of ranks.
//! 2. A row is written by its owner alone, and no more once its flag is set.

pub mod check;
pub mod command;
pub mod elimination;
pub mod system;
