//! A node of a simulation: its memory and its network interfaces, which are the real ones.

use crate::kernel::{SharedSwitch, SimDriver, Time, address_of};
use crate::time::{Costs, SocketClock};
use anyhow::Context as _;
use clump_interface::{Server, Services, SleepAnnouncement, Wiring};
use clump_net::seal::JobKey;
use clump_net::{Batch, Stack, StackConfig};
use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::ProcessAddress;
use clump_wire::Security;
use std::time::Duration;

/// Creates the memory of a node, with alarms, its ranks joined, and the addresses of all actors.
pub(crate) fn memory_of(config: &NodeConfig<'_>) -> anyhow::Result<NodeMemory> {
    // One thread runs all: a fence that interrupts processors would be most of the cost of a run.
    let memory = NodeMemory::create_with_fence(config, FenceKind::Symmetric);
    let mut memory = memory.context("no memory for a node")?;
    let awake = memory.local_ranks().chain(memory.own_interfaces());
    let alarms = awake.map(|actor| Ok((actor, Alarm::new()?)));
    let alarms = alarms.collect::<Result<Vec<_>, clump_os::error::OsError>>();
    memory.set_alarms(alarms.context("no alarm")?);
    for actor in 0..memory.all_interfaces().end {
        let place =
            ProcessAddress { address: address_of(actor), others: Default::default(), epoch: 1 };
        memory.peer(actor).context("no record")?.set_place(place);
    }
    for rank in memory.local_ranks() {
        let joined = memory.join(rank, std::process::id());
        joined.map_err(|pid| anyhow::anyhow!("{pid} has joined already"))?;
    }
    Ok(memory)
}

/// Parameters that the interfaces of a job share.
pub(crate) struct InterfaceEnvironment<'a> {
    pub(crate) switch: &'a SharedSwitch,
    pub(crate) key: &'a JobKey,
    pub(crate) security: Security,
    pub(crate) channel: clump_proto::Config,
    /// Costs of steps; `None` where time does not matter.
    pub(crate) costs: Option<Costs>,
    /// Time for which an idle interface keeps polling before it acknowledges and sleeps.
    pub(crate) spin: Time,
}

/// Interface of a node: a proxy, or the executor of one-sided operations only.
pub(crate) struct SimInterface {
    pub(crate) memory: NodeMemory,
    pub(crate) id: u32,
    pub(crate) server: Server<SocketClock>,
    /// Offset of its clock.
    ahead: Time,
    spin: Time,
    pub(crate) frozen_until: Time,
    announced: Option<SleepAnnouncement>,
    idle_since: Option<Time>,
    switch: SharedSwitch,
    /// True if work was there while it slept, and no doorbell woke it.
    pub(crate) overslept: bool,
}

impl SimInterface {
    /// Creates interface number `which` of a node, at time `begin`, which executes the requests to
    /// `services` if it is the first.
    pub(crate) fn new(
        memory: &NodeMemory,
        which: u32,
        (begin, ahead): (Time, Time),
        trade: &InterfaceEnvironment<'_>,
        services: Services,
    ) -> anyhow::Result<Self> {
        let clock = SocketClock::new(trade.costs.unwrap_or_default());
        clock.set(begin + ahead);
        let time = trade.costs.map(|_| clock.clone());
        let server = Server::new(memory, which, services, clock, |wiring| {
            let Wiring { me: (me, epoch), peers, endpoints } = wiring;
            let config = StackConfig {
                me,
                epoch,
                security: trade.security,
                channel: trade.channel.clone(),
                credit_bytes: clump_transport::credit_bytes(memory),
                peers,
            };
            let driver = match time {
                Some(time) => SimDriver::with_clock(trade.switch, me, time),
                None => SimDriver::new(trade.switch, me),
            };
            trade.switch.lock().attach(me, true);
            let stack = Stack::new(config, trade.key, Box::new(driver), endpoints);
            stack.map_err(|e| clump_transport::Error::Unusable(e.to_string()))
        });
        let server = server.map_err(|e| anyhow::anyhow!("no interface: {e}"))?;
        let id = memory.interface_id(memory.node()) + which;
        Ok(Self {
            memory: memory.clone(),
            id,
            server,
            ahead,
            spin: trade.spin,
            frozen_until: 0,
            announced: None,
            idle_since: None,
            switch: trade.switch.clone(),
            overslept: false,
        })
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.announced.is_some()
    }

    /// Takes one turn, which lasts at least `least` if it finds anything. Returns the time of the
    /// next turn.
    pub(crate) fn turn(&mut self, now: Time, least: Time, batch: &mut Batch) -> Time {
        let unheard = self.wake();
        let began = now.max(self.ends());
        self.server.clock().set(began + self.ahead);
        if self.server.turn(batch) {
            self.idle_since = None;
            self.overslept |= unheard;
            return self.ends().max(now + least);
        }
        // A turn that finds nothing delays no other actor: the interface has a core of its own.
        self.server.clock().set(began + self.ahead);
        let spun = *self.idle_since.get_or_insert(began) + self.spin;
        let due = if began < spun {
            let timer = self.server.stack().next_timeout();
            timer.map_or(spun, |at| spun.min(at.saturating_sub(self.ahead)))
        } else {
            self.server.housekeeping();
            let nap = self.server.before_sleep();
            self.ends() + nap.as_nanos() as Time
        };
        // A real interface that spins needs no doorbell; here the alarm reports that there is work.
        self.announced = self.server.announce();
        if self.announced.is_some() { due } else { self.ends().max(now + least) }
    }

    /// Wakes it. Returns true if it slept, and neither a rank nor a datagram has woken it.
    fn wake(&mut self) -> bool {
        let Some(alarm) = self.memory.alarm(self.id) else { return false };
        match self.announced.take() {
            Some(announced) => {
                let rung = alarm.wait(None, Some(Duration::ZERO)).rung;
                announced.cancel(alarm);
                !rung && !self.switch.lock().has_datagrams(self.id)
            }
            None => {
                alarm.clear();
                false
            }
        }
    }

    /// Returns the time at which its turn has ended.
    pub(crate) fn ends(&self) -> Time {
        self.server.clock().get() - self.ahead
    }
}
