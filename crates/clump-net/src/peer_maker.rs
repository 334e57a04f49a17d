//! Peers as they come into being: when one is first sent to, or first heard of.

use crate::peer::Peer;
use crate::peer_directory::{PeerAddress, PeerDirectory};
use crate::peer_path::PeerPath;
use crate::seal::{JobKey, KeyError};
use clump_wire::{Header, Security};
use std::sync::Arc;

/// All that a peer is made from.
#[derive(Debug)]
pub(crate) struct PeerMaker {
    directory: Arc<dyn PeerDirectory>,
    key: JobKey,
    security: Security,
    /// Header of every packet of this stack, without the fields that the peer fills in.
    header: Header,
    /// The peer whose keys were derived last, for a packet that has not proved to be its own.
    candidate: Option<Box<Peer>>,
}

impl PeerMaker {
    /// Creates one for the stack `me` in incarnation `epoch`.
    pub(crate) fn new(
        directory: Arc<dyn PeerDirectory>,
        key: JobKey,
        security: Security,
        (me, epoch): (u32, u32),
    ) -> Self {
        let header = Header { job: key.job_tag(), source: me, epoch, ..Header::default() };
        Self { directory, key, security, header, candidate: None }
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &dyn PeerDirectory {
        &*self.directory
    }

    /// Returns the address of a peer.
    pub(crate) fn find(&self, id: u32) -> Option<PeerAddress> {
        self.directory.find(id).filter(|peer| peer.id == id && id != self.header.source)
    }

    /// Makes a peer, which the directory has; its keys are derived here.
    ///
    /// # Errors
    /// The keys cannot be made.
    pub(crate) fn make(&mut self, peer: PeerAddress) -> Result<Box<Peer>, KeyError> {
        if let Some(made) = self.candidate.take_if(|made| made.path.peer() == peer.id) {
            return Ok(made);
        }
        let PeerAddress { id, address, epoch: target_epoch } = peer;
        debug_assert!(id != self.header.source, "a stack is no peer of its own");
        let header = Header { target: id, target_epoch, ..self.header };
        let Header { source: me, epoch, .. } = header;
        let sealer = self.key.sealer(self.security, me, epoch, id)?;
        let opener = self.key.opener(self.security, id, target_epoch, me)?;
        Ok(Box::new(Peer::new(PeerPath { address, header, sealer, opener })))
    }

    /// Returns the peer that a packet with this header names, to be authenticated with its keys;
    /// `None` if no peer sends such packets. Only the last one is kept: packets of strangers take
    /// no more memory than one peer, and those that pretend to come from one peer one derivation.
    #[cold]
    pub(crate) fn candidate(&mut self, header: &Header) -> Option<&mut Peer> {
        let peer = self.find(header.source)?;
        let own = Header { target: peer.id, target_epoch: peer.epoch, ..self.header };
        if !PeerPath::match_each_other(&own, header) {
            return None;
        }
        let made = self.make(peer).ok()?;
        debug_assert!(made.connection.is_none(), "nothing is kept for a candidate");
        Some(self.candidate.insert(made))
    }
}
