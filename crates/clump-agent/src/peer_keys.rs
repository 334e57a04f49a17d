//! Keys of the paths between this agent and others, derived when they are first used: an agent
//! speaks with few of many others at a time, and keys lie in memory that is locked.

use clump_net::seal::{JobKey, KeyError, Opener, Sealer};
use clump_wire::Security;
use std::collections::{BTreeMap, VecDeque};

/// The stack number of the agent of node 0.
pub(crate) const AGENT_STACK: u32 = 0xff00_0000;
/// Most peers whose keys are kept. A job of more nodes derives some again, at the pace of
/// heartbeats.
const MAX_KEPT: usize = 256;

/// The keys of one agent.
#[derive(Debug)]
pub(crate) struct PeerKeys {
    job: JobKey,
    security: Security,
    /// Stack and incarnation of this agent.
    own: (u32, u32),
    kept: BTreeMap<u32, (Sealer, Opener)>,
    /// Nodes in the order in which their keys were derived.
    order: VecDeque<u32>,
    /// Reason why the last key could not be had.
    failure: Option<KeyError>,
}

impl PeerKeys {
    /// Creates the keys of the agent with this stack and incarnation; none is derived yet.
    pub(crate) fn new(job: JobKey, security: Security, own: (u32, u32)) -> Self {
        let (kept, order) = (BTreeMap::new(), VecDeque::new());
        Self { job, security, own, kept, order, failure: None }
    }

    /// Returns the keys to and from the agent of `node`, which is in this incarnation; none if
    /// there is no memory for them.
    pub(crate) fn of(&mut self, node: u32, epoch: u32) -> Option<&(Sealer, Opener)> {
        if !self.kept.contains_key(&node) {
            match self.derive(node, epoch) {
                Ok(keys) => self.keep(node, keys),
                Err(why) => self.failure = Some(why),
            }
        }
        self.kept.get(&node)
    }

    /// Returns the reason why a key could not be had, once.
    pub(crate) fn take_failure(&mut self) -> Option<KeyError> {
        self.failure.take()
    }

    fn derive(&self, node: u32, epoch: u32) -> Result<(Sealer, Opener), KeyError> {
        let ((stack, own), theirs) = (self.own, AGENT_STACK | node);
        let sealer = self.job.sealer(self.security, stack, own, theirs)?;
        Ok((sealer, self.job.opener(self.security, theirs, epoch, stack)?))
    }

    fn keep(&mut self, node: u32, keys: (Sealer, Opener)) {
        if self.order.len() == MAX_KEPT {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.kept.remove(&oldest));
        }
        self.kept.insert(node, keys);
        self.order.push_back(node);
        debug_assert!(self.kept.len() == self.order.len() && self.order.len() <= MAX_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_derived_at_first_use_and_again_when_many_others_were_used() {
        let keys = |own| {
            PeerKeys::new(
                JobKey::new(&mut [7; 32]).unwrap(),
                Security::Aead,
                (AGENT_STACK | own, 3),
            )
        };
        let (mut a, mut b) = (keys(0), keys(900));
        assert!(a.kept.is_empty());
        for round in 1..4 {
            let (mut body, mut tag) = (*b"words", [0; 16]);
            let (sealer, _) = a.of(900, 3).unwrap();
            sealer.seal(round, b"head", &mut body, &mut tag);
            let mut sealed = [&body[..], &tag].concat();
            let (_, opener) = b.of(0, 3).unwrap();
            assert_eq!(opener.open(round, b"head", &mut sealed).unwrap(), b"words");
            for node in 1..600 {
                assert!(a.of(node, 3).is_some() && a.kept.len() <= MAX_KEPT);
            }
            assert!(!a.kept.contains_key(&900), "others have taken its place");
        }
        assert!(a.take_failure().is_none());
    }
}
