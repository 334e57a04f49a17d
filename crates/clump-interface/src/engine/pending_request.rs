//! A request to a service that ends later, and its answer.

use super::execution_context::ExecutionContext;
use crate::service::ServiceOutcome;
use clump_onesided::protocol::tell;
use clump_shm::export::SegmentName;
use clump_shm::name::Name;

/// Most requests of an endpoint that end later, at one time.
pub(super) const MAX_LATER: u32 = 64;

/// A request that ends later.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) service: usize,
    pub(super) place: (SegmentName, u64),
    /// Requests to other interfaces that have not been answered.
    pub(super) asks: u32,
    /// True if it is one of those of which an endpoint may have [`MAX_LATER`].
    pub(super) limited: bool,
}

impl PendingRequest {
    /// Answers it once it has ended.
    pub(super) fn answer(&self, outcome: ServiceOutcome, on: &mut ExecutionContext<'_>) {
        let Self { account, cookie, place: (segment, offset), .. } = *self;
        debug_assert_ne!(outcome, ServiceOutcome::Later, "it has ended");
        debug_assert_eq!(on.accounts[account].name, self.from, "it ends with its endpoint");
        match outcome {
            ServiceOutcome::Refused(why) => on.refuse(account, (cookie, why), (segment, offset)),
            ServiceOutcome::RefusedAt(why, segment) => {
                on.refuse(account, (cookie, why), (segment, 0));
            }
            _ if cookie == 0 => {}
            ServiceOutcome::Value(value) => on.answer(account, tell::VALUE, &[cookie, value]),
            ServiceOutcome::Bytes => on.answer_bytes(account, cookie),
            ServiceOutcome::Done | ServiceOutcome::Later => {
                on.answer(account, tell::DONE, &[cookie]);
            }
        }
    }
}
