//! A rank's boot connection: offered by the agent, taken by the program.
//!
//! The agent creates a socket pair per rank and queues one message in it before the rank's program
//! starts: the rank's identity and the descriptor of the node's memory. The program inherits the
//! other end, under the number in `CLUMP_BOOT_FD`. The first process of the rank to read the
//! message is the rank; so `clump run -n 4 sh -c './prog'` works, and two programs in one rank do
//! not.
//!
//! On a job with several nodes messages behind it carry the alarms by which the ranks of the node
//! and its network interfaces wake each other. Unless proxies drive the network for the ranks, the
//! message also carries the rank's access to it: a socket for each address, descriptors of its
//! driver (`direct`), and the key of the job.
//!
//! ```text
//! identity, 48 B
//! on several nodes: security, first local rank, local ranks, interfaces, sockets, direct; 4 B
//! each
//! with network access: key, 32 B
//! ```

use crate::config::{Config, variable};
use crate::{Error, Result};
use clump_os::scm_message::{self, MAX_DESCRIPTORS, ScmMessage};
use clump_os::secret::Secret;
use clump_os::socket::{self, Received};
use clump_wire::Security;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Variable with the number of the inherited boot descriptor.
pub const BOOT_VARIABLE: &str = "CLUMP_BOOT_FD";
/// Variable that tells scripts the number of their rank. The library does not read it.
pub const RANK_VARIABLE: &str = "CLUMP_RANK";
/// Variable that tells scripts the number of ranks. The library does not read it.
pub const NRANKS_VARIABLE: &str = "CLUMP_NRANKS";
/// Variable that tells scripts the number of their node. The library does not read it.
pub const NODE_VARIABLE: &str = "CLUMP_NODE";
/// Variable that tells scripts the number of nodes. The library does not read it.
pub const NNODES_VARIABLE: &str = "CLUMP_NNODES";
/// Every variable that tells a process of its rank.
pub const VARIABLES: [&str; 5] =
    [BOOT_VARIABLE, RANK_VARIABLE, NRANKS_VARIABLE, NODE_VARIABLE, NNODES_VARIABLE];

const MAGIC: u64 = u64::from_le_bytes(*b"clumpbot");
const VERSION: u32 = 6;
const BYTES: usize = 48;
const NET_BYTES: usize = 24;
/// Bytes of a job's key.
const KEY_BYTES: usize = 32;
const FLAG_STATS: u32 = 1;
const FLAG_TERMINAL: u32 = 2;
const FLAG_NET: u32 = 4;
const FLAG_LINE: u32 = 8;
/// First bytes of messages that carry alarms.
const ALARMS: &[u8] = b"alarms";
/// Message of a rank to the agent when it has joined.
const HERE: &[u8] = b"here";
/// Message of a rank to the agent when it leaves by itself: by finalizing, or because it fails.
const AWAY: &[u8] = b"away";

/// The identity of a rank, as the agent sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankIdentity {
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
    /// True if the job prints a communication summary at its end.
    pub stats: bool,
    /// True if the launcher's error stream is a terminal, where a user may watch a progress bar.
    pub terminal: bool,
    /// Fingerprint of the services of the node's network interfaces.
    pub services: u64,
    /// True if network data comes with it; [`offer`] decides.
    pub net: bool,
    /// True if that includes sockets of its own; [`offer`] decides.
    pub line: bool,
}

/// The resources of a rank after [`join`].
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
    /// True if the job prints a communication summary at its end.
    pub stats: bool,
    /// Fingerprint of the services of the node's network interfaces.
    pub services: u64,
    /// True if this rank's error stream ends on a terminal, by way of the launcher.
    pub terminal: bool,
    /// The connection to the agent.
    pub control: Control,
    /// This rank's access to the network; `None` on a job of one node, and where proxies have it.
    pub net: Option<RankNetwork>,
    /// Alarms that wake the ranks of this node, this one among them, and the node's network
    /// interfaces, whose numbers lie behind those of all ranks; none on a job of one node.
    pub alarms: Vec<(u32, OwnedFd)>,
}

/// A rank's connection to its agent; closed on exec, so that it ends with the program. Dropping it
/// tells the agent: so the agent distinguishes a rank that leaves by itself from one whose program
/// was replaced.
#[derive(Debug)]
pub struct Control(OwnedFd);

impl Drop for Control {
    fn drop(&mut self) {
        // An agent that does not receive this has died.
        let _ = socket::send(&self.0, AWAY, None);
    }
}

/// An event of a boot connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootSocketEvent {
    /// A process has joined as the rank.
    Joined,
    /// That process has left by itself.
    Left,
    /// No process holds the connection any more: that process has ended, or runs another program.
    Closed,
}

/// A rank's own access to the network between nodes.
#[derive(Debug)]
pub struct RankNetwork {
    /// The rank's sockets: UDP, bound to the addresses that the others know, in order.
    pub sockets: Vec<OwnedFd>,
    /// Descriptors of a driver with more direct access, for each of them; empty for UDP.
    pub direct: Vec<OwnedFd>,
    /// The key of the job.
    pub key: Secret<[u8; KEY_BYTES]>,
    /// The protection of packets.
    pub security: Security,
}

/// The agent's network data for a rank.
#[derive(Debug, Clone, Copy)]
pub struct NetworkOffer<'a> {
    /// Network access of its own, unless proxies drive the network.
    pub line: Option<NetworkAttachment<'a>>,
    /// The first rank of the node.
    pub first: u32,
    /// Network interfaces of each node.
    pub interfaces: u32,
    /// The alarms of the node's ranks, in order, and those of its network interfaces.
    pub alarms: &'a [BorrowedFd<'a>],
}

/// The resources with which a rank drives the network.
#[derive(Debug, Clone, Copy)]
pub struct NetworkAttachment<'a> {
    /// The rank's sockets, one for each address of its node.
    pub sockets: &'a [OwnedFd],
    /// Descriptors of a driver with more direct access.
    pub direct: &'a [OwnedFd],
    /// The key of the job.
    pub key: &'a Secret<[u8; KEY_BYTES]>,
    /// The protection of packets.
    pub security: Security,
}

/// Returns true if this process, or the process that started it, was started by `clump run`.
pub fn started_as_rank() -> bool {
    variable(BOOT_VARIABLE).is_some()
}

/// Joins as this rank. Returns `None` when the program was not started by `clump run`: then it is
/// a job of one rank.
///
/// # Errors
/// [`Error::SeatTaken`] when another process of the same rank was faster, [`Error::OtherVersion`]
/// when launcher and program do not fit, and bad configuration values.
pub fn join() -> Result<Option<Boot>> {
    match variable(BOOT_VARIABLE) {
        Some(number) => take(&number).map(Some),
        None => Ok(None),
    }
}

fn take(number: &str) -> Result<Boot> {
    clump_os::limit::check()?;
    let taken = || Error::SeatTaken { number: number.into() };
    // A rank that has joined closes the descriptor on exec, and its child may have opened
    // something else under the same number: check before reading.
    let control = number
        .parse()
        .ok()
        .and_then(socket::inherited)
        .filter(|end| socket::is_message_socket(end))
        .ok_or_else(taken)?;
    join_by(control, number)
}

/// Joins as the rank whose end of a boot connection this is; `number` names it in errors.
///
/// # Errors
/// As [`join`].
pub fn join_by(control: OwnedFd, number: &str) -> Result<Boot> {
    let config = Config::load()?;
    let taken = || Error::SeatTaken { number: number.into() };
    let mut message = [0; BYTES];
    let there = socket::peek(&control, &mut message).ok_or_else(taken)?;
    if message[..there].starts_with(ALARMS) {
        return Err(taken()); // by a process that is just reading on
    }
    let identity = RankIdentity::decode(&message[..there])?;
    let mut key = identity.line.then(Secret::zeroed).transpose()?;
    let mut net = [0; NET_BYTES];
    let into = key.as_mut().map_or(&mut [][..], |key| &mut key[..]);
    let count = 1 + usize::from(identity.net) + usize::from(identity.line);
    let length = [BYTES, NET_BYTES, KEY_BYTES].iter().take(count).sum::<usize>();
    let parts: &mut [&mut [u8]] = &mut [&mut message, &mut net, into];
    let parcel = scm_message::receive(&control, &mut parts[..count])?;
    let ScmMessage { bytes, descriptors } = parcel.ok_or_else(taken)?;
    let other = |what: &str| Error::OtherVersion(what.into());
    let identity = RankIdentity::decode(&message[..bytes.min(BYTES)])?;
    if bytes != length {
        return Err(other("a boot message cut short"));
    }
    let mut descriptors = descriptors.into_iter();
    let memory = descriptors.next().ok_or_else(|| other("a boot message without memory"))?;
    let (mut alarms, mut part) = (Vec::new(), None);
    let [security, first, local, interfaces, own, extra] = decode_net(&net);
    if let Some(key) = key {
        let sockets: Vec<_> = descriptors.by_ref().take(own as usize).collect();
        let direct: Vec<_> = descriptors.collect();
        if sockets.is_empty() {
            return Err(other("a boot message without a socket"));
        }
        if (sockets.len(), direct.len()) != (own as usize, extra as usize) {
            return Err(other("a boot message with more or fewer descriptors than it says"));
        }
        let known = [Security::Aead, Security::Crc].into_iter().find(|s| *s as u32 == security);
        let security = known.ok_or_else(|| other(&format!("protection number {security}")))?;
        part = Some(RankNetwork { sockets, direct, key, security });
    }
    if identity.net {
        // Network interfaces are numbered behind all ranks, those of one node after those of the
        // other.
        let behind = identity.node.saturating_mul(interfaces).saturating_add(identity.nranks);
        let ranks = (first..).take(local as usize);
        let numbers = ranks.chain((behind..).take(interfaces as usize));
        alarms = take_alarms(&control, numbers)?;
    }
    // An agent that does not receive this has died, and this rank will not live long either.
    let _ = socket::send(&control, HERE, None);
    let RankIdentity { rank, nranks, node, nnodes, job_id, stats, terminal, services, .. } =
        identity;
    let (net, control) = (part, Control(control));
    Ok(Boot {
        rank,
        nranks,
        node,
        nnodes,
        job_id,
        memory,
        config,
        stats,
        services,
        terminal,
        control,
        net,
        alarms,
    })
}

fn decode_net(bytes: &[u8; NET_BYTES]) -> [u32; NET_BYTES / 4] {
    std::array::from_fn(|at| {
        let word = &bytes[at * 4..at * 4 + 4];
        word.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte))
    })
}

/// Receives the alarms of those numbers, which come in as many messages as needed.
fn take_alarms(
    control: &OwnedFd,
    numbers: impl Iterator<Item = u32>,
) -> Result<Vec<(u32, OwnedFd)>> {
    let mut alarms: Vec<(u32, OwnedFd)> = Vec::new();
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let mut mark = [0; ALARMS.len()];
        let some = scm_message::receive(control, &mut [&mut mark])?
            .filter(|some| !some.descriptors.is_empty());
        let some = some.ok_or_else(|| Error::OtherVersion("alarms are missing".into()))?;
        for alarm in some.descriptors {
            let number =
                numbers.next().ok_or_else(|| Error::OtherVersion("too many alarms".into()))?;
            alarms.push((number, alarm));
        }
    }
    Ok(alarms)
}

/// Creates the pair and queues the message, for the agent. The first descriptor is the rank's,
/// which the agent passes on under [`BOOT_VARIABLE`]; the second stays with the agent. `net` is
/// for jobs with several nodes.
///
/// # Errors
/// Fails if the operating system refuses a system call.
pub fn offer(
    identity: &RankIdentity,
    memory: BorrowedFd<'_>,
    net: Option<&NetworkOffer<'_>>,
) -> Result<(OwnedFd, OwnedFd)> {
    let (theirs, ours) = socket::message_pair()?;
    let line = net.and_then(|net| net.line);
    let identity = RankIdentity { net: net.is_some(), line: line.is_some(), ..*identity };
    let Some(net) = net else {
        scm_message::send(&ours, &[&identity.encode()], &[memory])?;
        return Ok((theirs, ours));
    };
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let local = small(net.alarms.len()).saturating_sub(net.interfaces);
    let (security, direct) = line.map_or((0, &[][..]), |line| (line.security as u32, line.direct));
    let sockets = line.map_or(&[][..], |line| line.sockets);
    let (own, extra) = (small(sockets.len()), small(direct.len()));
    let numbers = [security, net.first, local, net.interfaces, own, extra];
    let mut words = [0; NET_BYTES];
    for (place, word) in words.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let theirs_too = sockets.iter().chain(direct).map(AsFd::as_fd);
    let all: Vec<_> = [memory].into_iter().chain(theirs_too).collect();
    let (head, key) = (identity.encode(), line.map_or(&[][..], |line| &line.key[..]));
    let parts: &[&[u8]] = &[&head, &words, key];
    scm_message::send(&ours, &parts[..2 + usize::from(line.is_some())], &all)?;
    for some in net.alarms.chunks(MAX_DESCRIPTORS) {
        scm_message::send(&ours, &[ALARMS], some)?;
    }
    Ok((theirs, ours))
}

/// Returns the next event on the descriptor that stayed with the agent; `None` if there is none.
pub fn boot_socket_event(ours: impl AsFd) -> Option<BootSocketEvent> {
    let mut said = [0; 16];
    match socket::receive(ours, &mut said) {
        Ok(Received::Message(bytes, _)) if said[..bytes] == *AWAY => Some(BootSocketEvent::Left),
        Ok(Received::Message(..)) => Some(BootSocketEvent::Joined),
        Ok(Received::Nothing) => None,
        Ok(Received::Closed) | Err(_) => Some(BootSocketEvent::Closed),
    }
}

impl RankIdentity {
    fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let stats = if self.stats { FLAG_STATS } else { 0 };
        let net = if self.net { FLAG_NET } else { 0 };
        let line = if self.line { FLAG_LINE } else { 0 };
        let flags = line | net | stats | if self.terminal { FLAG_TERMINAL } else { 0 };
        out[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.job_id.to_le_bytes());
        let words = [VERSION, flags, self.rank, self.nranks, self.node, self.nnodes];
        for (place, word) in out[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out[40..48].copy_from_slice(&self.services.to_le_bytes());
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
        let identity = RankIdentity {
            job_id: long(8),
            stats: word(20) & FLAG_STATS != 0,
            terminal: word(20) & FLAG_TERMINAL != 0,
            net: word(20) & FLAG_NET != 0,
            line: word(20) & (FLAG_NET | FLAG_LINE) == FLAG_NET | FLAG_LINE,
            rank: word(24),
            nranks: word(28),
            node: word(32),
            nnodes: word(36),
            services: long(40),
        };
        if identity.rank >= identity.nranks || identity.node >= identity.nnodes {
            return Err(other(format!("rank {} of {}", identity.rank, identity.nranks)));
        }
        Ok(identity)
    }
}

#[cfg(test)]
mod tests;
