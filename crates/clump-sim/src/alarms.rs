//! Alarms of a node's ranks and interfaces, watched together: one system call reports the rung
//! ones.

use anyhow::Context as _;
use clump_os::epoll::{Interest, Poller};
use clump_shm::node::NodeMemory;
use std::time::Duration;

/// The alarms of one node.
#[derive(Debug)]
pub(crate) struct NodeAlarms {
    poller: Poller,
    first_interface: u32,
}

impl NodeAlarms {
    pub(crate) fn new(memory: &NodeMemory) -> anyhow::Result<Self> {
        let poller = Poller::new()?;
        for actor in memory.own_interfaces().chain(memory.local_ranks()) {
            let alarm = memory.alarm(actor).context("no alarm")?;
            poller.add(&**alarm, u64::from(actor), Interest::Read)?;
        }
        Ok(Self { poller, first_interface: memory.own_interfaces().start })
    }

    /// Returns the sleeping actors whose alarms were rung: interfaces, and after them ranks.
    pub(crate) fn rung(&self, sleeps: impl Fn(u32) -> bool) -> Vec<u32> {
        let ready = self.poller.wait(Some(Duration::ZERO)).unwrap_or_default();
        let actors = ready.into_iter().filter_map(|ready| u32::try_from(ready.token).ok());
        let mut rung: Vec<u32> = actors.filter(|&actor| sleeps(actor)).collect();
        rung.sort_unstable_by_key(|&actor| (actor < self.first_interface, actor));
        rung
    }
}
