//! Where a process is reached from other nodes: written by the agent, read by the ranks of its node.

use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Where a rank, or the network interface of a node, is reached from other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The address of its socket.
    pub address: SocketAddr,
    /// Its incarnation: tells it from whoever had that address before.
    pub epoch: u32,
}

/// A place in shared memory. Written once, before any rank starts.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PlaceLine {
    /// The node of the rank.
    node: AtomicU32,
    /// 0: none, 4, 6: kind of address.
    family: AtomicU32,
    port: AtomicU32,
    epoch: AtomicU32,
    ip: [AtomicU64; 2],
    scope: AtomicU32,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for PlaceLine {}

impl PlaceLine {
    pub(crate) fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }

    pub(crate) fn set_node(&self, node: u32) {
        self.node.store(node, Ordering::Relaxed);
    }

    /// What was noted here; `None` if nothing was.
    pub(crate) fn get(&self) -> Option<Place> {
        let family = self.family.load(Ordering::Acquire);
        let high = self.ip[0].load(Ordering::Relaxed);
        let port = u16::try_from(self.port.load(Ordering::Relaxed)).ok()?;
        let address = match family {
            4 => SocketAddr::new(Ipv4Addr::from_bits(u32::try_from(high).ok()?).into(), port),
            6 => {
                let low = self.ip[1].load(Ordering::Relaxed);
                let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                SocketAddrV6::new(ip, port, 0, self.scope.load(Ordering::Relaxed)).into()
            }
            _ => return None,
        };
        Some(Place { address, epoch: self.epoch.load(Ordering::Relaxed) })
    }

    pub(crate) fn set(&self, place: Place) {
        let (family, high, low, scope) = match place.address {
            SocketAddr::V4(v4) => (4, u64::from(v4.ip().to_bits()), 0, 0),
            SocketAddr::V6(v6) => {
                let bits = v6.ip().to_bits();
                (6, (bits >> 64) as u64, bits as u64, v6.scope_id())
            }
        };
        self.ip[0].store(high, Ordering::Relaxed);
        self.ip[1].store(low, Ordering::Relaxed);
        self.scope.store(scope, Ordering::Relaxed);
        self.port.store(place.address.port().into(), Ordering::Relaxed);
        self.epoch.store(place.epoch, Ordering::Relaxed);
        self.family.store(family, Ordering::Release);
    }
}
