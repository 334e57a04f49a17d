//! What became of a job, as the agent tells the launcher, and as `--json` prints it.

use clump_shm::job::{Death, How};
use clump_trace::{Monitor, Snapshot, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a rank left without being asked to ([`How`], for the wire and for JSON).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Killed by this signal.
    Signal(u8),
    /// Exited with this code.
    Exit(u8),
    /// Left without finalizing.
    NoFinalize,
    /// Ended without joining although others joined.
    NeverJoined,
    /// Stopped while all others had ended.
    Stopped,
    /// Still running when its time was over.
    Lingered,
    /// Its node was lost.
    NodeLost,
    /// Its process runs another program.
    Replaced,
}

impl From<How> for Manner {
    fn from(how: How) -> Self {
        match how {
            How::Signal(n) => Manner::Signal(n),
            How::Exit(code) => Manner::Exit(code),
            How::NoFinalize => Manner::NoFinalize,
            How::NeverJoined => Manner::NeverJoined,
            How::Stopped => Manner::Stopped,
            How::Lingered => Manner::Lingered,
            How::NodeLost => Manner::NodeLost,
            How::Replaced => Manner::Replaced,
        }
    }
}

impl From<Manner> for How {
    fn from(manner: Manner) -> Self {
        match manner {
            Manner::Signal(n) => How::Signal(n),
            Manner::Exit(code) => How::Exit(code),
            Manner::NoFinalize => How::NoFinalize,
            Manner::NeverJoined => How::NeverJoined,
            Manner::Stopped => How::Stopped,
            Manner::Lingered => How::Lingered,
            Manner::NodeLost => How::NodeLost,
            Manner::Replaced => How::Replaced,
        }
    }
}

impl Manner {
    /// The exit code of a job whose first failing rank left like this.
    pub fn exit_code(self) -> u8 {
        match self {
            Manner::Signal(n) => 128_u8.saturating_add(n),
            Manner::Exit(code) => code,
            Manner::NoFinalize | Manner::NeverJoined | Manner::Replaced => 1,
            Manner::Stopped => 128 + clump_os::signal::KILL,
            // As timeout(1) says it.
            Manner::Lingered => 124,
            // As when clump itself fails: no rank did anything wrong.
            Manner::NodeLost => 125,
        }
    }
}

/// How the process of a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this code.
    Exit(u8),
    /// By this signal.
    Signal(u8),
    /// Not at all: it could not be killed.
    Unknown,
}

/// One rank at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankOutcome {
    /// Its process.
    pub pid: u32,
    /// How that ended.
    pub end: End,
    /// Whether it ended as a rank should.
    pub clean: bool,
}

/// What a rank was doing when a death, or the user, ended the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// The rank.
    pub rank: u32,
    /// In words, as follows "was ": `in barrier 3, for rank 2 to arrive`, `computing`, `stopped`.
    pub what: String,
    /// For how long, in ms; zero when unknown.
    pub for_ms: u64,
}

/// The first death of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeathReport {
    /// Who died first.
    pub rank: u32,
    /// How.
    pub manner: Manner,
    /// Its process.
    pub pid: u32,
    /// The number of its node.
    pub node: u32,
    /// The name of that machine.
    pub host: String,
    /// When, in ms after the start.
    pub at_ms: u64,
    /// What it was last doing.
    pub last: Doing,
    /// What the others were doing at that moment.
    pub others: Vec<Doing>,
    /// How many of the others ended by themselves in the time they were given.
    pub returned: u32,
    /// How many had to be killed.
    pub killed: u32,
    /// Whether the others went on (`--on-death continue`).
    pub continued: bool,
}

/// A node that was lost, and its ranks with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossReport {
    /// The node.
    pub node: u32,
    /// The name of that machine.
    pub host: String,
    /// The process of its agent.
    pub pid: u32,
    /// What happened: `was killed by signal 9 SIGKILL`, `has not been heard of for 2.0 s`.
    pub how: String,
    /// The ranks that were lost with it.
    pub ranks: Vec<u32>,
    /// When, in ms after the start.
    pub at_ms: u64,
    /// What the ranks of the other nodes were doing at that moment.
    pub others: Vec<Doing>,
    /// How many of them ended by themselves in the time they were given.
    pub returned: u32,
    /// How many had to be killed.
    pub killed: u32,
    /// Whether they went on (`--on-death continue`).
    pub continued: bool,
}

/// What a node knows at the end: its part of the outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePart {
    /// The node.
    pub node: u32,
    /// The name of its machine.
    pub host: String,
    /// The processes of its ranks, in order, as far as they were started.
    pub pids: Vec<u32>,
    /// What its ranks were doing when the job was told to end.
    pub doing: Vec<Doing>,
    /// Counters of its ranks, in order.
    pub counters: Vec<Snapshot>,
    /// What its network interfaces saw of themselves.
    #[serde(default)]
    pub interfaces: Vec<Monitor>,
    /// What its ranks saw of stacks of their own.
    #[serde(default)]
    pub stacks: Vec<Monitor>,
    /// Processes that its ranks had started and left running; they were killed.
    pub leftovers: Vec<String>,
    /// Processes that could not be killed.
    pub survivors: Vec<String>,
    /// The effective configuration.
    pub config: BTreeMap<String, String>,
}

/// Why a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every rank ended as it should.
    Clean,
    /// A rank died.
    Death(Box<DeathReport>),
    /// The user asked for it with this signal.
    Interrupted {
        /// The signal.
        signal: u8,
        /// What the ranks were doing at that moment.
        doing: Vec<Doing>,
        /// How many had to be killed.
        killed: u32,
    },
    /// Whoever read the job's output went away.
    Unread,
    /// Standard output could not be written any more, and that is no reader who went away.
    Unwritten {
        /// Why, and what to do.
        why: String,
    },
    /// A node of several was lost.
    NodeLost(Box<LossReport>),
    /// The only agent died.
    AgentLost {
        /// Its process.
        pid: u32,
        /// How.
        how: String,
        /// The signal that killed it, if one did.
        signal: Option<u8>,
        /// Ranks of the job.
        ranks: u32,
        /// Processes that were still there and had to be killed.
        killed: u32,
    },
    /// The job could not be started.
    Refused {
        /// Why, and what to do.
        why: String,
        /// The code to exit with.
        code: u8,
    },
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// The code that the launcher exits with: the first failing rank's.
    pub code: u8,
    /// Why it ended.
    pub ending: Ending,
    /// How packets between nodes were protected; none on one node.
    pub security: Option<String>,
    /// The machine of each node, in order.
    pub hosts: Vec<String>,
    /// Every rank, in order.
    pub ranks: Vec<RankOutcome>,
    /// From starting the first rank to the end of the last, in ms.
    pub wall_ms: f64,
    /// Processes that ranks had started and left running; they were killed.
    pub leftovers: Vec<String>,
    /// Processes that could not be killed.
    pub survivors: Vec<String>,
    /// Counters of every rank, in order.
    pub counters: Vec<Snapshot>,
    /// What the network interfaces of all nodes saw of themselves.
    pub interfaces: Vec<Monitor>,
    /// What ranks that drive the network themselves saw of their stacks.
    pub stacks: Vec<Monitor>,
    /// How the program communicated.
    pub summary: Option<Summary>,
    /// The effective configuration.
    pub config: BTreeMap<String, String>,
}

impl JobOutcome {
    /// An outcome without ranks.
    pub fn without_ranks(code: u8, ending: Ending) -> Self {
        Self {
            code,
            ending,
            security: None,
            hosts: Vec::new(),
            ranks: Vec::new(),
            wall_ms: 0.0,
            leftovers: Vec::new(),
            survivors: Vec::new(),
            counters: Vec::new(),
            interfaces: Vec::new(),
            stacks: Vec::new(),
            summary: None,
            config: BTreeMap::new(),
        }
    }

    /// Whether everything went well.
    pub fn is_clean(&self) -> bool {
        self.code == 0 && self.ending == Ending::Clean
    }
}

impl JobOutcome {
    /// Whether ranks ended by themselves, with codes of their own: then they have said why.
    pub fn explains_itself(&self) -> bool {
        let Ending::Death(death) = &self.ending else { return false };
        matches!(death.manner, Manner::Exit(_)) && death.killed == 0 && self.survivors.is_empty()
    }
}

impl DeathReport {
    /// The death as the node's memory knows it.
    pub fn death(&self) -> Death {
        Death { rank: self.rank, how: self.manner.into() }
    }
}
