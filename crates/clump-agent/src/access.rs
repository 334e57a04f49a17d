//! Which driver carries a node's packets, and what its ranks and its network interface need for it besides
//! their sockets. The agent opens that: it is inside the node's namespaces and has the privileges there,
//! ranks may have none.

use crate::rank::Refusal;
use clump_boot::NetDriver;
use clump_driver::{Attached, Direct, DriverError};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What a node drives the network by.
#[derive(Debug)]
pub(crate) struct Access {
    /// The driver; never `Auto`.
    pub(crate) driver: NetDriver,
    /// What the sockets of each process need besides themselves, in order.
    pub(crate) direct: Vec<Vec<OwnedFd>>,
    /// To be kept until the job ends; undoes itself when dropped.
    pub(crate) kept: Vec<Attached>,
}

impl Access {
    /// Opens what `wanted` takes for processes with sockets that are bound to `places`.
    ///
    /// # Errors
    /// A driver was named that cannot be used here. `Auto` falls back to UDP instead.
    pub(crate) fn open(wanted: NetDriver, places: &[Vec<SocketAddr>]) -> Result<Self, Refusal> {
        let udp = || Self { driver: NetDriver::Udp, direct: Vec::new(), kept: Vec::new() };
        let open = |driver| {
            let mut access = Self { driver, ..udp() };
            for (at, place) in places.iter().enumerate() {
                // An interface has one socket of XDP; the form of frames is the same.
                let first = driver == NetDriver::Xdp && at == 0;
                let mechanism = if first { Direct::Xdp } else { Direct::Packet };
                let mut descriptors = Vec::new();
                for address in place {
                    let opened = clump_driver::open(mechanism, *address)?;
                    descriptors.extend(opened.descriptors);
                    access.kept.extend(opened.kept);
                }
                access.direct.push(descriptors);
            }
            Ok(access)
        };
        match wanted {
            NetDriver::Udp => Ok(udp()),
            // Over loopback there is no wire to get closer to, and UDP carries 64 KiB at once.
            NetDriver::Auto if places.iter().flatten().any(|place| place.ip().is_loopback()) => {
                Ok(udp())
            }
            NetDriver::Auto => Ok(open(NetDriver::Packet).unwrap_or_else(|_| udp())),
            NetDriver::Packet | NetDriver::Xdp => open(wanted).map_err(|e| refused(wanted, &e)),
        }
    }

    /// What the sockets at a place need.
    pub(crate) fn of(&self, at: usize) -> &[OwnedFd] {
        self.direct.get(at).map_or(&[], Vec::as_slice)
    }
}

fn refused(driver: NetDriver, why: &DriverError) -> Refusal {
    let takes = match driver {
        NetDriver::Xdp => {
            "root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and an interface that nobody else has"
        }
        _ => "root or CAP_NET_RAW, or nodes in namespaces of their own (--netns)",
    };
    let why = format!(
        "the driver `{driver}` cannot be used: {why}; it takes {takes}; `--driver auto` takes what there is"
    );
    Refusal::new(why, 126)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_udp_over_loopback_and_never_fails() {
        let here = [vec!["127.0.0.1:9".parse().unwrap()]];
        for wanted in [NetDriver::Auto, NetDriver::Udp] {
            let access = Access::open(wanted, &here).unwrap();
            assert_eq!((access.driver, access.of(0).len()), (NetDriver::Udp, 0));
        }
        let there = [vec!["203.0.113.7:9".parse().unwrap()]];
        let access = Access::open(NetDriver::Auto, &there).unwrap();
        assert_eq!(access.of(0).len(), usize::from(access.driver == NetDriver::Packet));
        assert_eq!(access.of(1).len(), 0);
    }

    #[test]
    fn a_driver_that_was_named_is_used_or_refused_with_the_remedy() {
        match Access::open(NetDriver::Packet, &[vec!["127.0.0.1:9".parse().unwrap()]]) {
            Ok(access) => assert_eq!(access.driver, NetDriver::Packet),
            Err(refusal) => assert!(refusal.why.contains("CAP_NET_RAW"), "{}", refusal.why),
        }
        let refusal =
            Access::open(NetDriver::Packet, &[vec!["[::1]:9".parse().unwrap()]]).unwrap_err();
        assert!(refusal.why.contains("IPv4") && refusal.code == 126);
    }
}
