//! A model checker for the Murphi language: all states of a model, on all ranks.
//!
//! A program (`clump app murphi`) mounts [`command`]. A model is read and checked ([`reader`],
//! [`checker`]) and compiled to byte code ([`compiler`]), which [`machine`] runs. Each state is
//! packed into bits ([`packing`]) and belongs to the rank that its key names ([`store`]), to which
//! it is sent in bulk messages ([`exchange`]). The search goes level by level ([`explorer`]).
//! Errors in the text are [`clump_app_frame::diagnostic::Diagnostic`]s.
//!
//! Main types: [`tree::CheckedModel`], [`engine::StepEngine`], [`store::StateStore`],
//! [`explorer::ModelSearch`].
//!
//! # Invariants
//! 1. Counts of states and of rules that fired, and the counterexample, depend on the model and the
//!    options alone, not on ranks, nodes or the order of messages.
//! 2. A search that has not seen all states does not end as one without errors.

pub mod c_code;
pub mod cells;
pub mod checker;
pub mod checkpoint;
pub mod code;
pub mod command;
pub mod compiled;
pub mod compiler;
pub mod engine;
pub mod exchange;
pub mod explorer;
pub mod interpreter;
pub mod lexer;
pub mod machine;
pub mod models;
pub mod packing;
pub mod path;
pub mod reader;
pub mod search_result;
pub mod serial;
pub mod single;
pub mod store;
pub mod symmetry;
pub mod tree;
pub mod types;
pub mod verdict;

#[cfg(test)]
mod tests;
