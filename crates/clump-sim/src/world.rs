//! A cluster in virtual time: one thread, one queue of events, one plan.

use crate::ledger::{self, SharedLedger};
use crate::plan::{ClusterPlan, MILLISECOND, PlanStep, SECOND};
use crate::random::{Random, mix};
use crate::rank::{Life, Listed, Mode, Rank, Surroundings};
use crate::stale_stack::{HAUNT, StaleStack};
use crate::summary::{RunFailure, RunSummary};
use crate::switch::{LinkFaults, SharedSwitch, Switch, SwitchEvent, Time};
use clump_net::seal::{JobKey, KeyError};
use clump_net::{Batch, Refusal};

/// Once healed, everything must be settled within this time, and then all ranks must end within the
/// same.
const PATIENCE: Time = 60 * SECOND;
/// Number of events after which a run counts as endless.
const MAX_EVENTS: u64 = 3_000_000;
/// Turns between two checks of a rank's memory.
const MEMORY_EVERY: u64 = 16;

/// A running simulation of messages.
pub(crate) struct Cluster {
    plan: ClusterPlan,
    switch: SharedSwitch,
    ledger: SharedLedger,
    ranks: Vec<Rank>,
    stale_stacks: Vec<StaleStack>,
    key: JobKey,
    listed: Vec<Vec<Listed>>,
    batch: Batch,
    steps: Vec<PlanStep>,
    healed_at: Option<Time>,
    settled_at: Option<Time>,
    /// Number of open messages, and the time since which it is unchanged.
    open: (u64, Time),
    events: u64,
    turns: u64,
    digest: u64,
    max_memory: usize,
    trace: bool,
    done: DoneBefore,
}

/// Totals of stacks that have ended.
#[derive(Debug, Default, Clone, Copy)]
struct DoneBefore {
    resent: u64,
    sliced: u64,
    refused: u64,
}

impl Cluster {
    /// Creates the cluster of a plan, before anything happens. With `trace` it prints every step on
    /// standard error.
    pub(crate) fn new(plan: ClusterPlan, trace: bool) -> Result<Self, KeyError> {
        let random = Random::new(mix(plan.seed));
        // The last seat is the outsider's.
        let ports = vec![plan.port.clone(); plan.ranks as usize + 1];
        let switch = SharedSwitch::new(Switch::new(0, ports, &plan.link, random));
        let ledger = SharedLedger::default();
        let key = key_of(plan.seed)?;
        let rank = |id| Rank::new(id, &plan, &key, &switch, &ledger);
        let ranks = (0..plan.ranks).map(rank).collect::<Result<Vec<_>, _>>()?;
        let mut stale_stacks = Vec::new();
        if plan.outsider {
            let place = (plan.ranks, 0, 1);
            stale_stacks.push(StaleStack::new(&plan, &key_of(!plan.seed)?, &switch, place)?);
        }
        let listed = ranks.iter().map(Rank::listed).collect();
        let mut world = Self {
            switch,
            ledger,
            ranks,
            stale_stacks,
            key,
            listed,
            batch: Batch::default(),
            steps: Vec::new(),
            healed_at: None,
            settled_at: None,
            open: (0, 0),
            events: 0,
            turns: 0,
            digest: 0,
            max_memory: 0,
            trace,
            done: DoneBefore::default(),
            plan,
        };
        for (at, step) in world.plan.steps.clone() {
            world.schedule_step(at, step);
        }
        for id in 0..world.plan.ranks {
            world.wake(id, 0);
        }
        if !world.stale_stacks.is_empty() {
            world.switch.lock().schedule(HAUNT, SwitchEvent::Turn(u32::MAX));
        }
        Ok(world)
    }

    fn schedule_step(&mut self, at: Time, step: PlanStep) {
        self.steps.push(step);
        self.switch.lock().schedule(at, SwitchEvent::Step(self.steps.len() as u32 - 1));
    }

    fn wake(&mut self, rank: u32, at: Time) {
        let Some(rank) = self.ranks.get_mut(rank as usize) else { return };
        if at < rank.turn_at {
            rank.turn_at = at;
            self.switch.lock().schedule(at, SwitchEvent::Turn(rank.id));
        }
    }

    /// Runs the simulation to its end.
    pub(crate) fn run(mut self) -> Result<RunSummary, RunFailure> {
        loop {
            let event = self.switch.lock().next();
            let Some(event) = event else {
                let open = ledger::lock(&self.ledger).some_open();
                return Err(self.failure(format!("nothing is left to happen, but {open}")));
            };
            let now = self.switch.lock().now;
            self.events += 1;
            self.digest = mix(self.digest ^ now);
            match event {
                SwitchEvent::AtSocket(seat, _) => self.on_datagram(now, seat),
                SwitchEvent::Turn(u32::MAX) => self.add_stale_stack(now),
                SwitchEvent::Turn(rank) => self.turn(now, rank),
                SwitchEvent::Step(step) => {
                    self.step(now, step).map_err(|error| self.failure(error.to_string()))?;
                }
                SwitchEvent::AtPort(..) => {}
            }
            if let Some(what) = self.wrong(now) {
                return Err(self.failure(what));
            }
            if self.is_over(now) {
                return Ok(self.outcome(now));
            }
        }
    }

    fn on_datagram(&mut self, now: Time, seat: u32) {
        let Some(rank) = self.ranks.get(seat as usize) else { return };
        if rank.mode == Mode::Polling && rank.life != Life::Gone {
            self.wake(seat, now + self.plan.turn);
        }
    }

    fn turn(&mut self, now: Time, id: u32) {
        let Self { ranks, batch, listed, plan, healed_at, .. } = self;
        let Some(rank) = ranks.get_mut(id as usize) else { return };
        if rank.turn_at != now {
            return; // it was woken earlier
        }
        let demand = &plan.program_demand;
        let mut around = Surroundings { batch, demand, listed, healed: healed_at.is_some() };
        let (stats, life) = (rank.stack().map(|stack| *stack.stats()), rank.life);
        let next = rank.act(now, &mut around);
        rank.turn_at = Time::MAX;
        self.turns += 1;
        listed[id as usize] = rank.listed();
        if rank.life == Life::Gone {
            if life != Life::Gone {
                self.on_gone(now, id, stats);
            }
            return;
        }
        self.wake(id, next);
        if self.turns.is_multiple_of(MEMORY_EVERY) {
            self.check_memory(id);
        }
    }

    /// Notes that a rank has completed its close handshake and ended; soon its agent tells all
    /// others.
    fn on_gone(&mut self, now: Time, rank: u32, stats: Option<clump_net::Stats>) {
        self.note("has ended", now, rank);
        self.count(stats);
        self.switch.lock().attach(rank, false);
        self.schedule_step(now + 20 * MILLISECOND, PlanStep::Tell { rank, dead: false });
    }

    fn count(&mut self, stats: Option<clump_net::Stats>) {
        let stats = stats.unwrap_or_default();
        self.done.resent += stats.units_resent;
        self.done.sliced += stats.units_sliced;
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

    fn add_stale_stack(&mut self, now: Time) {
        let talk = self.healed_at.is_none();
        for stale_stack in &mut self.stale_stacks {
            stale_stack.act(now + SECOND, &self.listed, &mut self.batch, &self.ledger, talk);
        }
        if talk {
            self.switch.lock().schedule(now + HAUNT, SwitchEvent::Turn(u32::MAX));
        }
    }

    fn step(&mut self, now: Time, index: u32) -> Result<(), KeyError> {
        let Some(step) = self.steps.get(index as usize).cloned() else { return Ok(()) };
        if self.trace {
            self.say(&format!("{:>12.6} s: {step:?}", now as f64 / 1e9));
        }
        let faulty = self.healed_at.is_none();
        match step {
            PlanStep::LinkChange { from, to, both, link } if faulty => {
                let keep = |switch: &mut Switch, from, to| {
                    if let Some(place) = switch.link_mut(from, to) {
                        *place = LinkFaults { cut: place.cut, ..(*link).clone() };
                    }
                };
                let mut switch = self.switch.lock();
                keep(&mut switch, from, to);
                if both {
                    keep(&mut switch, to, from);
                }
            }
            PlanStep::Partition { group, cut } if faulty => self.partition(group, cut),
            PlanStep::OneWay { from, to, cut } if faulty => self.cut(from, to, cut),
            PlanStep::LinkChange { .. } | PlanStep::Partition { .. } | PlanStep::OneWay { .. } => {}
            PlanStep::Narrow { most } => self.switch.lock().narrow(most),
            PlanStep::Compute { rank, span } => self.pause(rank, now, Mode::Computing(now + span)),
            PlanStep::Freeze { rank, span } => self.pause(rank, now, Mode::Frozen(now + span)),
            PlanStep::Kill { rank, known_after } => self.kill(now, rank, known_after),
            PlanStep::Restart { rank } => self.restart(now, rank)?,
            PlanStep::Tell { rank, dead } => {
                let why = if dead { Refusal::PeerLost } else { Refusal::EndpointGone };
                for other in &mut self.ranks {
                    other.lose(rank, why);
                }
                self.wake_all(now);
            }
            PlanStep::Close { rank } => self.close_rank(rank, now),
            PlanStep::Renew { rank, endpoint } => {
                if let Some(rank) = self.ranks.get_mut(rank as usize) {
                    rank.renew(endpoint);
                }
            }
            PlanStep::Heal => self.heal(now),
            PlanStep::Finish => {
                for rank in 0..self.plan.ranks {
                    self.close_rank(rank, now);
                }
            }
        }
        Ok(())
    }

    fn wake_all(&mut self, now: Time) {
        for id in 0..self.plan.ranks {
            if self.ranks[id as usize].life != Life::Gone {
                self.wake(id, now);
            }
        }
    }

    fn partition(&mut self, group: u64, cut: bool) {
        for from in 0..self.plan.ranks {
            for to in 0..self.plan.ranks {
                if (group >> from ^ group >> to) & 1 != 0 {
                    self.cut(from, to, cut);
                }
            }
        }
    }

    fn cut(&mut self, from: u32, to: u32, cut: bool) {
        if let Some(link) = self.switch.lock().link_mut(from, to) {
            link.cut = cut;
        }
    }

    fn pause(&mut self, rank: u32, now: Time, mode: Mode) {
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.mode = mode;
        }
        if self.ranks[rank as usize].life != Life::Gone {
            self.wake(rank, now + self.plan.turn);
        }
    }

    fn kill(&mut self, now: Time, rank: u32, known_after: Time) {
        let Some(dying) = self.ranks.get_mut(rank as usize).filter(|r| r.life != Life::Gone) else {
            return;
        };
        let stats = dying.stack().map(|stack| *stack.stats());
        dying.die();
        self.count(stats);
        self.switch.lock().attach(rank, false);
        ledger::lock(&self.ledger).on_death(rank);
        self.schedule_step(now + known_after, PlanStep::Tell { rank, dead: true });
    }

    fn restart(&mut self, now: Time, rank: u32) -> Result<(), KeyError> {
        let dead = self.ranks.get(rank as usize).is_some_and(|rank| rank.life == Life::Gone);
        if !dead || self.healed_at.is_some() {
            return Ok(());
        }
        if self.stale_stacks.is_empty() {
            self.switch.lock().schedule(now + HAUNT, SwitchEvent::Turn(u32::MAX));
        }
        self.stale_stacks.push(StaleStack::new(
            &self.plan,
            &self.key,
            &self.switch,
            (rank, rank, 2),
        )?);
        Ok(())
    }

    fn close_rank(&mut self, rank: u32, now: Time) {
        let Some(leaving) = self.ranks.get_mut(rank as usize) else { return };
        if leaving.life == Life::Working {
            leaving.life = Life::Leaving;
            self.wake(rank, now);
        }
    }

    fn heal(&mut self, now: Time) {
        self.healed_at = Some(now);
        let base = self.plan.link.clone();
        let mut switch = self.switch.lock();
        for from in 0..=self.plan.ranks {
            for to in 0..=self.plan.ranks {
                if let Some(link) = switch.link_mut(from, to) {
                    *link = LinkFaults::clean(base.delay, base.mtu);
                }
            }
        }
        switch.heal_ports();
        drop(switch);
        self.wake_all(now);
    }

    /// Returns the violation found by now, if there is one.
    fn wrong(&mut self, now: Time) -> Option<String> {
        let ledger = ledger::lock(&self.ledger);
        if let Some(wrong) = ledger.wrong() {
            return Some(wrong.to_owned());
        }
        if self.events > MAX_EVENTS {
            return Some(format!("after {MAX_EVENTS} events there is no end in sight"));
        }
        if ledger.open() != self.open.0 {
            self.open = (ledger.open(), now);
        }
        let since = self.settled_at.unwrap_or(self.open.1.max(self.healed_at?));
        if now <= since + PATIENCE {
            return None;
        }
        let open = ledger.some_open();
        drop(ledger);
        let lives: Vec<_> = self.ranks.iter().map(|rank| (rank.id, rank.life)).collect();
        let what = if self.settled_at.is_some() { "ranks do not end" } else { "nothing moves" };
        Some(format!("for {} s after healing {what}: {lives:?}; {open}", PATIENCE / SECOND))
    }

    /// Lets ranks leave once everything is settled. Returns true when all have left.
    fn is_over(&mut self, now: Time) -> bool {
        if self.healed_at.is_none() {
            return false;
        }
        if self.settled_at.is_none() && ledger::lock(&self.ledger).open() == 0 {
            self.settled_at = Some(now);
            self.schedule_step(now, PlanStep::Finish);
        }
        self.settled_at.is_some() && self.ranks.iter().all(|rank| rank.life == Life::Gone)
    }

    fn outcome(&self, now: Time) -> RunSummary {
        let ledger = ledger::lock(&self.ledger);
        let settled = self.settled_at.unwrap_or(now);
        RunSummary {
            seed: self.plan.seed,
            ranks: self.plan.ranks,
            network_ns: settled,
            events: self.events,
            messages: ledger.counts.sent,
            handled: ledger.counts.handled,
            returned: ledger.counts.returned,
            bytes: ledger.counts.bytes,
            units_resent: self.done.resent,
            units_sliced: self.done.sliced,
            packets_refused: self.done.refused,
            max_memory_bytes: self.max_memory as u64,
            net: self.switch.lock().counts,
            digest: self.digest,
        }
    }

    fn failure(&self, what: String) -> RunFailure {
        let (now, counts) = {
            let switch = self.switch.lock();
            (switch.now, switch.counts)
        };
        let states: Vec<String> = self.ranks.iter().map(|rank| rank.describe(now)).collect();
        let healed = self.healed_at.is_some();
        let detail = format!("{counts:?}\n{}", states.join("\n"));
        RunFailure { task: "", seed: self.plan.seed, at_ns: now, healed, what, detail }
    }

    fn note(&self, what: &str, now: Time, rank: u32) {
        if self.trace {
            self.say(&format!("{:>12.6} s: rank {rank} {what}", now as f64 / 1e9));
        }
    }

    #[allow(clippy::unused_self, reason = "only a world that is traced speaks")]
    fn say(&self, line: &str) {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

pub(crate) fn key_of(seed: u64) -> Result<JobKey, KeyError> {
    let mut random = Random::new(seed ^ 0x6b65_7900);
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.word().to_le_bytes());
    }
    JobKey::new(&mut bytes)
}
