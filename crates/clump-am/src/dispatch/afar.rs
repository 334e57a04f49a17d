//! Messages of other nodes that proxies bring: they arrive in the lanes of endpoints, as all others
//! do.

use super::Handling;
use crate::core::Core;
use crate::error::{ErrorKind, Result};
use clump_shm::bulk::SharedBytes;
use clump_shm::name::Name;
use clump_shm::slot::Header;
use clump_transport::{Accept, Forward, Spill};

impl Core {
    /// Returns the number of messages of other nodes that proxies have brought and that wait to be
    /// handled.
    pub(super) fn waiting_from_afar(&self) -> usize {
        self.remote.as_ref().map_or(0, |remote| remote.later.len())
    }

    /// Schedules for this poll the messages that proxies have brought since there were `before`;
    /// returns their number.
    pub(super) fn note_from_afar(&mut self, before: usize) -> usize {
        let came = self.waiting_from_afar() - before;
        if came > 0 {
            (self.net_due, self.schedule.due) = (self.schedule.polls, self.schedule.polls);
        }
        came
    }
}

impl Handling<'_> {
    /// Queues a message from another node, which a proxy has brought.
    pub(super) fn take_forwarded(
        &mut self,
        from: Name,
        header: Header,
        words: &[u64],
        payload: SharedBytes,
    ) -> Result<bool> {
        let corrupt = || ErrorKind::Corrupt(from).into();
        let (Some(remote), Some(network)) =
            (self.remote.as_mut(), self.handler_context.context.network())
        else {
            return Err(corrupt());
        };
        let mut beside = Vec::new();
        payload.append_to(&mut beside);
        let mut spill = Spill::default();
        let (forward, payload) =
            Forward::decode(header, words, &beside, &mut spill).ok_or_else(corrupt)?;
        let (spilled, mut queued) = (beside.len() - payload.len(), forward.to_queued(Vec::new()));
        // The payload follows the words that did not fit in the slot, if there are any; they are
        // few.
        beside.drain(..spilled);
        queued.payload = beside;
        if network.accept(&queued) == Accept::Handle {
            remote.later.push_back(queued);
        }
        Ok(true)
    }
}
