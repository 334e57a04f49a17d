//! The agent's end: what its ranks left running, and its last frame to the launcher.

use super::{Agent, Result, SWEEP_EVERY, SWEEP_NS};
use crate::frame::Frame;
use crate::heartbeat_socket::HeartbeatSocket;
use crate::ledger::Ledger;
use crate::outcome::{Heartbeats, NodeOutcome};
use crate::refusal::Refusal;
use crate::sweep;
use crate::virtual_time::VirtualTimeReport;
use clump_os::process::ChildEvents;
use clump_os::{clock, process, signal};
use std::collections::BTreeMap;

impl Agent {
    pub(super) fn kill_everything(&mut self) {
        if self.adoption.is_some() {
            self.signal_ranks(signal::KILL);
        }
        for process in sweep::kill_below(&[]) {
            let is_rank = self.ranks.iter().any(|rank| rank.child.pid == process.pid);
            let known =
                self.leftovers.iter().any(|p| p.pid == process.pid && p.started == process.started);
            if !is_rank && !known {
                self.leftovers.push(process);
            }
        }
    }

    /// Kills what ended ranks left running. All ranks have ended.
    pub(super) fn sweep_rest(&mut self) -> Result<()> {
        let until = *self.sweep_until.get_or_insert(clock::now_ns() + SWEEP_NS);
        self.killing |= self.refusal.is_some();
        loop {
            let mut news = process::changed()?;
            while let ChildEvents::Of(..) = news {
                news = process::changed()?;
            }
            if news == ChildEvents::Childless {
                return Ok(());
            }
            if clock::now_ns() > until {
                return self.outputs.abandon(&self.poller).map_err(Into::into);
            }
            self.kill_everything();
            self.turn(Some(SWEEP_EVERY))?;
        }
    }

    /// Returns the whole outcome if this agent decided, otherwise the node's part of it.
    pub(super) fn last_words(&mut self) -> Frame {
        let part = self.part();
        let refusal = self.refusal.take().map(|Refusal { why, code }| (why, code));
        match &self.watch {
            Some(watch) if self.spec.nodes <= 1 => {
                let ledger = Ledger {
                    spec: &self.spec,
                    watch,
                    parts: vec![Some(part)],
                    losses: Vec::new(),
                    refusal,
                    started_ns: self.started_ns,
                    ended_ns: self.ended_ns,
                };
                Frame::Finished(Box::new(ledger.close()))
            }
            _ => Frame::Part(Box::new(part)),
        }
    }

    fn part(&mut self) -> NodeOutcome {
        let mut config: BTreeMap<String, String> =
            self.node.config.entries().into_iter().map(|e| (e.key.name.into(), e.value)).collect();
        config.insert("spin_ns".into(), self.node.spin_policy.spin_ns.to_string());
        config.insert("yield_ns".into(), self.node.spin_policy.yield_ns.to_string());
        config.insert("net_driver".into(), self.node.driver.to_string());
        config.insert("placement".into(), self.node.placement.said().into());
        if let Some(paths) = self.heartbeats.as_ref().map(HeartbeatSocket::paths) {
            let chosen = self.chosen.iter().filter_map(|&own| paths.own_address(own));
            let chosen: Vec<String> = chosen.map(|address| address.to_string()).collect();
            config.insert("addresses".into(), chosen.join(" "));
        }
        let survivors = sweep::own_descendants();
        let counters = crate::scene::counters(&self.node.memory);
        let (traffic, intervals) = crate::scene::traffic(&self.node.memory);
        let heartbeats = self.heartbeats.as_ref().map(HeartbeatSocket::counts);
        let since_ns = self.ended_ns.max(clock::now_ns()).saturating_sub(self.started_ns);
        NodeOutcome {
            heartbeats: heartbeats.map(|(sent, heard)| Heartbeats::new(sent, heard, since_ns)),
            node: self.node.plan.node,
            host: self.node.plan.machine.clone().unwrap_or_else(process::host_name),
            pids: self.ranks.iter().map(|rank| rank.child.pid).collect(),
            doing: self.scene.take().unwrap_or_default(),
            waits: self.waits.take(),
            interfaces: crate::scene::monitors(&self.node.memory),
            stacks: crate::scene::stacks(&self.node.memory, &counters),
            counters,
            traffic,
            intervals,
            leftovers: self.leftovers.iter().map(sweep::describe).collect(),
            survivors: survivors.iter().map(sweep::describe).collect(),
            virtual_time: VirtualTimeReport::of(self.spec.virtual_time.as_ref(), &self.node.memory),
            config,
        }
    }
}
