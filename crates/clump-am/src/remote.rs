//! The network state of an endpoint.

use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use clump_net::{FlowId, Polling};
use clump_shm::bulk::SharedBytes;
use clump_shm::name::Name;
use clump_shm::slot::Header;
use clump_transport::{Accept, Forward, Network, Requesters, Spill};
use clump_wire::{Message, OwnedMessage};
use std::collections::VecDeque;

/// The network state of an endpoint.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) polling: Polling,
    /// Messages that could not be handled yet: their reply path is full, or a proxy has just
    /// brought them.
    pub(crate) later: VecDeque<OwnedMessage>,
    pub(crate) requesters: Requesters,
    /// Flows to unmapped destinations on which something may be outstanding.
    pub(crate) old_flows: Vec<FlowId>,
}

impl Remote {
    pub(crate) fn new(network: &Network, name: Name) -> Self {
        debug_assert!(name.generation() != 0, "no endpoint of another node could answer it");
        Self {
            polling: network.polling(),
            later: VecDeque::new(),
            requesters: Requesters::new(name.to_bits()),
            old_flows: Vec::new(),
        }
    }

    /// Takes a message of another node out of the slot in which a proxy brought it. The next poll
    /// of the network handles it.
    ///
    /// # Errors
    /// No proxy writes such a message.
    pub(crate) fn take_forwarded(
        &mut self,
        handler_context: &HandlerContext,
        from: Name,
        header: Header,
        words: &[u64],
        payload: SharedBytes,
    ) -> Result<()> {
        let corrupt = || ErrorKind::Corrupt(from);
        let network = handler_context.context.network().ok_or_else(corrupt)?;
        let mut beside = Vec::new();
        payload.append_to(&mut beside);
        let mut spill = Spill::default();
        let forward = Forward::decode(header, words, &beside, &mut spill).ok_or_else(corrupt)?;
        let Message { words, payload, .. } = forward.message;
        debug_assert!(payload.len() <= beside.len(), "the payload is the rest of the bytes");
        let spilled = beside.len() - payload.len();
        let mut queued = OwnedMessage::of(&forward.message.head(), words, Vec::new());
        // The payload follows the words that did not fit in the slot, if there are any; they are
        // few.
        beside.drain(..spilled);
        queued.payload = beside;
        if network.accept(&queued) == Accept::Handle {
            self.later.push_back(queued);
        }
        Ok(())
    }
}
