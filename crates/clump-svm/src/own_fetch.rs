//! Fetches of the calling thread by the rank's own stack: a page fault waits for the answer of the
//! page's home, and for nothing else.
//!
//! The fault may have interrupted clump's own copies. A thread that holds the lock of the stack
//! would wait for itself: then the interface of the node fetches.

use crate::heap_service::PAGE_CODE;
use crate::mailbox::TWIN_REGION;
use crate::node_pages::{PAGE, difference};
use crate::page_leases::LeaseTerms;
use crate::read_ahead::ReadAhead;
use crate::time_record::{TIME_BYTES, TimeRecord};
use crate::version_record::{RECORD_BYTES, VersionRecord};
use clump_am::RankContext;
use clump_os::thread_value;
use clump_rma::{Rma, SegmentName};
use clump_shm::cells::Cells;
use clump_shm::supply::MachineSupply;
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes of an answer: a page, its version, and the time that it depends on.
pub(crate) const ANSWER_BYTES: usize = PAGE + RECORD_BYTES + TIME_BYTES;

/// The fetches of one thread.
#[derive(Debug)]
pub(crate) struct OwnFetch {
    context: Arc<RankContext>,
    rma: Rma,
    heap: SegmentName,
    supply: MachineSupply,
    /// The node's pages, which no right concerns, and their twins.
    frames: Cells,
    twins: Cells,
    answer: Box<[u8; ANSWER_BYTES]>,
    /// Pages that the interface is likely to be asked for ahead of this thread.
    ahead: ReadAhead,
}

thread_value! {
    static OWN: RefCell<Option<OwnFetch>> = RefCell::new(None);
}

/// Fetches of the thread that opened the heap; end when it is dropped there.
#[derive(Debug)]
pub(crate) struct OwnFetches(());

impl Drop for OwnFetches {
    fn drop(&mut self) {
        let _ = OWN.with(|own| own.get().try_borrow_mut().map(|mut own| own.take()));
    }
}

impl OwnFetches {
    /// Opens those of this thread. Without an endpoint or address space left for them, the
    /// interface fetches.
    pub(crate) fn open(context: &Arc<RankContext>, heap: SegmentName) -> Self {
        let node = context.node();
        let mapped = |name| node.exported(name).ok().flatten().map(|(cells, _)| cells);
        let twins = mapped(SegmentName::of_node(node.node(), TWIN_REGION));
        let rma = Rma::open_restricted(context).ok();
        if let (Some(frames), Some(twins), Some(rma)) = (mapped(heap), twins, rma) {
            let (context, ahead) = (context.clone(), ReadAhead::default());
            let answer = Box::new([0; ANSWER_BYTES]);
            let supply = MachineSupply::new(node.ranks());
            let own = OwnFetch { context, rma, heap, supply, frames, twins, answer, ahead };
            OWN.with(|known| known.get().replace(Some(own)));
        }
        Self(())
    }
}

/// Runs `work` with the fetches of this thread; none if it has none, or is at one.
pub(crate) fn with<R>(work: impl FnOnce(&mut OwnFetch) -> R) -> Option<R> {
    let run = |own: &RefCell<Option<OwnFetch>>| Some(work(own.try_borrow_mut().ok()?.as_mut()?));
    OWN.with(|own| own.used().and_then(run))
}

impl OwnFetch {
    /// Returns true if this thread may fetch a page that it faults on. Pages in sequence are left
    /// to the interface, which reads ahead.
    pub(crate) fn may_begin(&mut self, page: u32, stores: bool) -> bool {
        let alone = stores || self.ahead.on_fault(page).is_empty();
        alone && self.rma.may_wait_in_fault()
    }

    /// Fetches a page from its home. Returns its version, and the time that it depends on; none if
    /// the home is lost, refuses, or lacks something that the page must contain.
    pub(crate) fn fetch(
        &mut self,
        page: u32,
        terms: &LeaseTerms,
    ) -> Option<(VersionRecord, TimeRecord)> {
        let (home, at) = (u32::from(terms.home), (self.heap, u64::from(page)));
        self.rma.read_service(home, PAGE_CODE, at, &mut self.answer[..]).ok()?;
        let (rest, time) = self.answer.split_last_chunk()?;
        let (_, record) = rest.split_last_chunk()?;
        let version = VersionRecord::from_bytes(record);
        version.covers(&terms.required).then(|| (version, TimeRecord::from_bytes(time)))
    }

    /// Returns the bytes that were fetched.
    pub(crate) fn bytes(&self) -> &[u8; PAGE] {
        self.answer.split_first_chunk().map_or(&[0; PAGE], |(page, _)| page)
    }

    /// Stores what was fetched: all of it, or what differs from the twin, which it is then. Returns
    /// false if there is no memory for it.
    pub(crate) fn store(&self, page: u32, terms: &LeaseTerms) -> bool {
        let offset = u64::from(page) * PAGE as u64;
        let Some(place) = terms.twin else {
            let (node, supply) = (self.context.node(), &mut &self.supply);
            let committed = node.commit(self.heap, (offset, PAGE as u64), supply);
            return committed.is_ok() && self.frames.write(offset, self.bytes());
        };
        let mut twin = [0; PAGE];
        let of_twin = u64::from(place) * PAGE as u64;
        if !self.twins.read(of_twin, &mut twin) {
            return false;
        }
        let changed = difference(&twin, self.bytes());
        let written =
            changed.runs().all(|(first, run)| self.frames.write(offset + first as u64, run));
        written && self.twins.write(of_twin, self.bytes())
    }
}
