//! The endpoints of a rank as its stack sees them.

use clump_net::EndpointTable;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::block::{EndpointBlock, Openness};
use clump_shm::doorbell::NETWORK_ARRIVALS;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use clump_wire::Reason;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

/// An endpoint that is, or was, open at an index.
#[derive(Debug, Clone)]
struct EndpointEntry {
    name: Name,
    block: Shared<EndpointBlock>,
    segment: Option<Segment>,
}

type EndpointEntries = Vec<Option<EndpointEntry>>;

/// The endpoints of a rank, last opened at each index.
#[derive(Debug)]
pub(crate) struct Registry {
    rank: u32,
    entries: Mutex<EndpointEntries>,
    /// Grows with every change, so that the stack takes the lock only after one.
    changes: AtomicU64,
}

impl Registry {
    pub(crate) fn new(rank: u32) -> Self {
        let entries = Mutex::new(vec![None; ENDPOINTS]);
        Self { rank, entries, changes: AtomicU64::new(1) }
    }

    /// Registers an endpoint that has opened.
    pub(crate) fn enter(&self, name: Name, block: Shared<EndpointBlock>) {
        debug_assert_eq!(name.rank(), self.rank, "a rank enters its own endpoints");
        self.change(name, |entry| *entry = Some(EndpointEntry { name, block, segment: None }));
    }

    /// Sets or removes the segment of an endpoint.
    pub(crate) fn set_segment(&self, name: Name, segment: Option<Segment>) {
        debug_assert_eq!(name.rank(), self.rank, "a rank exports its own segments");
        self.change(name, |entry| {
            debug_assert!(entry.is_some(), "an endpoint is entered before it has a segment");
            if let Some(entry) = entry.as_mut().filter(|entry| entry.name == name) {
                entry.segment = segment;
            }
        });
    }

    /// Tells endpoints, given as bits, that messages are queued for them, so that the next poll
    /// polls the network before that is due.
    pub(crate) fn notify(&self, queued: u32) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, entry) in entries.iter().enumerate() {
            debug_assert!(entry.is_some() || queued >> index & 1 == 0, "it was admitted");
            if let Some(entry) = entry
                && queued >> index & 1 != 0
            {
                entry.block.doorbell().ring(NETWORK_ARRIVALS);
            }
        }
    }

    fn change(&self, name: Name, how: impl FnOnce(&mut Option<EndpointEntry>)) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(usize::from(name.index())) {
            let before = entry.as_ref().map(|entry| entry.name.generation());
            how(entry);
            let now = entry.as_ref().map(|entry| entry.name.generation());
            debug_assert!(before <= now, "endpoints of an index are opened one after the other");
        } else {
            clump_bug::bug!("an endpoint has an index of the table");
        }
        // SYNC 11: pairs with refresh
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the endpoint table that the stack reads.
    pub(crate) fn endpoint_table(self: &Arc<Self>) -> RankEndpoints {
        RankEndpoints {
            registry: self.clone(),
            known: RefCell::new(vec![None; ENDPOINTS]),
            seen: Cell::new(0),
        }
    }
}

/// The endpoint table of a rank, which its stack uses ([`Registry::endpoint_table`]).
#[derive(Debug)]
pub(crate) struct RankEndpoints {
    registry: Arc<Registry>,
    known: RefCell<EndpointEntries>,
    seen: Cell<u64>,
}

impl RankEndpoints {
    #[inline]
    fn refresh(&self) {
        // SYNC 11: pairs with change
        let changes = self.registry.changes.load(Ordering::Acquire);
        if changes != self.seen.get() {
            debug_assert!(self.seen.get() < changes, "changes are counted upwards");
            let entries = self.registry.entries.lock().unwrap_or_else(PoisonError::into_inner);
            debug_assert_eq!(entries.len(), ENDPOINTS, "each index has an entry");
            self.known.borrow_mut().clone_from(&entries);
            self.seen.set(changes);
        }
    }

    fn with_segment<T>(
        &self,
        to: u64,
        run: impl FnOnce(&Segment) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        self.refresh();
        let known = self.known.borrow();
        let name = Name::from_bits(to);
        let entry = known.get(usize::from(name.index())).and_then(Option::as_ref);
        let entry = entry.filter(|entry| entry.name == name).ok_or(Reason::EndpointGone)?;
        debug_assert_eq!(entry.name.rank(), self.registry.rank, "endpoints here are the rank's");
        run(entry.segment.as_ref().ok_or(Reason::BadOffset)?)
    }
}

impl EndpointTable for RankEndpoints {
    #[inline]
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason> {
        self.refresh();
        let name = Name::from_bits(to);
        let known = self.known.borrow();
        let entry = known.get(usize::from(name.index())).and_then(Option::as_ref);
        let entry = entry.filter(|_| name.rank() == self.registry.rank);
        let entry = entry.ok_or(Reason::NoSuchEndpoint)?;
        debug_assert_eq!(entry.name.index(), name.index(), "an endpoint lies at its index");
        match entry.block.openness(name.generation()) {
            Openness::Open if tag.is_none_or(|tag| entry.block.admits_tag(tag)) => Ok(name.index()),
            Openness::Open => Err(Reason::BadTag),
            Openness::Closed | Openness::WasOpen => Err(Reason::EndpointGone),
            Openness::Awaited | Openness::Absent => Err(Reason::NoSuchEndpoint),
        }
    }

    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Reason> {
        self.with_segment(to, |segment| fits(segment, offset, bytes))
    }

    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        self.with_segment(to, |segment| {
            if segment.write(offset, data) { Ok(()) } else { Err(Reason::BadLength) }
        })
    }

    fn with_segment_bytes(
        &self,
        (to, offset, bytes): (u64, u64, u64),
        work: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        debug_assert!(Name::from_bits(to).rank() == self.registry.rank, "an endpoint of this rank");
        let done = self.with_segment(to, |segment| Ok(segment.with_bytes_mut(offset, bytes, work)));
        done.unwrap_or(false)
    }
}

/// Checks that a deposit lies inside a segment.
///
/// # Errors
/// The offset or the end lies outside of it.
pub fn fits(segment: &Segment, offset: u64, bytes: u64) -> std::result::Result<(), Reason> {
    if segment.holds(offset, bytes) {
        Ok(())
    } else if offset <= segment.len() as u64 {
        debug_assert!(bytes > 0, "no bytes end outside");
        Err(Reason::BadLength)
    } else {
        Err(Reason::BadOffset)
    }
}
