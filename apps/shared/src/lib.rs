//! Applications in shared virtual memory, a module each: those of papers 002 and 003.
//!
//! Layer 8: a program (`clump app NAME`) mounts the options and the `run` of an application's
//! `command`; all of them use the facade alone.
//!
//! Main types: [`run::SharedRun`] (a run: phases, what ranks waited for, report),
//! [`task_queues::TaskQueues`] (tasks that ranks steal).
//!
//! # Invariants
//! 1. Each application's own are at the head of its module; those of reports in `clump-app-frame`.
#![forbid(unsafe_code)]

pub mod barnes_svm;
pub mod fft;
pub mod gauss;
pub mod jacobi;
pub mod lu;
pub mod matmul;
pub mod ocean;
pub mod radix_svm;
pub mod raytrace;
pub mod run;
pub mod task_queues;
pub mod tsp;
pub mod unstructured;
pub mod volrend;
pub mod water;
