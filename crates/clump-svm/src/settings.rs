//! Settings that all ranks of a job agree on, as words of a call.

use clump_boot::SvmProtocol;
use clump_hlrc::{Consistency, RangeRule};

/// Settings of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolSettings {
    /// Pages of the heap.
    pub(crate) pages: u32,
    pub(crate) consistency: Consistency,
    /// Periods between barriers after which a page moves to its sole writer; 0: never.
    pub(crate) move_after: u8,
    /// True if stores are found by scans.
    pub(crate) scans: bool,
    /// Step of the protocol ladder.
    pub(crate) step: SvmProtocol,
}

impl ProtocolSettings {
    /// Returns pages and settings, as words.
    pub(crate) fn pack(self) -> [u64; 2] {
        let causal = u64::from(self.consistency == Consistency::Causal);
        debug_assert!(self.pages > 0, "a heap has pages");
        let bits = causal | u64::from(self.scans) << 1 | (self.step as u64) << 2;
        [u64::from(self.pages), bits | u64::from(self.move_after) << 8]
    }

    /// Reads what [`ProtocolSettings::pack`] wrote.
    pub(crate) fn unpack(pages: u64, settings: u64) -> Option<Self> {
        let consistency = match settings & 1 {
            0 => Consistency::Plain,
            _ => Consistency::Causal,
        };
        let scans = settings & 2 != 0;
        let step = *SvmProtocol::ALL.get((settings >> 2 & 0x3f) as usize)?;
        let pages = u32::try_from(pages).ok().filter(|&pages| pages > 0 && pages < 1 << 30)?;
        let move_after = u8::try_from(settings >> 8).ok()?;
        Some(Self { pages, consistency, move_after, scans, step })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        let all = [(Consistency::Plain, true), (Consistency::Causal, true)];
        for (consistency, scans) in all.into_iter().chain([(Consistency::Plain, false)]) {
            for step in SvmProtocol::ALL {
                let settings =
                    ProtocolSettings { pages: 77, consistency, move_after: 3, scans, step };
                let [pages, rest] = settings.pack();
                assert_eq!(ProtocolSettings::unpack(pages, rest), Some(settings));
            }
        }
        assert_eq!(ProtocolSettings::unpack(0, 0), None);
        assert_eq!(ProtocolSettings::unpack(1, 5 << 2), None);
        assert_eq!(ProtocolSettings::unpack(1, 1 << 40), None);
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
}
