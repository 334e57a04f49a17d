//! The job block: state that every process of the job must see at once, above all the first death.

use crate::geometry::MAX_NODES;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};

/// Cause of a rank's death: how it left without being requested to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    /// Killed by this signal.
    Signal(u8),
    /// Killed by the kernel's out-of-memory killer.
    OutOfMemory,
    /// Exited with this code, not zero.
    Exit(u8),
    /// Exited with code 0 after it had joined, without finalizing.
    NoFinalize,
    /// Exited with code 0 and never joined although others did.
    NeverJoined,
    /// Stopped (SIGSTOP) while all others had ended.
    Stopped,
    /// Still running when the time that `--linger` allows was over.
    Lingered,
    /// Loss of its node: the agent there died, was stopped, or could not be reached any more.
    NodeLost,
    /// Another program (exec) in its process after it had joined, without finalizing.
    Replaced,
}

impl DeathCause {
    pub(crate) fn pack(self) -> u64 {
        let (kind, code) = match self {
            DeathCause::Signal(n) => (1, n),
            DeathCause::Exit(code) => (2, code),
            DeathCause::NoFinalize => (3, 0),
            DeathCause::NeverJoined => (4, 0),
            DeathCause::Stopped => (5, 0),
            DeathCause::Lingered => (6, 0),
            DeathCause::NodeLost => (7, 0),
            DeathCause::Replaced => (8, 0),
            DeathCause::OutOfMemory => (9, 0),
        };
        let bits = kind << 8 | u64::from(code);
        debug_assert_eq!(Self::unpack(bits), Some(self), "a cause is read as it was written");
        bits
    }

    pub(crate) fn unpack(bits: u64) -> Option<Self> {
        let code = (bits & 0xff) as u8;
        Some(match bits >> 8 & 0xff {
            1 => DeathCause::Signal(code),
            2 => DeathCause::Exit(code),
            3 => DeathCause::NoFinalize,
            4 => DeathCause::NeverJoined,
            5 => DeathCause::Stopped,
            6 => DeathCause::Lingered,
            7 => DeathCause::NodeLost,
            8 => DeathCause::Replaced,
            9 => DeathCause::OutOfMemory,
            _ => return None,
        })
    }
}

impl std::fmt::Display for DeathCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeathCause::Signal(n) => write!(f, "was killed by signal {n}{}", signal_name(*n)),
            DeathCause::OutOfMemory => {
                write!(f, "was killed by the kernel: out of memory (SIGKILL)")
            }
            DeathCause::Exit(code) => write!(f, "exited with code {code}"),
            DeathCause::NoFinalize => write!(f, "left without finalizing (exit code 0)"),
            DeathCause::NeverJoined => write!(f, "ended without joining the job (exit code 0)"),
            DeathCause::Stopped => {
                write!(f, "is stopped (SIGSTOP) while all others have ended or are leaving")
            }
            DeathCause::Lingered => write!(f, "was still running when its time to linger was over"),
            DeathCause::NodeLost => write!(f, "was lost with its node"),
            DeathCause::Replaced => {
                write!(f, "runs another program (exec) and did not finalize before")
            }
        }
    }
}

fn signal_name(n: u8) -> &'static str {
    match n {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        25 => " (SIGXFSZ)",
        31 => " (SIGSYS)",
        _ => "",
    }
}

/// A rank that died, and the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// The rank.
    pub rank: u32,
    /// The cause.
    pub how: DeathCause,
}

impl Death {
    pub(crate) fn pack(self) -> u64 {
        let bits = 1 << 63 | u64::from(self.rank) << 16 | self.how.pack();
        debug_assert_eq!(Self::unpack(bits), Some(self), "a death is read as it was written");
        bits
    }

    pub(crate) fn unpack(bits: u64) -> Option<Self> {
        if bits >> 63 == 0 {
            return None;
        }
        let rank = (bits >> 16 & 0xffff_ffff) as u32;
        Some(Death { rank, how: DeathCause::unpack(bits & 0xffff)? })
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} {}", self.rank, self.how)
    }
}

/// Two cache lines for raw measurements, one per direction.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ProbeLine {
    /// The word that both sides poll.
    pub word: AtomicU64,
    rest: [AtomicU64; 7],
}

/// First page of the node's memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct JobBlock {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU64,
    pub(crate) job_id: AtomicU64,
    pub(crate) symmetric_fence: AtomicU32,
    pub(crate) survive: AtomicU32,
    pub(crate) spin_ns: AtomicU64,
    pub(crate) yield_ns: AtomicU64,
    pub(crate) node: AtomicU32,
    pub(crate) nnodes: AtomicU32,
    pub(crate) proxies: AtomicU32,
    /// Virtual nodes; 0: the time of the job is the machine's.
    pub(crate) virtual_nodes: AtomicU32,
    /// First death; zero while no rank died. In a line of its own: every waiting loop reads it.
    pub(crate) fate: DeathLine,
    pub(crate) barrier: BarrierLine,
    pub(crate) probes: [ProbeLine; 4],
    pub(crate) knobs: KnobLines,
    /// A bit for each node that reads another clock than this one.
    pub(crate) other_clocks: [AtomicU64; NODE_WORDS],
    /// A bit for each node that is lost.
    pub(crate) lost_nodes: [AtomicU64; NODE_WORDS],
}

/// Words with a bit for each node of a job.
pub(crate) const NODE_WORDS: usize = MAX_NODES / 64;

/// Most words of the laboratory's settings.
pub const KNOB_WORDS: usize = 42;

/// Settings of the laboratory, for all processes of the node: words that it alone understands.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct KnobLines {
    /// Number of changes, twice; odd during one.
    pub(crate) epoch: AtomicU64,
    pub(crate) words: [AtomicU64; KNOB_WORDS],
}

/// Words that waiting loops read to learn of deaths.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DeathLine {
    pub(crate) first_death: AtomicU64,
    pub(crate) deaths: AtomicU64,
}

/// Number of ranks that sleep in a barrier.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct BarrierLine {
    pub(crate) asleep: AtomicU32,
}

// Lines that all ranks poll, and words that they rarely write, do not share a cache line.
const _: () = assert!(size_of::<DeathLine>() == 64 && size_of::<BarrierLine>() == 64);
const _: () = assert!(size_of::<ProbeLine>() == 64);

// SAFETY: atomics only.
unsafe impl SharedLayout for BarrierLine {}
// SAFETY: atomics only.
unsafe impl SharedLayout for JobBlock {}
// SAFETY: atomics only.
unsafe impl SharedLayout for ProbeLine {}

impl JobBlock {
    /// Returns the first death of the job, if there was one.
    #[inline]
    pub fn first_death(&self) -> Option<Death> {
        Death::unpack(self.fate.first_death.load(Ordering::Acquire))
    }

    /// Returns the number of ranks that died so far.
    #[inline]
    pub fn deaths(&self) -> u64 {
        self.fate.deaths.load(Ordering::Acquire)
    }

    /// Returns true if survivors go on after a death (`--on-death continue`).
    pub fn survive(&self) -> bool {
        self.survive.load(Ordering::Relaxed) != 0
    }

    /// Returns the random identity of the job.
    pub fn id(&self) -> u64 {
        self.job_id.load(Ordering::Relaxed)
    }

    /// Returns a number that changes with the settings of the laboratory; 0 while there were none.
    #[inline]
    pub fn knob_epoch(&self) -> u64 {
        self.knobs.epoch.load(Ordering::Acquire)
    }

    /// Changes the settings of the laboratory. One process of the node at a time.
    pub fn set_knobs(&self, words: &[u64; KNOB_WORDS]) {
        let epoch = self.knobs.epoch.load(Ordering::Relaxed) | 1;
        self.knobs.epoch.store(epoch, Ordering::SeqCst);
        for (cell, word) in self.knobs.words.iter().zip(words) {
            cell.store(*word, Ordering::SeqCst);
        }
        self.knobs.epoch.store(epoch + 1, Ordering::SeqCst);
        debug_assert!(epoch % 2 == 1, "it was odd during the change");
        debug_assert!(self.knob_epoch() > epoch, "readers see the change");
    }

    /// Returns the settings of the laboratory and their epoch; `None` while they change.
    pub fn knobs(&self) -> Option<(u64, [u64; KNOB_WORDS])> {
        let epoch = self.knobs.epoch.load(Ordering::SeqCst);
        debug_assert!(self.knobs.words.len() == KNOB_WORDS, "all of them");
        let mut words = [0; KNOB_WORDS];
        for (word, cell) in words.iter_mut().zip(&self.knobs.words) {
            *word = cell.load(Ordering::SeqCst);
        }
        let again = self.knobs.epoch.load(Ordering::SeqCst);
        (epoch == again && epoch.is_multiple_of(2)).then_some((epoch, words))
    }

    /// Returns four spare cache lines for raw measurements.
    pub fn probes(&self) -> &[ProbeLine; 4] {
        &self.probes
    }
}
