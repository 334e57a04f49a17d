//! Virtual time of a job: the machine that its user names, and the report at its end.

use clump_boot::virtual_machine::VirtualMachine;
use clump_shm::node::NodeMemory;
use clump_shm::virtual_time::{self, TimePlan};
use clump_virtual::ComputePlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Virtual time of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualTime {
    /// The machine.
    pub machine: VirtualMachine,
    /// Knobs that make it slower, as text; empty: none does.
    pub knobs: String,
    /// Cost of computation, as text.
    pub compute: String,
    /// Virtual nodes.
    pub nodes: u32,
}

impl VirtualTime {
    /// Returns what the memory of the node holds of it, for ranks on these virtual nodes.
    ///
    /// # Errors
    /// The machine file, the knobs or the cost of computation cannot be read.
    pub(crate) fn plan(&self, node_of: Vec<u32>) -> Result<TimePlan, String> {
        let machine = self.machine.slowed(&self.knobs)?;
        debug_assert!(node_of.is_sorted(), "ranks of a node follow each other");
        debug_assert!(node_of.iter().all(|&node| node < self.nodes), "one of the nodes");
        let ComputePlan { compute, folder } = self.compute.parse()?;
        Ok(TimePlan { machine, compute, folder, node_of })
    }
}

/// Report of a job in virtual time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualTimeReport {
    /// The machine.
    pub machine: String,
    /// Knobs that make it slower; empty: none does.
    pub knobs: String,
    /// Source of the costs of computation.
    pub compute: String,
    /// The time at which the last rank ended, in ns.
    pub ns: u64,
    /// Computation of all ranks, in virtual ns.
    pub computed_ns: u64,
    /// The part of it that no recording had.
    pub diverged_ns: u64,
    /// The part of it in which threads lost the processor, where it is measured: caches are cold
    /// then.
    pub preempted_ns: u64,
    /// Messages that were handled.
    pub messages: u64,
    /// Turns of the ranks.
    pub turns: u64,
    /// A number that all sends and receptions with their times make: equal for equal runs.
    pub digest: String,
}

impl VirtualTimeReport {
    /// Reads it from the memory of the node; `None` where time is the machine's.
    pub(crate) fn of(time: Option<&VirtualTime>, memory: &NodeMemory) -> Option<Self> {
        let time = time?;
        let sum = virtual_time::summary(memory).ok().flatten()?;
        debug_assert!(sum.ns > 0 || sum.messages == 0, "messages take time");
        debug_assert_eq!(memory.nnodes(), 1, "one machine has all virtual nodes");
        Some(Self {
            machine: time.machine.name.clone(),
            knobs: time.knobs.clone(),
            compute: time.compute.clone(),
            ns: sum.ns,
            computed_ns: sum.computed_ns,
            diverged_ns: sum.diverged_ns,
            preempted_ns: sum.preempted_ns,
            messages: sum.messages,
            turns: sum.turns,
            digest: format!("{:016x}", sum.digest),
        })
    }

    /// Returns the line of the summary; `wall_ms`: the time that the job took here.
    pub(crate) fn line(&self, wall_ms: f64) -> String {
        let Self { compute, ns, computed_ns, messages, turns, digest, .. } = self;
        let slower = if self.knobs.is_empty() { "" } else { " with " };
        let machine = [&self.machine, slower, &self.knobs].concat();
        debug_assert!(!machine.is_empty(), "it has a name, or the path of its file");
        let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let computed = *computed_ns as f64 / 1e9;
        let share = |ns: u64| 100.0 * ns as f64 / (*computed_ns).max(1) as f64;
        let of_it = match compute.split_once(':').map_or(&**compute, |(kind, _)| kind) {
            "replay" => format!(", {:.2} % of it not recorded", share(self.diverged_ns)),
            "fixed" => String::new(),
            _ => format!(", {:.2} % of it preempted", share(self.preempted_ns)),
        };
        debug_assert!(wall_ms >= 0.0 && rest < 1_000_000_000, "a time of the machine, and ns");
        format!(
            "virtual time: {whole}.{rest:09} s on {machine}, {:.3} s here; computation {compute}, \
             {computed:.6} s of all ranks{of_it}; {messages} messages, 0 late; {turns} turns; digest {digest}",
            wall_ms / 1e3
        )
    }
}
