//! The state in which an agent begins.

use super::Agent;
use super::opening::OpenedAgent;
use crate::narrow::Narrow;
use crate::overflow::Overflow;
use crate::receiving::Receiving;
use clump_os::oom::OomCounters;

impl Agent {
    /// Makes the agent of an open node, which has no ranks yet.
    pub(super) fn begin(opened: OpenedAgent) -> Self {
        let OpenedAgent { poller, signals, assembler, outputs, life, watch, node, .. } = opened;
        Self {
            poller,
            signals,
            assembler,
            outputs,
            life,
            input: None,
            early_input: Vec::new(),
            watch,
            node,
            heartbeats: None,
            offers: Vec::new(),
            chosen: Vec::new(),
            silence: opened.silence,
            narrow: Narrow::default(),
            overflow: Overflow::default(),
            receiving: Receiving::default(),
            interfaces: Vec::new(),
            spec: opened.spec,
            ranks: Vec::new(),
            oom: OomCounters::default(),
            started_ns: opened.started_ns,
            ended_ns: 0,
            scene: None,
            waits: None,
            refusal: None,
            leftovers: Vec::new(),
            sweep_until: None,
            adoption: opened.adoption,
            metrics: opened.metrics,
            killing: false,
            finished: false,
            launcher_lost: false,
            suspended: false,
            suspended_at_ns: 0,
        }
    }
}
