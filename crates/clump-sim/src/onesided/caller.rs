//! A rank that uses the memory of others: its requester and its stack are the real ones, and it does what
//! `clump_rma::Rma` does over an endpoint, one step at a time.

use super::layout::Layout;
use super::line::{Line, Load};
use super::model::Model;
use super::plan::Plan;
use super::program::Doing;
use crate::interface::Trade;
use crate::random::Random;
use crate::rank::{BACKSTOP, BACKSTOP_IDLE, Mode};
use crate::sleeper::Sleeper;
use crate::switch::Time;
use clump_am::gone_peers;
use clump_net::Batch;
use clump_net::seal::KeyError;
use clump_rma::{Fate, Requester, Why};
use clump_shm::node::NodeMemory;

/// How long a rank that waits for memory of its node sleeps at most (`clump-rma`).
const NAP: Time = 10_000_000;

/// What is around a rank.
pub(crate) struct Around<'a> {
    pub(crate) now: Time,
    pub(crate) memory: &'a NodeMemory,
    pub(crate) layout: &'a Layout,
    pub(crate) model: &'a mut Model,
    pub(crate) batch: &'a mut Batch,
    pub(crate) plan: &'a Plan,
    /// Nothing new is begun.
    pub(crate) healed: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) mode: Mode,
    pub(crate) line: Option<Line>,
    pub(crate) requester: Requester,
    pub(crate) doing: Doing,
    pub(crate) next_at: Time,
    pub(crate) random: Random,
    /// By how much its clock is ahead.
    clock: Time,
    /// When it sleeps, whoever changes what it waits for must ring.
    pub(crate) sleeper: Sleeper,
    /// It has done everything, after the faults.
    pub(crate) finished: bool,
}

impl Caller {
    pub(crate) fn new(
        rank: u32,
        plan: &Plan,
        memory: &NodeMemory,
        trade: &Trade<'_>,
    ) -> Result<Self, KeyError> {
        let mut random = Random::new(plan.seed ^ u64::from(rank + 1) << 48);
        Ok(Self {
            rank,
            node: memory.node(),
            mode: Mode::Polling,
            line: Some(Line::new(rank, memory, trade)?),
            requester: Requester::new(plan.nodes()),
            doing: Doing::Nothing,
            next_at: random.wait(plan.think),
            random,
            clock: plan.clocks[rank as usize],
            sleeper: Sleeper::new(memory, rank),
            finished: false,
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.line.is_none()
    }

    /// Whether it neither acts nor looks now.
    pub(crate) fn is_away(&self, now: Time) -> bool {
        matches!(self.mode, Mode::Frozen(until) if now < until)
    }

    /// It dies: its stack is gone, and what it holds stays as it is.
    pub(crate) fn die(&mut self) {
        (self.line, self.finished) = (None, true);
    }

    /// What it is like, for a report of failure.
    pub(crate) fn tell(&self) -> String {
        let Self { rank, node, doing, mode, .. } = self;
        let Some(line) = &self.line else { return format!("rank {rank} of node {node}: dead") };
        let (sent, stack) = (line.has_sent_all(), line.stack.describe());
        format!("rank {rank} of node {node}: {mode:?} {doing:?}, all sent {sent}, {stack}")
    }

    /// Acts; gives when it acts next.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) -> Time {
        let now = around.now;
        match self.mode {
            Mode::Frozen(until) | Mode::Computing(until) if now >= until => {
                self.mode = Mode::Polling;
            }
            Mode::Frozen(until) => return until,
            Mode::Computing(until) => return self.look_behind(around).min(until),
            Mode::Polling => {}
        }
        let slept = self.sleeper.get_up();
        let at = now + self.clock;
        let Self { line, requester, .. } = self;
        let Some(line) = line else { return Time::MAX };
        let mut busy = 0;
        match line.receive(at, around.batch, requester) {
            Ok(received) => busy += received,
            Err(what) => around.model.complain(what),
        }
        for (peer, why) in gone_peers(&line.stack, around.memory) {
            line.stack.lose(peer, why);
        }
        line.stack.service(at, busy > 0);
        if self.finished {
            return self.sleep(now, around, Time::MAX);
        }
        let waited = self.doing.waits_near() && now < self.doing.due(Time::MAX);
        let was = if waited { format!("{:?}", self.doing) } else { String::new() };
        let moved = self.go_on(around);
        if moved && waited && slept == Some(false) {
            let rank = self.rank;
            let what = format!("rank {rank} waited for what was there, and nobody woke it: {was}");
            around.model.complain(what);
        }
        let Self { line, requester, .. } = self;
        let Some(line) = line else { return Time::MAX };
        busy += line.send(at, requester);
        if busy > 0 || moved {
            return now + around.plan.turn + 100 * busy as Time;
        }
        let wish = self.doing.due(self.next_at);
        self.sleep(now, around, wish)
    }

    /// What the backstop does (`clump_net::Interface`).
    fn look_behind(&mut self, around: &mut Around<'_>) -> Time {
        let at = around.now + self.clock;
        let Some(Line { stack, .. }) = &mut self.line else { return Time::MAX };
        while stack.receive(|| at, None, around.batch) > 0 {}
        stack.service(at, true);
        stack.acknowledge_all(at);
        let _ = stack.take_mailed();
        around.now + if stack.is_quiet() { BACKSTOP_IDLE } else { BACKSTOP }
    }

    fn sleep(&mut self, now: Time, around: &Around<'_>, wish: Time) -> Time {
        let at = now + self.clock;
        let Some(Line { stack, .. }) = &mut self.line else { return Time::MAX };
        stack.service(at, true);
        stack.acknowledge_all(at);
        let timer = stack.next_timeout().map_or(Time::MAX, |due| due.saturating_sub(self.clock));
        let nap = if self.doing.waits() { now + NAP } else { Time::MAX };
        self.sleeper.lie_down(|| false);
        timer.min(wish).min(nap).max(now + around.plan.turn)
    }

    /// Sends a request; the words are at most seven. False when its node is lost.
    pub(crate) fn post(&mut self, node: u32, handler: u8, words: &[u64], load: Load) -> bool {
        let Self { line, requester, .. } = self;
        let (Some(line), Some(worded)) = (line, requester.word(node, handler, words)) else {
            return false;
        };
        line.post(node, worded, load);
        true
    }

    /// How an operation has ended, if it has; takes it out of the books then.
    pub(crate) fn end_of(
        &mut self,
        cookie: u64,
        (node, owner): (u32, u32),
        around: &mut Around<'_>,
    ) -> Option<(Fate, Vec<u8>)> {
        if self.requester.fate(cookie) == Some(Fate::Waiting) {
            if !around.memory.is_node_lost(node) {
                return None;
            }
            self.requester.lose(node);
        }
        let end = self.requester.take_bytes(cookie)?;
        if let (Fate::Refused(why, ..), _) = end {
            let dead = around.model.is_dead(owner);
            let expected = match why {
                Why::NodeLost | Why::OwnerDead => dead,
                Why::HolderDied | Why::LockBusy | Why::TimedOut => true,
                _ => false,
            };
            around.model.counts.refused_of_dead += u64::from(dead);
            if !expected {
                let what = format!("rank {} was refused at rank {owner}: {why}", self.rank);
                around.model.complain(what);
            }
        }
        Some(end)
    }
}
