//! Ranks that an engine has started, on their way to the agent of their node.

use anyhow::Context;
use clump_os::epoll::{Interest, Poller};
use clump_os::{clock, local_listener};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

/// Most connections of callers that have not said which rank they are.
const MAX_CALLERS: usize = 4096;

/// A process that has connected.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) stream: UnixStream,
    pub(crate) pid: u32,
    /// The rank that it says it is.
    pub(crate) rank: Option<u32>,
}

/// The ranks of a node on their way to the agent.
#[derive(Debug)]
pub(crate) struct Adoption {
    listener: UnixListener,
    pub(crate) callers: BTreeMap<u32, Caller>,
    next: u32,
    /// Meaning of the poller's tokens that are the listener's and the callers'.
    token: u64,
    /// True once the job can begin.
    pub(crate) is_due: bool,
    /// Time when all must have come.
    pub(crate) until_ns: u64,
    /// Other ends of the ranks' lifelines: they close with the agent.
    pub(crate) lifelines: Vec<OwnedFd>,
    /// The processes that started the ranks, until they end.
    pub(crate) starters: Vec<(u32, OwnedFd)>,
}

impl Adoption {
    /// Listens under `name`.
    pub(crate) fn open(
        (poller, token): (&Poller, u64),
        name: &str,
        limit_ms: u64,
    ) -> anyhow::Result<Self> {
        let listener = local_listener::listen(name)?;
        listener.set_nonblocking(true)?;
        poller.add(&listener, token | u64::from(u32::MAX), Interest::Read)?;
        let until_ns = clock::now_ns().saturating_add(limit_ms.saturating_mul(1_000_000));
        Ok(Self {
            listener,
            callers: BTreeMap::new(),
            next: 0,
            token,
            is_due: false,
            until_ns,
            lifelines: Vec::new(),
            starters: Vec::new(),
        })
    }

    /// Takes all connections that wait.
    pub(crate) fn accept(&mut self, poller: &Poller) -> anyhow::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A caller that is gone again, or a signal.
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                // Of no descriptors, say: it would be the same for ever.
                Err(e) => return Err(e).context("taking a rank that an engine has started"),
            };
            // Other users' processes are none of this job.
            let Ok(pid) = local_listener::peer_of(&stream) else { continue };
            if self.callers.len() >= MAX_CALLERS {
                continue;
            }
            stream.set_nonblocking(true)?;
            poller.add(&stream, self.token | u64::from(self.next), Interest::Read)?;
            self.callers.insert(self.next, Caller { stream, pid, rank: None });
            self.next += 1;
        }
    }
}
