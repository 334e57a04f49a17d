//! Pages and twins of a node, as its interface accesses them: through a view of their own, which no
//! protection concerns.

use crate::mailbox::{HEAP_REGION, TWIN_REGION, result};
use crate::node_regions::NodeRegions;
use clump_hlrc::{ByteReader, Diff};
use clump_onesided::Refusal;
use clump_os::differing::mark_differing;
use clump_shm::export::SegmentName;
use std::collections::HashMap;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Bytes of one page.
type PageBytes = [u8; PAGE];

/// Reason why a step on pages was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageFailure {
    /// The memory of the page, or of its twin, cannot be had.
    Memory(Refusal),
    /// Bytes from another node are none of a page.
    Malformed,
}

impl PageFailure {
    /// Returns the result of calls from then on.
    pub(crate) fn result(self) -> u64 {
        match self {
            Self::Memory(_) => result::NO_MEMORY,
            Self::Malformed => result::BAD_MESSAGE,
        }
    }
}

impl From<Refusal> for PageFailure {
    fn from(why: Refusal) -> Self {
        Self::Memory(why)
    }
}

/// The heap of a node, and the twins of its pages.
#[derive(Debug)]
pub(crate) struct NodePages {
    heap: SegmentName,
    twins: SegmentName,
    /// Places of twins, by page.
    places: HashMap<u32, u32>,
    free: Vec<u32>,
}

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}

fn read(
    context: &mut dyn NodeRegions,
    segment: SegmentName,
    page: u32,
) -> Result<PageBytes, PageFailure> {
    let mut bytes = [0; PAGE];
    read_into(context, segment, page, &mut bytes)?;
    Ok(bytes)
}

fn read_into(
    context: &mut dyn NodeRegions,
    segment: SegmentName,
    page: u32,
    bytes: &mut [u8],
) -> Result<(), PageFailure> {
    debug_assert_eq!(bytes.len(), PAGE, "of one page");
    let there = context.segment(segment, offset(page), PAGE as u64)?.read(offset(page), bytes);
    debug_assert!(there, "what may be accessed is mapped");
    Ok(())
}

fn write(
    context: &mut dyn NodeRegions,
    segment: SegmentName,
    (page, first): (u32, usize),
    bytes: &[u8],
) -> Result<(), PageFailure> {
    debug_assert!(first + bytes.len() <= PAGE, "of one page");
    let at = offset(page) + first as u64;
    let there = context.segment(segment, at, bytes.len() as u64)?.write(at, bytes);
    debug_assert!(there, "what may be accessed is mapped");
    Ok(())
}

/// Returns the bytes of a page that differ from its twin, by what the processor has for it.
pub(crate) fn difference(twin: &[u8], page: &[u8]) -> Diff {
    debug_assert!(twin.len() == PAGE && page.len() == PAGE, "whole pages");
    let mut marks = [0; PAGE / 64];
    if mark_differing(twin, page, &mut marks) {
        Diff::of_marked(page, marks)
    } else {
        Diff::between(twin, page)
    }
}

impl NodePages {
    pub(crate) fn new(node: u32) -> Self {
        let (heap, twins) =
            (SegmentName::of_node(node, HEAP_REGION), SegmentName::of_node(node, TWIN_REGION));
        Self { heap, twins, places: HashMap::new(), free: Vec::new() }
    }

    /// Returns true if a page of the heap has no memory, and none can be had for it.
    pub(crate) fn lacks_memory(&self, context: &mut dyn NodeRegions, page: u64) -> bool {
        let place = page.saturating_mul(PAGE as u64);
        let found = context.segment(self.heap, place, PAGE as u64);
        matches!(found, Err(Refusal::NoMemory))
    }

    /// Returns the bytes of a page.
    pub(crate) fn page(
        &self,
        context: &mut dyn NodeRegions,
        page: u32,
    ) -> Result<Vec<u8>, PageFailure> {
        let mut bytes = vec![0; PAGE];
        read_into(context, self.heap, page, &mut bytes)?;
        Ok(bytes)
    }

    /// Makes a twin of a page.
    pub(crate) fn make_twin(
        &mut self,
        context: &mut dyn NodeRegions,
        page: u32,
    ) -> Result<(), PageFailure> {
        debug_assert!(!self.places.contains_key(&page), "page {page} has no twin");
        let bytes = read(context, self.heap, page)?;
        self.keep_twin(context, page, &bytes)
    }

    /// Makes `bytes` the twin of a page.
    pub(crate) fn keep_twin(
        &mut self,
        context: &mut dyn NodeRegions,
        page: u32,
        bytes: &[u8],
    ) -> Result<(), PageFailure> {
        debug_assert_eq!(bytes.len(), PAGE, "a twin is a page");
        // Places are taken in order, so that used ones lie together.
        let next = self.places.len() + self.free.len();
        let known = self.places.get(&page).copied();
        let place = known.or_else(|| self.free.pop()).unwrap_or(next as u32);
        self.places.insert(page, place);
        write(context, self.twins, (place, 0), bytes)
    }

    /// Frees the twin of a page.
    pub(crate) fn drop_twin(&mut self, page: u32) {
        let place = self.places.remove(&page);
        debug_assert!(place.is_some(), "page {page} has a twin");
        self.free.extend(place);
    }

    fn twin(&self, context: &mut dyn NodeRegions, page: u32) -> Result<PageBytes, PageFailure> {
        match self.places.get(&page) {
            Some(&place) => read(context, self.twins, place),
            None => {
                clump_bug::bug!("page {page} has a twin");
                Err(PageFailure::Malformed)
            }
        }
    }

    /// Returns the place of the twin of a page among all twins, in pages.
    pub(crate) fn twin_place(&self, page: u32) -> Option<u32> {
        self.places.get(&page).copied()
    }

    /// Returns true if a page may differ from its twin: if it does, or has none.
    pub(crate) fn may_differ(&self, context: &mut dyn NodeRegions, page: u32) -> bool {
        if !self.places.contains_key(&page) {
            return true;
        }
        let twin = self.twin(context, page);
        let now = read(context, self.heap, page);
        match (twin, now) {
            (Ok(twin), Ok(now)) => twin != now,
            _ => true,
        }
    }

    /// Returns the bytes in which a page differs from its twin, and makes the twin equal to the
    /// page.
    pub(crate) fn take_diff(
        &mut self,
        context: &mut dyn NodeRegions,
        page: u32,
    ) -> Result<Diff, PageFailure> {
        let twin = self.twin(context, page)?;
        // Other ranks may write meanwhile: the twin becomes what was compared, and no later byte.
        let now = read(context, self.heap, page)?;
        let diff = difference(&twin, &now);
        if !diff.is_empty() {
            self.keep_twin(context, page, &now)?;
        }
        Ok(diff)
    }

    /// Brings a page up to date with what its home sent: without a twin it takes all bytes, else
    /// those in which they differ from the twin. They are the twin afterwards, if it is kept.
    pub(crate) fn merge(
        &mut self,
        context: &mut dyn NodeRegions,
        page: u32,
        fetched: &[u8],
        keep_twin: bool,
    ) -> Result<(), PageFailure> {
        if fetched.len() != PAGE {
            return Err(PageFailure::Malformed);
        }
        if self.places.contains_key(&page) {
            let twin = self.twin(context, page)?;
            for (first, run) in difference(&twin, fetched).runs() {
                write(context, self.heap, (page, first), run)?;
            }
        } else {
            write(context, self.heap, (page, 0), fetched)?;
        }
        if keep_twin { self.keep_twin(context, page, fetched) } else { Ok(()) }
    }

    /// Stores a diff into a home page: its bytes and no others.
    pub(crate) fn apply(
        &self,
        context: &mut dyn NodeRegions,
        page: u32,
        payload: &[u8],
    ) -> Result<(), PageFailure> {
        let mut reader = ByteReader::new(payload);
        let diff = Diff::decode(PAGE as u32, &mut reader).map_err(|_| PageFailure::Malformed)?;
        for (first, run) in diff.runs() {
            write(context, self.heap, (page, first), run)?;
        }
        Ok(())
    }
}
