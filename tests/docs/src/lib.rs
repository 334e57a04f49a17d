//! Tests of what README.md, the pages below docs/ and the helps print: every snippet compiles,
//! every command line is one that the programs take. `printed-commands` runs those that can be run.
//!
//! Layer 11: above everything, for the definition of the command line. Nothing depends on it.
//!
//! Types to know: [`page::Page`] and [`page::Block`], [`printed::Printed`] (a command line),
//! [`exceptions::NOT_RUN`] (those that are not run, with the reason).
//!
//! # Invariants
//! 1. A snippet that does not compile, or a command line that is refused, fails a test that names
//!    its page and line.
//! 2. A block in another language is read by what reads such files, or skipped with the reason
//!    where that is not installed; one whose language nothing reads fails (`tests/files.rs`).
//! 3. A command line is run at night, or [`exceptions::NOT_RUN`] has the reason.
#![forbid(unsafe_code)]

pub mod c_unit;
pub mod check;
pub mod exceptions;
pub mod help;
pub mod page;
pub mod printed;
