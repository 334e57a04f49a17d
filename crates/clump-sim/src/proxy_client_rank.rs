//! Messaging state of a rank whose messages proxies carry: a real proxy client, and the inbox of
//! its one endpoint.

use crate::kernel::Time;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::inbox::Inbox;
use clump_shm::lane::Peek;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::slot::INLINE;
use clump_transport::{Accept, Dispatch, Forward, ProxyClient, Spill, Transport};
use clump_wire::OwnedMessage;
use std::sync::Arc;

/// A simulated rank's proxy client and inbox, with a virtual clock.
#[derive(Debug)]
pub(crate) struct ProxyClientRank {
    pub(crate) name: Name,
    pub(crate) client: ProxyClient,
    inbox: Inbox<()>,
    now: Arc<AtomicU64>,
}

impl ProxyClientRank {
    pub(crate) fn open(
        memory: &NodeMemory,
        (rank, tag): (u32, u64),
        dispatch: Dispatch,
        now: Time,
    ) -> anyhow::Result<Self> {
        let inbox = Inbox::open(memory, rank, tag)?;
        let now = Arc::new(AtomicU64::new(now));
        let clock = now.clone();
        let clock = Box::new(move || clock.load(Ordering::Relaxed));
        let client = ProxyClient::with_clock(memory, rank, dispatch, clock);
        let client = client.map_err(|e| anyhow::anyhow!("no proxy client: {e}"))?;
        Ok(Self { name: inbox.name(), client, inbox, now })
    }

    pub(crate) fn set_time(&self, now: Time) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Takes the messages in the lanes, except those that only announce room.
    pub(crate) fn take(&mut self) -> anyhow::Result<Vec<OwnedMessage>> {
        self.inbox.process_doorbells()?;
        if self.inbox.anything_pending() {
            self.inbox.recheck_after_arming();
            let queued = self.inbox.requests.has_message() || self.inbox.replies.has_message();
            anyhow::ensure!(!queued, "a proxy found no lane to rank {}", self.name.rank());
            self.inbox.pending = [false; 2];
        }
        let mut hot = std::mem::take(&mut self.inbox.hot);
        let mut came = Vec::new();
        for lane in &mut hot {
            let mut words = [0; 2 * INLINE];
            while let Peek::Message(header) = lane.receiver.peek(&mut words) {
                let (mut beside, mut spill) = (Vec::new(), Spill::default());
                lane.receiver.payload(header).append_to(&mut beside);
                let words = &words[..header.words()];
                if let Some(forward) = Forward::decode(header, words, &beside, &mut spill) {
                    came.push(forward.message.to_owned());
                }
                lane.receiver.advance(header);
                lane.recent = lane.recent.wrapping_add(1);
            }
        }
        self.inbox.hot = hot;
        came.retain(|queued_message| self.client.accept(queued_message) == Accept::Handle);
        self.client.check_invariants();
        Ok(came)
    }

    /// Arms notification on all lanes, before a sleep is announced.
    pub(crate) fn arm_notifications(&mut self) {
        self.inbox.arm_all_notifications();
    }

    /// Returns true if anything has arrived meanwhile; called after the announcement.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        self.inbox.anything_waiting()
    }
}
