//! Ranks, proxies and a network in virtual time.

use super::cell::{Bounds, ProxyCell, ProxyRun};
use super::setting::Setting;
use super::station::Station;
use super::tally::Tally;
use crate::alarms::NodeAlarms;
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::kernel::{
    Kernel, KernelConfig, LinkFaults, PlannedFault, Port, Random, SECOND, Time, World, key_of, mix,
};
use anyhow::Context as _;
use clump_interface::Services;
use clump_net::Batch;
use clump_shm::node::NodeConfig;
use clump_trace::{Counter, Counters, Monitor, Snapshot};
use clump_wire::Security;

/// Start of virtual time: for a monitor, 0 means that it has not begun.
const BEGIN: Time = 1_000;
/// Virtual time after which a run counts as endless.
const LIMIT: Time = 600 * SECOND;

/// A running simulation of the experiment.
pub(super) struct ProxyCluster {
    setting: Setting,
    kernel: Kernel,
    stations: Vec<Station>,
    /// Alarms of each node.
    alarms: Vec<NodeAlarms>,
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
        let mut kernel = Kernel::new(KernelConfig {
            begin: BEGIN,
            ports: vec![port; actors as usize],
            link: &link,
            random: Random::new(mix(setting.seed)),
            actors,
            sites: Vec::new(),
            max_events: u64::MAX,
            trace: false,
        });
        let key = key_of(setting.seed).context("no key")?;
        let trade = InterfaceEnvironment {
            switch: &kernel.switch,
            key: &key,
            security: Security::Crc,
            channel: clump_proto::Config::default(),
            costs: Some(setting.costs),
            spin: setting.spin,
        };
        let node_of: Vec<u32> = (0..nodes * ranks).map(|rank| rank / ranks).collect();
        let (mut all, mut stations, mut alarms) = (Vec::new(), Vec::new(), Vec::new());
        for node in 0..nodes {
            let memory = memory_of(&NodeConfig {
                ranks: node_of.len(),
                node,
                node_of: &node_of,
                proxies,
                virtual_nodes: 0,
                job_id: setting.seed,
                survive: false,
                spin_ns: 0,
                yield_ns: 0,
            })?;
            alarms.push(NodeAlarms::new(&memory)?);
            for which in 0..proxies {
                all.push(SimInterface::new(
                    &memory,
                    which,
                    (BEGIN, 0),
                    &trade,
                    Services::default(),
                )?);
            }
            for rank in memory.local_ranks() {
                stations.push(Station::new(&memory, rank, setting, BEGIN)?);
            }
        }
        (0..actors).for_each(|actor| kernel.wake(actor, BEGIN));
        let (setting, tally, batch) = (setting.clone(), Tally::default(), Batch::default());
        let most = Bounds::default();
        Ok(Self { setting, kernel, stations, alarms, proxies: all, batch, tally, most })
    }

    /// Returns the proxy that an actor is; `None` for a rank.
    fn proxy(&self, actor: u32) -> Option<&SimInterface> {
        self.proxies.get(actor.checked_sub(self.stations.len() as u32)? as usize)
    }

    /// Schedules turns of the actors on an actor's node whose alarms were rung.
    fn wake_alarmed(&mut self, actor: u32, at: Time) {
        let Self { setting, kernel, stations, alarms, proxies, .. } = self;
        let ranks = stations.len() as u32;
        let node = match actor.checked_sub(ranks) {
            None => actor / setting.ranks,
            Some(proxy) => proxy / setting.proxies,
        };
        let rung = alarms[node as usize].rung(|actor| match actor.checked_sub(ranks) {
            None => stations[actor as usize].sleeper.sleeps(),
            Some(proxy) => proxies[proxy as usize].sleeps(),
        });
        for actor in rung {
            kernel.wake(actor, at + if actor < ranks { setting.handle } else { 0 });
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

impl World for ProxyCluster {
    type End = ProxyCell;
    type Error = anyhow::Error;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Wakes a proxy that sleeps, which then reads its socket.
    fn on_datagram(&mut self, now: Time, actor: u32) {
        if self.proxy(actor).is_some_and(SimInterface::sleeps) {
            self.kernel.wake(actor, now);
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
        self.kernel.wake(actor, next.max(now + 1));
        self.wake_alarmed(actor, heard);
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> anyhow::Result<Option<ProxyCell>> {
        anyhow::ensure!(now < LIMIT, "{} s of virtual time have no end", LIMIT / SECOND);
        let ended = self.stations.iter().all(|station| station.finished_at.is_some());
        if ended && self.tally.is_empty() { self.cell(now).map(Some) } else { Ok(None) }
    }

    fn on_fault(&mut self, _now: Time, fault: &PlannedFault) -> anyhow::Result<()> {
        Err(self.failure(format!("this experiment does not support {fault:?}")))
    }

    fn failure(&self, what: String) -> anyhow::Error {
        anyhow::anyhow!("seed {}: {what}", self.setting.seed)
    }
}
