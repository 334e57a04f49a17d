//! Updates that ranks' programs collect in batches, by the collector and the grid of
//! `clump-pgas`, in virtual time.

use super::activity::CallerActivity;
use super::batches::UPDATES;
use super::caller::{Caller, CallerEnvironment};
use super::layout::{Layout, TICKETS};
use super::line::OperationPayload;
use super::model::{Model, SharedSum};
use crate::kernel::Time;
use clump_onesided::protocol::code;
use clump_onesided::{AtomicOp, SpreadUpdate, Update};
use clump_pgas::collector::{BatchKind, ClosedBatch, SendCause};
use zerocopy::IntoBytes;

/// All updates here are additions to words of eight bytes.
const KIND: BatchKind = BatchKind { op: AtomicOp::Add, halves: false };

impl Caller {
    /// Adds to words of other nodes, in batches.
    pub(super) fn collect(&mut self, around: &mut CallerEnvironment<'_>) -> CallerActivity {
        for _ in 0..self.random.between(1, UPDATES) {
            let owner = self.random.below(u64::from(around.plan.ranks())) as u32;
            let (which, operand) = (self.random.below(TICKETS), self.random.between(1, 1000));
            if !self.is_near(owner, around) {
                self.collect_one(owner, (which, operand), around);
            }
        }
        CallerActivity::Nothing
    }

    fn collect_one(
        &mut self,
        owner: u32,
        (which, operand): (u64, u64),
        around: &mut CallerEnvironment<'_>,
    ) {
        around.model.counts.collected += 1;
        let (now, home) = (around.now, around.layout.node(owner));
        let sum = (SharedSum::Ticket(owner, which), operand);
        let grid = self.collected.grid;
        let middle = grid.and_then(|grid| grid.middle(self.node, home));
        let combiner = around.plan.combines.then_some(self.node);
        if let Some(via) = middle.or(combiner) {
            around.model.counts.forwarded += 1;
            around.model.on_add(self.rank, Model::forwarded_by(via), sum, false);
            let dest = self.collected.forwarders[via as usize].clone();
            let new = || SpreadUpdate::new(around.layout.name(owner), which as u32, operand);
            if self.collected.forwarded.push_quickly(&dest, KIND, 0, new()) {
                return;
            }
            while let Some(slot) = self.collected.forwarded.obstacle(&dest, KIND, 0) {
                self.send_forwarded(slot, SendCause::Displaced);
            }
            if let Some(slot) = self.collected.forwarded.push(&dest, (KIND, 0), now, new()) {
                self.send_forwarded(slot, SendCause::Full);
            }
        } else {
            around.model.on_add(self.rank, home, sum, false);
            let dest = self.collected.segments[owner as usize].clone();
            let new = || Update::new(which as u32, operand);
            if self.collected.straight.push_quickly(&dest, KIND, 0, new()) {
                return;
            }
            while let Some(slot) = self.collected.straight.obstacle(&dest, KIND, 0) {
                self.send_straight(slot, SendCause::Displaced, around.layout);
            }
            if let Some(slot) = self.collected.straight.push(&dest, (KIND, 0), now, new()) {
                self.send_straight(slot, SendCause::Full, around.layout);
            }
        }
        self.send_old_batches(now, around.layout);
    }

    /// Sends the batches that are old.
    pub(super) fn send_old_batches(&mut self, now: Time, layout: &Layout) {
        while let Some(slot) = self.collected.straight.expired(now) {
            self.send_straight(slot, SendCause::Old, layout);
        }
        while let Some(slot) = self.collected.forwarded.expired(now) {
            self.send_forwarded(slot, SendCause::Old);
        }
    }

    /// Sends all batches.
    pub(super) fn flush_batches(&mut self, layout: &Layout) {
        while let Some(slot) = self.collected.straight.oldest() {
            self.send_straight(slot, SendCause::Flushed, layout);
        }
        while let Some(slot) = self.collected.forwarded.oldest() {
            self.send_forwarded(slot, SendCause::Flushed);
        }
    }

    fn send_straight(&mut self, slot: u32, cause: SendCause, layout: &Layout) {
        let Some(closed) = self.collected.straight.close(slot, cause) else { return };
        let ClosedBatch { dest, updates, .. } = closed;
        let words = [layout.bits(dest.number), 0, 0, AtomicOp::Add as u64];
        let load = OperationPayload::Bytes(updates.as_bytes().to_vec());
        self.post(layout.node(dest.number), code::BATCH, &words, load);
        self.collected.straight.keep(slot, updates);
    }

    fn send_forwarded(&mut self, slot: u32, cause: SendCause) {
        let Some(closed) = self.collected.forwarded.close(slot, cause) else { return };
        let ClosedBatch { dest, updates, .. } = closed;
        let load = OperationPayload::Bytes(updates.as_bytes().to_vec());
        self.post(dest.number, code::SPREAD, &[0, 0, 0, AtomicOp::Add as u64], load);
        self.collected.forwarded.keep(slot, updates);
    }
}
