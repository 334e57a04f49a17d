//! Areas of a rank: memory for the stages of its teams.

use super::area::{AREA, Front};
use super::group::StageGroup;
use clump_am::{ErrorKind, RankContext, Region, Result};
use std::sync::Arc;

/// Teams of a rank that may have stages at one time; others communicate by messages.
pub(crate) const AREAS: u32 = 16;

/// The areas of a rank, in one region.
#[derive(Debug)]
pub(crate) struct StagePool {
    context: Arc<RankContext>,
    /// Others may still read it when this rank has left, so it lives as long as the node's memory.
    region: Region,
    states: Vec<AreaState>,
}

#[derive(Debug)]
enum AreaState {
    Free,
    Used,
    /// Its team is gone here, but others may still read.
    Retired {
        group: Arc<StageGroup>,
        last: u64,
    },
}

impl StagePool {
    /// Registers the region, with one area.
    pub(crate) fn new(context: &Arc<RankContext>) -> Result<Self> {
        let region = Region::register(context, AREA, AREA * u64::from(AREAS))?;
        region.outlive_rank();
        Ok(Self { context: context.clone(), region, states: Vec::new() })
    }

    /// Returns the region.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Takes an area, cleared, for a team without number so far; `None` if there is none left.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let is_free = |state: &AreaState| match state {
            AreaState::Free => true,
            AreaState::Used => false,
            AreaState::Retired { group, last } => group.is_over(*last),
        };
        let free = self.states.iter().position(is_free);
        let index = free.unwrap_or(self.states.len());
        let area = u32::try_from(index).ok().filter(|&area| area < AREAS)?;
        self.clear(area).ok()?;
        match self.states.get_mut(index) {
            Some(state) => *state = AreaState::Used,
            None => self.states.push(AreaState::Used),
        }
        debug_assert!(self.states.len() <= AREAS as usize, "no more areas than there are");
        Some(area)
    }

    fn clear(&self, area: u32) -> Result<()> {
        let at = u64::from(area) * AREA;
        self.region.grow(at + AREA)?;
        let found = self.context.node().exported(self.region.name())?;
        let front = found.and_then(|(cells, _)| Front::new(cells, at));
        front.ok_or(ErrorKind::Overwritten)?.clear(0);
        Ok(())
    }

    /// Gives back an area that no team used.
    pub(crate) fn give_back(&mut self, area: u32) {
        if let Some(state) = self.states.get_mut(area as usize) {
            *state = AreaState::Free;
        }
    }

    /// Gives back the area of a team whose last collective ends with the contribution `last`.
    pub(crate) fn retire(&mut self, area: u32, group: Arc<StageGroup>, last: u64) {
        debug_assert!(area < AREAS, "an area of this rank");
        if let Some(state) = self.states.get_mut(area as usize) {
            *state = AreaState::Retired { group, last };
        }
    }
}
