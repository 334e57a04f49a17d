//! Page faults of ranks, as the interface of their node handles them.

use crate::local_rank::LocalRank;
use crate::settings::ProtocolSettings;
use clump_hlrc::{NodeState, PageAccess};

/// Hands a fault to the state, and asks for pages that the rank is likely to read next.
pub(crate) fn handle(
    (settings, state): (&ProtocolSettings, &mut NodeState<Vec<u8>>),
    local: &mut LocalRank,
    (rank, page, access): (u16, u32, PageAccess),
) {
    if state.access(rank, page).is_none_or(|had| had < access) && !local.ahead.awaits(page) {
        state.handle_fault(rank, page, access);
    }
    // A page that moves at a barrier must not be under way then.
    if access != PageAccess::Read || settings.move_after != 0 {
        return;
    }
    for next in local.ahead.on_fault(page) {
        // Pages of another allocation may be about to get their homes.
        let together = next < settings.pages && state.lie_together(page, next);
        let known = together && state.home_of(next).is_some();
        if known && state.access(rank, next).is_none() && !local.ahead.awaits(next) {
            local.ahead.note(next);
            state.handle_fault(rank, next, PageAccess::Read);
        }
    }
}
