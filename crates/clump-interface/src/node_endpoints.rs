//! Endpoint table of an interface's stack: the interface itself, and the endpoints of its node.

use crate::memory::NodeSegments;
use clump_net::EndpointTable;
use clump_onesided::protocol::{TAG, deposit_place};
use clump_shm::block::{EndpointBlock, Openness};
use clump_shm::export::SegmentName;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use clump_transport::Routes;
use clump_wire::Reason;
use std::cell::RefCell;
use std::collections::HashMap;

/// Index of everything that a stack of an interface delivers.
pub(crate) const INDEX: u8 = 0;

/// An endpoint's block, and its segment as it was last mapped.
#[derive(Debug)]
struct EndpointEntry {
    block: Shared<EndpointBlock>,
    segment: Option<Segment>,
    /// Name and bytes of the segment when it was mapped.
    seen: Option<(SegmentName, u64)>,
}

/// The endpoints that messages for this node may reach.
#[derive(Debug)]
pub(crate) struct NodeEndpoints {
    memory: NodeMemory,
    /// The endpoint of one-sided operations, if this interface executes them. It admits everything
    /// that is meant for it: the engine reports errors of a request to its requester, so that
    /// requests can be counted.
    executes: Option<u64>,
    /// Name of the control endpoint by which other proxies reach this one.
    control_endpoint: u64,
    segments: RefCell<NodeSegments>,
    /// By rank and index.
    entries: RefCell<HashMap<(u32, u8), EndpointEntry>>,
    routes: Routes,
}

impl NodeEndpoints {
    pub(crate) fn new(
        memory: &NodeMemory,
        executes: Option<u64>,
        control_endpoint: u64,
        routes: Routes,
        segments: NodeSegments,
    ) -> Self {
        let segments = RefCell::new(segments);
        let (memory, entries) = (memory.clone(), RefCell::default());
        Self { memory, executes, control_endpoint, segments, entries, routes }
    }

    /// Runs `run` on the entry of an endpoint of this node.
    fn with_entry<T>(
        &self,
        name: Name,
        run: impl FnOnce(&mut EndpointEntry) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let (rank, index) = (name.rank(), name.index());
        if self.memory.proxies() == 0 || !self.memory.is_local(rank) {
            return Err(Reason::NoSuchEndpoint);
        }
        let mut entries = self.entries.borrow_mut();
        let endpoint_entry = match entries.entry((rank, index)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let block = self.memory.endpoint_block(rank, usize::from(index));
                let block = block.map_err(|_| Reason::NoSuchEndpoint)?;
                new.insert(EndpointEntry { block, segment: None, seen: None })
            }
        };
        run(endpoint_entry)
    }

    fn with_segment<T>(
        &self,
        to: u64,
        run: impl FnOnce(&Segment) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let name = Name::from_bits(to);
        self.with_entry(name, |endpoint_entry| {
            match state_of(&endpoint_entry.block, name) {
                EndpointState::Open => {}
                // An endpoint that is not open yet has no segment to write to.
                EndpointState::Awaited => return Err(Reason::BadOffset),
                EndpointState::Not(why) => return Err(why),
            }
            let segment = endpoint_entry.block.segment();
            let segment = segment.filter(|segment| segment.rank() == name.rank());
            let now = segment.and_then(|segment| Some((segment, self.memory.bytes_of(segment)?)));
            if endpoint_entry.segment.is_none() || endpoint_entry.seen != now {
                let segment = now.map(|(name, _)| Segment::exported(&self.memory, name));
                let segment = segment.transpose().map_err(|_| Reason::BadOffset)?;
                (endpoint_entry.segment, endpoint_entry.seen) = (segment.flatten(), now);
            }
            run(endpoint_entry.segment.as_ref().ok_or(Reason::BadOffset)?)
        })
    }

    fn deposit_one_sided(&self, offset: u64, data: &[u8]) {
        let mut segments = self.segments.borrow_mut();
        let first = self.memory.local_ranks().start;
        segments.deposit(deposit_place(offset, first), data);
    }
}

impl EndpointTable for NodeEndpoints {
    #[inline]
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason> {
        if Some(to) == self.executes {
            return match tag {
                Some(tag) if tag != TAG => Err(Reason::BadTag),
                _ => Ok(INDEX),
            };
        }
        let name = Name::from_bits(to);
        if to == self.control_endpoint {
            return Ok(INDEX);
        }
        if usize::from(name.index()) >= ENDPOINTS {
            return Err(Reason::NoSuchEndpoint);
        }
        if self.memory.death_of(name.rank()).is_some() {
            return Err(Reason::PeerLost);
        }
        self.with_entry(name, |endpoint_entry| match state_of(&endpoint_entry.block, name) {
            EndpointState::Open if tag.is_none_or(|tag| endpoint_entry.block.admits_tag(tag)) => {
                Ok(INDEX)
            }
            EndpointState::Open => Err(Reason::BadTag),
            EndpointState::Awaited => Ok(INDEX),
            EndpointState::Not(why) => Err(why),
        })
    }

    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Reason> {
        if Some(to) == self.executes {
            return Ok(());
        }
        self.with_segment(to, |segment| clump_transport::fits(segment, offset, bytes))
    }

    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        if Some(to) == self.executes {
            self.deposit_one_sided(offset, data);
            return Ok(());
        }
        self.with_segment(to, |segment| {
            if segment.write(offset, data) { Ok(()) } else { Err(Reason::BadLength) }
        })
    }

    fn stack_of(&self, name: u64) -> u32 {
        self.routes.stack_of(name)
    }

    fn relays(&self) -> bool {
        self.memory.proxies() != 0
    }
}

/// State of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndpointState {
    Open,
    /// Not open yet: its rank is still starting.
    Awaited,
    /// Takes nothing, and will not under that name.
    Not(Reason),
}

/// Returns the state of an endpoint of this node, of one load of its word: its rank may open it
/// meanwhile.
fn state_of(block: &EndpointBlock, name: Name) -> EndpointState {
    match block.openness(name.generation()) {
        Openness::Open => EndpointState::Open,
        // Only the name of the first endpoint of a rank is known before it is open.
        Openness::Awaited if name.index() == 0 => EndpointState::Awaited,
        Openness::Closed | Openness::WasOpen => EndpointState::Not(Reason::EndpointGone),
        Openness::Awaited | Openness::Absent => EndpointState::Not(Reason::NoSuchEndpoint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;

    #[test]
    fn a_deposit_for_an_endpoint_that_is_not_open_yet_finds_no_segment() {
        let config = NodeConfig { node_of: &[0, 1], proxies: 1, job_id: 7, ..NodeConfig::new(2) };
        let memory = NodeMemory::create(&config).unwrap();
        let control_endpoint = clump_transport::control_endpoint_name(2).to_bits();
        let (routes, segments) =
            (Routes::new(memory.clone(), 0), NodeSegments::new(memory.clone()));
        let endpoints = NodeEndpoints::new(&memory, None, control_endpoint, routes, segments);
        let first = Name::new(0, 0, 1).to_bits();
        assert_eq!(endpoints.admit(first, Some(0)), Ok(INDEX), "it is awaited");
        assert_eq!(endpoints.fits(first, 0, 8), Err(Reason::BadOffset));
        assert_eq!(endpoints.deposit(first, 0, &[1]), Err(Reason::BadOffset));
        for other in [Name::new(0, 0, 2), Name::new(0, 1, 1), Name::new(1, 0, 1)] {
            let other = other.to_bits();
            assert_eq!(endpoints.admit(other, None), Err(Reason::NoSuchEndpoint));
            assert_eq!(endpoints.fits(other, 0, 8), Err(Reason::NoSuchEndpoint));
        }
    }
}
