//! Pages that ranks fetch by themselves: which ones they may, what they have fetched, and what they
//! fetch from here.

use super::NodeProtocol;
use crate::asked_reads;
use crate::fetch_log::{FetchLog, FetchNote};
use crate::mailbox::{Mailbox, Slot, fetch_log_place, rank_time_place, result};
use crate::node_pages::PageFailure;
use crate::node_regions::NodeRegions;
use crate::node_word::{NOTED_AT, SEEN_AT, node_word};
use crate::page_leases::{LeaseTable, LeaseTerms};
use crate::published_time::PublishedTime;
use crate::settings::ProtocolSettings;
use crate::store_lock::StoreLock;
use crate::time_record::TimeRecord;
use crate::version_record::VersionRecord;
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;

impl NodeProtocol {
    /// Returns the next read of another node that a rank has asked for.
    pub(crate) fn poll_ask(&mut self) -> Option<(u16, [u64; 4])> {
        self.asks.pop_front()
    }

    /// Ends a read that a rank has asked for: with what was read, or without.
    pub(crate) fn end_ask(
        &mut self,
        rank: u32,
        payload: Option<&[u8]>,
        context: &mut dyn NodeRegions,
    ) {
        let Some(cells) = self.control(context) else { return };
        let (Some(local), Some(mailbox)) = (
            self.ranks.get_mut(rank as usize),
            Mailbox::over(&cells, Mailbox::place(rank, Slot::FAULT)),
        ) else {
            return;
        };
        debug_assert!(rank < u32::from(self.place.ranks), "a rank of this node asked");
        debug_assert!(payload.is_none_or(|bytes| !bytes.is_empty()), "something was read");
        let left = payload.is_some_and(|bytes| asked_reads::leave(&cells, rank, bytes));
        local.answer(&mailbox, Slot::FAULT, if left { result::DONE } else { result::UNREACHABLE });
    }

    /// Runs an event of the protocol: no rank stores a page that it has fetched meanwhile. What
    /// ranks have stored is noted before, and which pages they may fetch is published behind it.
    pub(super) fn run_event(
        &mut self,
        context: &mut dyn NodeRegions,
        cells: &Cells,
        event: impl FnOnce(&mut Self, &mut dyn NodeRegions),
    ) {
        let memory = self.memory.clone();
        let is_over = || memory.job().first_death().is_some();
        let _lock = StoreLock::take_as_interface(cells, is_over);
        let noted = node_word(cells, NOTED_AT).map_or(0, |word| word.swap(0, Ordering::Relaxed));
        let has_noted = |rank: &u16| noted >> (u32::from(*rank) % u64::BITS) & 1 != 0;
        for rank in (0..self.ranks.len() as u16).filter(has_noted) {
            self.note_fetched(rank, context, cells);
        }
        event(self, context);
        self.open_pages(context);
        self.tell_times(cells);
    }

    /// Tells ranks that fetch by themselves what the node's copies depend on now, and those that
    /// were answered up to which time they know. A rank that is answered later has an older time.
    fn tell_times(&mut self, cells: &Cells) {
        let own_fetches = |(settings, _): &&(ProtocolSettings, _)| settings.own_fetches();
        let Some((_, state)) = self.state.as_ref().filter(own_fetches) else {
            return self.answered.clear();
        };
        let needs = state.own_fetch_needs();
        if self.told_needs.as_ref() != Some(&*needs) {
            let seen = PublishedTime::over(cells, SEEN_AT);
            debug_assert!(seen.is_some(), "the first page of the region is mapped");
            if let Some(seen) = seen {
                seen.publish(TimeRecord::of(&needs).as_ref().map(|record| (record, 0)));
            }
            self.told_needs = Some(needs.into_owned());
        }
        for rank in self.answered.drain(..) {
            let local = self.ranks.get(usize::from(rank));
            let told = PublishedTime::over(cells, rank_time_place(u32::from(rank)));
            let (Some(local), Some(told)) = (local, told) else {
                clump_bug::bug!("rank {rank} is of this node, and its time is mapped");
                continue;
            };
            let time = TimeRecord::of(&state.own_fetch_time(rank));
            told.publish(time.as_ref().zip(local.last_answer()));
        }
    }

    /// Returns the place of the leases of this node's pages.
    fn leases(&self) -> Option<LeaseTable> {
        let (settings, _) = self.state.as_ref().filter(|(settings, _)| settings.own_fetches())?;
        Some(LeaseTable::of_node(self.ranks.len() as u32, u64::from(settings.pages)))
    }

    /// Lets ranks fetch those pages by themselves that the state says, and no others.
    fn open_pages(&mut self, context: &mut dyn NodeRegions) {
        let (Some(table), Some((_, state))) = (self.leases(), &mut self.state) else { return };
        for page in state.take_changed().into_iter().flatten() {
            let (word, version) = table.places(page);
            // Memory of the version first: what is accessed is committed.
            let versions = context.segment(self.control, version, LeaseTable::version_bytes());
            if versions.is_err() {
                continue;
            }
            let cells = context.segment(self.control, word, LeaseTable::word_bytes());
            let Some(lease) = cells.ok().and_then(|cells| table.lease(cells, page)) else {
                continue;
            };
            lease.close();
            let Some(terms) = state.open_page(page) else { continue };
            let twin = if terms.twin { self.pages.twin_place(page) } else { None };
            if let Some(required) = VersionRecord::of(&terms.required)
                && twin.is_some() == terms.twin
            {
                lease.open(&LeaseTerms { home: terms.home, required, twin });
            }
        }
    }

    /// Takes in the pages that a rank has fetched by itself.
    fn note_fetched(&mut self, rank: u16, context: &mut dyn NodeRegions, cells: &Cells) {
        let Some(log) = FetchLog::over(cells, fetch_log_place(u32::from(rank))) else { return };
        while let Some(note) = log.first() {
            if let Err(why) = self.take_note((rank, &note), &log, context) {
                self.give_up(why.result(), cells);
            }
            log.end_first();
        }
    }

    /// Takes one note, unless it makes no sense.
    fn take_note(
        &mut self,
        (rank, note): (u16, &FetchNote),
        log: &FetchLog<'_>,
        context: &mut dyn NodeRegions,
    ) -> Result<(), PageFailure> {
        let FetchNote { page, access, version } = *note;
        let version = version.version(self.place.nodes).ok_or(PageFailure::Malformed)?;
        let (_, state) = self.state.as_mut().ok_or(PageFailure::Malformed)?;
        let noted = state.note_fetched((rank, page), access, version);
        debug_assert!(noted.is_some(), "a rank stores open pages");
        let new_twin = noted.ok_or(PageFailure::Malformed)?;
        if let Some(local) = self.ranks.get_mut(usize::from(rank)) {
            local.note_taken(page, access);
        }
        if new_twin { self.pages.keep_twin(context, page, &log.first_bytes()) } else { Ok(()) }
    }

    /// Reads a page whose home is here, for a rank that fetches it: its bytes, its version, and the
    /// time that they depend on. No event is between them.
    pub(crate) fn read_home_page(
        &self,
        page: u64,
        context: &mut dyn NodeRegions,
    ) -> Option<(Vec<u8>, VersionRecord, TimeRecord)> {
        let (_, state) = self.state.as_ref().filter(|_| self.broken.is_none())?;
        let page = u32::try_from(page).ok()?;
        let (version, time) = state.home_version(page)?;
        let (version, time) = (VersionRecord::of(&version)?, TimeRecord::of(&time)?);
        Some((self.pages.page(context, page).ok()?, version, time))
    }
}
