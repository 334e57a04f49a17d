//! A simulated rank: a stack, endpoints, and a loop like that of a real one.

use super::endpoint::{Endpoint, EndpointEnvironment};
use super::endpoints::{OpenEndpoints, SimEndpoints};
use super::ledger::{self, SharedLedger};
use super::plan::{ClusterPlan, ProgramDemand};
use crate::kernel::{
    BACKSTOP, BACKSTOP_IDLE, MILLISECOND, Mode, Random, SharedSwitch, SimDriver, Time, address_of,
};
use clump_net::seal::JobKey;
use clump_net::{Batch, PeerAddress, Stack, StackConfig};
use clump_wire::Reason;
use clump_wire::Security;
use std::sync::Arc;

/// Interval at which a closing rank repeats its close message (`clump-am`).
const CLOSE_PAUSE: Time = 2 * MILLISECOND;
/// Turns in a row that may find nothing to do although a timer was due.
const MAX_IMMEDIATE_TIMERS: u32 = 1_000;

/// Stage of a rank's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Sending requests.
    Working,
    /// Waiting until all of its requests are handled or returned.
    Leaving,
    /// Closing its stack; its endpoints are closed.
    Closing,
    /// Ended, or dead.
    Gone,
}

/// Endpoint that others may send to, and its tag.
pub(crate) type Listed = (u64, u64);

/// A simulated rank.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) id: u32,
    pub(crate) mode: Mode,
    pub(crate) life: Life,
    stack: Option<Stack>,
    /// Offset of its clock.
    clock: Time,
    endpoints: Vec<Endpoint>,
    doorway: OpenEndpoints,
    ledger: SharedLedger,
    generation: u64,
    next_wish: Time,
    looked: usize,
    random: Random,
    buffer: Vec<u8>,
    credit: u64,
    turn: Time,
    /// Consecutive turns after which the stack requested another at once, with nothing to do.
    immediate_timers: u32,
}

/// Surroundings that all ranks share.
pub(crate) struct Surroundings<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) demand: &'a ProgramDemand,
    /// Open endpoints, by rank.
    pub(crate) listed: &'a [Vec<Listed>],
    /// True once no more requests are sent.
    pub(crate) healed: bool,
}

impl Rank {
    /// Creates rank `id` of a plan.
    pub(crate) fn new(
        id: u32,
        plan: &ClusterPlan,
        key: &JobKey,
        switch: &SharedSwitch,
        ledger: &SharedLedger,
    ) -> Result<Self, clump_net::seal::KeyError> {
        let mut random = Random::new(plan.base.seed ^ u64::from(id + 1) << 48);
        let doorway = OpenEndpoints::default();
        let endpoint_table = SimEndpoints { doorway: doorway.clone(), ledger: ledger.clone() };
        let driver = Box::new(SimDriver::new(switch, id));
        let stack = Stack::new(stack_config(plan, id, 1), key, driver, Box::new(endpoint_table))?;
        switch.lock().attach(id, true);
        let mut endpoints = Vec::new();
        for index in 0..plan.endpoints as u8 {
            let mut endpoint = Endpoint::new(id, 1, index, random.word());
            if random.chance(plan.program_demand.slow) {
                endpoint.slow_every = Some(plan.program_demand.slow_every);
            }
            doorway.open(endpoint.name, endpoint.tag);
            endpoints.push(endpoint);
        }
        Ok(Self {
            id,
            mode: Mode::Polling,
            life: Life::Working,
            stack: Some(stack),
            clock: plan.base.clocks[id as usize],
            endpoints,
            doorway,
            ledger: ledger.clone(),
            generation: 1,
            next_wish: random.wait(plan.program_demand.think),
            looked: 0,
            random,
            buffer: Vec::new(),
            credit: plan.credit_bytes,
            turn: plan.base.turn,
            immediate_timers: 0,
        })
    }

    /// Returns the endpoints that others may send to.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        self.endpoints.iter().map(|endpoint| (endpoint.name, endpoint.tag)).collect()
    }

    pub(crate) fn stack(&self) -> Option<&Stack> {
        self.stack.as_ref()
    }

    /// Describes its state, for a failure report.
    pub(crate) fn describe(&self) -> String {
        let Self { id, mode, life, stack, .. } = self;
        let Some(stack) = stack else { return format!("rank {id}: {life:?}") };
        let queued = self.endpoints.iter().filter(|e| stack.has_queued(e.index)).count();
        let unsent: Vec<_> = self.endpoints.iter().filter(|e| !e.has_sent_all()).collect();
        let unsent: Vec<_> = unsent.iter().map(|endpoint| endpoint.describe(stack)).collect();
        format!(
            "rank {id}: {life:?} {mode:?}, quiet {}, closed {}, {queued} endpoints with \
             messages, unsent {unsent:?} of credit {}, {:?}, {}",
            stack.is_quiet(),
            stack.is_closed(),
            self.credit,
            stack.stats(),
            stack.describe()
        )
    }

    /// Kills it.
    pub(crate) fn die(&mut self) {
        self.stack = None;
        self.life = Life::Gone;
    }

    /// Reports to it that another rank is lost.
    pub(crate) fn lose(&mut self, peer: u32, why: Reason) {
        if let Some(stack) = &mut self.stack {
            stack.lose(peer, why);
        }
    }

    /// Requests that one of its endpoints be replaced.
    pub(crate) fn renew(&mut self, endpoint: u32) {
        if let Some(endpoint) = self.endpoints.get_mut(endpoint as usize) {
            endpoint.renew = true;
        }
    }

    /// Acts. Returns the time at which it acts next.
    pub(crate) fn act(&mut self, now: Time, around: &mut Surroundings<'_>) -> Time {
        match self.mode {
            Mode::Frozen(until) | Mode::Computing(until) if now >= until => {
                self.mode = Mode::Polling;
            }
            Mode::Frozen(until) => return until,
            Mode::Computing(until) => return self.run_backstop(now, around).min(until),
            Mode::Polling => {}
        }
        match self.life {
            Life::Working | Life::Leaving => self.poll(now, around),
            Life::Closing => self.close_on(now, around),
            Life::Gone => Time::MAX,
        }
    }

    /// Does what the backstop of a locked stack (`clump-transport`) does.
    fn run_backstop(&mut self, now: Time, around: &mut Surroundings<'_>) -> Time {
        let at = now + self.clock;
        let Some(stack) = &mut self.stack else { return Time::MAX };
        while stack.receive(|| at, None, around.batch) > 0 {}
        stack.service(at, true);
        stack.acknowledge_all(at);
        let _ = stack.take_newly_queued();
        now + if stack.is_quiet() { BACKSTOP_IDLE } else { BACKSTOP }
    }

    /// Takes one turn of a rank that polls.
    fn poll(&mut self, now: Time, around: &mut Surroundings<'_>) -> Time {
        let at = now + self.clock;
        if self.life == Life::Working && !around.healed && now >= self.next_wish {
            self.generate_request(now, around);
            self.next_wish = now + 1 + self.random.wait(around.demand.think);
        }
        let wanted = self.choose(now);
        let Self { stack, endpoints, random, buffer, credit, ledger, .. } = self;
        let Some(stack) = stack else { return Time::MAX };
        let index = wanted.and_then(|at| endpoints.get(at)).map(|endpoint| endpoint.index);
        let received = stack.receive(|| at, index, around.batch);
        let (credit, demand, now_there) = (*credit, around.demand, at);
        let mut environment =
            EndpointEnvironment { now: now_there, stack, ledger, random, demand, credit, buffer };
        let found = around.batch.len();
        if let Some(endpoint) = wanted.and_then(|at| endpoints.get_mut(at)) {
            for number in 0..found {
                let mut words = clump_net::Words::default();
                if let Some(arrival) = around.batch.arrival(number, &mut words) {
                    endpoint.handle(&mut environment, &arrival);
                }
            }
        }
        environment.stack.service(at, found > 0);
        let mut sent = 0;
        for endpoint in
            endpoints.iter_mut().filter(|e| e.slow_every.is_none() || now >= e.next_look)
        {
            sent += endpoint.send(&mut environment);
        }
        let busy = received + found + sent > 0;
        for (number, endpoint) in endpoints.iter_mut().enumerate() {
            let looked = wanted == Some(number) || endpoint.is_stuck();
            if let Some(every) = endpoint.slow_every
                && now >= endpoint.next_look
                && looked
                && (endpoint.is_stuck() || !environment.stack.has_queued(endpoint.index))
            {
                endpoint.next_look = now + every;
            }
        }
        self.renew_endpoints(at);
        if self.life == Life::Leaving && self.is_quiet(at, around) {
            self.close_endpoints(at);
            return now + self.turn;
        }
        if busy || self.choose_mail(now) {
            self.immediate_timers = 0;
            return now + self.turn + 100 * (received + found + sent) as Time;
        }
        self.sleep(now, around.healed)
    }

    /// Sends everything before a sleep. Returns the time at which to wake.
    fn sleep(&mut self, now: Time, healed: bool) -> Time {
        let at = now + self.clock;
        let Some(stack) = &mut self.stack else { return Time::MAX };
        stack.service(at, true);
        stack.acknowledge_all(at);
        let timer = stack.next_timeout().map_or(Time::MAX, |due| due.saturating_sub(self.clock));
        let demand = self.life == Life::Working && !healed;
        let wish = if demand { self.next_wish } else { Time::MAX };
        let waits = |e: &&Endpoint| stack.has_queued(e.index) || !e.has_sent_all();
        let slow = self.endpoints.iter().filter(|e| e.slow_every.is_some()).filter(waits);
        let look = slow.map(|endpoint| endpoint.next_look).min().unwrap_or(Time::MAX);
        self.immediate_timers =
            if timer <= now + self.turn { self.immediate_timers + 1 } else { 0 };
        if self.immediate_timers > MAX_IMMEDIATE_TIMERS {
            let what = format!("rank {} spins: its stack has nothing to do, all the time", self.id);
            ledger::lock(&self.ledger).complain(what);
        }
        timer.min(wish).min(look).max(now + self.turn)
    }

    /// Chooses the endpoint to poll now: in turn, those with messages first; none that is slow.
    fn choose(&mut self, now: Time) -> Option<usize> {
        let stack = self.stack.as_ref()?;
        let count = self.endpoints.len();
        let mut chosen = None;
        for step in 1..=count {
            let at = (self.looked + step) % count;
            let endpoint = self.endpoints.get(at)?;
            let slow = endpoint.slow_every.is_some() && now < endpoint.next_look;
            if slow {
                continue;
            }
            if stack.has_queued(endpoint.index) {
                chosen = Some(at);
                break;
            }
            chosen = chosen.or(Some(at));
        }
        self.looked = chosen.unwrap_or(self.looked);
        chosen
    }

    /// Returns true if an endpoint that may poll has messages.
    fn choose_mail(&self, now: Time) -> bool {
        let Some(stack) = &self.stack else { return false };
        let ready = |e: &Endpoint| e.slow_every.is_none() || now >= e.next_look;
        self.endpoints.iter().any(|e| ready(e) && stack.has_queued(e.index))
    }

    /// Queues a burst of requests.
    fn generate_request(&mut self, now: Time, around: &Surroundings<'_>) {
        let at = now + self.clock;
        let Self { stack, endpoints, random, buffer, credit, ledger, id, .. } = self;
        let Some(stack) = stack else { return };
        let (credit, demand) = (*credit, around.demand);
        let mut environment =
            EndpointEnvironment { now: at, stack, ledger, random, demand, credit, buffer };
        let others: Vec<u32> =
            (0..around.listed.len() as u32).filter(|other| other != id).collect();
        let favourite = *environment.random.pick(&others);
        for _ in 0..environment.random.between(1, demand.burst) {
            let from = environment.random.below(endpoints.len() as u64) as usize;
            let peer = if environment.random.one_in(4) {
                *environment.random.pick(&others)
            } else {
                favourite
            };
            let listed = &around.listed[peer as usize];
            let Some(endpoint) = endpoints.get_mut(from) else { return };
            if environment.random.chance(demand.bad / 4) {
                endpoint.queue_undeliverable(&mut environment, peer);
            } else if !listed.is_empty() {
                let (to, tag) = *environment.random.pick(listed);
                endpoint.queue_request(&mut environment, to, tag);
            }
        }
    }

    fn renew_endpoints(&mut self, at: Time) {
        let Self { stack, endpoints, doorway, ledger, generation, random, id, credit, .. } = self;
        let Some(stack) = stack else { return };
        for endpoint in endpoints.iter_mut().filter(|e| e.renew && e.may_close()) {
            endpoint.abandon(&mut ledger::lock(ledger));
            endpoint.report_all(stack, at, *credit);
            doorway.close(endpoint.name);
            stack.close_endpoint(|| at, endpoint.index, endpoint.name);
            ledger::lock(ledger).on_closed(endpoint.name);
            *generation += 1;
            let slow_every = endpoint.slow_every;
            *endpoint = Endpoint::new(*id, *generation, endpoint.index, random.word());
            endpoint.slow_every = slow_every;
            doorway.open(endpoint.name, endpoint.tag);
        }
    }

    /// Returns true if nothing that this rank sent is in flight, and nothing waits to be handled.
    fn is_quiet(&mut self, at: Time, around: &Surroundings<'_>) -> bool {
        let Self { stack, endpoints, random, buffer, credit, ledger, .. } = self;
        let Some(stack) = stack else { return true };
        let (credit, demand) = (*credit, around.demand);
        let mut environment =
            EndpointEnvironment { now: at, stack, ledger, random, demand, credit, buffer };
        let mut settled = true;
        for endpoint in endpoints.iter() {
            settled &= endpoint.is_consumed(&mut environment) && endpoint.has_sent_all();
            settled &= !environment.stack.has_queued(endpoint.index);
        }
        settled
    }

    fn close_endpoints(&mut self, at: Time) {
        let Self { stack, endpoints, doorway, ledger, credit, .. } = self;
        let Some(stack) = stack else { return };
        for mut endpoint in endpoints.drain(..) {
            let mut ledger = ledger::lock(ledger);
            if let Some(message) = ledger.unresolved(endpoint.name).cloned() {
                ledger.complain(format!(
                    "an endpoint closes, all settled it seems, but {message:x?}"
                ));
            }
            ledger.on_closed(endpoint.name);
            drop(ledger);
            endpoint.report_all(stack, at, *credit);
            doorway.close(endpoint.name);
            stack.close_endpoint(|| at, endpoint.index, endpoint.name);
        }
        self.life = Life::Closing;
    }

    /// Continues the close handshake, as `clump-am` does.
    fn close_on(&mut self, now: Time, around: &mut Surroundings<'_>) -> Time {
        let at = now + self.clock;
        let Some(stack) = &mut self.stack else { return Time::MAX };
        while stack.receive(|| at, None, around.batch) > 0 {}
        stack.service(at, true);
        if stack.is_quiet() {
            stack.close(at);
        }
        stack.acknowledge_all(at);
        if stack.is_closed() {
            self.die();
            return Time::MAX;
        }
        now + CLOSE_PAUSE
    }
}

/// Returns the configuration of the stack of rank `id`.
pub(crate) fn stack_config(plan: &ClusterPlan, id: u32, epoch: u32) -> StackConfig {
    config_of((id, epoch), plan.ranks, plan.base.security, plan.credit_bytes, &plan.base.channel)
}

/// Returns the configuration of the stack of rank `me`, with all others in their first epoch.
pub(crate) fn config_of(
    (me, epoch): (u32, u32),
    ranks: u32,
    security: Security,
    credit_bytes: u64,
    channel: &clump_proto::Config,
) -> StackConfig {
    let peer = |id| PeerAddress { id, address: address_of(id), epoch: 1 };
    let peers: Vec<_> = (0..ranks).filter(|&other| other != me).map(peer).collect();
    let peers = Arc::new(peers);
    StackConfig { me, epoch, security, channel: channel.clone(), credit_bytes, peers }
}
