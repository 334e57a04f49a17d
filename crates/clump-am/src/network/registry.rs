//! The endpoints of a rank as its stack sees them.

use clump_net::{Doors, Refusal};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::block::{EndpointBlock, Openness};
use clump_shm::doorbell::MAIL;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

/// An endpoint that is, or was, open at an index.
#[derive(Debug, Clone)]
struct Gate {
    name: Name,
    block: Shared<EndpointBlock>,
    segment: Option<Segment>,
}

type Gates = Vec<Option<Gate>>;

/// The endpoints of a rank, last opened at each index.
#[derive(Debug)]
pub(crate) struct Registry {
    rank: u32,
    gates: Mutex<Gates>,
    /// Grows with every change, so that the stack looks at the lock only after one.
    changes: AtomicU64,
}

impl Registry {
    pub(crate) fn new(rank: u32) -> Self {
        let gates = Mutex::new(vec![None; ENDPOINTS]);
        Self { rank, gates, changes: AtomicU64::new(1) }
    }

    /// An endpoint has opened.
    pub(crate) fn enter(&self, name: Name, block: Shared<EndpointBlock>) {
        self.change(name, |gate| *gate = Some(Gate { name, block, segment: None }));
    }

    /// An endpoint has a segment from now on, or none any more.
    pub(crate) fn set_segment(&self, name: Name, segment: Option<Segment>) {
        self.change(name, |gate| {
            if let Some(gate) = gate.as_mut().filter(|gate| gate.name == name) {
                gate.segment = segment;
            }
        });
    }

    /// Tells endpoints, given as bits, that there is mail for them: so a poll finds it that would not have looked at
    /// the network yet.
    pub(crate) fn ring(&self, mailed: u32) {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, gate) in gates.iter().enumerate() {
            if let Some(gate) = gate
                && mailed >> index & 1 != 0
            {
                gate.block.doorbell().ring(MAIL);
            }
        }
    }

    fn change(&self, name: Name, how: impl FnOnce(&mut Option<Gate>)) {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get_mut(usize::from(name.index())) {
            how(gate);
        }
        // SYNC 11: pairs with refresh
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// What the stack asks.
    pub(crate) fn doors(self: &Arc<Self>) -> RankDoors {
        RankDoors {
            registry: self.clone(),
            known: RefCell::new(vec![None; ENDPOINTS]),
            seen: Cell::new(0),
        }
    }
}

/// See [`Registry::doors`].
#[derive(Debug)]
pub(crate) struct RankDoors {
    registry: Arc<Registry>,
    known: RefCell<Gates>,
    seen: Cell<u64>,
}

impl RankDoors {
    #[inline]
    fn refresh(&self) {
        // SYNC 11: pairs with change
        let changes = self.registry.changes.load(Ordering::Acquire);
        if changes != self.seen.get() {
            let gates = self.registry.gates.lock().unwrap_or_else(PoisonError::into_inner);
            self.known.borrow_mut().clone_from(&gates);
            self.seen.set(changes);
        }
    }

    fn with_segment<T>(
        &self,
        to: u64,
        run: impl FnOnce(&Segment) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.refresh();
        let known = self.known.borrow();
        let name = Name::from_bits(to);
        let gate = known.get(usize::from(name.index())).and_then(Option::as_ref);
        let gate = gate.filter(|gate| gate.name == name).ok_or(Refusal::EndpointGone)?;
        run(gate.segment.as_ref().ok_or(Refusal::BadOffset)?)
    }
}

impl Doors for RankDoors {
    #[inline]
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Refusal> {
        self.refresh();
        let name = Name::from_bits(to);
        let known = self.known.borrow();
        let gate = known.get(usize::from(name.index())).and_then(Option::as_ref);
        let gate = gate.filter(|_| name.rank() == self.registry.rank);
        let gate = gate.ok_or(Refusal::NoSuchEndpoint)?;
        match gate.block.openness(name.generation()) {
            Openness::Open if tag.is_none_or(|tag| gate.block.admits_tag(tag)) => Ok(name.index()),
            Openness::Open => Err(Refusal::BadTag),
            Openness::Closed => Err(Refusal::EndpointGone),
            Openness::Absent if (1..gate.name.generation()).contains(&name.generation()) => {
                Err(Refusal::EndpointGone)
            }
            Openness::Absent => Err(Refusal::NoSuchEndpoint),
        }
    }

    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.with_segment(to, |segment| super::fits(segment, offset, bytes))
    }

    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Refusal> {
        self.with_segment(to, |segment| {
            if segment.write(offset, data) { Ok(()) } else { Err(Refusal::BadLength) }
        })
    }
}
