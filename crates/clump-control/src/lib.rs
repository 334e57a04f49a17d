//! The rules by which a job lives and ends, as pure state machines: which death ends it, which
//! node is given up, how long anything is waited for.
//!
//! Layer 1. The agent and the launcher (`clump-agent`) feed these machines with what they observe,
//! wake them at their deadlines, and execute what they decide. Nothing here reads a clock, opens a
//! socket, starts a thread or prints a word, so tests run thousands of jobs in virtual time.
//!
//! Types to know: [`RankSupervisor`] (the rules of dying on whatever nodes), [`FailureDetector`]
//! (probes of peers, as one agent sees them), [`MembershipArbiter`] (evictions when nodes do not
//! hear each other), [`JobCoordinator`] (all of that over several nodes), [`EndRequests`] (the
//! user's patience).
//!
//! # Invariants
//! 1. No clock, socket, thread or random source: `handle_*` takes input and the time, `poll_*`
//!    gives what to do.
//! 2. A rank is declared dead at most once, and no rank after everything is being killed or the
//!    user has ended the job: what ends then, ends on demand.
//! 3. Once a job is to end there is a deadline, until everything is killed or every rank has ended.
//! 4. Everything is killed at most once, and the job finishes at most once, after every rank has
//!    ended.
//! 5. While a suspicion stands there is a deadline after which none is left between the nodes that
//!    stay.
//! 6. Nothing is said to a node that is lost.
//!
//! ```
//! use clump_control::{DeathManner, OnDeath, ProcessEnd, RankStatus, RankSupervisor};
//! use clump_control::{RankDeath, SupervisorAction};
//! let mut watch = RankSupervisor::new(2, OnDeath::End, None);
//! watch.handle_joined(0, 10);
//! watch.handle_joined(1, 10);
//! watch.handle_ended(1, ProcessEnd::Signal(9), RankStatus::Joined, 20);
//! let death = RankDeath { rank: 1, manner: DeathManner::Signal(9) };
//! assert_eq!(watch.poll_action(), Some(SupervisorAction::Declare(death)));
//! let deadline = watch.next_deadline_ns().unwrap();
//! watch.handle_timeout(deadline);
//! assert_eq!(watch.poll_action(), Some(SupervisorAction::Kill));
//! assert_eq!(watch.verdict().exit_code(), 137);
//! ```
#![forbid(unsafe_code)]

mod coordinator;
mod death;
mod end_requests;
mod event;
mod failure_detector;
mod membership_arbiter;
mod mirror_batch;
mod probe_order;
mod rank_life;
mod supervisor;
mod tally;
mod verdict;

pub use coordinator::{AgentLoss, CutOffReason, Decision, END_NS, JobCoordinator};
pub use death::{DeathManner, OnDeath, ProcessEnd, RankDeath};
pub use end_requests::{ASKED_ONCE_NS, ASKED_TWICE_NS, EndRequest, EndRequests};
pub use event::{AgentCommand, Event, FinalizedRanks, RankStatus};
pub use failure_detector::{
    BEATS, DetectorAction, FURTHER, FailureDetector, HELPERS, Heartbeat, MAX_ASKING, MISSED,
    RELAYS, STARTING,
};
pub use membership_arbiter::{Eviction, MembershipArbiter};
pub use rank_life::RankEnd;
pub use supervisor::{
    GRACE_NS, INTERRUPT_GRACE_NS, NOTICE_NS, RankSupervisor, RanksLeft, STOPPED_NS,
    SupervisorAction,
};
pub use verdict::JobVerdict;
