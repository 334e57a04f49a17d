//! A cluster of ranks that send messages, in virtual time.

use super::ledger::{self, SharedLedger};
use super::plan::ClusterPlan;
use super::rank::{Life, Listed, Rank, Surroundings};
use super::stale_stack::{PERIOD, StaleStack};
use crate::kernel::{
    Departure, Kernel, KernelConfig, MILLISECOND, Mode, PlannedFault, Random, SECOND, Time, World,
    key_of, mix,
};
use crate::summary::{RunFailure, RunSummary};
use clump_net::Batch;
use clump_net::seal::{JobKey, KeyError};
use clump_wire::Reason;

/// Once healed, all messages must be handled or returned within this time, and then all ranks must
/// end within the same.
const LIMIT: Time = 60 * SECOND;
/// Number of events after which a run counts as endless.
const MAX_EVENTS: u64 = 3_000_000;
/// Turns between two checks of a rank's memory.
const MEMORY_EVERY: u64 = 16;
/// Turns of a rank from one check of its stack's invariants to the next.
const INVARIANTS_EVERY: u64 = 4;

/// A running simulation of messages. Its actors are the ranks, and one for all stale stacks.
pub(crate) struct Cluster {
    plan: ClusterPlan,
    kernel: Kernel,
    ledger: SharedLedger,
    ranks: Vec<Rank>,
    stale_stacks: Vec<StaleStack>,
    key: JobKey,
    listed: Vec<Vec<Listed>>,
    batch: Batch,
    settled_at: Option<Time>,
    /// Number of open messages, and the time since which it is unchanged.
    open: (u64, Time),
    turns: u64,
    max_memory: usize,
    done: DoneBefore,
}

/// Totals of stacks that have ended.
#[derive(Debug, Default, Clone, Copy)]
struct DoneBefore {
    resent: u64,
    fragmented: u64,
    refused: u64,
}

impl Cluster {
    /// Creates the cluster of a plan, before anything happens. With `trace` it prints every step on
    /// standard error.
    pub(crate) fn new(plan: ClusterPlan, trace: bool) -> Result<Self, KeyError> {
        let seed = plan.base.seed;
        let mut kernel = Kernel::new(KernelConfig {
            begin: 0,
            // The last socket is the outsider's.
            ports: vec![plan.base.port.clone(); plan.ranks as usize + 1],
            link: &plan.base.link,
            random: Random::new(mix(seed)),
            actors: plan.ranks + 1,
            sites: (0..plan.ranks).map(|rank| vec![rank]).collect(),
            max_events: MAX_EVENTS,
            trace,
        });
        let ledger = SharedLedger::default();
        let key = key_of(seed)?;
        let rank = |id| Rank::new(id, &plan, &key, &kernel.switch, &ledger);
        let ranks = (0..plan.ranks).map(rank).collect::<Result<Vec<_>, _>>()?;
        let mut stale_stacks = Vec::new();
        if plan.outsider {
            let place = (plan.ranks, 0, 1);
            stale_stacks.push(StaleStack::new(&plan, &key_of(!seed)?, &kernel.switch, place)?);
        }
        for (at, fault) in plan.base.faults.clone() {
            kernel.schedule(at, fault);
        }
        (0..plan.ranks).for_each(|rank| kernel.wake(rank, 0));
        if plan.outsider {
            kernel.wake(plan.ranks, PERIOD);
        }
        Ok(Self {
            kernel,
            ledger,
            listed: ranks.iter().map(Rank::listed).collect(),
            ranks,
            stale_stacks,
            key,
            batch: Batch::default(),
            settled_at: None,
            open: (0, 0),
            turns: 0,
            max_memory: 0,
            done: DoneBefore::default(),
            plan,
        })
    }

    fn turn_of_rank(&mut self, now: Time, id: u32) {
        let Self { ranks, batch, listed, plan, kernel, .. } = self;
        let Some(rank) = ranks.get_mut(id as usize) else { return };
        let (demand, healed) = (&plan.program_demand, kernel.healed_at().is_some());
        let mut around = Surroundings { batch, demand, listed, healed };
        let (stats, life) = (rank.stack().map(|stack| *stack.stats()), rank.life);
        let next = rank.act(now, &mut around);
        if self.turns.is_multiple_of(INVARIANTS_EVERY)
            && let Some(stack) = rank.stack()
        {
            stack.check_invariants();
        }
        self.turns += 1;
        listed[id as usize] = rank.listed();
        if rank.life == Life::Gone {
            if life != Life::Gone {
                self.on_gone(now, id, stats);
            }
            return;
        }
        kernel.wake(id, next);
        if self.turns.is_multiple_of(MEMORY_EVERY) {
            self.check_memory(id);
        }
    }

    /// Records that a rank has completed its close handshake and ended; soon its agent notifies all
    /// others.
    fn on_gone(&mut self, now: Time, rank: u32, stats: Option<clump_net::Stats>) {
        self.kernel.say(now, &format!("rank {rank} has ended"));
        self.count(stats);
        self.kernel.retire(rank);
        let told = PlannedFault::Tell { ranks: 1 << rank, why: Departure::Closed };
        self.kernel.schedule(now + 20 * MILLISECOND, told);
    }

    fn count(&mut self, stats: Option<clump_net::Stats>) {
        let stats = stats.unwrap_or_default();
        self.done.resent += stats.units_resent;
        self.done.fragmented += stats.units_fragmented;
        self.done.refused += stats.packets_foreign + stats.packets_forged + stats.packets_replayed;
    }

    fn check_memory(&mut self, id: u32) {
        let Some(stack) = self.ranks.get(id as usize).and_then(Rank::stack) else { return };
        let bytes = stack.memory_bytes();
        self.max_memory = self.max_memory.max(bytes);
        let most = self.plan.max_memory();
        if bytes <= most {
            return;
        }
        let mut ledger = ledger::lock(&self.ledger);
        let answers = ledger.answers_to(id);
        if bytes > most + answers {
            ledger.complain(format!(
                "rank {id} keeps {bytes} bytes; its limit is {most} and {answers} for answers"
            ));
        }
    }

    fn turn_of_stale_stacks(&mut self, now: Time) {
        let talk = self.kernel.healed_at().is_none();
        for stale_stack in &mut self.stale_stacks {
            stale_stack.act(now + SECOND, &self.listed, &mut self.batch, &self.ledger, talk);
        }
        if talk {
            self.kernel.wake(self.plan.ranks, now + PERIOD);
        }
    }

    fn wake_all(&mut self, now: Time) {
        (0..self.plan.ranks).for_each(|rank| self.kernel.wake(rank, now));
    }

    fn pause(&mut self, rank: u32, now: Time, mode: Mode) {
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.mode = mode;
        }
        self.kernel.wake(rank, now + self.plan.base.turn);
    }

    fn kill(&mut self, now: Time, rank: u32, known_after: Time) {
        let Some(dying) = self.ranks.get_mut(rank as usize).filter(|r| r.life != Life::Gone) else {
            return;
        };
        let stats = dying.stack().map(|stack| *stack.stats());
        dying.die();
        self.count(stats);
        self.kernel.retire(rank);
        ledger::lock(&self.ledger).on_death(rank);
        let told = PlannedFault::Tell { ranks: 1 << rank, why: Departure::Died };
        self.kernel.schedule(now + known_after, told);
    }

    fn tell(&mut self, now: Time, ranks: u64, why: Departure) {
        let why = match why {
            Departure::Closed => Reason::EndpointGone,
            Departure::Died | Departure::NodeLost => Reason::PeerLost,
        };
        for gone in (0..self.plan.ranks).filter(|gone| ranks >> gone & 1 != 0) {
            self.ranks.iter_mut().for_each(|rank| rank.lose(gone, why));
        }
        self.wake_all(now);
    }

    fn restart(&mut self, now: Time, rank: u32) -> Result<(), KeyError> {
        let dead = self.ranks.get(rank as usize).is_some_and(|rank| rank.life == Life::Gone);
        if !dead || self.kernel.healed_at().is_some() {
            return Ok(());
        }
        self.kernel.wake(self.plan.ranks, now + PERIOD);
        let place = (rank, rank, 2);
        let stack = StaleStack::new(&self.plan, &self.key, &self.kernel.switch, place)?;
        self.stale_stacks.push(stack);
        Ok(())
    }

    fn close_rank(&mut self, rank: u32, now: Time) {
        let Some(leaving) = self.ranks.get_mut(rank as usize) else { return };
        if leaving.life == Life::Working {
            leaving.life = Life::Leaving;
            self.kernel.wake(rank, now);
        }
    }

    /// Returns the violation found by now, if there is one.
    fn wrong(&mut self, now: Time) -> Option<String> {
        let ledger = ledger::lock(&self.ledger);
        if let Some(wrong) = ledger.wrong() {
            return Some(wrong.to_owned());
        }
        if ledger.open() != self.open.0 {
            self.open = (ledger.open(), now);
        }
        let since = self.settled_at.unwrap_or(self.open.1.max(self.kernel.healed_at()?));
        if now <= since + LIMIT {
            return None;
        }
        drop(ledger);
        let lives: Vec<_> = self.ranks.iter().map(|rank| (rank.id, rank.life)).collect();
        let what = if self.settled_at.is_some() { "ranks do not end" } else { "nothing moves" };
        Some(format!("for {} s after healing {what}: {lives:?}", LIMIT / SECOND))
    }

    /// Lets ranks leave once all messages are handled or returned. Returns true when all have left.
    fn is_over(&mut self, now: Time) -> bool {
        if self.kernel.healed_at().is_none() {
            return false;
        }
        if self.settled_at.is_none() && ledger::lock(&self.ledger).open() == 0 {
            self.settled_at = Some(now);
            self.kernel.schedule(now, PlannedFault::Finish);
        }
        self.settled_at.is_some() && self.ranks.iter().all(|rank| rank.life == Life::Gone)
    }

    fn outcome(&self, now: Time) -> RunSummary {
        let ledger = ledger::lock(&self.ledger);
        let (events, digest) = self.kernel.history();
        RunSummary {
            seed: self.plan.base.seed,
            ranks: self.plan.ranks,
            network_ns: self.settled_at.unwrap_or(now),
            events,
            messages: ledger.counts.sent,
            handled: ledger.counts.handled,
            returned: ledger.counts.returned,
            bytes: ledger.counts.bytes,
            units_resent: self.done.resent,
            units_fragmented: self.done.fragmented,
            packets_refused: self.done.refused,
            max_memory_bytes: self.max_memory as u64,
            net: self.kernel.network().1,
            digest,
        }
    }
}

impl World for Cluster {
    type End = RunSummary;
    type Error = RunFailure;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn on_datagram(&mut self, now: Time, socket: u32) {
        if self.ranks.get(socket as usize).is_some_and(|rank| rank.mode == Mode::Polling) {
            self.kernel.wake(socket, now + self.plan.base.turn);
        }
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), RunFailure> {
        if actor == self.plan.ranks {
            self.turn_of_stale_stacks(now);
        } else {
            self.turn_of_rank(now, actor);
        }
        Ok(())
    }

    fn on_fault(&mut self, now: Time, fault: &PlannedFault) -> Result<(), RunFailure> {
        match *fault {
            PlannedFault::Compute { rank, span } => {
                self.pause(rank, now, Mode::Computing(now + span));
            }
            PlannedFault::Freeze { actor, span } => {
                self.pause(actor, now, Mode::Frozen(now + span));
            }
            PlannedFault::Kill { rank, known_after } => self.kill(now, rank, known_after),
            PlannedFault::Restart { rank } => {
                self.restart(now, rank).map_err(|error| self.failure(error.to_string()))?;
            }
            PlannedFault::Tell { ranks, why } => self.tell(now, ranks, why),
            PlannedFault::Close { rank } => self.close_rank(rank, now),
            PlannedFault::Renew { rank, endpoint } => {
                if let Some(rank) = self.ranks.get_mut(rank as usize) {
                    rank.renew(endpoint);
                }
            }
            PlannedFault::Heal => self.wake_all(now),
            PlannedFault::Finish => {
                (0..self.plan.ranks).for_each(|rank| self.close_rank(rank, now));
            }
            _ => {
                return Err(self.failure(format!(
                    "simulations of ranks without nodes do not support {fault:?}"
                )));
            }
        }
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> Result<Option<RunSummary>, RunFailure> {
        if let Some(what) = self.wrong(now) {
            return Err(self.failure(what));
        }
        Ok(self.is_over(now).then(|| self.outcome(now)))
    }

    fn failure(&self, what: String) -> RunFailure {
        let (now, counts) = self.kernel.network();
        let states: Vec<String> = self.ranks.iter().map(|rank| rank.describe()).collect();
        let open = ledger::lock(&self.ledger).some_open();
        RunFailure {
            task: String::new(),
            seed: self.plan.base.seed,
            at_ns: now,
            healed: self.kernel.healed_at().is_some(),
            what,
            detail: format!("{open}\n{counts:?}\n{}", states.join("\n")),
        }
    }
}
