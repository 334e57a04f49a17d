//! Quiets of ranks' programs: the wait until all nodes have executed what a rank has sent to them.

use super::activity::{CallerActivity, Next};
use super::caller::{Caller, CallerEnvironment};
use super::line::{CallerLine, OperationPayload};
use clump_onesided::{Completion, Refusal};

impl Caller {
    /// Begins a quiet of all nodes.
    pub(super) fn quiet(
        &mut self,
        next: Next,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        // As every call that waits does (`clump-pgas`).
        self.flush_batches(around.layout);
        let mut cookies = Vec::new();
        for node in 0..around.plan.nodes() {
            if around.memory.is_node_lost(node) {
                self.requester.lose(node);
            }
            match self.requester.quiet(node) {
                Some((cookie, encoded)) => {
                    if let Some(line) = &mut self.line {
                        line.post(node, encoded, OperationPayload::Nothing);
                    }
                    cookies.push((node, cookie));
                }
                None if self.requester.is_lost(node) => {}
                None => around.model.on_quiet_of_all(self.rank, node),
            }
        }
        CallerActivity::Quiet { cookies, next }
    }

    /// Handles answers of a quiet: returns what follows it once all are there.
    pub(super) fn grow_quiet(
        &mut self,
        mut cookies: Vec<(u32, u64)>,
        next: Next,
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let before = cookies.len();
        cookies.retain(|&(node, cookie)| {
            let owner = around.layout.node_of.iter().position(|&other| other == node);
            let place = (node, owner.unwrap_or(0) as u32);
            let Some((completion, _)) = self.end_of(cookie, place, around) else { return true };
            if let Completion::Done(_) = completion {
                around.model.on_quiet_of_all(self.rank, node);
            }
            if let Some((_, why, segment, _)) = self.requester.failure(node) {
                let owner = clump_shm::export::SegmentName::from_bits(segment).rank();
                if why == Refusal::HolderDied {
                    // A release of a lock that a rank passed on before it died, unreported.
                    around.model.on_holder_died(owner, self.rank);
                } else if !around.model.is_dead(owner) {
                    let what = format!("operations of rank {} on rank {owner}", self.rank);
                    around.model.complain(format!("{what} were refused: {why}"));
                }
            }
            false
        });
        if !cookies.is_empty() {
            let moved = cookies.len() < before;
            self.doing = CallerActivity::Quiet { cookies, next };
            return moved.then(|| std::mem::replace(&mut self.doing, CallerActivity::Nothing));
        }
        Some(match next {
            Next::Nothing => CallerActivity::Nothing,
            Next::Finish => {
                CallerActivity::Leaving(self.line.as_mut().map_or(0, CallerLine::begin_close))
            }
            Next::PutLong { owner, at, len, seed } => self.put_long((owner, at, len), seed, around),
            Next::Verify { owner, at, len } => self.verify((owner, at, len), around),
        })
    }
}
