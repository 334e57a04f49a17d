//! Close handshake of ranks: a rank that finalizes is released once all that it had handed to a
//! proxy lies in the lanes of the target endpoints, or was returned. So a rank that sees that
//! another has finalized finds all its messages.
//!
//! The proxy first waits until all of it has arrived at its peers, then asks those whether they
//! have delivered the messages of that rank. Messages of other ranks do not matter: an endpoint
//! that does not read delays only its own senders.

use super::clock::Clock;
use clump_net::{Mark, Stack};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_wire::Message;
use clump_wire::frame::FrameKind;

/// Returns the name of a proxy's control endpoint, by which proxies communicate.
pub fn control_endpoint_name(id: u32) -> Name {
    Name::new(id, 1, 1)
}

#[derive(Debug)]
enum CloseStage {
    /// Messages are in flight to peers.
    Arriving(Mark),
    /// These peers have not reported that all has been delivered.
    Asked(Vec<u32>),
}

#[derive(Debug)]
struct ClosingRank {
    rank: u32,
    /// Number that the answers carry.
    token: u64,
    peers: Vec<u32>,
    stage: CloseStage,
}

/// The close handshakes in progress at a proxy.
#[derive(Debug)]
pub struct CloseHandshakes {
    memory: NodeMemory,
    me: Name,
    all: Vec<ClosingRank>,
    next_token: u64,
}

impl CloseHandshakes {
    pub(crate) fn new(memory: &NodeMemory, id: u32) -> Self {
        let me = control_endpoint_name(id);
        Self { memory: memory.clone(), me, all: Vec::new(), next_token: 0 }
    }

    /// Begins the close handshake of a rank: it will hand over nothing more.
    pub(crate) fn begin_close(&mut self, rank: u32, stack: &Stack) {
        let mark = stack.mark();
        self.next_token += 1;
        let (token, peers): (_, Vec<u32>) = (self.next_token, mark.peers().collect());
        debug_assert!(self.all.iter().all(|leaving| leaving.token < token), "a token names one");
        debug_assert!(!peers.contains(&self.me.rank()), "a proxy is no peer of itself");
        self.all.push(ClosingRank { rank, token, peers, stage: CloseStage::Arriving(mark) });
    }

    /// Notes a peer's report that it has delivered what it was asked about.
    pub fn on_answer(&mut self, from: u64, token: u64) {
        let peer = Name::from_bits(from).rank();
        for leaving in self.all.iter_mut().filter(|leaving| leaving.token == token) {
            if let CloseStage::Asked(missing) = &mut leaving.stage {
                missing.retain(|&id| id != peer);
            }
        }
    }

    /// Releases those ranks of which everything has been delivered.
    #[inline]
    pub(crate) fn handle_arrivals(&mut self, stack: &mut Stack, clock: &impl Clock) {
        if !self.all.is_empty() {
            self.proceed(stack, clock);
        }
    }

    /// Checks that numbers are in order, that nobody is asked before all has arrived, and that
    /// ranks whose peers have answered are released.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let tokens = self.all.iter().map(|leaving| leaving.token);
        debug_assert!(tokens.is_sorted_by(|a, b| a < b), "numbers are given out in order");
        for ClosingRank { token, peers, stage, .. } in &self.all {
            debug_assert!(*token <= self.next_token, "a number was given out before");
            if let CloseStage::Asked(missing) = stage {
                debug_assert!(peers.is_empty() && !missing.is_empty(), "a peer has to answer");
            }
        }
    }

    #[cold]
    fn proceed(&mut self, stack: &mut Stack, clock: &impl Clock) {
        let Self { memory, me, all, .. } = self;
        all.retain_mut(|leaving| {
            debug_assert!(memory.is_local(leaving.rank), "a proxy serves ranks of its node");
            let is_alive = memory.death_of(leaving.rank).is_none();
            let Some(block) = memory.rank(leaving.rank).filter(|_| is_alive) else { return false };
            if let CloseStage::Arriving(mark) = &mut leaving.stage {
                if !stack.is_past(mark) {
                    return true;
                }
                for &peer in &leaving.peers {
                    let names = (me.to_bits(), control_endpoint_name(peer).to_bits());
                    let words = [leaving.token, u64::from(leaving.rank)];
                    let body = (&words[..], &[][..]);
                    let ask = Message::answer((FrameKind::Ask, 0), names, body);
                    stack.notify_endpoint(|| clock.ticked_ns(), &ask);
                }
                debug_assert!(leaving.token > 0, "answers carry the number of a rank");
                leaving.stage = CloseStage::Asked(std::mem::take(&mut leaving.peers));
            }
            if let CloseStage::Asked(missing) = &mut leaving.stage {
                missing.retain(|&peer| !stack.is_lost(peer));
                if !missing.is_empty() {
                    return true;
                }
            }
            block.bid_farewell();
            block.park().wake(memory.alarm(leaving.rank).map(|alarm| &**alarm));
            false
        });
        self.check_invariants();
    }
}
