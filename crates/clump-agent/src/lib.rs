//! Starts the ranks of a job, watches them, and ensures that nothing of a job outlives it.
//!
//! Two kinds of processes. The *launcher* (`clump run`, [`launch()`]) talks to the user; the
//! *agent* ([`agent_main`]), one per node, owns the node's memory and the ranks. They share nothing
//! but a stream of [`frame`]s, so that the agent may run on another machine. Above this
//! crate is the command line; below are the node's memory (`clump-shm`) and the operating system.
//!
//! The rules of dying, of failure detection and of membership are in `clump-control`.
//!
//! Types to know: [`JobSpec`] (what to run), [`JobOutcome`] (the result),
//! [`coordinator::Coordinator`] (a job over several nodes, without sockets), [`frame::Frame`] (the
//! protocol of launcher and agents).
//!
//! # Invariants
//! 1. Every process of a job is, at every moment, killed by the kernel when the agent dies (ranks)
//!    or a descendant of a process that will kill it (agent and launcher adopt orphans).
//! 2. Output never delays the watch: pipes are read only while there is room for their output, and
//!    the watch does not wait for room.
//! 3. Everything that a rank wrote before it ended is delivered before its end is reported.
//! 4. One process decides what ends a job: its agent on one node, the launcher on several. So all
//!    nodes hear of the same deaths in the same order.
//! 5. The agent has one thread when it starts ranks, since a rank dies with the *thread* that
//!    started it.
//!
//! Reason for a launcher of our own: no other is a usable failure detector (measured: Open MPI's
//! PMIx delivers no death events, srun lets the others run on, a killed srun orphans its tasks).
#![forbid(unsafe_code)]

mod access;
mod adoption;
mod agent;
mod control_streams;
pub mod coordinator;
pub mod display;
mod engine;
pub mod frame;
mod heartbeat_socket;
pub mod hello;
mod keeper;
mod launch;
mod ledger;
mod metrics_server;
mod narrow;
mod net;
mod notice_filter;
pub mod outcome;
mod output;
mod overflow;
mod path_probe;
mod peer_keys;
mod placement;
mod print;
mod program_file;
mod rank;
mod rank_activity;
mod rank_input;
mod rank_state;
mod reach;
mod receiving;
mod refusal;
mod relay;
mod relay_frame;
pub mod report;
pub mod scene;
pub mod sharing;
mod silence;
pub mod spec;
mod spin_policy;
mod stream_watch;
mod sweep;
mod virtual_time;
pub mod waits;
mod wiring;

pub use access::{MAX_LISTENERS, loopback_listeners};
pub use agent::{AgentPlace, agent_main};
pub use clump_control::OnDeath;
pub use display::Display;
pub use engine::engine_main;
pub use launch::{StartCommand, commands, launch};
pub use outcome::JobOutcome;
pub use spec::{Bind, JobSpec};
pub use virtual_time::{VirtualTime, VirtualTimeReport};
