//! A phase that the program times: its seconds, and its place in the trace of a rank.

use crate::team::Team;
use clump_am::{AsContext, RankContext};
use clump_os::clock;
use clump_trace::{EventKind, PhaseName};
use std::sync::Arc;

/// A phase of a program, from its beginning until it is ended or dropped. A traced rank notes both,
/// so that pictures of the trace show the phase, and `clump lab sweep` and `predict` can say by how
/// much the phases alone take longer on a slower network.
///
/// All turns of a phase are one in reports: their times are added up, and that of the slowest rank
/// counts.
#[derive(Debug)]
pub struct TimedPhase {
    context: Arc<RankContext>,
    name: PhaseName,
    begun_ns: u64,
}

impl TimedPhase {
    /// Begins a phase of this rank. Phases are told apart by the first eight bytes of their names.
    /// It is no collective: ranks that are to begin at once meet before.
    pub fn begin(team: &Team, name: &str) -> Self {
        let (context, name) = (team.context().clone(), PhaseName::of(name));
        context.note(EventKind::Phase, name.to_event());
        Self { context, name, begun_ns: clock::now_ns() }
    }

    /// Returns the seconds since the phase began.
    pub fn seconds(&self) -> f64 {
        clock::now_ns().saturating_sub(self.begun_ns) as f64 / 1e9
    }

    /// Ends the phase. Returns its seconds.
    pub fn end(self) -> f64 {
        self.seconds()
    }
}

impl Drop for TimedPhase {
    fn drop(&mut self) {
        self.context.note(EventKind::PhaseEnd, self.name.to_event());
    }
}
