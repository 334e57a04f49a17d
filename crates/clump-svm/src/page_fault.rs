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
    let lacks = |state: &NodeState<_>, local: &LocalRank| {
        let lacks = state.access(rank, page).is_none_or(|had| had < access);
        lacks && !local.ahead.awaits(page)
    };
    let asked = lacks(state, local);
    if asked {
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
    // In fetch mode a fault on another page may take away one that was given ahead of this fault.
    if !asked && lacks(state, local) {
        state.handle_fault(rank, page, access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ProtocolSettings;
    use clump_boot::Config as UserSettings;
    use clump_hlrc::{
        Action, Config, Consistency, Diff, DiffHeader, FetchRule, Interval, NodeMessage,
        NoticeTransfer, PageDiff, PageVersion, Placement, TwinTime, VectorTime, WrittenPage,
    };

    fn first_of_two_nodes() -> Config {
        Config {
            node: 0,
            nodes: 2,
            ranks: 1,
            all_ranks: 2,
            pages: 16,
            placement: Placement::Cyclic,
            consistency: Consistency::Fetch,
            notices: NoticeTransfer::Push,
            fetch: FetchRule::WaitAtHome,
            twins: TwinTime::AtWrite,
            local_turns: 1,
            max_notices: 100,
            move_after: 0,
            own_fetches: false,
        }
    }

    #[test]
    fn a_page_that_is_taken_away_while_others_are_asked_for_is_asked_for_again() {
        let mut state = NodeState::new(first_of_two_nodes());
        let mut local = LocalRank::default();
        let settings = ProtocolSettings::chosen(&UserSettings::default(), 16 << 12, 0, false);
        // Page 5 was given ahead, and nothing of it was sent to the rank.
        state.handle_fault(0, 5, PageAccess::Read);
        let (version, time) = (PageVersion::default(), VectorTime::zero(2));
        let payload = Vec::new();
        state.handle_message(1, NodeMessage::Page { page: 5, version, time, payload });
        assert_eq!(state.access(0, 5), Some(PageAccess::Read));
        // What node 1 has written to page 6, at home here, depends on what it wrote to page 5.
        for (number, page) in [(1, 5), (2, 6)] {
            let pages = Box::new([page]);
            state.handle_message(
                1,
                NodeMessage::Notices(Interval { node: 1, number, epoch: 0, pages }),
            );
        }
        let mut time = VectorTime::zero(2);
        time.raise(1, 2);
        let mut payload = Vec::new();
        Diff::default().encode(&mut payload);
        let of = WrittenPage { page: 6, after: 0 };
        let diff = PageDiff { of, part: 0, parts: 1, payload };
        let header = DiffHeader { writer: 1, interval: 2, epoch: 0, time };
        state.handle_message(1, NodeMessage::Diffs(header, vec![diff]));
        while state.poll_action().is_some() {}
        local.ahead.on_fault(4);
        handle((&settings, &mut state), &mut local, (0, 5, PageAccess::Read));
        assert_eq!(state.access(0, 6), Some(PageAccess::Read), "it was asked for ahead");
        assert_eq!(state.access(0, 5), None, "it has to be fetched");
        let fetches = |action: Action<_>| {
            matches!(action, Action::Send { message: NodeMessage::Fetch { page: 5, .. }, .. })
        };
        assert!(std::iter::from_fn(|| state.poll_action()).any(fetches));
    }
}
