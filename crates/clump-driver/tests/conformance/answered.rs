//! A driver with several paths, whose peers all answer.

use crate::rigs::Made;
use clump_driver::{
    Capabilities, Driver, DriverError, Inbound, Multirail, Outgoing, PathCounts, PeerPaths, Udp,
    UdpOptions,
};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

const PATHS: usize = 3;

/// Wrapper that reports, for every datagram sent, an authenticated answer by the path of its peer:
/// so no path is left, and nothing is copied.
struct Answered {
    inner: Multirail<Udp>,
    names: Vec<(SocketAddr, usize)>,
}

/// Creates drivers each of which prefers another path to each peer.
pub fn several_over_udp(count: usize) -> Made {
    let bind = || Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default());
    let all = (0..count).map(|_| (0..PATHS).map(|_| bind()).collect::<Result<Vec<_>, _>>());
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let places: Vec<Vec<_>> =
        all.iter().map(|paths| paths.iter().map(Driver::local).collect()).collect();
    let make = |(me, inner): (usize, Vec<Udp>)| -> Result<Box<dyn Driver>, DriverError> {
        let peers = places.iter().enumerate().map(|(other, addresses)| PeerPaths {
            addresses: addresses.clone(),
            preferred: me + other,
        });
        let names = places.iter().enumerate();
        let names = names.map(|(other, all)| (all[0], (me + other) % PATHS)).collect();
        let mut inner = Multirail::new(inner)?;
        peers.for_each(|peer| inner.add_peer(peer));
        Ok(Box::new(Answered { inner, names }))
    };
    let made = all.into_iter().enumerate().map(make).collect::<Result<Vec<_>, _>>();
    made.map_err(|e| e.to_string())
}

impl Driver for Answered {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn local(&self) -> SocketAddr {
        self.inner.local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let result = self.inner.send(batch);
        for &(name, path) in &self.names {
            self.inner.on_authenticated(name, path as u8);
        }
        let counts = self.paths().unwrap();
        assert_eq!((counts.taken_out, counts.came_back), (0, 0));
        result
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        self.inner.receive(into)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        self.inner.path_hint(to)
    }

    fn paths(&self) -> Option<&PathCounts> {
        self.inner.paths()
    }
}
