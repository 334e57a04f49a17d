//! The protocol of one node, driven by its interface: calls of its ranks and messages of other
//! nodes go in, pages change, answers and messages come out.

mod diffs;
mod leases;
mod periods;
mod recalls;

use crate::breakdown::SentMessages;
use crate::local_rank::LocalRank;
use crate::mailbox::{
    CONTROL_REGION, Call, Mailbox, Slot, control_bytes, ends_at_once, op, result, turn_place,
};
use crate::node_pages::{NodePages, PAGE, PageFailure};
use crate::node_regions::NodeRegions;
use crate::page_fault;
use crate::protocol_step::{self, RequestExecutor, RequestKind};
use crate::scan_turn::ScanTurn;
use crate::sent_counts::SentCounts;
use crate::settings::{ProtocolSettings, place_rule};
use crate::woken_counts::WokenCounts;
use clump_hlrc::{
    Action, Config, MessageLimits, NodeMessage, NodeState, PageAccess, Placement, PlacementTable,
    RankWait, TwinTime, VectorTime,
};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use std::collections::VecDeque;

/// Write notices that a node keeps before its ranks apply them early.
const MAX_NOTICES: usize = 1 << 20;
/// Local ranks that may enter a lock that another node waits for.
const LOCAL_TURNS: u32 = 4;

/// Bytes in which a message with a page mostly finds room.
const ENCODED_BYTES: usize = PAGE + 256;

/// Message for another node, encoded.
pub(crate) type Outgoing = (u16, Vec<u8>);

/// Node in a job, as the protocol sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePlace {
    pub(crate) node: u16,
    pub(crate) nodes: u16,
    /// Ranks of this node.
    pub(crate) ranks: u16,
    /// Ranks of all nodes.
    pub(crate) all_ranks: u32,
}

/// The protocol of one node.
#[derive(Debug)]
pub(crate) struct NodeProtocol {
    place: NodePlace,
    memory: NodeMemory,
    control: SegmentName,
    pages: NodePages,
    /// None before the first rank has opened the heap.
    state: Option<(ProtocolSettings, NodeState<Vec<u8>>)>,
    ranks: Vec<LocalRank>,
    outgoing: VecDeque<Outgoing>,
    /// Messages that are not counted yet.
    sent: SentMessages,
    /// Locks that others want, of local ranks.
    asked: Vec<(u16, u64)>,
    /// Ranks that were answered in this event, and perhaps others.
    answered: Vec<u16>,
    /// Time of the node's copies, as published last to ranks.
    told_needs: Option<VectorTime>,
    /// Number and time of the last barrier of all ranks.
    last_barrier: Option<(u32, VectorTime)>,
    /// Reads of other nodes that ranks have asked for.
    asks: VecDeque<(u16, [u64; 4])>,
    /// Result of all calls from now on.
    broken: Option<u64>,
}

impl NodeProtocol {
    pub(crate) fn new(place: NodePlace, memory: NodeMemory) -> Self {
        debug_assert!(place.node < place.nodes && place.ranks > 0, "a node has ranks");
        debug_assert!(place.all_ranks >= u32::from(place.ranks), "its own among them");
        let node = u32::from(place.node);
        Self {
            place,
            memory,
            control: SegmentName::of_node(node, CONTROL_REGION),
            pages: NodePages::new(node),
            state: None,
            ranks: (0..place.ranks).map(|_| LocalRank::default()).collect(),
            outgoing: VecDeque::new(),
            sent: SentMessages::default(),
            asked: Vec::new(),
            answered: Vec::new(),
            told_needs: None,
            last_barrier: None,
            asks: VecDeque::new(),
            broken: None,
        }
    }

    /// Returns the next message for another node.
    pub(crate) fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// Returns the mapped region of mailboxes.
    fn control(&self, context: &mut dyn NodeRegions) -> Option<Cells> {
        let bytes = control_bytes(self.ranks.len() as u32);
        context.segment(self.control, 0, bytes).ok().cloned()
    }

    /// Handles the calls that ranks have left: of each rank whose bit, modulo 64, is set.
    pub(crate) fn handle_calls(&mut self, calls: u64, first: u32, context: &mut dyn NodeRegions) {
        let Some(cells) = self.control(context) else { return };
        self.run_event(context, &cells, |own, context| {
            for rank in 0..own.ranks.len() as u32 {
                if calls >> ((first + rank) % u64::BITS) & 1 != 0 {
                    own.handle_calls_of(rank, context, &cells);
                }
            }
        });
    }

    /// Handles the calls that one rank has left.
    fn handle_calls_of(&mut self, rank: u32, context: &mut dyn NodeRegions, cells: &Cells) {
        for slot in Slot::used(cells, rank) {
            let mailbox = Mailbox::over(cells, Mailbox::place(rank, slot));
            let found = mailbox.and_then(|mailbox| Some((mailbox, mailbox.take_call()?)));
            if let Some((mailbox, call)) = found {
                self.answered.push(rank as u16);
                self.take_in((rank as u16, slot), (&mailbox, &call), context, cells);
            }
        }
        if let Some(local) = self.ranks.get_mut(rank as usize) {
            let postponed = local.postponed.drain(..).map(|lock| (rank as u16, lock));
            self.asked.extend(postponed);
            self.carry_out(context, cells);
        }
    }

    /// Handles one call.
    fn take_in(
        &mut self,
        (rank, slot): (u16, Slot),
        (mailbox, call): (&Mailbox<'_>, &Call),
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) {
        if call.op == op::ASK {
            self.asks.push_back((rank, call.words));
            return;
        }
        let publishes = mailbox.publishes();
        self.note_logged(rank, context, cells);
        if call.op == op::RELEASE {
            self.with_kept((rank, call.words[0]), context, |kept| kept.forget());
        }
        self.handle_call((rank, slot), (mailbox, call), context, cells);
        let turn = ScanTurn::over(cells, turn_place(u32::from(rank)));
        if let Some(turn) = turn.filter(|_| publishes) {
            // What the rank has found is noted. Locks that waited for it are asked for below.
            turn.end_as_rank();
        }
        self.carry_out(context, cells);
        if slot == Slot::FAULT {
            self.answer_early(rank, mailbox);
        }
    }

    /// Begins a call. Nothing in it is trusted.
    fn handle_call(
        &mut self,
        (rank, slot): (u16, Slot),
        (mailbox, call): (&Mailbox<'_>, &Call),
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) {
        let Some(local) = self.ranks.get_mut(usize::from(rank)) else { return };
        if call.op == op::CONTINUE && local.answer_rest(mailbox, slot) {
            return;
        }
        let refusal = match self.broken {
            Some(why) => Some(why),
            None => local.contradicts(slot, call).then_some(result::MISUSE),
        };
        let faults = call.op == op::FAULT;
        let lacks = faults && self.pages.lacks_memory(context, call.words[0]);
        let refusal = refusal.or(lacks.then_some(result::NO_MEMORY));
        let refusal = refusal.or_else(|| {
            self.note_written(rank, mailbox.written(), context);
            let begun = self.begin((rank, slot), call);
            if begun.is_ok() && call.op == op::OPEN {
                self.open_scans(rank, call.words[3], context);
            }
            self.note_period(cells);
            begun.err()
        });
        let Some(local) = self.ranks.get_mut(usize::from(rank)) else { return };
        match refusal {
            Some(why) => local.answer(mailbox, slot, why),
            None if ends_at_once(call.op) => local.answer(mailbox, slot, result::DONE),
            None => {}
        }
    }

    /// Hands a call, which makes sense as far as the rank is concerned, to the state.
    fn begin(&mut self, (rank, slot): (u16, Slot), call: &Call) -> Result<(), u64> {
        let [first, second, third, fourth] = call.words;
        if call.op == op::OPEN {
            return self.open(rank, first, second, third);
        }
        let NodePlace { nodes, all_ranks, .. } = self.place;
        let (Some((settings, state)), Some(local)) =
            (self.state.as_mut(), self.ranks.get_mut(usize::from(rank)))
        else {
            return Err(result::MISUSE);
        };
        match call.op {
            op::FAULT => {
                let page = u32::try_from(first).ok().filter(|&page| page < settings.pages);
                let page = page.ok_or(result::MISUSE)?;
                let access = if second == 0 { PageAccess::Read } else { PageAccess::Write };
                local.fault = Some((page, access));
                page_fault::handle((settings, state), local, (rank, page, access));
            }
            op::ACQUIRE => {
                local.begin_wait(slot, RankWait::Lock(first));
                local.locks.insert(first);
                state.acquire_lock(rank, first);
            }
            op::RELEASE => {
                local.locks.remove(&first);
                state.release_lock(rank, first);
            }
            op::BARRIER => {
                let members = u32::try_from(second).ok().filter(|n| (1..=all_ranks).contains(n));
                let members = members.ok_or(result::MISUSE)?;
                local.begin_wait(slot, RankWait::Barrier(first));
                state.arrive(rank, first, members);
            }
            op::SET_FLAG => state.set_flag(rank, first, second),
            op::AWAIT_FLAG => {
                local.begin_wait(slot, RankWait::Flag(first, second));
                state.await_flag(rank, first, second);
            }
            op::FENCE => state.fence(rank),
            op::WRITTEN => {}
            op::PLACE | op::PLACE_ALONE => {
                let rule = place_rule(third, fourth, nodes).ok_or(result::MISUSE)?;
                let (first, pages) = (u32::try_from(first), u32::try_from(second));
                let (Ok(first), Ok(pages)) = (first, pages) else { return Err(result::MISUSE) };
                let placed = match call.op {
                    op::PLACE_ALONE => state.place_for(rank, first, pages, rule),
                    _ => state.place(first, pages, rule.into()),
                };
                if !placed {
                    return Err(result::DIFFERENT);
                }
                if call.op == op::PLACE_ALONE {
                    local.begin_wait(slot, RankWait::Place(first));
                }
            }
            _ => return Err(result::MISUSE),
        }
        Ok(())
    }

    /// Answers a fault on a page that the rank has been given meanwhile, ahead of its need.
    fn answer_early(&mut self, rank: u16, mailbox: &Mailbox<'_>) {
        let (Some((_, state)), Some(local)) = (&self.state, self.ranks.get_mut(usize::from(rank)))
        else {
            return;
        };
        let given = |(page, wanted): &mut (u32, PageAccess)| {
            state.access(rank, *page).is_some_and(|had| had >= *wanted)
        };
        if let Some((page, access)) = local.fault.take_if(given) {
            local.tell(page, Some(access));
            local.answer(mailbox, Slot::FAULT, result::DONE);
        }
    }

    /// Lets a rank take part; the first of the node decides about the settings.
    fn open(&mut self, rank: u16, pages: u64, all_ranks: u64, settings: u64) -> Result<(), u64> {
        let asked = ProtocolSettings::unpack(pages, settings).ok_or(result::MISUSE)?;
        let NodePlace { node, nodes, ranks, all_ranks: known } = self.place;
        if all_ranks != u64::from(known) {
            return Err(result::DIFFERENT);
        }
        let (settings, _) = self.state.get_or_insert_with(|| {
            let config = Config {
                node,
                nodes,
                ranks,
                all_ranks: known,
                pages: asked.pages,
                placement: Placement::Ranges(PlacementTable::default()),
                consistency: asked.consistency(),
                notices: asked.notices,
                fetch: asked.fetch,
                twins: if asked.scans { TwinTime::AtFetch } else { TwinTime::AtWrite },
                local_turns: LOCAL_TURNS,
                max_notices: MAX_NOTICES,
                move_after: asked.move_after,
                own_fetches: asked.own_fetches(),
            };
            (asked, NodeState::new(config))
        });
        if *settings != asked {
            return Err(result::DIFFERENT);
        }
        if let Some(local) = self.ranks.get_mut(usize::from(rank)) {
            local.open = true;
        }
        Ok(())
    }

    /// Returns true if requests of other nodes need a protocol thread.
    pub(crate) fn wakes(&self) -> bool {
        self.state.as_ref().is_some_and(|(settings, _)| protocol_step::wakes(settings.step))
    }

    /// Fails all calls from now on: the protocol thread of this node could not be started.
    pub(crate) fn refuse_threads(&mut self, context: &mut dyn NodeRegions) {
        if let Some(cells) = self.control(context) {
            self.give_up(result::NO_THREAD, &cells);
        }
    }

    /// Handles a message of another node. Returns it if it is for the protocol thread.
    pub(crate) fn handle_message(
        &mut self,
        from: u16,
        bytes: &[u8],
        context: &mut dyn NodeRegions,
    ) -> Option<NodeMessage<Vec<u8>>> {
        let cells = self.control(context)?;
        let Some((settings, _)) = &self.state else {
            clump_bug::bug!("ranks meet before they use the heap");
            return None;
        };
        let nodes = self.place.nodes;
        let limits = MessageLimits { nodes, ranks: u16::MAX, pages: settings.pages };
        let Ok(message) = NodeMessage::decode(&limits, bytes) else {
            self.give_up(result::BAD_MESSAGE, &cells);
            return None;
        };
        let step = protocol_step::step(settings.step);
        let executor = RequestKind::of(&message).map(|kind| step.executor(kind));
        if executor == Some(RequestExecutor::ProtocolThread) {
            return Some(message);
        }
        self.execute(from, message, context);
        None
    }

    /// Handles a request that the protocol thread was woken for, and counts it.
    pub(crate) fn execute_woken(
        &mut self,
        from: u16,
        message: NodeMessage<Vec<u8>>,
        context: &mut dyn NodeRegions,
    ) {
        if let (Some(cells), Some(kind)) = (self.control(context), RequestKind::of(&message)) {
            WokenCounts::over(&cells).count(kind);
        }
        self.execute(from, message, context);
    }

    /// Hands a message to the state.
    fn execute(&mut self, from: u16, message: NodeMessage<Vec<u8>>, context: &mut dyn NodeRegions) {
        let Some(cells) = self.control(context) else { return };
        self.run_event(context, &cells, |own, context| {
            if let Some((_, state)) = own.state.as_mut().filter(|_| own.broken.is_none()) {
                state.handle_message(from, message);
            }
            own.carry_out(context, &cells);
        });
    }

    /// Carries out what the state asks for.
    fn carry_out(&mut self, context: &mut dyn NodeRegions, cells: &Cells) {
        self.note_period(cells);
        while self.broken.is_none() {
            let Some((_, state)) = &mut self.state else { return };
            let Some(action) = state.poll_action() else {
                SentCounts::over(cells).add(std::mem::take(&mut self.sent));
                let Some((rank, lock)) = self.asked.pop() else { return };
                self.ask_for_lock((rank, lock), context, cells);
                continue;
            };
            if let Err(why) = self.act(action, context, cells) {
                self.give_up(why.result(), cells);
            }
        }
    }

    fn act(
        &mut self,
        action: Action<Vec<u8>>,
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) -> Result<(), PageFailure> {
        match action {
            Action::Send { to, message } => self.send(to, &message),
            Action::SendDiffs { to, header, pages } => {
                self.send_diffs(to, (&header, &pages), context)?;
            }
            Action::SendPage { to, page, version, time } => {
                let payload = self.pages.page(context, page)?;
                self.send(to, &NodeMessage::Page { page, version, time, payload });
            }
            Action::MakeTwin { page } => self.pages.make_twin(context, page)?,
            Action::DropTwin { page } => self.pages.drop_twin(page),
            Action::Merge { page, payload, keep_twin } => {
                self.pages.merge(context, page, &payload, keep_twin)?;
            }
            Action::Apply { page, payload } => self.pages.apply(context, page, &payload)?,
            Action::Map { rank, page, access } => self.map(rank, (page, access), cells),
            // The rank has taken the right from itself before it called.
            Action::Downgrade { .. } => {}
            Action::Invalidate { rank, page } => {
                if let Some(local) = self.ranks.get_mut(usize::from(rank)) {
                    local.tell(page, None);
                }
            }
            Action::AskLock { rank, lock } => self.asked.push((rank, lock)),
            Action::Resume { rank, wait } => {
                if let RankWait::Lock(lock) = wait {
                    let wanted =
                        self.state.as_ref().is_some_and(|(_, state)| state.is_lock_wanted(lock));
                    self.with_kept((rank, lock), context, |kept| kept.grant(wanted));
                }
                self.resume(rank, wait, cells);
            }
        }
        Ok(())
    }

    fn send(&mut self, to: u16, message: &NodeMessage<Vec<u8>>) {
        debug_assert_ne!(to, self.place.node, "the state hands itself what it sends itself");
        let mut bytes = Vec::with_capacity(ENCODED_BYTES);
        message.encode(&mut bytes);
        self.outgoing.push_back((to, bytes));
        self.sent.all += 1;
        self.sent.diffs += u64::from(matches!(message, NodeMessage::Diffs(..)));
    }

    /// Gives a rank the right on a page that it waits for.
    fn map(&mut self, rank: u16, (page, access): (u32, PageAccess), cells: &Cells) {
        let Some(local) = self.ranks.get_mut(usize::from(rank)) else { return };
        local.tell(page, Some(access));
        local.ahead.on_page(page);
        if local.fault.take_if(|(wanted, _)| *wanted == page).is_some() {
            let slot = Slot::FAULT;
            self.answered.push(rank);
            if let Some(mailbox) = Mailbox::over(cells, Mailbox::place(u32::from(rank), slot)) {
                local.answer(&mailbox, slot, result::DONE);
            }
        }
    }

    /// Ends a wait of a rank.
    fn resume(&mut self, rank: u16, wait: RankWait, cells: &Cells) {
        let Some(local) = self.ranks.get_mut(usize::from(rank)) else { return };
        let slot = local.end_wait(wait);
        debug_assert!(slot.is_some(), "rank {rank} waits for {wait:?}");
        let Some(slot) = slot else { return };
        self.answered.push(rank);
        if let Some(mailbox) = Mailbox::over(cells, Mailbox::place(u32::from(rank), slot)) {
            local.answer(&mailbox, slot, result::DONE);
        }
    }

    /// Fails all calls, those under way among them.
    fn give_up(&mut self, why: u64, cells: &Cells) {
        self.broken = Some(why);
        for (rank, local) in (0..).zip(&mut self.ranks) {
            let fault = local.fault.take().map(|_| Slot::FAULT);
            for slot in fault.into_iter().chain(local.take_waits()) {
                if let Some(mailbox) = Mailbox::over(cells, Mailbox::place(rank, slot)) {
                    local.answer(&mailbox, slot, why);
                }
            }
        }
    }
}
