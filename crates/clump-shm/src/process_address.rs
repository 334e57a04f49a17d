//! Addresses of processes for other nodes: written by the agent, read by the ranks of its node.

use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Addresses of a process besides its first.
pub type FurtherAddresses = [Option<SocketAddr>; 3];

/// Address at which other nodes reach a rank, or the network interface of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessAddress {
    /// The address of its socket; of the first, where it has several.
    pub address: SocketAddr,
    /// Addresses of its other sockets.
    pub others: FurtherAddresses,
    /// Incarnation: distinguishes the process from those that had the address before.
    pub epoch: u32,
}

impl ProcessAddress {
    /// Returns all addresses; the first identifies the process.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        [self.address].into_iter().chain(self.others.into_iter().flatten())
    }
}

/// An address record in shared memory. Written once, before any rank starts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ProcessAddressLine {
    epoch: AtomicU32,
    first: AddressCell,
    others: [AddressCell; 3],
}

/// An address in shared memory.
#[derive(Debug)]
#[repr(C)]
struct AddressCell {
    /// 0: none, 4 or 6: the kind of address.
    family: AtomicU32,
    port: AtomicU32,
    ip: [AtomicU64; 2],
    scope: AtomicU32,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for ProcessAddressLine {}

impl ProcessAddressLine {
    /// Returns the address that was noted here; `None` if none was.
    pub(crate) fn get(&self) -> Option<ProcessAddress> {
        let address = self.first.get()?;
        let others = self.others.each_ref().map(AddressCell::get);
        Some(ProcessAddress { address, others, epoch: self.epoch.load(Ordering::Relaxed) })
    }

    pub(crate) fn set(&self, place: ProcessAddress) {
        self.epoch.store(place.epoch, Ordering::Relaxed);
        for (cell, other) in self.others.iter().zip(place.others) {
            if let Some(other) = other {
                cell.set(other);
            }
        }
        self.first.set(place.address);
        debug_assert_eq!(self.get().map(|seen| seen.epoch), Some(place.epoch), "it is complete");
    }
}

impl AddressCell {
    fn get(&self) -> Option<SocketAddr> {
        let family = self.family.load(Ordering::Acquire);
        let high = self.ip[0].load(Ordering::Relaxed);
        let port = u16::try_from(self.port.load(Ordering::Relaxed)).ok()?;
        match family {
            4 => Some(SocketAddr::new(Ipv4Addr::from_bits(u32::try_from(high).ok()?).into(), port)),
            6 => {
                let low = self.ip[1].load(Ordering::Relaxed);
                let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                Some(SocketAddrV6::new(ip, port, 0, self.scope.load(Ordering::Relaxed)).into())
            }
            _ => None,
        }
    }

    fn set(&self, address: SocketAddr) {
        let (family, high, low, scope) = match address {
            SocketAddr::V4(v4) => (4, u64::from(v4.ip().to_bits()), 0, 0),
            SocketAddr::V6(v6) => {
                let bits = v6.ip().to_bits();
                (6, (bits >> 64) as u64, bits as u64, v6.scope_id())
            }
        };
        self.ip[0].store(high, Ordering::Relaxed);
        self.ip[1].store(low, Ordering::Relaxed);
        self.scope.store(scope, Ordering::Relaxed);
        self.port.store(address.port().into(), Ordering::Relaxed);
        self.family.store(family, Ordering::Release);
        debug_assert_eq!(
            self.get().map(|seen| (seen.ip(), seen.port())),
            Some((address.ip(), address.port())),
            "an address is read as it was written"
        );
    }
}
