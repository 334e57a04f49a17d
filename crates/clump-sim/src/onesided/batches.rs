//! Open batches of a simulated rank: the collector and the grid are those of `clump-pgas`.

use super::plan::OneSidedPlan;
use crate::kernel::Random;
use clump_onesided::{SpreadUpdate, Update};
use clump_pgas::NodeGrid;
use clump_pgas::collector::{Collector, CollectorBounds, Destination, OpenSlots};
use std::rc::{Rc, Weak};

/// Most updates of one operation, and of a batch.
pub(super) const UPDATES: u64 = 40;

/// A rank's segment, or a node whose interface forwards updates: its number, and its open batches.
#[derive(Debug)]
pub(crate) struct BatchPlace {
    pub(super) number: u32,
    open: OpenSlots,
    me: Weak<Self>,
}

impl Destination for BatchPlace {
    fn slots(&self) -> &OpenSlots {
        &self.open
    }

    fn kept(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }
}

fn places(count: u32) -> Vec<Rc<BatchPlace>> {
    let new = |number| {
        Rc::new_cyclic(|me: &Weak<BatchPlace>| BatchPlace {
            number,
            open: OpenSlots::default(),
            me: me.clone(),
        })
    };
    (0..count).map(new).collect()
}

/// A rank's open batches.
#[derive(Debug)]
pub(crate) struct CollectedUpdates {
    pub(super) segments: Vec<Rc<BatchPlace>>,
    pub(super) forwarders: Vec<Rc<BatchPlace>>,
    pub(super) straight: Collector<BatchPlace, Update>,
    pub(super) forwarded: Collector<BatchPlace, SpreadUpdate>,
    /// `None`: all updates go straight.
    pub(super) grid: Option<NodeGrid>,
}

impl CollectedUpdates {
    pub(crate) fn new(plan: &OneSidedPlan, random: &mut Random) -> Self {
        let bounds = CollectorBounds {
            capacity: random.between(1, UPDATES) as usize,
            max_open: random.between(1, 6) as usize,
            delay_ns: random.magnitude(1, 4 * plan.think + 1),
        };
        Self {
            segments: places(plan.ranks()),
            forwarders: places(plan.nodes()),
            straight: Collector::new(bounds),
            forwarded: Collector::new(bounds),
            grid: plan.uses_grid.then(|| NodeGrid::new(plan.nodes())),
        }
    }
}
