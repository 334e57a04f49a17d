//! Stale stacks: a rank that has restarted without the job's knowledge, and an outsider with a key
//! of its own. Nothing they send may be handled, and nothing may be delivered to them.

use super::content;
use super::endpoint::name_of;
use super::endpoints::AcceptAllEndpoints;
use super::ledger::{self, FORBIDDEN, SharedLedger};
use super::plan::ClusterPlan;
use super::rank::{Listed, stack_config};
use crate::kernel::{MILLISECOND, SharedSwitch, SimDriver, Time};
use clump_net::seal::{JobKey, KeyError};
use clump_net::{Batch, Stack};
use clump_wire::Message;
use clump_wire::frame::{FrameKind, Route};

/// Interval at which a stale stack acts.
pub(crate) const PERIOD: Time = 7 * MILLISECOND;

/// A stack that takes no part in the job but sends and receives on its network.
#[derive(Debug)]
pub(crate) struct StaleStack {
    pub(crate) me: u32,
    stack: Stack,
    acts: u64,
}

impl StaleStack {
    /// Creates a stack at `socket` that claims to be rank `me` of that epoch.
    pub(crate) fn new(
        plan: &ClusterPlan,
        key: &JobKey,
        switch: &SharedSwitch,
        (socket, me, epoch): (u32, u32, u32),
    ) -> Result<Self, KeyError> {
        let driver = Box::new(SimDriver::new(switch, socket));
        switch.lock().attach(socket, true);
        let stack =
            Stack::new(stack_config(plan, me, epoch), key, driver, Box::new(AcceptAllEndpoints))?;
        Ok(Self { me, stack, acts: 0 })
    }

    /// Sends to all ranks if `talk`, and checks that nothing is delivered from any.
    pub(crate) fn act(
        &mut self,
        now: Time,
        listed: &[Vec<Listed>],
        batch: &mut Batch,
        ledger: &SharedLedger,
        talk: bool,
    ) {
        while self.stack.receive(|| now, Some(0), batch) > 0 {
            if !batch.is_empty() {
                let mut words = clump_net::Words::default();
                let arrival = batch.arrival(0, &mut words);
                let what = format!("a stack that does not belong was handed {arrival:x?}");
                ledger::lock(ledger).complain(what);
            }
        }
        let from = name_of(self.me, 1, 0);
        for (peer, listed) in (0..).zip(listed) {
            let Some(&(to, tag)) = listed.first() else { continue };
            if peer == self.me || !talk || self.acts > 200 {
                continue;
            }
            self.acts += 1;
            let flow = self.stack.open_flow(from, to, peer, self.acts.is_multiple_of(2));
            let words: Vec<u64> = content::words(FORBIDDEN + self.acts).collect();
            let route = Route { from, to, tag };
            let request = Message::request((FrameKind::Short, 1), route, (&words, &[]));
            let _ = self.stack.request(|| now, flow, &request);
        }
        self.stack.service(now, true);
        self.stack.acknowledge_all(now);
    }
}
