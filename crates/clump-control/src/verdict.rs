//! The end of a job: the rank that is to blame, and the exit code.

use crate::death::{RankDeath, SIGNAL_CODE};

/// The cause of a job's end. The first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobVerdict {
    /// Every rank ended as it should.
    Clean,
    /// This rank died first.
    Death(RankDeath),
    /// The user ended the job with this signal before any rank had died.
    Interrupted(u8),
}

impl JobVerdict {
    /// Returns the code that the launcher exits with.
    pub fn exit_code(self) -> u8 {
        debug_assert!(!matches!(self, JobVerdict::Interrupted(0)), "signals begin at 1");
        let code = match self {
            JobVerdict::Clean => 0,
            JobVerdict::Death(death) => death.manner.exit_code(),
            JobVerdict::Interrupted(signal) => SIGNAL_CODE.saturating_add(signal),
        };
        debug_assert_eq!(code == 0, self == JobVerdict::Clean, "0 means success");
        code
    }
}
