//! A rank's seat: offered by the agent, taken by the program.
//!
//! The agent makes a socket pair per rank and queues one message in it before the rank's program
//! starts: who the rank is, and the descriptor of the node's memory. The program inherits the other
//! end, under the number in `CLUMP_BOOT_FD`. Whichever process of the rank reads the message first is
//! the rank; so `clump run -n 4 sh -c './prog'` works, and two programs in one rank do not.

use crate::config::{Config, variable};
use crate::{Error, Result};
use clump_os::socket::{self, Received};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Names the inherited boot descriptor.
pub const BOOT_VARIABLE: &str = "CLUMP_BOOT_FD";
/// Tells scripts the number of their rank. The library does not read it.
pub const RANK_VARIABLE: &str = "CLUMP_RANK";
/// Tells scripts how many ranks there are. The library does not read it.
pub const NRANKS_VARIABLE: &str = "CLUMP_NRANKS";

const MAGIC: u64 = u64::from_le_bytes(*b"clumpbot");
const VERSION: u32 = 1;
const BYTES: usize = 48;
const FLAG_STATS: u32 = 1;
const FLAG_TERMINAL: u32 = 2;
/// What a rank tells the agent when it has taken its seat.
const HERE: &[u8] = b"here";

/// Who a rank is: what the agent tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The rank.
    pub rank: u32,
    /// Ranks of the job.
    pub nranks: u32,
    /// The node of the rank.
    pub node: u32,
    /// Nodes of the job.
    pub nnodes: u32,
    /// Random identity of the job.
    pub job_id: u64,
    /// Whether the job prints a communication summary at its end.
    pub stats: bool,
    /// Whether the launcher's error stream is a terminal: somebody may watch a progress bar.
    pub terminal: bool,
}

/// What a rank has after [`join`].
#[derive(Debug)]
pub struct Boot {
    /// This rank.
    pub rank: u32,
    /// Ranks of the job.
    pub nranks: u32,
    /// The node of this rank.
    pub node: u32,
    /// Nodes of the job.
    pub nnodes: u32,
    /// Random identity of the job.
    pub job_id: u64,
    /// The node's memory.
    pub memory: OwnedFd,
    /// The effective configuration.
    pub config: Config,
    /// Whether the job prints a communication summary at its end.
    pub stats: bool,
    /// Whether what this rank writes to its error stream ends on a terminal, by way of the launcher.
    pub terminal: bool,
    /// The connection to the agent; closed on exec, so that it ends with this process.
    pub control: OwnedFd,
}

/// Whether this process, or the process that started it, was started by `clump run`.
pub fn started_as_rank() -> bool {
    variable(BOOT_VARIABLE).is_some()
}

/// Takes this rank's seat. `None` when the program was not started by `clump run`: then it is a job of
/// one rank.
///
/// # Errors
/// [`Error::SeatTaken`] when another process of the same rank was faster, [`Error::OtherVersion`] when
/// launcher and program do not fit, and bad configuration values.
pub fn join() -> Result<Option<Boot>> {
    match variable(BOOT_VARIABLE) {
        Some(number) => take(&number).map(Some),
        None => Ok(None),
    }
}

fn take(number: &str) -> Result<Boot> {
    let config = Config::load()?;
    let taken = || Error::SeatTaken { number: number.into() };
    // A rank that has joined closes the descriptor on exec, and its child may have opened something
    // else under the same number: look before reading.
    let control = number
        .parse()
        .ok()
        .and_then(socket::inherited)
        .filter(|end| socket::is_message_socket(end))
        .ok_or_else(taken)?;
    let mut message = [0; BYTES];
    let there = socket::peek(&control, &mut message).ok_or_else(taken)?;
    Seat::decode(&message[..there])?;
    let (bytes, memory) = match socket::receive(&control, &mut message)? {
        Received::Message(bytes, Some(memory)) => (bytes, memory),
        Received::Message(_, None) => {
            return Err(Error::OtherVersion("a boot message without memory".into()));
        }
        Received::Nothing | Received::Closed => return Err(taken()),
    };
    let seat = Seat::decode(&message[..bytes])?;
    // An agent that does not hear this has died, and this rank will not live long either.
    let _ = socket::send(&control, HERE, None);
    let Seat { rank, nranks, node, nnodes, job_id, stats, terminal } = seat;
    Ok(Boot { rank, nranks, node, nnodes, job_id, memory, config, stats, terminal, control })
}

/// The agent's side: makes the pair and queues the message. The first descriptor is the rank's, which
/// the agent passes on under [`BOOT_VARIABLE`]; the second stays with the agent.
///
/// # Errors
/// What the operating system refuses.
pub fn offer(seat: &Seat, memory: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd)> {
    let (theirs, ours) = socket::message_pair()?;
    socket::send(&ours, &seat.encode(), Some(memory))?;
    Ok((theirs, ours))
}

/// The agent's side: whether the rank has taken its seat, heard on the descriptor that stayed with the
/// agent. `None` while nothing was heard; `Some(false)` when no process can take it any more.
pub fn taken(ours: impl AsFd) -> Option<bool> {
    match socket::receive(ours, &mut [0; 16]) {
        Ok(Received::Message(..)) => Some(true),
        Ok(Received::Nothing) => None,
        Ok(Received::Closed) | Err(_) => Some(false),
    }
}

impl Seat {
    fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let stats = if self.stats { FLAG_STATS } else { 0 };
        let flags = stats | if self.terminal { FLAG_TERMINAL } else { 0 };
        out[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.job_id.to_le_bytes());
        let words = [VERSION, flags, self.rank, self.nranks, self.node, self.nnodes];
        for (place, word) in out[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let other = |what: String| Error::OtherVersion(what);
        let bytes: &[u8; BYTES] = bytes
            .try_into()
            .map_err(|_| other(format!("a boot message of {} bytes, not {BYTES}", bytes.len())))?;
        let long = |at: usize| -> u64 {
            bytes[at..at + 8].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        let word = |at: usize| -> u32 { (long(at - at % 8) >> (at % 8 * 8) & 0xffff_ffff) as u32 };
        if long(0) != MAGIC {
            return Err(other("no boot message".into()));
        }
        if word(16) != VERSION {
            return Err(other(format!("boot message version {}, not {VERSION}", word(16))));
        }
        let seat = Seat {
            job_id: long(8),
            stats: word(20) & FLAG_STATS != 0,
            terminal: word(20) & FLAG_TERMINAL != 0,
            rank: word(24),
            nranks: word(28),
            node: word(32),
            nnodes: word(36),
        };
        if seat.rank >= seat.nranks || seat.node >= seat.nnodes {
            return Err(other(format!("rank {} of {}", seat.rank, seat.nranks)));
        }
        Ok(seat)
    }
}

#[cfg(test)]
mod tests;
