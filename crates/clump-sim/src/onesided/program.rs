//! Programs of ranks: random operations, one after the other, each checked against the model.

use super::activity::{CallerActivity, Next};
use super::caller::{Caller, CallerEnvironment};
use super::layout::{Layout, PART, SLOT, TICKETS};
use super::line::OperationPayload;
use super::mailbox::{encode_mailbox_message, notify, wake};
use super::model::{Model, SharedSum};
use clump_onesided::protocol::{ask, atomic_handler, code, deposit_offset};
use clump_onesided::{AtomicOp, Completion, FlagWords, Width};
use clump_os::sync::Ordering;

/// A longer put is deposited as it arrives (`clump-rma`).
const LONG_FROM: usize = 4 << 10;

fn bytes_of(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(i | 1) >> 7) as u8 ^ i as u8).collect()
}

impl Caller {
    /// Continues the current operation, or begins one. Returns false when nothing moves.
    pub(crate) fn go_on(&mut self, around: &mut CallerEnvironment<'_>) -> bool {
        let doing = std::mem::replace(&mut self.doing, CallerActivity::Nothing);
        match self.advance(doing.clone(), around) {
            Some(next) => {
                self.doing = next;
                true
            }
            None => {
                // Time limits may have changed it.
                if matches!(self.doing, CallerActivity::Nothing) {
                    self.doing = doing;
                }
                false
            }
        }
    }

    fn advance(
        &mut self,
        doing: CallerActivity,
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let now = around.now;
        match doing {
            CallerActivity::Nothing => self.begin(around),
            CallerActivity::Adding { cookie, owner, sum } => {
                let node = around.layout.node(owner);
                let (completion, _) = self.end_of(cookie, (node, owner), around)?;
                if let Completion::Done(before) = completion {
                    around.model.on_given(self.rank, sum, before);
                }
                Some(CallerActivity::Nothing)
            }
            CallerActivity::Quiet { cookies, next } => self.grow_quiet(cookies, next, around),
            CallerActivity::Getting { cookie, owner, at, len } => {
                let node = around.layout.node(owner);
                let (completion, got) = self.end_of(cookie, (node, owner), around)?;
                if completion == Completion::Done(0) {
                    self.compare((owner, at, len), &got, around);
                }
                Some(CallerActivity::Nothing)
            }
            CallerActivity::AwaitsSignal { from, n } => {
                let seen = around.layout.word(self.rank, Layout::signal(from));
                if seen >= n {
                    around.model.on_signal(around.layout, from, self.rank, seen);
                    around.model.counts.signals_awaited += 1;
                    return Some(CallerActivity::Nothing);
                }
                around.memory.death_of(from).map(|_| CallerActivity::Nothing)
            }
            CallerActivity::AsksLock { home, cookie, until, cancelled } => {
                self.await_grant((home, cookie), (until, cancelled), around)
            }
            CallerActivity::AwaitsLock { home, turn, until } => {
                self.await_turn(home, turn, until, around)
            }
            CallerActivity::Holds { home, position, word, cookie, until } => {
                let over = now >= until || around.healed;
                over.then(|| self.release(home, (position, word), cookie, around))
            }
            CallerActivity::AsksFlag { home, cookie, value, until, cancelled } => {
                self.await_told((home, cookie, value), (until, cancelled), around)
            }
            CallerActivity::AwaitsFlag { home, value, until } => {
                let flag = FlagWords::over(around.layout.cells(home), around.layout.flag_at())?;
                let seen = flag.get() >= value;
                if !seen && now < until && around.memory.death_of(home).is_none() {
                    return None;
                }
                flag.unwatch();
                around.model.counts.flags_awaited += u64::from(seen);
                Some(CallerActivity::Nothing)
            }
            CallerActivity::Spreads { cookie, via, owners } => {
                self.end_spread((cookie, via, owners), around)
            }
            CallerActivity::AsksWhen { owner, from, cookie, n, until, cancelled } => {
                self.await_when((owner, from, n), (cookie, until, cancelled), around)
            }
            CallerActivity::Leaving(proxies) => {
                let block = around.memory.rank(self.rank)?;
                self.finished = block.close_handshakes() >= proxies;
                self.finished.then(|| {
                    around.model.on_close(around.layout, self.rank);
                    CallerActivity::Nothing
                })
            }
        }
    }

    /// Begins the next operation.
    fn begin(&mut self, around: &mut CallerEnvironment<'_>) -> Option<CallerActivity> {
        if around.healed || around.now >= self.leaves_at {
            return self.finish(around);
        }
        if around.now < self.next_at {
            return None;
        }
        if self.line.as_ref().is_none_or(|line| !line.has_sent_all()) {
            return None; // it waits for room, as every call does
        }
        self.next_at = around.now + 1 + self.random.wait(around.plan.think);
        around.model.counts.operations += 1;
        let owner = self.random.below(u64::from(around.plan.ranks())) as u32;
        if around.memory.death_of(owner).is_some() {
            return Some(CallerActivity::Nothing);
        }
        if let Some(wanted) = around.plan.wanted.filter(|_| !self.random.one_in(4)) {
            let known_dead = around.memory.death_of(wanted).is_some();
            return Some(match self.random.below(4) {
                0 => self.quiet(Next::Nothing, around),
                _ if known_dead => CallerActivity::Nothing,
                _ => self.ask_lock(wanted, around),
            });
        }
        let doing = match self.random.below(28) {
            0..3 => self.add(owner, true, around),
            3..5 => self.add(owner, false, around),
            5..8 => self.put(owner, around),
            8..10 => {
                let (at, len) = self.span();
                self.quiet(Next::Verify { owner, at, len }, around)
            }
            10..12 => self.send_mail(owner, around),
            12 => {
                let n = around.model.queued_messages(owner, self.rank);
                if n == 0 {
                    CallerActivity::Nothing
                } else {
                    CallerActivity::AwaitsSignal { from: owner, n }
                }
            }
            13..18 => self.ask_lock(owner, around),
            18 => self.add_to_flag(owner, around),
            19 => self.ask_flag(owner, around),
            20 => self.add_many(owner, around),
            21 => self.spread(owner, around),
            22..24 => self.ask_when(owner, around),
            24..27 => self.collect(around),
            _ => self.quiet(Next::Nothing, around),
        };
        Some(doing)
    }

    /// Begins the end: a quiet of all nodes; or, half of the time, a close handshake with the
    /// proxies.
    fn finish(&mut self, around: &mut CallerEnvironment<'_>) -> Option<CallerActivity> {
        self.flush_batches(around.layout);
        let line = self.line.as_mut()?;
        if !line.is_by_proxies() || self.random.one_in(2) {
            return Some(self.quiet(Next::Finish, around));
        }
        line.has_sent_all().then(|| CallerActivity::Leaving(line.begin_close()))
    }

    pub(super) fn is_near(&self, owner: u32, around: &CallerEnvironment<'_>) -> bool {
        around.layout.node(owner) == self.node
    }

    fn span(&mut self) -> (u64, u64) {
        let len = match self.random.below(4) {
            0 => self.random.between(1, 9),
            1 => self.random.between(1, 300),
            2 => 3500 + self.random.below(1500),
            _ => self.random.between(1, PART),
        };
        (self.random.below(PART - len + 1), len)
    }

    fn add(
        &mut self,
        owner: u32,
        answered: bool,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let which = self.random.below(TICKETS);
        let (offset, operand) = (which * 8, self.random.between(1, 1000));
        let (node, sum) = (around.layout.node(owner), SharedSum::Ticket(owner, which));
        if self.is_near(owner, around) {
            if let Some(word) = around.layout.cells(owner).word(offset) {
                let before = word.fetch_add(operand, Ordering::AcqRel);
                around.model.on_add(self.rank, node, (sum, operand), true);
                around.model.on_given(self.rank, sum, before);
            }
            return CallerActivity::Nothing;
        }
        let segment = around.layout.bits(owner);
        let handler = atomic_handler(AtomicOp::Add, Width::Word, answered);
        let cookie = self.requester.begin(node);
        let words = [segment, offset, cookie, operand];
        let bare = [segment, offset, operand];
        if self.post(
            node,
            handler,
            if answered { &words } else { &bare },
            OperationPayload::Nothing,
        ) {
            around.model.on_add(self.rank, node, (sum, operand), false);
            if answered {
                return CallerActivity::Adding { cookie, owner, sum };
            }
        }
        self.requester.take(cookie);
        CallerActivity::Nothing
    }

    fn put(&mut self, owner: u32, around: &mut CallerEnvironment<'_>) -> CallerActivity {
        let ((at, len), seed) = (self.span(), self.random.word() | 1);
        let node = around.layout.node(owner);
        let data = bytes_of(seed, len);
        around.model.counts.puts += 1;
        around.model.counts.bytes_put += len;
        let place = Layout::part(self.rank) + at;
        // Puts of one rank to its own part overlap: this one comes after those before.
        self.requester.fence();
        if self.is_near(owner, around) {
            around.layout.cells(owner).write(place, &data);
        } else if len as usize >= LONG_FROM {
            if self.requester.is_fenced(node) {
                return self.quiet(Next::PutLong { owner, at, len, seed }, around);
            }
            return self.put_long((owner, at, len), seed, around);
        } else {
            let segment = around.layout.bits(owner);
            let half = len / 2;
            let strided = half > 0 && len.is_multiple_of(2) && self.random.one_in(3);
            let strides = [segment, place, 0, half, half];
            let words = if strided { &strides[..] } else { &strides[..3] };
            let handler = if strided { ask::PUT_STRIDED } else { ask::PUT };
            if !self.post(node, handler, words, OperationPayload::Bytes(data.clone())) {
                return CallerActivity::Nothing;
            }
        }
        self.note_put((owner, at, len), &data, around.model);
        CallerActivity::Nothing
    }

    fn note_put(&self, (owner, at, len): (u32, u64, u64), data: &[u8], model: &mut Model) {
        let part = model.part(owner, self.rank);
        part[at as usize..(at + len) as usize].copy_from_slice(data);
    }

    pub(super) fn put_long(
        &mut self,
        (owner, at, len): (u32, u64, u64),
        seed: u64,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let (layout, data) = (around.layout, bytes_of(seed, len));
        let place = Layout::part(self.rank) + at;
        let (first, bytes) = (layout.first_of_node(owner), data.len() as u64);
        let deposit = deposit_offset(layout.name(owner), first, place, bytes);
        let Some(deposit) = deposit else { return CallerActivity::Nothing };
        let words = [layout.bits(owner), place, 0];
        let load = OperationPayload::Deposit(deposit, data.clone());
        if self.post(layout.node(owner), ask::PUT_LONG, &words, load) {
            self.note_put((owner, at, len), &data, around.model);
        }
        CallerActivity::Nothing
    }

    /// Sends a mailbox message and the signal that announces it, ordered after everything before.
    fn send_mail(&mut self, to: u32, around: &mut CallerEnvironment<'_>) -> CallerActivity {
        let (from, layout) = (self.rank, around.layout);
        if to == from {
            return CallerActivity::Nothing;
        }
        self.requester.fence();
        let near = self.is_near(to, around);
        if !near && self.requester.is_lost(layout.node(to)) {
            return CallerActivity::Nothing;
        }
        let n = around.model.next_mail(from, to);
        let (data, slot) = (Model::content(from, n), Layout::slot(from, n));
        debug_assert!(data.len() as u64 == SLOT);
        if near {
            let cells = layout.cells(to);
            cells.write(slot, &data);
            if let Some(word) = cells.word(Layout::signal(from)) {
                word.store(n, Ordering::Release);
            }
            notify(around.memory, layout.name(to), Layout::signal(from));
            wake(around.memory, to);
            return CallerActivity::Nothing;
        }
        let (segment, signal) = (layout.bits(to), Layout::signal(from));
        if self.random.one_in(3) {
            let load = OperationPayload::Bytes(encode_mailbox_message(slot, &data, signal, n));
            let sent = self.post(layout.node(to), code::APPLY, &[segment, 0, 0, 1, 1], load);
            around.model.counts.applies += u64::from(sent);
            return CallerActivity::Nothing;
        }
        let words = [segment, slot, 0, segment, signal, n, 0];
        self.post(layout.node(to), ask::PUT, &words, OperationPayload::Bytes(data.to_vec()));
        CallerActivity::Nothing
    }

    pub(super) fn verify(
        &mut self,
        (owner, at, len): (u32, u64, u64),
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        around.model.counts.gets += 1;
        let (layout, node) = (around.layout, around.layout.node(owner));
        let place = Layout::part(self.rank) + at;
        if self.is_near(owner, around) {
            let mut got = vec![0; len as usize];
            layout.cells(owner).read(place, &mut got);
            self.compare((owner, at, len), &got, around);
            return CallerActivity::Nothing;
        }
        if let Some(cookie) = self.begin_gather((owner, at, len), around) {
            return CallerActivity::Getting { cookie, owner, at, len };
        }
        let cookie = self.requester.begin_bytes(node, len as usize);
        let words = [layout.bits(owner), place, cookie, len];
        if self.post(node, ask::GET, &words, OperationPayload::Nothing) {
            return CallerActivity::Getting { cookie, owner, at, len };
        }
        self.requester.take(cookie);
        CallerActivity::Nothing
    }

    fn compare(
        &self,
        (owner, at, len): (u32, u64, u64),
        got: &[u8],
        around: &mut CallerEnvironment<'_>,
    ) {
        if around.model.is_dead(owner) {
            return;
        }
        let rank = self.rank;
        let part = &around.model.part(owner, rank)[at as usize..(at + len) as usize];
        if got != part {
            let from = got.iter().zip(part).position(|(a, b)| a != b).map(|i| i as u64 + at);
            let what = format!("rank {rank} finds its part at rank {owner} wrong from {from:?} on");
            around.model.complain(what);
        }
    }
}
