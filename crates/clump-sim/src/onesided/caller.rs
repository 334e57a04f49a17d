//! A rank that uses the memory of others: its requester and its stack are the real ones, and it
//! does what `clump_rma::Rma` does over an endpoint, one step at a time.

use super::activity::CallerActivity;
use super::batches::CollectedUpdates;
use super::layout::Layout;
use super::line::{CallerLine, OperationPayload};
use super::model::Model;
use super::plan::{NetworkMode, OneSidedPlan};
use crate::interface::InterfaceEnvironment;
use crate::kernel::{BACKSTOP, BACKSTOP_IDLE, Mode, Random, Time};
use crate::sleeper::Sleeper;
use clump_net::Batch;
use clump_onesided::{Completion, Refusal, Requester};
use clump_shm::node::NodeMemory;

/// Longest sleep of a rank that waits for memory of its node (`clump-rma`).
const NAP: Time = 10_000_000;

/// Surroundings of a rank.
pub(crate) struct CallerEnvironment<'a> {
    pub(crate) now: Time,
    pub(crate) memory: &'a NodeMemory,
    pub(crate) layout: &'a Layout,
    pub(crate) model: &'a mut Model,
    pub(crate) batch: &'a mut Batch,
    pub(crate) plan: &'a OneSidedPlan,
    /// True once nothing new is begun.
    pub(crate) healed: bool,
}

/// A simulated rank that does one-sided operations.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) mode: Mode,
    pub(crate) line: Option<CallerLine>,
    pub(crate) requester: Requester,
    pub(super) collected: CollectedUpdates,
    pub(crate) doing: CallerActivity,
    pub(crate) next_at: Time,
    /// Time from which nothing new is begun. Where proxies carry messages, some ranks leave before
    /// faults end.
    pub(crate) leaves_at: Time,
    pub(crate) random: Random,
    /// Offset of its clock.
    pub(super) clock: Time,
    /// While it sleeps, an actor that changes what it waits for must ring.
    pub(crate) sleeper: Sleeper,
    /// True once it has done everything, after the faults.
    pub(crate) finished: bool,
}

impl Caller {
    pub(crate) fn new(
        rank: u32,
        plan: &OneSidedPlan,
        memory: &NodeMemory,
        trade: &InterfaceEnvironment<'_>,
    ) -> anyhow::Result<Self> {
        let mut random = Random::new(plan.base.seed ^ u64::from(rank + 1) << 48);
        let mut of_batches = Random::new(!plan.base.seed ^ u64::from(rank + 1) << 48);
        Ok(Self {
            rank,
            node: memory.node(),
            mode: Mode::Polling,
            line: Some(CallerLine::new(rank, memory, trade)?),
            requester: Requester::new(plan.nodes()),
            collected: CollectedUpdates::new(plan, &mut of_batches),
            doing: CallerActivity::Nothing,
            next_at: random.wait(plan.think),
            leaves_at: match plan.network_mode() {
                NetworkMode::Direct => Time::MAX,
                NetworkMode::Proxies => plan.base.heal_at / 2 + random.below(plan.base.heal_at),
            },
            random,
            clock: plan.base.clocks[rank as usize],
            sleeper: Sleeper::new(memory, rank),
            finished: false,
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.line.is_none()
    }

    /// Returns true if it neither acts nor polls now.
    pub(crate) fn is_away(&self, now: Time) -> bool {
        match self.mode {
            Mode::Frozen(until) => now < until,
            Mode::Computing(until) => {
                now < until && self.line.as_ref().is_some_and(CallerLine::is_by_proxies)
            }
            Mode::Polling => false,
        }
    }

    /// Kills it: its stack is dropped, and its locks stay held.
    pub(crate) fn die(&mut self) {
        (self.line, self.finished) = (None, true);
    }

    /// Describes its state, for a failure report.
    pub(crate) fn describe(&self) -> String {
        let Self { rank, node, doing, mode, .. } = self;
        let Some(line) = &self.line else { return format!("rank {rank} of node {node}: dead") };
        let (sent, line) = (line.has_sent_all(), line.describe());
        format!("rank {rank} of node {node}: {mode:?} {doing:?}, all sent {sent}, {line}")
    }

    /// Acts. Returns the time at which it acts next.
    pub(crate) fn act(&mut self, around: &mut CallerEnvironment<'_>) -> Time {
        let now = around.now;
        match self.mode {
            Mode::Frozen(until) | Mode::Computing(until) if now >= until => {
                self.mode = Mode::Polling;
            }
            Mode::Frozen(until) => return until,
            Mode::Computing(until) => return self.run_backstop(around).min(until),
            Mode::Polling => {}
        }
        let slept = self.sleeper.wake();
        let at = now + self.clock;
        let Self { line, requester, .. } = self;
        let Some(line) = line else { return Time::MAX };
        let mut busy = 0;
        match line.receive(at, around.batch, requester) {
            Ok(received) => busy += received,
            Err(what) => around.model.complain(what),
        }
        if busy > 0 && slept == Some(false) && line.is_by_proxies() {
            let what =
                format!("{busy} messages were there for rank {}, which was not woken", self.rank);
            around.model.complain(what);
        }
        line.housekeeping();
        line.service(at, busy > 0);
        if self.finished {
            return self.sleep(now, around, Time::MAX);
        }
        let waited = self.doing.waits_near() && now < self.doing.due(Time::MAX);
        let was = if waited { format!("{:?}", self.doing) } else { String::new() };
        self.send_old_batches(now, around.layout);
        let moved = self.go_on(around);
        if moved && waited && slept == Some(false) {
            let rank = self.rank;
            let what =
                format!("rank {rank} waited for a condition that held, and was not woken: {was}");
            around.model.complain(what);
        }
        let Self { line, requester, .. } = self;
        let Some(line) = line else { return Time::MAX };
        busy += line.send(at, requester);
        requester.check_invariants();
        if busy > 0 || moved {
            return now + around.plan.base.turn + 100 * busy as Time;
        }
        let wish = self.doing.due(self.next_at);
        self.sleep(now, around, wish)
    }

    /// Does the backstop's work for it while it computes.
    fn run_backstop(&mut self, around: &mut CallerEnvironment<'_>) -> Time {
        let at = around.now + self.clock;
        let quiet = self.line.as_mut().and_then(|line| line.run_backstop(at, around.batch));
        let idle = |quiet| if quiet { BACKSTOP_IDLE } else { BACKSTOP };
        quiet.map_or(Time::MAX, |quiet| around.now + idle(quiet))
    }

    fn sleep(&mut self, now: Time, around: &CallerEnvironment<'_>, wish: Time) -> Time {
        let at = now + self.clock;
        let Self { line, sleeper, clock, .. } = self;
        let Some(line) = line else { return Time::MAX };
        let timer = line.before_sleep(at).map_or(Time::MAX, |due| due.saturating_sub(*clock));
        let nap = if self.doing.waits() { now + NAP } else { Time::MAX };
        let soon = now + around.plan.base.turn;
        if !sleeper.sleep(|| line.anything_waiting()) {
            return soon;
        }
        timer.min(wish).min(nap).max(soon)
    }

    /// Sends a request of at most seven words. Returns false if its node is lost.
    pub(crate) fn post(
        &mut self,
        node: u32,
        handler: u8,
        words: &[u64],
        load: OperationPayload,
    ) -> bool {
        let Self { line, requester, .. } = self;
        let (Some(line), Some(encoded)) = (line, requester.word(node, handler, words)) else {
            return false;
        };
        line.post(node, encoded, load);
        true
    }

    /// Returns how an operation has ended, if it has, and removes it from the requester.
    pub(crate) fn end_of(
        &mut self,
        cookie: u64,
        (node, owner): (u32, u32),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<(Completion, Vec<u8>)> {
        if self.requester.completion(cookie) == Some(Completion::Waiting) {
            if !around.memory.is_node_lost(node) {
                return None;
            }
            self.requester.lose(node);
        }
        let end = self.requester.take_bytes(cookie)?;
        if let (Completion::Refused(why, ..), _) = end {
            let dead = around.model.is_dead(owner);
            let expected = match why {
                Refusal::NodeLost | Refusal::OwnerDead => dead,
                Refusal::HolderDied | Refusal::LockBusy | Refusal::TimedOut => true,
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
