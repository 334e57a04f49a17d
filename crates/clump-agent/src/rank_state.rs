//! Translation between the words of the rules (`clump-control`) and those of the node's memory and
//! of processes.

use clump_control::{DeathManner, ProcessEnd, RankStatus};
use clump_os::process::Exit;
use clump_os::signal;
use clump_shm::job::DeathCause;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankState;

/// Returns the state of `rank`, of this node.
pub(crate) fn status_of(node: &NodeMemory, rank: u32) -> RankStatus {
    match node.peer(rank).map(|peer| peer.state()) {
        None | Some(RankState::Absent) => RankStatus::Absent,
        Some(RankState::Joined) => RankStatus::Joined,
        Some(RankState::Finalized) => RankStatus::Finalized(node.last_barrier(rank)),
        Some(RankState::Dead) => RankStatus::Dead,
    }
}

/// Returns a status as a peer record has it.
pub(crate) fn state_of(status: RankStatus) -> RankState {
    match status {
        RankStatus::Absent => RankState::Absent,
        RankStatus::Joined => RankState::Joined,
        RankStatus::Finalized(_) => RankState::Finalized,
        RankStatus::Dead => RankState::Dead,
    }
}

/// Returns the end of a process.
pub(crate) fn end_of(exit: Exit) -> ProcessEnd {
    match exit {
        Exit::Code(code) => ProcessEnd::Exit(code),
        Exit::Signal(signal) => ProcessEnd::Signal(signal),
    }
}

/// Describes the end of a process, as follows its name; `is_oom`: the kernel killed it for memory.
pub(crate) fn describe(exit: Exit, is_oom: bool) -> String {
    match exit {
        Exit::Signal(_) if is_oom => DeathCause::OutOfMemory.to_string(),
        Exit::Code(code) => format!("exited with code {code}"),
        Exit::Signal(n) => {
            let text = format!("was killed by signal {n} {}", signal::name(n));
            text.trim_end().into()
        }
    }
}

/// Returns the cause of a death as the job block has it.
pub(crate) fn cause_of(manner: DeathManner) -> DeathCause {
    match manner {
        DeathManner::Signal(n) => DeathCause::Signal(n),
        DeathManner::OutOfMemory => DeathCause::OutOfMemory,
        DeathManner::Exit(code) => DeathCause::Exit(code),
        DeathManner::NoFinalize => DeathCause::NoFinalize,
        DeathManner::NeverJoined => DeathCause::NeverJoined,
        DeathManner::Stopped => DeathCause::Stopped,
        DeathManner::Lingered => DeathCause::Lingered,
        DeathManner::NodeLost => DeathCause::NodeLost,
        DeathManner::Replaced => DeathCause::Replaced,
    }
}
