//! Ranks, proxies and a network in virtual time: one thread, one queue of events.

use super::cell::{Bounds, ProxyRun};
use super::station::{Station, Tally};
use super::{ProxyCell, Setting};
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::plan::SECOND;
use crate::random::{Random, mix};
use crate::switch::{LinkFaults, Port, SharedSwitch, Switch, Time};
use crate::turns::{ActorSchedule, Simulation, play, rung};
use crate::world::key_of;
use anyhow::Context as _;
use clump_net::Batch;
use clump_shm::node::NodeConfig;
use clump_trace::{Counter, Counters, Monitor, Snapshot};
use clump_wire::Security;

/// Start of virtual time: for a monitor, 0 means that it has not begun.
const BEGIN: Time = 1_000;
/// Virtual time after which a run counts as endless.
const PATIENCE: Time = 600 * SECOND;

/// A running simulation of the experiment.
pub(super) struct ProxyCluster {
    setting: Setting,
    turns: ActorSchedule,
    stations: Vec<Station>,
    proxies: Vec<SimInterface>,
    batch: Batch,
    tally: Tally,
    /// Maxima over all proxies.
    most: Bounds,
}

impl ProxyCluster {
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
        let link = LinkFaults::clean(setting.delay, port.mtu);
        let random = Random::new(mix(setting.seed));
        let mut switch = Switch::new(BEGIN, vec![port; actors as usize], &link, random);
        switch.now = BEGIN;
        let switch = SharedSwitch::new(switch);
        let key = key_of(setting.seed).context("no key")?;
        let trade = InterfaceEnvironment {
            switch: &switch,
            key: &key,
            security: Security::Crc,
            channel: clump_proto::Config::default(),
            costs: Some(setting.costs),
            spin: setting.spin,
        };
        let node_of: Vec<u32> = (0..nodes * ranks).map(|rank| rank / ranks).collect();
        let (mut all, mut stations) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            let memory = memory_of(&NodeConfig {
                ranks: node_of.len(),
                node,
                node_of: &node_of,
                proxies,
                job_id: setting.seed,
                survive: false,
                spin_ns: 0,
                yield_ns: 0,
            })?;
            for which in 0..proxies {
                all.push(SimInterface::new(&memory, which, (BEGIN, 0), &trade)?);
            }
            for rank in memory.local_ranks() {
                stations.push(Station::new(&memory, rank, setting, BEGIN)?);
            }
        }
        let mut turns = ActorSchedule::new(switch, actors);
        (0..actors).for_each(|actor| turns.wake(actor, BEGIN));
        let (setting, tally, batch) = (setting.clone(), Tally::default(), Batch::default());
        let most = Bounds::default();
        Ok(Self { setting, turns, stations, proxies: all, batch, tally, most })
    }

    /// Runs until all programs have ended, and all that was handed over is handled.
    pub(super) fn run(self) -> anyhow::Result<ProxyCell> {
        play(self)
    }

    /// Returns the proxy that an actor is; `None` for a rank.
    fn proxy(&self, actor: u32) -> Option<&SimInterface> {
        self.proxies.get(actor.checked_sub(self.stations.len() as u32)? as usize)
    }

    /// Schedules turns of the actors on an actor's node whose alarms were rung.
    fn wake_alarmed(&mut self, actor: u32, at: Time) {
        let Self { setting, turns, stations, proxies, .. } = self;
        let ranks = stations.len() as u32;
        let proxy = actor.checked_sub(ranks).unwrap_or(actor / setting.ranks * setting.proxies);
        let rung = rung(&proxies[proxy as usize].memory, |actor| match actor.checked_sub(ranks) {
            None => stations[actor as usize].sleeper.sleeps(),
            Some(proxy) => proxies[proxy as usize].sleeps(),
        });
        for actor in rung {
            turns.wake(actor, at + if actor < ranks { setting.handle } else { 0 });
        }
    }

    fn cell(&self, now: Time) -> anyhow::Result<ProxyCell> {
        let monitors = self.proxies.iter().filter_map(|proxy| {
            let block = proxy.memory.rank(proxy.id)?;
            let counted = proxy.memory.endpoint_block(proxy.id, 0).ok()?;
            Monitor::read(
                (proxy.memory.node(), proxy.id - proxy.memory.own_interfaces().start, true),
                block.gauges(),
                Snapshot::of(Counters::over(counted.counters())),
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
        let all = |counter| monitors.iter().map(|one| one.network[counter]).sum();
        let bounds = Bounds {
            ranks_refused: tally.refused,
            channel_full: all(Counter::NetFull),
            endpoint_full: all(Counter::NetHeld),
            ..self.most
        };
        let run = ProxyRun { elapsed, monitors: &monitors, tally, programs: &programs, bounds };
        Ok(ProxyCell::of(&self.setting, &run))
    }
}

impl Simulation for ProxyCluster {
    type End = ProxyCell;
    type Error = anyhow::Error;

    fn turns(&mut self) -> &mut ActorSchedule {
        &mut self.turns
    }

    /// Wakes a proxy that sleeps, which then reads its socket.
    fn on_datagram(&mut self, now: Time, actor: u32) {
        if self.proxy(actor).is_some_and(SimInterface::sleeps) {
            self.turns.wake(actor, now);
        }
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> anyhow::Result<()> {
        let Self { setting, stations, proxies, batch, tally, most, .. } = self;
        let (next, heard) = match actor.checked_sub(stations.len() as u32) {
            None => (stations[actor as usize].act(now, setting, tally)?, now),
            Some(proxy) => {
                let proxy = &mut proxies[proxy as usize];
                let next = proxy.turn(now, 0, batch);
                most.stack_bytes = most.stack_bytes.max(proxy.server.stack().memory_bytes());
                most.held = most.held.max(proxy.server.held());
                // The results of its turn are there when the turn ends.
                (next, proxy.ends())
            }
        };
        self.turns.wake(actor, next.max(now + 1));
        self.wake_alarmed(actor, heard);
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> anyhow::Result<Option<ProxyCell>> {
        anyhow::ensure!(now < PATIENCE, "{} s of virtual time have no end", PATIENCE / SECOND);
        let ended = self.stations.iter().all(|station| station.finished_at.is_some());
        if ended && self.tally.is_empty() { self.cell(now).map(Some) } else { Ok(None) }
    }

    fn dries_up(&self) -> anyhow::Error {
        anyhow::anyhow!("nothing is left to happen")
    }
}
