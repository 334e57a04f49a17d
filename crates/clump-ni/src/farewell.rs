//! Ranks that leave: a rank that finalizes is let go once all that it had handed to a proxy lies in the lanes of the
//! endpoints that it is for, or has come back. So whoever sees that a rank has finalized finds what it sent.
//!
//! The proxy first waits until all of it has arrived at its peers, then asks those whether they have handed over what
//! that rank sent. What others sent does not matter: an endpoint that does not read holds up who sends to it alone.

use crate::clock::Clock;
use clump_net::{Mark, Stack};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_wire::frame::Kind;

/// The name by which proxies talk to each other.
pub(crate) fn business_name(id: u32) -> Name {
    Name::new(id, 1, 1)
}

#[derive(Debug)]
enum Stage {
    /// Something is on its way to peers.
    Arriving(Mark),
    /// These have not said that all has been handed over.
    Asked(Vec<u32>),
}

#[derive(Debug)]
struct Leaving {
    rank: u32,
    /// What the answers say.
    token: u64,
    peers: Vec<u32>,
    stage: Stage,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Farewells {
    memory: NodeMemory,
    me: Name,
    all: Vec<Leaving>,
    next_token: u64,
}

impl Farewells {
    pub(crate) fn new(memory: &NodeMemory, id: u32) -> Self {
        let me = business_name(id);
        Self { memory: memory.clone(), me, all: Vec::new(), next_token: 0 }
    }

    /// A rank takes its leave: all that it will ever hand over has been.
    pub(crate) fn take_leave(&mut self, rank: u32, stack: &Stack) {
        let mark = stack.mark();
        self.next_token += 1;
        let (token, peers) = (self.next_token, mark.peers().collect());
        self.all.push(Leaving { rank, token, peers, stage: Stage::Arriving(mark) });
    }

    /// A peer says that it has handed over what it was asked about.
    pub(crate) fn on_answer(&mut self, from: u64, token: u64) {
        let peer = Name::from_bits(from).rank();
        for leaving in self.all.iter_mut().filter(|leaving| leaving.token == token) {
            if let Stage::Asked(missing) = &mut leaving.stage {
                missing.retain(|&id| id != peer);
            }
        }
    }

    /// Lets those ranks go of which everything has been handed over.
    #[inline]
    pub(crate) fn handle_arrivals(&mut self, stack: &mut Stack, clock: &impl Clock) {
        if !self.all.is_empty() {
            self.proceed(stack, clock);
        }
    }

    #[cold]
    fn proceed(&mut self, stack: &mut Stack, clock: &impl Clock) {
        let Self { memory, me, all, .. } = self;
        all.retain_mut(|leaving| {
            let Some(block) = memory.rank(leaving.rank).filter(|block| block.death().is_none())
            else {
                return false;
            };
            if let Stage::Arriving(mark) = &mut leaving.stage {
                if !stack.is_past(mark) {
                    return true;
                }
                for &peer in &leaving.peers {
                    let names = (me.to_bits(), business_name(peer).to_bits());
                    let words = [leaving.token, u64::from(leaving.rank)];
                    let body = (&words[..], &[][..]);
                    stack.tell(|| clock.ticked_ns(), (Kind::Ask, 0), names, body);
                }
                leaving.stage = Stage::Asked(std::mem::take(&mut leaving.peers));
            }
            if let Stage::Asked(missing) = &mut leaving.stage {
                missing.retain(|&peer| !stack.is_lost(peer));
                if !missing.is_empty() {
                    return true;
                }
            }
            block.bid_farewell();
            block.park().wake(memory.alarm(leaving.rank).map(|alarm| &**alarm));
            false
        });
    }
}
