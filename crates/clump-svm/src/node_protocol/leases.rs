//! Pages that ranks fetch by themselves: which ones they may, what they have fetched, and what they
//! fetch from here.

use super::NodeProtocol;
use crate::fetch_log::{FetchLog, FetchNote};
use crate::mailbox::fetch_log_place;
use crate::node_pages::PageFailure;
use crate::node_regions::NodeRegions;
use crate::page_leases::{LeaseTable, PageLease};
use crate::version_record::VersionRecord;
use clump_hlrc::NodeState;
use clump_rma::SegmentName;
use clump_shm::cells::Cells;

/// Runs `change` on the lease of a page.
fn with_lease<R>(
    (control, table): (SegmentName, LeaseTable),
    page: u32,
    context: &mut dyn NodeRegions,
    change: impl FnOnce(PageLease<'_>) -> R,
) -> Option<R> {
    let (word, version) = table.places(page);
    // Memory of the version first: what is accessed is committed.
    context.segment(control, version, LeaseTable::version_bytes()).ok()?;
    let cells = context.segment(control, word, crate::page_leases::WORD_BYTES).ok()?;
    table.lease(cells, page).map(change)
}

/// Lets ranks fetch those pages by themselves that the state says, and no others.
pub(super) fn open_pages(
    place: (SegmentName, LeaseTable),
    state: &mut NodeState<Vec<u8>>,
    context: &mut dyn NodeRegions,
) {
    for page in state.take_changed().into_iter().flatten() {
        let open = state.open_page(page);
        let open = open.and_then(|(home, version)| Some((home, VersionRecord::of(&version)?)));
        with_lease(place, page, context, |lease| {
            // One that is leased is looked at again with its note.
            if lease.close()
                && let Some((home, required)) = &open
            {
                lease.open(*home, required);
            }
        });
    }
}

/// Lets no rank begin to fetch a page. Returns false if one has begun.
pub(super) fn close_page(
    place: (SegmentName, LeaseTable),
    page: u32,
    context: &mut dyn NodeRegions,
) -> bool {
    with_lease(place, page, context, |lease| lease.close()).unwrap_or(true)
}

impl NodeProtocol {
    /// Returns the place of the leases of this node's pages.
    pub(super) fn leases(&self) -> Option<(SegmentName, LeaseTable)> {
        let (settings, _) = self.state.as_ref().filter(|(settings, _)| settings.own_fetches())?;
        let ranks = self.ranks.len() as u32;
        Some((self.control, LeaseTable::of_node(ranks, u64::from(settings.pages))))
    }

    /// Lets ranks fetch pages by themselves, or no longer, behind an event and before anybody is
    /// told of its outcome.
    pub(super) fn note_open_pages(&mut self, context: &mut dyn NodeRegions) {
        let Some(place) = self.leases() else { return };
        if let Some((_, state)) = &mut self.state {
            open_pages(place, state, context);
        }
    }

    /// Closes a page that a rank faults on. Returns false if another rank fetches it at this
    /// moment.
    pub(super) fn close_for_fault(
        &mut self,
        page: u64,
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) -> bool {
        let Some((place, page)) = self.leases().zip(u32::try_from(page).ok()) else { return true };
        if u64::from(page) >= place.1.pages || close_page(place, page, context) {
            return true;
        }
        let noted = with_lease(place, page, context, |lease| lease.is_noted());
        if noted == Some(true) {
            (0..self.ranks.len() as u16).for_each(|rank| self.note_fetched(rank, context, cells));
        }
        close_page(place, page, context)
    }

    /// Takes in the pages that a rank has fetched by itself.
    pub(super) fn note_fetched(
        &mut self,
        rank: u16,
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) {
        let Some(place) = self.leases() else { return };
        let Some(log) = FetchLog::over(cells, fetch_log_place(u32::from(rank))) else { return };
        while let Some(note) = log.first() {
            if let Err(why) = self.take_note((rank, &note), (place, &log), context) {
                self.give_up(why.result(), cells);
            }
            log.end_first();
            self.note_open_pages(context);
        }
    }

    /// Takes one note, unless it makes no sense.
    fn take_note(
        &mut self,
        (rank, note): (u16, &FetchNote),
        (place, log): ((SegmentName, LeaseTable), &FetchLog<'_>),
        context: &mut dyn NodeRegions,
    ) -> Result<(), PageFailure> {
        let FetchNote { page, access, version } = *note;
        let version = version.version(self.place.nodes);
        let (Some((settings, state)), Some(version)) = (&mut self.state, version) else {
            return Ok(());
        };
        if page >= settings.pages {
            return Ok(());
        }
        let leased = with_lease(place, page, context, |lease| lease.end()) == Some(true);
        let noted = if leased { state.note_fetched((rank, page), access, version) } else { None };
        if let (Some(_), Some(local)) = (noted, self.ranks.get_mut(usize::from(rank))) {
            local.note_taken(page, access);
        }
        if noted == Some(true) {
            self.pages.keep_twin(context, page, &log.first_bytes())?;
        }
        Ok(())
    }

    /// Reads a page whose home is here, for a rank that fetches it: its bytes, and its version.
    pub(crate) fn read_home_page(
        &self,
        page: u64,
        context: &mut dyn NodeRegions,
    ) -> Option<(Vec<u8>, VersionRecord)> {
        let (_, state) = self.state.as_ref().filter(|_| self.broken.is_none())?;
        let page = u32::try_from(page).ok()?;
        let record = VersionRecord::of(&state.home_version(page)?)?;
        Some((self.pages.page(context, page).ok()?, record))
    }
}
