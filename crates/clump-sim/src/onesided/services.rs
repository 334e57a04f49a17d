//! Requests of ranks' programs to the services of interfaces: batches, gathers, applies, spreads,
//! and waits for a word of another node.

use super::activity::CallerActivity;
use super::caller::{Caller, CallerEnvironment};
use super::layout::{Layout, TICKETS};
use super::line::OperationPayload;
use super::model::{Model, SharedSum};
use crate::kernel::Time;
use clump_onesided::protocol::code;
use clump_onesided::{AtomicOp, Comparison, Completion, Range, SpreadUpdate, Update};
use zerocopy::IntoBytes;

/// Most updates of one request here.
const UPDATES: u64 = 12;

impl Caller {
    /// Adds to several words of a segment of another node, by one request without an answer.
    pub(super) fn add_many(
        &mut self,
        owner: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        if self.is_near(owner, around) {
            return CallerActivity::Nothing;
        }
        let count = self.random.between(1, UPDATES);
        let update = |_| (self.random.below(TICKETS), self.random.between(1, 1000));
        let adds: Vec<(u64, u64)> = (0..count).map(update).collect();
        let updates: Vec<_> = adds.iter().map(|&(at, n)| Update::new(at as u32, n)).collect();
        let node = around.layout.node(owner);
        let words = [around.layout.bits(owner), 0, 0, AtomicOp::Add as u64];
        let load = OperationPayload::Bytes(updates.as_bytes().to_vec());
        if self.post(node, code::BATCH, &words, load) {
            around.model.counts.batches += 1;
            for (which, operand) in adds {
                let sum = (SharedSum::Ticket(owner, which), operand);
                around.model.on_add(self.rank, node, sum, false);
            }
        }
        CallerActivity::Nothing
    }

    /// Reads a place of its own part by one request: as ranges, or as words by index. Returns the
    /// cookie; `None` if neither is to be used.
    pub(super) fn begin_gather(
        &mut self,
        (owner, at, len): (u32, u64, u64),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<u64> {
        let (layout, node) = (around.layout, around.layout.node(owner));
        let place = Layout::part(self.rank) + at;
        let words = at.is_multiple_of(8) && len.is_multiple_of(8);
        let by_index = words && self.random.one_in(2);
        if !by_index && !self.random.one_in(3) {
            return None;
        }
        around.model.counts.gathers += 1;
        let cookie = self.requester.begin_bytes(node, len as usize);
        let sent = if by_index {
            let words = [layout.bits(owner), place, cookie, AtomicOp::Load as u64];
            let indexes: Vec<u32> = (0..(len / 8) as u32).collect();
            let load = OperationPayload::Bytes(indexes.as_bytes().to_vec());
            self.post(node, code::BATCH, &words, load)
        } else {
            let (mut ranges, mut from) = (Vec::new(), 0);
            while from < len {
                let bytes = self.random.between(1, len - from);
                ranges.push(Range::new(place + from, bytes));
                from += bytes;
            }
            let load = OperationPayload::Bytes(ranges.as_bytes().to_vec());
            self.post(node, code::GATHER, &[layout.bits(owner), 0, cookie], load)
        };
        if !sent {
            self.requester.take(cookie);
        }
        sent.then_some(cookie)
    }

    /// Has an interface add to words of any nodes' segments, which it forwards.
    pub(super) fn spread(
        &mut self,
        by_way_of: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let via = around.layout.node(by_way_of);
        if via == self.node {
            return CallerActivity::Nothing;
        }
        let ranks = u64::from(around.plan.ranks());
        let (mut updates, mut adds, mut owners) = (Vec::new(), Vec::new(), 0_u64);
        for _ in 0..self.random.between(1, UPDATES) {
            let owner = self.random.below(ranks) as u32;
            let (which, operand) = (self.random.below(TICKETS), self.random.between(1, 1000));
            updates.push(SpreadUpdate::new(around.layout.name(owner), which as u32, operand));
            adds.push((SharedSum::Ticket(owner, which), operand));
            owners |= 1 << owner;
        }
        let cookie = self.requester.begin(via);
        let load = OperationPayload::Bytes(updates.as_bytes().to_vec());
        let words = [0, 0, cookie, AtomicOp::Add as u64];
        if !self.post(via, code::SPREAD, &words, load) {
            self.requester.take(cookie);
            return CallerActivity::Nothing;
        }
        around.model.counts.spreads += 1;
        for sum in adds {
            around.model.on_add(self.rank, Model::SPREAD, sum, false);
        }
        CallerActivity::Spreads { cookie, via, owners }
    }

    /// Handles the end of a spread: all of it has happened, or any part, if a rank died.
    pub(super) fn end_spread(
        &mut self,
        (cookie, via, owners): (u64, u32, u64),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let concerned = (0..around.plan.ranks())
            .filter(|rank| owners >> rank & 1 != 0 || around.layout.node(*rank) == via);
        // A refusal must be explained by the death of one of them.
        let dead = concerned.clone().find(|&rank| around.model.is_dead(rank));
        let first = concerned.min().unwrap_or_default();
        let (completion, _) = self.end_of(cookie, (via, dead.unwrap_or(first)), around)?;
        match completion {
            Completion::Done(_) => around.model.on_quiet(self.rank, Model::SPREAD),
            _ => around.model.on_unsure(self.rank, Model::SPREAD),
        }
        Some(CallerActivity::Nothing)
    }

    /// Waits until the signal of a rank to another has reached a number that was sent.
    pub(super) fn ask_when(
        &mut self,
        owner: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let from = self.random.below(u64::from(around.plan.ranks())) as u32;
        let n = around.model.queued_messages(from, owner);
        if n == 0 || self.is_near(owner, around) {
            return CallerActivity::Nothing;
        }
        let node = around.layout.node(owner);
        let until = self.until(around);
        let n = if until == Time::MAX { n } else { n + self.random.below(2) };
        let cookie = self.requester.begin(node);
        let (segment, at) = (around.layout.bits(owner), Layout::signal(from));
        let words = [segment, at, cookie, Comparison::AtLeast as u64, n];
        if self.post(node, code::WHEN, &words, OperationPayload::Nothing) {
            return CallerActivity::AsksWhen { owner, from, cookie, n, until, cancelled: false };
        }
        self.requester.take(cookie);
        CallerActivity::Nothing
    }

    pub(super) fn await_when(
        &mut self,
        (owner, from, n): (u32, u32, u64),
        (cookie, until, cancelled): (u64, Time, bool),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        // The sender of the signal may have died before sending it.
        let gone = around.memory.death_of(from).is_some();
        let limit = (if gone { 0 } else { until }, cancelled);
        let completion = match self.await_end((owner, cookie), limit, around) {
            Ok(completion) => completion,
            Err(now) => {
                let cancelled = true;
                let given_up =
                    CallerActivity::AsksWhen { owner, from, cookie, n, until, cancelled };
                return now.then_some(given_up);
            }
        };
        if let Completion::Done(seen) = completion {
            around.model.counts.words_awaited += 1;
            let sent = around.model.queued_messages(from, owner);
            if seen < n || seen > sent {
                let what = format!("rank {} waited for {n} and got {seen}", self.rank);
                around.model.complain(format!("{what}; {sent} were sent"));
            }
        }
        Some(CallerActivity::Nothing)
    }
}
