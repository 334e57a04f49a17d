//! Peers come into being when they are first talked to, or first heard of.

use crate::pair::{self, MILLISECOND, Pair, Side, TwoDoors, address, name};
use clump_driver::{Driver, Hub, Loopback, Outgoing};
use clump_net::seal::JobKey;
use clump_net::{Batch, PeerAddress, PeerDirectory, Stack, StackConfig};
use clump_os::sync::{AtomicU64, Ordering};
use clump_wire::frame::FrameKind;
use clump_wire::{Header, Security};
use clump_wire::{Message, Reason, SendResult};
use std::sync::Arc;

/// Numbers of the stacks that a crowd has beside stack 1.
const CROWD: std::ops::Range<u32> = 2..2000;

/// A directory of a crowd that counts how often it was asked.
#[derive(Debug, Default)]
struct Crowd {
    asked: AtomicU64,
}

impl PeerDirectory for Crowd {
    fn find(&self, id: u32) -> Option<PeerAddress> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let found = || PeerAddress { id, address: address(id), epoch: 10 + id };
        CROWD.contains(&id).then(found)
    }
}

/// Stack 1, which the crowd may talk to.
struct Crowded {
    stack: Stack,
    batch: Batch,
    crowd: Arc<Crowd>,
    hub: Hub,
    outsider: Loopback,
}

impl Crowded {
    fn new(security: Security) -> Self {
        let (hub, crowd) = (Hub::default(), Arc::new(Crowd::default()));
        let config = StackConfig { peers: crowd.clone(), ..pair::config(1, security) };
        let driver = Box::new(hub.attach(address(1)).unwrap());
        let key = JobKey::new(&mut [3; 32]).unwrap();
        let stack = Stack::new(config, &key, driver, Box::new(TwoDoors::default())).unwrap();
        let outsider = hub.attach(address(0)).unwrap();
        Self { stack, batch: Batch::default(), crowd, hub, outsider }
    }

    /// Returns the stack of one of the crowd.
    fn one(&self, id: u32, security: Security) -> Stack {
        let peers = Arc::new(vec![PeerAddress { id: 1, address: address(1), epoch: 11 }]);
        let config = StackConfig { me: id, epoch: 10 + id, peers, ..pair::config(1, security) };
        let driver = Box::new(self.hub.attach(address(id)).unwrap());
        let key = JobKey::new(&mut [3; 32]).unwrap();
        Stack::new(config, &key, driver, Box::new(TwoDoors::default())).unwrap()
    }

    fn inject(&mut self, header: &Header) {
        let datagram = [&header.encode(0)[..], &[5; 40]].concat();
        let to = address(1);
        self.outsider.send(&[Outgoing { to, head: &datagram, body: &[], tail: &[] }]).unwrap();
        self.look();
    }

    fn look(&mut self) -> usize {
        self.stack.receive(|| MILLISECOND, Some(0), &mut self.batch);
        self.stack.service(MILLISECOND, true);
        self.stack.check_invariants();
        self.batch.len()
    }
}

fn request(stack: &mut Stack, flow: clump_net::FlowId) -> SendResult {
    let route = stack.route_of(flow, 7).unwrap();
    let message = Message::request((FrameKind::Short, 1), route, (&[7], &[]));
    stack.request(|| MILLISECOND, flow, &message)
}

#[test]
fn packets_that_only_pretend_to_come_from_peers_leave_nothing_behind() {
    for security in [Security::Aead, Security::Crc] {
        let mut crowded = Crowded::new(security);
        let job = crowded.stack.job_tag();
        let genuine = |id: u32| Header {
            job,
            source: id,
            epoch: id.wrapping_add(10),
            target: 1,
            target_epoch: 11,
            number: 1,
            ..Header::default()
        };
        for id in CROWD {
            crowded.inject(&genuine(id));
        }
        let crowd = u64::from(CROWD.end - CROWD.start);
        assert_eq!(crowded.stack.stats().packets_forged, crowd);
        // No peers, or no packets of theirs.
        crowded.inject(&genuine(1));
        crowded.inject(&genuine(CROWD.end));
        crowded.inject(&genuine(u32::MAX));
        crowded.inject(&Header { epoch: 1, ..genuine(5) });
        crowded.inject(&Header { target: 2, ..genuine(5) });
        crowded.inject(&Header { target_epoch: 2, ..genuine(5) });
        crowded.inject(&Header { job: !job, ..genuine(5) });
        assert_eq!(crowded.stack.stats().packets_foreign, 7);
        assert_eq!((crowded.stack.peer_count(), crowded.stack.next_timeout()), (0, None));
        // One of them proves to be a peer, after strangers and before.
        let mut one = crowded.one(77, security);
        let flow = one.open_flow(name(77, 0), name(1, 0), 1, false);
        assert_eq!(request(&mut one, flow), SendResult::Sent);
        assert_eq!((crowded.look(), crowded.stack.peer_count()), (1, 1));
        crowded.inject(&Header { number: 2, ..genuine(77) });
        crowded.inject(&genuine(78));
        assert_eq!(crowded.stack.peer_count(), 1);
        assert_eq!(crowded.stack.talking_to().collect::<Vec<_>>(), [77]);
        assert_eq!(crowded.stack.stats().packets_received, 1);
    }
}

#[test]
fn a_peer_is_looked_up_once() {
    let mut crowded = Crowded::new(Security::Aead);
    assert_eq!(crowded.crowd.asked.load(Ordering::Relaxed), 0, "a start asks about none");
    let Crowded { stack, crowd, .. } = &mut crowded;
    for id in [2, 65, 66, 1999] {
        let flow = stack.open_flow(name(1, 0), name(id, 0), id, false);
        for _ in 0..10 {
            assert_eq!(request(stack, flow), SendResult::Sent);
        }
        assert!(!stack.is_lost(id));
    }
    assert_eq!(crowd.asked.load(Ordering::Relaxed), 4);
    assert_eq!(stack.peer_count(), 4);
    let nobody = stack.open_flow(name(1, 0), name(2000, 0), 2000, false);
    let refused = request(stack, nobody);
    assert_eq!(refused, SendResult::Refused(Reason::NoSuchEndpoint));
    assert!(stack.is_lost(2000) && !stack.is_lost(900), "one is no peer, one was not talked to");
    stack.lose(900, Reason::PeerLost);
    assert!(stack.is_lost(900), "also before anything was sent");
    let late = stack.open_flow(name(1, 0), name(900, 0), 900, false);
    let refused = request(stack, late);
    assert_eq!(refused, SendResult::Refused(Reason::PeerLost));
    stack.check_invariants();
}

#[test]
fn a_first_packet_that_is_damaged_is_sent_again() {
    let mut pair = Pair::new(Security::Aead);
    let flow = pair.flow(0, false);
    pair.sides[0].wire.lock().unwrap().lose = vec![0];
    assert_eq!(pair.send(flow, &[7], &[]), SendResult::Sent);
    let mut damaged = pair.sent(0)[0].clone();
    *damaged.last_mut().unwrap() ^= 1;
    pair.inject(1, &damaged);
    pair.look(1, Some(0));
    let Side { stack, .. } = &pair.sides[1];
    assert_eq!((stack.stats().packets_forged, stack.peer_count()), (1, 0));
    assert_eq!(pair.drain()[1].len(), 1);
    assert_eq!(pair.sides[1].stack.peer_count(), 1);
}
