//! Plans in TOML files: a name, the world, its size, the network, faults, and the seeds to run.
//!
//! The seed draws the rest. `plans/` has the scenarios of the tests.

mod link;
mod path;
mod span;
mod text;

use crate::kernel::{BasePlan, LinkFaults, PlannedFault, Time};
use crate::messages::ClusterPlan;
use crate::network::{Network, PathPlan};
use crate::onesided::{NetworkMode, OneSidedPlan, OneSidedSize};
use crate::proxies::Setting;
use std::path::Path;
use text::{PlanText, TransportText, WorldText};

/// A plan that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("plan {name}: {error}")]
    Unreadable {
        /// Name of the plan.
        name: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// No TOML, a missing field, or an unknown one.
    #[error("plan {name}: {error}")]
    Malformed {
        /// Name of the plan.
        name: String,
        /// Position and reason.
        error: Box<toml::de::Error>,
    },
    /// Fields that contradict each other.
    #[error("plan {name}: {why}")]
    Contradictory {
        /// Name of the plan.
        name: String,
        /// The reason.
        why: String,
    },
}

/// A plan with a name: which world, what is fixed in it, and which seeds to run.
#[derive(Debug, Clone)]
pub struct NamedPlan {
    name: String,
    text: PlanText,
}

/// One run of a named plan.
#[derive(Debug, Clone)]
pub enum WorldPlan {
    /// Ranks that send messages.
    Messages(ClusterPlan),
    /// Ranks that use each other's memory.
    OneSided(OneSidedPlan),
    /// Ranks with proxies.
    Proxies(Setting),
    /// A bench on a network.
    Throughput(Network),
    /// Streams on a path.
    Path(Box<PathPlan>),
}

impl NamedPlan {
    /// Reads a plan, named after its file.
    ///
    /// # Errors
    /// The file cannot be read, or [`NamedPlan::parse`] fails.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) => Err(PlanError::Unreadable { name, error }),
        }
    }

    /// Parses a plan.
    ///
    /// # Errors
    /// The text is malformed, or its fields do not fit together.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let name = name.to_owned();
        match toml::from_str::<PlanText>(text) {
            Ok(text) => {
                let plan = Self { name, text };
                plan.text.check().map_err(|why| plan.contradictory(why))?;
                Ok(plan)
            }
            Err(error) => Err(PlanError::Malformed { name, error: Box::new(error) }),
        }
    }

    /// Returns the plan's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the plan is for, in its own words.
    pub fn about(&self) -> &str {
        &self.text.about
    }

    /// Returns the seeds to run.
    pub fn seeds(&self) -> Vec<u64> {
        let known = self.text.seed.iter().map(|seed| seed.number);
        let range = self.text.seeds.as_ref().map(|seeds| seeds.first..seeds.first + seeds.count);
        known.chain(range.into_iter().flatten()).collect()
    }

    /// Returns the runs of a seed.
    ///
    /// # Errors
    /// A fault names a rank, node or site that this seed's cluster does not have.
    pub fn runs(&self, seed: u64) -> Result<Vec<WorldPlan>, PlanError> {
        let text = &self.text;
        Ok(match text.world {
            WorldText::Messages => vec![WorldPlan::Messages(self.messages(seed)?)],
            WorldText::OneSided => {
                let mut modes = match text.transport {
                    TransportText::Direct => vec![NetworkMode::Direct],
                    TransportText::Proxies => vec![NetworkMode::Proxies],
                    TransportText::Both => vec![NetworkMode::Direct, NetworkMode::Proxies],
                    TransportText::Drawn => vec![OneSidedPlan::new(seed).network_mode()],
                };
                let runs = modes.drain(..).map(|mode| self.one_sided(mode, seed));
                runs.map(|plan| plan.map(WorldPlan::OneSided)).collect::<Result<_, _>>()?
            }
            WorldText::Proxies => {
                let setting = text.setting.clone().unwrap_or_default();
                vec![WorldPlan::Proxies(Setting { seed, ..setting })]
            }
            WorldText::Throughput => {
                text.network.iter().map(|one| WorldPlan::Throughput(one.network())).collect()
            }
            WorldText::Paths => {
                let plans = text.path.iter().flat_map(|path| path.plans(seed));
                plans.map(|plan| WorldPlan::Path(Box::new(plan))).collect()
            }
        })
    }

    fn messages(&self, seed: u64) -> Result<ClusterPlan, PlanError> {
        let cluster = &self.text.cluster;
        let span = cluster.duration.map(|span| span.0);
        let mut plan = ClusterPlan::sized(seed, cluster.ranks, span);
        self.apply(&mut plan.base, plan.ranks, plan.ranks)?;
        if let Some(think) = cluster.think {
            plan.program_demand.think = think.0;
        }
        Ok(plan)
    }

    fn one_sided(&self, mode: NetworkMode, seed: u64) -> Result<OneSidedPlan, PlanError> {
        let cluster = &self.text.cluster;
        let size = OneSidedSize {
            nodes: cluster.nodes,
            ranks: cluster.ranks,
            node_for_each_rank: cluster.node_for_each_rank,
            span: cluster.duration.map(|span| span.0),
        };
        let mut plan = OneSidedPlan::sized(mode, seed, &size);
        let (ranks, nodes) = (plan.ranks(), plan.nodes());
        self.apply(&mut plan.base, ranks, nodes)?;
        plan.think = cluster.think.map_or(plan.think, |span| span.0);
        plan.hold = cluster.hold.map_or(plan.hold, |span| span.0);
        plan.uses_grid = cluster.grid.unwrap_or(plan.uses_grid);
        plan.wanted = cluster.wanted_lock.or(plan.wanted).filter(|&rank| rank < ranks);
        Ok(plan)
    }

    /// Applies the file's settings of network, clocks and faults.
    fn apply(&self, base: &mut BasePlan, ranks: u32, sites: u32) -> Result<(), PlanError> {
        let text = &self.text;
        if let Some(link) = &text.link {
            base.link = link.over(&LinkFaults::clean(base.link.delay, base.link.mtu));
        }
        text.port.over(&mut base.port);
        base.turn = text.cluster.turn.map_or(base.turn, |span| span.0);
        if text.cluster.same_clocks {
            base.clocks.fill(0);
        }
        if text.has_own_faults() {
            let sockets = base.clocks.len() as u32;
            base.faults.clear();
            for fault in &text.fault {
                for (at, fault) in fault.planned(&base.link) {
                    self.check(&fault, at, base, (ranks, sites, sockets))?;
                    base.faults.push((at, fault));
                }
            }
            base.close();
        }
        Ok(())
    }

    /// Checks that a fault is one of this plan's world and cluster.
    fn check(
        &self,
        fault: &PlannedFault,
        at: Time,
        base: &BasePlan,
        (ranks, sites, sockets): (u32, u32, u32),
    ) -> Result<(), PlanError> {
        let seed = base.seed;
        let limited = |what: &str, number: u32, count: u32| {
            let why = format!("{fault:?}: seed {seed} has {count} {what}s, and no {what} {number}");
            if number < count { Ok(()) } else { Err(self.contradictory(why)) }
        };
        let foreign = || self.contradictory(format!("this world does not support {fault:?}"));
        if at > base.heal_at {
            let why = format!("{fault:?} comes after the end of faults; set cluster.duration");
            return Err(self.contradictory(why));
        }
        let messages = self.text.world == WorldText::Messages;
        match *fault {
            PlannedFault::LinkChange { from, to, .. } | PlannedFault::OneWay { from, to, .. } => {
                limited("site", from, sites)?;
                limited("site", to, sites)
            }
            PlannedFault::Partition { sites: set, .. } => {
                limited("site", 63 - set.leading_zeros().min(63), sites)
            }
            PlannedFault::Compute { rank, .. } | PlannedFault::Kill { rank, .. } => {
                limited("rank", rank, ranks)
            }
            PlannedFault::Freeze { actor, .. } => limited("actor", actor, sockets),
            PlannedFault::LoseNode { node, .. } if !messages => limited("node", node, sites),
            PlannedFault::Restart { rank }
            | PlannedFault::Close { rank }
            | PlannedFault::Renew { rank, .. }
                if messages =>
            {
                limited("rank", rank, ranks)
            }
            PlannedFault::Narrow { .. } => Ok(()),
            _ => Err(foreign()),
        }
    }

    fn contradictory(&self, why: impl Into<String>) -> PlanError {
        PlanError::Contradictory { name: self.name.clone(), why: why.into() }
    }
}
