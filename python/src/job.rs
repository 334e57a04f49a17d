//! The job of this process: its runtime object, its endpoint, and what belongs to one thread.

use crate::bytes::Chunk;
use crate::error::{FailureKind, failure, failure_of, interrupt};
use crate::mailbox::{FragmentWords, Mailbox, MessageFailure};
use crate::owner::OwnerBound;
use clump::Clump;
use clump::pgas::Pgas;
use clump::rma::{LockTable, Segment, SegmentName};
use clump_am::{Dest, Endpoint, Handler, Payload, Reason, SharedEndpoint, Tag, Token};
use clump_os::sync::{AtomicU64, Ordering};
use pyo3::prelude::*;
use std::cell::{Cell, OnceCell};
use std::sync::{Arc, OnceLock};

/// Handler of fragments.
const FRAGMENT: Handler = Handler(1);
/// Access right to the endpoint of this package.
const TAG: Tag = Tag(0x7079_0001);

static WORLD: OnceLock<JoinedJob> = OnceLock::new();

/// State that the joining thread alone uses.
pub(crate) struct OwnerState {
    pub(crate) pgas: Pgas,
    /// Kind of the updates that this thread began since the last synchronization; 0: none.
    pub(crate) begun: Cell<u32>,
    /// Sets of locks.
    pub(crate) locks: std::cell::RefCell<Vec<LockSet>>,
}

/// Locks that all ranks have exported together.
pub(crate) struct LockSet {
    /// Those of this rank.
    pub(crate) _exported: Segment,
    /// Those of each rank, mapped by their first use.
    pub(crate) homes: Vec<(SegmentName, OnceCell<LockTable>)>,
}

/// The job, joined.
pub(crate) struct JoinedJob {
    clump: Clump,
    endpoint: SharedEndpoint,
    dests: Vec<Dest>,
    mailbox: Arc<Mailbox>,
    owner: OwnerBound<OwnerState>,
    messages: AtomicU64,
}

/// Returns the job if this process has joined it.
#[inline]
pub(crate) fn joined() -> Option<&'static JoinedJob> {
    WORLD.get()
}

/// Returns the job.
///
/// # Errors
/// Fails before this process has joined, and in children by `fork`.
#[inline]
pub(crate) fn world() -> PyResult<&'static JoinedJob> {
    if clump_os::forked::is_child() {
        return Err(forked());
    }
    WORLD.get().ok_or_else(|| {
        failure(FailureKind::Start, "clump.init() or clump.world() joins the job first")
    })
}

/// Returns the error for a call in a child by `fork`.
pub(crate) fn forked() -> PyErr {
    failure(
        FailureKind::Forked,
        "this process is a child by fork of a rank, and no rank itself: nothing of clump works in \
         it. Start processes by multiprocessing's spawn or forkserver, or use clump.Executor",
    )
}

impl JoinedJob {
    /// Returns the runtime object.
    pub(crate) fn clump(&self) -> &Clump {
        &self.clump
    }

    /// Returns the endpoint of this package's messages.
    pub(crate) fn endpoint(&self) -> &SharedEndpoint {
        &self.endpoint
    }

    /// Returns the messages that have arrived.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Returns what belongs to the joining thread.
    ///
    /// # Errors
    /// Fails on another thread.
    #[inline]
    pub(crate) fn owner(&self) -> PyResult<&OwnerState> {
        self.owner.get()
    }

    /// Returns the destination of a rank.
    ///
    /// # Errors
    /// Fails if the job has no such rank.
    pub(crate) fn dest(&self, rank: usize) -> PyResult<Dest> {
        let nranks = self.dests.len();
        self.dests.get(rank).copied().ok_or_else(|| {
            pyo3::exceptions::PyValueError::new_err(format!(
                "there is no rank {rank} in a job of {nranks} ranks"
            ))
        })
    }

    /// Raises the failure of a message, if there is one.
    pub(crate) fn report(&self) -> PyResult<()> {
        match self.mailbox.take_failure() {
            Some(MessageFailure { kind, rank, why }) => {
                Err(interrupt().unwrap_or_else(|| failure_of(kind, &why, Some(rank))))
            }
            None => Ok(()),
        }
    }

    /// Sends a message in fragments. Nobody changes the chunks meanwhile.
    ///
    /// # Errors
    /// Fails if the wait for room does.
    pub(crate) fn send(
        &self,
        dest: Dest,
        words: [u64; 2],
        parts: &[Chunk],
    ) -> clump_am::Result<()> {
        let (most, number) =
            (self.endpoint.max_medium(), self.messages.fetch_add(1, Ordering::Relaxed));
        let total: usize = parts.iter().map(Chunk::len).sum();
        let mut offset = 0;
        let mut gathered = Vec::new();
        let send = |offset: usize, bytes: &[u8]| {
            let words = [words[0], words[1], number, total as u64, offset as u64];
            self.endpoint.request_bulk(dest, FRAGMENT, bytes, &words)
        };
        for part in parts {
            // SAFETY: the caller keeps the objects, and nobody changes them.
            let mut bytes = unsafe { part.bytes() };
            while !bytes.is_empty() {
                if gathered.is_empty() && bytes.len() >= most {
                    let (whole, rest) = bytes.split_at(most);
                    send(offset, whole)?;
                    offset += whole.len();
                    bytes = rest;
                    continue;
                }
                let (now, rest) = bytes.split_at(bytes.len().min(most - gathered.len()));
                gathered.extend_from_slice(now);
                bytes = rest;
                if gathered.len() == most {
                    send(offset, &gathered)?;
                    offset += gathered.len();
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() || total == 0 {
            send(offset, &gathered)?;
        }
        Ok(())
    }
}

/// Joins, if this process has not.
///
/// # Errors
/// Fails if this process cannot join, or if a rank died meanwhile.
pub(crate) fn open() -> clump::Result<()> {
    if WORLD.get().is_some() {
        return Ok(());
    }
    let clump = clump::init()?;
    let endpoint = Endpoint::open_shared(&clump, TAG)?;
    let mailbox = Arc::new(Mailbox::default());
    let arrived = mailbox.clone();
    endpoint.handler_bulk(FRAGMENT, move |_: Token, words: FragmentWords, data: Payload| {
        if let Err(why) = arrived.take_in(words, data) {
            arrived.fail(MessageFailure { kind: FailureKind::Clump, rank: words[0] as u32, why });
        }
    })?;
    let lost = mailbox.clone();
    endpoint.on_returned(move |message| {
        let kind = match message.reason {
            Reason::EndpointGone | Reason::NoSuchEndpoint => FailureKind::RankLeft,
            Reason::PeerLost => FailureKind::RankDied,
            _ => FailureKind::Clump,
        };
        let why = format!("a message to {} came back: {}", message.dest, message.reason);
        lost.fail(MessageFailure { kind, rank: message.dest.rank(), why });
    })?;
    let names = clump.all_gather(endpoint.name().to_bits())?;
    let map = |name| endpoint.map_ordered(&clump_am::Name::from_bits(name), TAG);
    let dests = names.into_iter().map(map).collect::<clump_am::Result<_>>()?;
    let owner = OwnerState { pgas: clump.pgas()?, begun: Cell::new(0), locks: Default::default() };
    let messages = AtomicU64::new(0);
    let owner = OwnerBound::new(owner);
    let world = JoinedJob { clump, endpoint, dests, mailbox, owner, messages };
    // All ranks have opened what others send to.
    WORLD.get_or_init(|| world).clump.barrier()
}
