//! The outcome of a job, as the agent tells the launcher, and as `--json` prints it.

pub use crate::rank_activity::RankActivity;
use crate::virtual_time::VirtualTimeReport;
use crate::waits::JobWaits;
use clump_control::{DeathManner, ProcessEnd};
use clump_os::console::JSON_FORMAT;
use clump_trace::{Intervals, Monitor, PairTraffic, Profile, Snapshot, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One rank at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankOutcome {
    /// Its process.
    pub pid: u32,
    /// The end of that process.
    #[schemars(with = "Value")]
    pub end: ProcessEnd,
    /// True if it ended as a rank should.
    pub clean: bool,
}

/// The first death of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeathReport {
    /// The first rank that died.
    pub rank: u32,
    /// The manner of its death.
    #[schemars(with = "Value")]
    pub manner: DeathManner,
    /// Its process.
    pub pid: u32,
    /// The number of its node.
    pub node: u32,
    /// The name of that machine.
    pub host: String,
    /// Time of the death, in ms after the start.
    pub at_ms: u64,
    /// Its last activity.
    pub last: RankActivity,
    /// Activity of the others at that moment.
    pub others: Vec<RankActivity>,
    /// Number of others that ended by themselves in the grace period.
    pub returned: u32,
    /// Number of others that had to be killed.
    pub killed: u32,
    /// True if the others went on (`--on-death continue`).
    pub continued: bool,
}

/// A node that was lost, and its ranks with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LossReport {
    /// The node.
    pub node: u32,
    /// The name of that machine.
    pub host: String,
    /// The process of its agent.
    pub pid: u32,
    /// Description: `was killed by signal 9 SIGKILL`, `has not been heard of for 2.0 s`.
    pub how: String,
    /// The ranks that were lost with it.
    pub ranks: Vec<u32>,
    /// Time of the loss, in ms after the start.
    pub at_ms: u64,
    /// Activity of the ranks of the other nodes at that moment.
    pub others: Vec<RankActivity>,
    /// Number of them that ended by themselves in the grace period.
    pub returned: u32,
    /// Number of them that had to be killed.
    pub killed: u32,
    /// True if they went on (`--on-death continue`).
    pub continued: bool,
}

/// A node's part of the outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOutcome {
    /// The node.
    pub node: u32,
    /// The name of its machine.
    pub host: String,
    /// The processes of its ranks, in order; only those that were started.
    pub pids: Vec<u32>,
    /// Activity of its ranks when the order to end arrived.
    pub doing: Vec<RankActivity>,
    /// Waits of its ranks when the job was interrupted.
    #[serde(default)]
    pub waits: Option<JobWaits>,
    /// Counters of its ranks, in order.
    pub counters: Vec<Snapshot>,
    /// Traffic that its ranks sent, by sender and receiver.
    #[serde(default)]
    pub traffic: Vec<PairTraffic>,
    /// Times between sends and barriers of its ranks, in order.
    #[serde(default)]
    pub intervals: Vec<Intervals>,
    /// Monitors of its network interfaces.
    #[serde(default)]
    pub interfaces: Vec<Monitor>,
    /// Monitors of stacks that its ranks drive themselves.
    #[serde(default)]
    pub stacks: Vec<Monitor>,
    /// Heartbeats of its agent; none on one node.
    #[serde(default)]
    pub heartbeats: Option<Heartbeats>,
    /// Processes that its ranks had started and left running; they were killed.
    pub leftovers: Vec<String>,
    /// Processes that could not be killed.
    pub survivors: Vec<String>,
    /// Virtual time, where that is the time of the job.
    #[serde(default)]
    pub virtual_time: Option<VirtualTimeReport>,
    /// The effective configuration.
    pub config: BTreeMap<String, String>,
}

/// Heartbeats between agents: of one of them, or the mean of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeats {
    /// Datagrams sent in a second.
    pub sent_per_s: f64,
    /// Authentic datagrams received in a second.
    pub received_per_s: f64,
}

impl Heartbeats {
    /// Returns the rates of one agent.
    pub(crate) fn new(sent: u64, received: u64, since_ns: u64) -> Self {
        debug_assert!(since_ns > 0, "an agent has run for a while");
        let rate = |count: u64| count as f64 * 1e9 / since_ns.max(1) as f64;
        Self { sent_per_s: rate(sent), received_per_s: rate(received) }
    }

    /// Returns the mean of several agents; none of none.
    pub(crate) fn mean(all: &[Self]) -> Option<Self> {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Self {
            sent_per_s: mean(|one| one.sent_per_s),
            received_per_s: mean(|one| one.received_per_s),
        })
    }
}

/// The reason why a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// Every rank ended as it should.
    Clean,
    /// A rank died.
    Death(Box<DeathReport>),
    /// The user ended the job with this signal.
    Interrupted {
        /// The signal.
        signal: u8,
        /// Activity of the ranks at that moment.
        doing: Vec<RankActivity>,
        /// Number of ranks that had to be killed.
        killed: u32,
    },
    /// The user ended the job with this signal, and the launcher did it in place of agents that did
    /// not in time.
    TakenOver {
        /// The signal.
        signal: u8,
        /// Ranks of the job.
        ranks: u32,
        /// Number of processes that were left, and were killed.
        killed: u32,
    },
    /// The reader of the job's output went away.
    Unread,
    /// Standard output could not be written any more, although its reader is there.
    Unwritten {
        /// The reason, and a remedy.
        why: String,
    },
    /// A node of several was lost.
    NodeLost(Box<LossReport>),
    /// The only agent died.
    AgentLost {
        /// Its process.
        pid: u32,
        /// Description of its end.
        how: String,
        /// The signal that killed it, if one did.
        signal: Option<u8>,
        /// True if the kernel killed it for memory.
        out_of_memory: bool,
        /// Ranks of the job.
        ranks: u32,
        /// Number of processes that were still there and had to be killed.
        killed: u32,
    },
    /// The job could not be started.
    Refused {
        /// The reason, and a remedy.
        why: String,
        /// The code to exit with.
        code: u8,
    },
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutcome {
    /// Number of the format; 0: from before it had one.
    #[serde(default)]
    pub format: u32,
    /// The code that the launcher exits with: the first failing rank's.
    pub code: u8,
    /// The reason why it ended.
    pub ending: JobEnd,
    /// Protection of packets between nodes; none on one node.
    pub security: Option<String>,
    /// The machine of each node, in order.
    pub hosts: Vec<String>,
    /// The time limit at which the job was ended, in ms; none if it was not.
    #[serde(default)]
    pub time_limit_ms: Option<u64>,
    /// Waits of the ranks when the job was interrupted.
    #[serde(default)]
    pub waits: Option<Box<JobWaits>>,
    /// Every rank, in order.
    pub ranks: Vec<RankOutcome>,
    /// From starting the first rank to the end of the last, in ms.
    pub wall_ms: f64,
    /// Processes that ranks had started and left running; they were killed.
    pub leftovers: Vec<String>,
    /// Processes that could not be killed.
    pub survivors: Vec<String>,
    /// Counters of every rank, in order.
    #[schemars(with = "Vec<BTreeMap<String, u64>>")]
    pub counters: Vec<Snapshot>,
    /// Monitors of the network interfaces of all nodes.
    #[schemars(with = "Vec<Value>")]
    pub interfaces: Vec<Monitor>,
    /// Monitors of the stacks that ranks drive themselves.
    #[schemars(with = "Vec<Value>")]
    pub stacks: Vec<Monitor>,
    /// Heartbeats of an agent, the mean of all; none on one node.
    #[serde(default)]
    pub heartbeats: Option<Heartbeats>,
    /// Communication summary of the program.
    #[schemars(with = "Option<Value>")]
    pub summary: Option<Summary>,
    /// All that is known of how it communicated; `None` where no rank joined.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub profile: Option<Box<Profile>>,
    /// Virtual time, where that is the time of the job.
    #[serde(default)]
    pub virtual_time: Option<VirtualTimeReport>,
    /// The effective configuration.
    pub config: BTreeMap<String, String>,
}

impl JobOutcome {
    /// Returns an outcome without ranks.
    pub fn without_ranks(code: u8, ending: JobEnd) -> Self {
        Self {
            format: JSON_FORMAT,
            code,
            ending,
            security: None,
            hosts: Vec::new(),
            time_limit_ms: None,
            waits: None,
            ranks: Vec::new(),
            wall_ms: 0.0,
            leftovers: Vec::new(),
            survivors: Vec::new(),
            counters: Vec::new(),
            interfaces: Vec::new(),
            stacks: Vec::new(),
            heartbeats: None,
            summary: None,
            profile: None,
            virtual_time: None,
            config: BTreeMap::new(),
        }
    }

    /// Returns true if everything went well.
    pub fn is_clean(&self) -> bool {
        self.code == 0 && self.ending == JobEnd::Clean
    }
}

impl JobOutcome {
    /// Returns true if ranks ended by themselves, with codes of their own: then they have reported
    /// why.
    pub fn explains_itself(&self) -> bool {
        let JobEnd::Death(death) = &self.ending else { return false };
        matches!(death.manner, DeathManner::Exit(_))
            && death.killed == 0
            && self.survivors.is_empty()
    }
}
