//! Which driver carries a node's packets, and what its ranks and its network interface need for it besides
//! their sockets. The agent opens that: it is inside the node's namespaces and has the privileges there,
//! ranks may have none.

use crate::rank::Refusal;
use clump_boot::NetDriver;
use clump_driver::Direct;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What a node drives the network by.
#[derive(Debug)]
pub(crate) struct Access {
    /// The driver; never `Auto`.
    pub(crate) driver: NetDriver,
    /// What each socket needs besides itself, in order.
    pub(crate) direct: Vec<Vec<OwnedFd>>,
}

impl Access {
    /// Opens what `wanted` takes for sockets that are bound to `places`.
    ///
    /// # Errors
    /// A driver was named that cannot be used here. `Auto` falls back to UDP instead.
    pub(crate) fn open(wanted: NetDriver, places: &[SocketAddr]) -> Result<Self, Refusal> {
        let all = |mechanism| -> Result<_, clump_driver::DriverError> {
            places.iter().map(|place| clump_driver::open(mechanism, *place)).collect()
        };
        let udp = || Self { driver: NetDriver::Udp, direct: Vec::new() };
        let packet = |direct| Self { driver: NetDriver::Packet, direct };
        match wanted {
            NetDriver::Udp => Ok(udp()),
            // Over loopback there is no wire to get closer to, and UDP carries 64 KiB at once.
            NetDriver::Auto if places.iter().any(|place| place.ip().is_loopback()) => Ok(udp()),
            NetDriver::Auto => Ok(all(Direct::Packet).map_or_else(|_| udp(), packet)),
            NetDriver::Packet => all(Direct::Packet).map(packet).map_err(|e| refused(wanted, &e)),
        }
    }

    /// What the socket at a place needs.
    pub(crate) fn of(&self, at: usize) -> &[OwnedFd] {
        self.direct.get(at).map_or(&[], Vec::as_slice)
    }
}

fn refused(driver: NetDriver, why: &clump_driver::DriverError) -> Refusal {
    let why = format!(
        "the driver `{driver}` cannot be used: {why}; it takes root or CAP_NET_RAW, or nodes in \
         namespaces of their own (--netns); `--driver auto` takes what there is"
    );
    Refusal::new(why, 126)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_udp_over_loopback_and_never_fails() {
        let here = ["127.0.0.1:9".parse().unwrap()];
        for wanted in [NetDriver::Auto, NetDriver::Udp] {
            let access = Access::open(wanted, &here).unwrap();
            assert_eq!((access.driver, access.of(0).len()), (NetDriver::Udp, 0));
        }
        let there = ["203.0.113.7:9".parse().unwrap()];
        let access = Access::open(NetDriver::Auto, &there).unwrap();
        assert_eq!(access.of(0).len(), usize::from(access.driver == NetDriver::Packet));
        assert_eq!(access.of(1).len(), 0);
    }

    #[test]
    fn a_driver_that_was_named_is_used_or_refused_with_the_remedy() {
        match Access::open(NetDriver::Packet, &["127.0.0.1:9".parse().unwrap()]) {
            Ok(access) => assert_eq!(access.driver, NetDriver::Packet),
            Err(refusal) => assert!(refusal.why.contains("CAP_NET_RAW"), "{}", refusal.why),
        }
        let refusal = Access::open(NetDriver::Packet, &["[::1]:9".parse().unwrap()]).unwrap_err();
        assert!(refusal.why.contains("IPv4") && refusal.code == 126);
    }
}
