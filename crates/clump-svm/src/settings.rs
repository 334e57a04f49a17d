//! Settings that all ranks of a job agree on, as words of a call.

use crate::node_pages::PAGE;
use crate::protocol_step::{self, RequestExecutor, RequestKind};
use clump_boot::{Config, SvmConsistency, SvmFetch, SvmNotices, SvmProtocol};
use clump_hlrc::{Consistency, DiffTransfer, FetchRule, NoticeTransfer, PlacementTable, RangeRule};
use std::sync::{PoisonError, RwLock};

/// Settings of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolSettings {
    /// Pages of the heap.
    pub(crate) pages: u32,
    /// True if faults acquire what the page depends on.
    pub(crate) fetch_consistency: bool,
    pub(crate) notices: NoticeTransfer,
    pub(crate) fetch: FetchRule,
    pub(crate) diffs: DiffTransfer,
    /// Periods between barriers after which a page moves to its sole writer; 0: never.
    pub(crate) move_after: u8,
    /// True if stores are found by scans.
    pub(crate) scans: bool,
    /// Step of the protocol ladder.
    pub(crate) step: SvmProtocol,
}

/// Ways of diffs, by number.
const TRANSFERS: [DiffTransfer; 3] = [DiffTransfer::Runs, DiffTransfer::Pages, DiffTransfer::Home];

impl ProtocolSettings {
    /// Returns the settings that the user has chosen, for a heap of `bytes` bytes: what is not
    /// chosen is as the step of the ladder, or the program, has it. Any of them go together.
    pub(crate) fn chosen(config: &Config, bytes: u64, move_after: u8, scans: bool) -> Self {
        let step = protocol_step::step(config.svm);
        Self {
            pages: u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX),
            fetch_consistency: config.lab.svm_consistency == SvmConsistency::Fetch,
            notices: match config.lab.svm_notices {
                SvmNotices::Auto => step.notices(),
                SvmNotices::Push => NoticeTransfer::Push,
                SvmNotices::Pull => NoticeTransfer::Pull,
            },
            fetch: match config.lab.svm_fetch {
                SvmFetch::Auto => step.fetch(),
                SvmFetch::Wait => FetchRule::WaitAtHome,
                SvmFetch::Retry => FetchRule::Retry,
            },
            diffs: TRANSFERS[config.lab.svm_diffs as usize],
            move_after: match u8::try_from(config.lab.svm_move_after) {
                Ok(chosen) if chosen > 0 => chosen,
                _ => move_after,
            },
            scans,
            step: config.svm,
        }
    }

    /// Returns the guarantee for data published without a lock.
    pub(crate) fn consistency(self) -> Consistency {
        if self.fetch_consistency { Consistency::Fetch } else { Consistency::Plain }
    }

    /// Returns true if ranks fetch pages by themselves: from the step of the ladder on at which
    /// homes answer without a thread, where pages stay where they are.
    pub(crate) fn own_fetches(&self) -> bool {
        let executor = protocol_step::step(self.step).executor(RequestKind::Fetch);
        executor == RequestExecutor::Interface && self.move_after == 0
    }

    /// Returns pages and settings, as words.
    pub(crate) fn pack(self) -> [u64; 2] {
        debug_assert!(self.pages > 0, "a heap has pages");
        let bits = u64::from(self.fetch_consistency)
            | u64::from(self.scans) << 1
            | (self.step as u64) << 2
            | u64::from(self.notices == NoticeTransfer::Pull) << 5
            | u64::from(self.fetch == FetchRule::Retry) << 6
            | u64::from(self.move_after) << 8
            | (self.diffs as u64) << 16;
        [u64::from(self.pages), bits]
    }

    /// Reads what [`ProtocolSettings::pack`] wrote.
    pub(crate) fn unpack(pages: u64, settings: u64) -> Option<Self> {
        let is_set = |bit: u32| settings >> bit & 1 != 0;
        let (pull, retry) = (is_set(5), is_set(6));
        let pages = u32::try_from(pages).ok().filter(|&pages| pages > 0 && pages < 1 << 30)?;
        Some(Self {
            pages,
            fetch_consistency: is_set(0),
            notices: if pull { NoticeTransfer::Pull } else { NoticeTransfer::Push },
            fetch: if retry { FetchRule::Retry } else { FetchRule::WaitAtHome },
            diffs: *TRANSFERS.get(usize::try_from(settings >> 16).ok()?)?,
            move_after: (settings >> 8) as u8,
            scans: is_set(1),
            step: *SvmProtocol::ALL.get((settings >> 2 & 7) as usize)?,
        })
    }
}

/// Placement of an allocation's pages: their homes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Home {
    /// Consecutive pages share a home, as many for each node.
    #[default]
    Block,
    /// Page by page, each node in turn.
    Cyclic,
    /// The node that first writes a page.
    FirstWrite,
    /// This node has all pages.
    Node(usize),
}

impl Home {
    /// Returns the rule and its node, as words.
    pub(crate) fn pack(self) -> [u64; 2] {
        match self {
            Self::Block => [0, 0],
            Self::Cyclic => [1, 0],
            Self::FirstWrite => [2, 0],
            Self::Node(node) => [3, node as u64],
        }
    }
}

/// Returns the rule that [`Home::pack`] wrote.
pub(crate) fn place_rule(rule: u64, node: u64, nodes: u16) -> Option<RangeRule> {
    match rule {
        0 => Some(RangeRule::Block),
        1 => Some(RangeRule::Cyclic),
        2 => Some(RangeRule::FirstWrite),
        3 => u16::try_from(node).ok().filter(|&node| node < nodes).map(RangeRule::On),
        _ => None,
    }
}

/// Rules of allocations, by which pages have their homes; one for all threads of a rank.
#[derive(Debug)]
pub(crate) struct PlacementRules {
    pub(crate) table: RwLock<PlacementTable>,
    pub(crate) pages: u32,
    pub(crate) nodes: u16,
}

impl PlacementRules {
    /// Returns true if two pages are of one allocation of all ranks: their homes are known.
    pub(crate) fn lie_together(&self, page: u32, other: u32) -> bool {
        debug_assert!(page < self.pages, "the page exists");
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        other < self.pages && table.lie_together(page, other)
    }

    /// Returns the home of a page; none where the first use decides.
    pub(crate) fn home(&self, page: u32) -> Option<u16> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(page < self.pages, "the page exists");
        let home = table.home_of(page, self.pages, self.nodes);
        debug_assert!(home.is_none_or(|home| home < self.nodes), "a node of the job");
        home
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_hlrc::Placement;

    #[test]
    fn settings_are_read_as_they_were_written() {
        for bits in 0..1 << 4 {
            let is_set = |bit: u32| bits >> bit & 1 != 0;
            for (step, diffs) in SvmProtocol::ALL.into_iter().zip(TRANSFERS.into_iter().cycle()) {
                let settings = ProtocolSettings {
                    pages: 77,
                    fetch_consistency: is_set(0),
                    notices: if is_set(1) { NoticeTransfer::Pull } else { NoticeTransfer::Push },
                    fetch: if is_set(2) { FetchRule::Retry } else { FetchRule::WaitAtHome },
                    diffs,
                    move_after: 3 + bits,
                    scans: is_set(3),
                    step,
                };
                let [pages, rest] = settings.pack();
                assert_eq!(ProtocolSettings::unpack(pages, rest), Some(settings));
            }
        }
        assert_eq!(ProtocolSettings::unpack(0, 0), None);
        assert_eq!(ProtocolSettings::unpack(1, 6 << 2), None);
        assert_eq!(ProtocolSettings::unpack(1, 1 << 40), None);
    }

    #[test]
    fn what_is_not_chosen_is_as_the_step_and_the_program_have_it() {
        let mut config = Config::default();
        config.svm = SvmProtocol::Base;
        let chosen = |config: &Config| ProtocolSettings::chosen(config, 1 << 20, 4, true);
        let found = chosen(&config);
        assert_eq!((found.notices, found.fetch), (NoticeTransfer::Pull, FetchRule::WaitAtHome));
        assert_eq!((found.pages, found.move_after), (256, 4));
        assert_eq!((found.consistency(), found.diffs), (Consistency::Fetch, DiffTransfer::Home));
        config.lab.svm_notices = SvmNotices::Push;
        config.lab.svm_fetch = SvmFetch::Retry;
        config.lab.svm_move_after = 2;
        config.lab.svm_consistency = SvmConsistency::Plain;
        let found = chosen(&config);
        assert_eq!((found.notices, found.fetch), (NoticeTransfer::Push, FetchRule::Retry));
        assert_eq!((found.move_after, found.consistency()), (2, Consistency::Plain));
    }

    #[test]
    fn homes_are_read_as_they_were_written() {
        let rule = |home: Home| {
            let [rule, node] = home.pack();
            place_rule(rule, node, 6)
        };
        assert_eq!(rule(Home::Block), Some(RangeRule::Block));
        assert_eq!(rule(Home::Cyclic), Some(RangeRule::Cyclic));
        assert_eq!(rule(Home::FirstWrite), Some(RangeRule::FirstWrite));
        assert_eq!(rule(Home::Node(5)), Some(RangeRule::On(5)));
        assert_eq!(rule(Home::Node(6)), None);
        assert_eq!(place_rule(4, 0, 6), None);
    }

    #[test]
    fn pages_have_homes_by_the_rule_of_their_allocation() {
        let mut table = PlacementTable::default();
        assert!(table.insert(2, 4, Placement::On(1)) && table.insert(6, 2, Placement::FirstWrite));
        let rules = PlacementRules { table: RwLock::new(table), pages: 10, nodes: 2 };
        assert_eq!([2, 5].map(|page| rules.home(page)), [Some(1), Some(1)]);
        assert_eq!(rules.home(6), None, "the first use decides");
        assert_eq!([8, 9].map(|page| rules.home(page)), [Some(0), Some(1)], "of no allocation");
    }
}
