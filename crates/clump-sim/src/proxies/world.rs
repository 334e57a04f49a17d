//! Ranks, proxies and a network in virtual time: one thread, one queue of events.

use super::cell::Run;
use super::station::{Station, Tally};
use super::{Cell, Setting};
use crate::driver::SimDriver;
use crate::plan::SECOND;
use crate::random::{Random, mix};
use crate::switch::{Event, Link, Port, SharedSwitch, Switch, Time, address_of};
use crate::time::SeatClock;
use crate::world::key_of;
use anyhow::Context as _;
use clump_net::seal::JobKey;
use clump_net::{Batch, Stack, StackConfig};
use clump_ni::{Bed, Server, Wiring};
use clump_os::alarm::Alarm;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::Place;
use clump_trace::{Monitor, Snapshot};
use clump_wire::Security;
use std::time::Duration;

/// When everything begins: 0 says of a monitor that it has not.
const BEGIN: Time = 1_000;
/// Virtual time after which a run counts as one that never ends.
const PATIENCE: Time = 600 * SECOND;

struct Proxy {
    memory: NodeMemory,
    id: u32,
    which: u32,
    server: Server<SeatClock>,
    bed: Option<Bed>,
    turn_at: Time,
    /// Since when it has found nothing, and how long it goes on looking before it sleeps.
    idle_since: Option<Time>,
    spin: Time,
}

/// See the module.
pub(super) struct World {
    setting: Setting,
    switch: SharedSwitch,
    stations: Vec<Station>,
    proxies: Vec<Proxy>,
    batch: Batch,
    tally: Tally,
}

impl World {
    pub(super) fn new(setting: &Setting) -> anyhow::Result<Self> {
        let Setting { nodes, ranks, proxies, .. } = *setting;
        anyhow::ensure!(
            nodes > 1 && ranks > 0 && proxies > 0,
            "there must be two nodes, and ranks and proxies"
        );
        let actors = nodes * (ranks + proxies);
        let port = Port {
            rate: setting.rate,
            queue_bytes: 8 << 20,
            mark_bytes: None,
            socket_bytes: 4 << 20,
            card_bytes: 8 << 20,
            refuse: 0,
            mtu: 1472,
        };
        let link = Link::clean(setting.delay, port.mtu);
        let random = Random::new(mix(setting.seed));
        let mut switch = Switch::new(BEGIN, vec![port; actors as usize], &link, random);
        switch.now = BEGIN;
        let switch = SharedSwitch::new(switch);
        let key = key_of(setting.seed).context("no key")?;
        let (mut all, mut stations) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            let memory = memory_of(setting, node)?;
            for which in 0..proxies {
                let id = memory.interface_id(node) + which;
                let server = server_of(setting, &memory, which, &key, &switch)?;
                let memory = memory.clone();
                let (bed, turn_at, spin) = (None, Time::MAX, setting.spin);
                let idle_since = None;
                all.push(Proxy { memory, id, which, server, bed, turn_at, idle_since, spin });
            }
            for rank in memory.local_ranks() {
                stations.push(Station::new(&memory, rank, setting, BEGIN)?);
            }
        }
        let (setting, tally) = (setting.clone(), Tally::default());
        let mut world =
            Self { setting, switch, stations, proxies: all, batch: Batch::default(), tally };
        for actor in 0..actors {
            world.wake(actor, BEGIN);
        }
        Ok(world)
    }

    fn wake(&mut self, actor: u32, at: Time) {
        let ranks = self.stations.len() as u32;
        let turn_at = match actor.checked_sub(ranks) {
            None => &mut self.stations[actor as usize].turn_at,
            Some(proxy) => &mut self.proxies[proxy as usize].turn_at,
        };
        if at < *turn_at {
            *turn_at = at;
            self.switch.lock().schedule(at, Event::Turn(actor));
        }
    }

    /// Lets it run until all programs have ended, and all that was handed over is handled.
    pub(super) fn run(mut self) -> anyhow::Result<Cell> {
        loop {
            let event = self.switch.lock().next().context("nothing is left to happen")?;
            let now = self.switch.lock().now;
            anyhow::ensure!(now < PATIENCE, "{} s of virtual time have no end", PATIENCE / SECOND);
            match event {
                Event::AtSocket(seat, _) => self.rouse(now, seat),
                Event::Turn(actor) => self.turn(now, actor)?,
                Event::AtPort(..) | Event::Step(_) => {}
            }
            let ended = self.stations.iter().all(|station| station.finished_at.is_some());
            if ended && self.tally.is_empty() {
                return self.cell(now);
            }
        }
    }

    /// A proxy that sleeps looks at its socket.
    fn rouse(&mut self, now: Time, seat: u32) {
        let proxy = seat.checked_sub(self.stations.len() as u32);
        let proxy = proxy.and_then(|proxy| self.proxies.get(proxy as usize));
        if proxy.is_some_and(|proxy| proxy.bed.is_some()) {
            self.wake(seat, now);
        }
    }

    fn turn(&mut self, now: Time, actor: u32) -> anyhow::Result<()> {
        let ranks = self.stations.len() as u32;
        let (node, next) = match actor.checked_sub(ranks) {
            None => {
                let station = &mut self.stations[actor as usize];
                if station.turn_at != now {
                    return Ok(());
                }
                station.turn_at = Time::MAX;
                (station.node, station.act(now, &self.setting, &mut self.tally)?)
            }
            Some(number) => {
                let proxy = &mut self.proxies[number as usize];
                if proxy.turn_at != now {
                    return Ok(());
                }
                proxy.turn_at = Time::MAX;
                (proxy.memory.node(), proxy.turn(now, &mut self.batch))
            }
        };
        self.wake(actor, next.max(now + 1));
        // What a proxy's turn has brought is there when the turn ends.
        let heard = if actor < ranks { now } else { self.proxies[(actor - ranks) as usize].ends() };
        self.hear_alarms(node, heard);
        Ok(())
    }

    /// Who was rung for on a node acts then.
    fn hear_alarms(&mut self, node: u32, at: Time) {
        let is_rung = |memory: &NodeMemory, actor: u32| {
            let alarm = memory.alarm(actor);
            alarm.is_some_and(|alarm| alarm.wait(None, Some(Duration::ZERO)).rung)
        };
        let mut rung = Vec::new();
        for (number, proxy) in (0..).zip(&self.proxies) {
            if proxy.memory.node() == node
                && proxy.bed.is_some()
                && is_rung(&proxy.memory, proxy.id)
            {
                rung.push(self.stations.len() as u32 + number);
            }
        }
        let memory = self.proxies.iter().find(|proxy| proxy.memory.node() == node);
        if let Some(Proxy { memory, .. }) = memory {
            let of_node = self.stations.iter().filter(|station| station.node == node);
            let sleepers = of_node.filter(|station| station.sleeps());
            rung.extend(sleepers.map(|station| station.rank).filter(|&rank| is_rung(memory, rank)));
        }
        for actor in rung {
            let handle = if actor < self.stations.len() as u32 { self.setting.handle } else { 0 };
            self.wake(actor, at + handle);
        }
    }

    fn cell(&self, now: Time) -> anyhow::Result<Cell> {
        let monitors = self.proxies.iter().filter_map(|proxy| {
            let block = proxy.memory.rank(proxy.id)?;
            Monitor::read(
                (proxy.memory.node(), proxy.which, true),
                block.counters(),
                Snapshot::ZERO,
                now,
            )
        });
        let mut monitors: Vec<Monitor> = monitors.collect();
        monitors.sort_by_key(|monitor| (monitor.node, monitor.which));
        anyhow::ensure!(monitors.len() == self.proxies.len(), "a monitor shows nothing");
        let programs = self.stations.iter().filter(|station| station.thought > 0);
        let programs: Vec<_> = programs
            .map(|station| (station.finished_at.unwrap_or(now) - BEGIN, station.thought))
            .collect();
        let (elapsed, tally) = (now - BEGIN, &self.tally);
        Ok(Cell::of(
            &self.setting,
            &Run { elapsed, monitors: &monitors, tally, programs: &programs },
        ))
    }
}

impl Proxy {
    /// One turn; gives when the next is due.
    fn turn(&mut self, now: Time, batch: &mut Batch) -> Time {
        if let Some(bed) = self.bed.take()
            && let Some(alarm) = self.memory.alarm(self.id)
        {
            bed.leave(alarm);
        }
        let began = now.max(self.server.clock().get());
        self.server.clock().set(began);
        if self.server.turn(batch) {
            self.idle_since = None;
            return self.ends();
        }
        // What it finds nothing in takes no time from anybody: it has a core of its own.
        self.server.clock().set(began);
        let idle_since = *self.idle_since.get_or_insert(began);
        let timer = self.server.stack().next_timeout().unwrap_or(Time::MAX);
        let spun = idle_since + self.spin;
        let due = if began < spun {
            spun.min(timer)
        } else {
            self.server.attend();
            let nap = self.server.before_sleep();
            self.ends() + nap.as_nanos() as Time
        };
        // While it spins ranks need not ring in truth; here that is how it learns that it finds something.
        self.bed = self.server.announce();
        if self.bed.is_some() { due } else { self.ends() }
    }

    /// When its turn has ended.
    fn ends(&self) -> Time {
        self.server.clock().get()
    }
}

fn memory_of(setting: &Setting, node: u32) -> anyhow::Result<NodeMemory> {
    let Setting { nodes, ranks, proxies, .. } = *setting;
    let node_of: Vec<u32> = (0..nodes * ranks).map(|rank| rank / ranks).collect();
    let config = NodeConfig {
        ranks: node_of.len(),
        node,
        node_of: &node_of,
        proxies,
        job_id: setting.seed,
        survive: false,
        spin_ns: 0,
        yield_ns: 0,
    };
    let mut memory = NodeMemory::create(&config).context("no memory for a node")?;
    let awake = memory.local_ranks().chain(memory.own_interfaces());
    let alarms = awake.map(|actor| Ok((actor, Alarm::new()?)));
    let alarms = alarms.collect::<Result<Vec<_>, clump_os::error::OsError>>();
    memory.set_alarms(alarms.context("no alarm")?);
    for actor in 0..nodes * (ranks + proxies) {
        let place = Place { address: address_of(actor), others: Default::default(), epoch: 1 };
        memory.rank(actor).context("no block")?.set_place(place);
    }
    for rank in memory.local_ranks() {
        let joined = memory.rank(rank).context("no block")?.join(std::process::id());
        joined.map_err(|pid| anyhow::anyhow!("{pid} has joined already"))?;
    }
    Ok(memory)
}

fn server_of(
    setting: &Setting,
    memory: &NodeMemory,
    which: u32,
    key: &JobKey,
    switch: &SharedSwitch,
) -> anyhow::Result<Server<SeatClock>> {
    let clock = SeatClock::new(setting.costs);
    clock.set(BEGIN);
    let time = clock.clone();
    let server = Server::new(memory, which, clock, |Wiring { me: (me, epoch), peers, doors }| {
        let config = StackConfig {
            me,
            epoch,
            security: Security::Crc,
            channel: clump_proto::Config::default(),
            credit_bytes: clump_am::credit_bytes(memory),
            peers,
        };
        let driver = Box::new(SimDriver::with_clock(switch, me, time));
        switch.lock().attach(me, true);
        let stack = Stack::new(config, key, driver, doors);
        stack.map_err(|e| clump_am::ErrorKind::Network(e.to_string()).into())
    });
    server.map_err(|e| anyhow::anyhow!("no proxy: {e}"))
}
