//! Ethernet neighbours of an address: the interface, and the hardware addresses of both ends.
//!
//! Three requests to the kernel (rtnetlink(7)): the route, the interface, the neighbour. None needs
//! a privilege, and none sends anything. A neighbour that the kernel has not resolved yet is absent
//! until something else, an ordinary datagram, is sent to it.

use crate::error::Result;
use crate::netlink::{self, Netlink, attribute};
use std::net::Ipv4Addr;

// linux/rtnetlink.h, linux/if_link.h, linux/neighbour.h, linux/if_arp.h, linux/if.h
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const NDA_DESTINATION: u16 = 1;
const NDA_LINK_ADDRESS: u16 = 2;
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
const UP: u32 = 1;
/// States in which a neighbour's hardware address is known: reachable, stale, delay, probe, no ARP,
/// permanent.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
const ROUTE_BODY: usize = 12;
const LINK_BODY: usize = 16;
const NEIGHBOUR_BODY: usize = 12;

/// An interface that carries Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetInterface {
    /// Interface number.
    pub index: u32,
    /// Hardware address; all zero for loopback.
    pub address: [u8; 6],
    /// Most bytes behind the Ethernet header.
    pub mtu: usize,
    /// True if it is a loopback interface.
    pub loopback: bool,
}

/// A neighbour on the same link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor {
    /// The interface that reaches it.
    pub interface: EthernetInterface,
    /// The hardware address at the other end.
    pub to: [u8; 6],
}

/// Reader of the kernel's neighbour tables, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct NeighborTable {
    kernel: Netlink,
}

impl NeighborTable {
    /// Opens a connection to the kernel's tables.
    ///
    /// # Errors
    /// No netlink socket can be opened.
    pub fn open() -> Result<Self> {
        Ok(Self { kernel: Netlink::open()? })
    }

    /// Returns the neighbour `to`; `None` where it is not reached without a router, its interface
    /// carries no Ethernet, or it is not resolved (yet).
    ///
    /// # Errors
    /// The kernel refuses a request or answers something else.
    pub fn find(&mut self, to: Ipv4Addr) -> Result<Option<Neighbor>> {
        let Some(index) = self.route(to)? else { return Ok(None) };
        let Some(interface) = self.interface(index)? else { return Ok(None) };
        if interface.loopback {
            return Ok(Some(Neighbor { interface, to: interface.address }));
        }
        Ok(self.neighbour(index, to)?.map(|to| Neighbor { interface, to }))
    }

    /// Returns the interface that reaches `to` without a router.
    ///
    /// # Errors
    /// The kernel has no route, refuses the request, or answers something else.
    pub fn route(&mut self, to: Ipv4Addr) -> Result<Option<u32>> {
        let mut body = vec![0; ROUTE_BODY];
        body[..2].copy_from_slice(&[netlink::INET, netlink::WHOLE]);
        attribute(&mut body, netlink::RTA_DESTINATION, &to.octets());
        let what = format!("asking for the route to {to}");
        let answer = self.kernel.exchange(&what, GET_ROUTE, netlink::REQUEST, &body)?;
        let Some((netlink::NEW_ROUTE, body)) = answer else { return Ok(None) };
        let routed =
            [RTA_GATEWAY, RTA_VIA].iter().any(|&kind| find(&body, ROUTE_BODY, kind).is_some());
        let index = word(find(&body, ROUTE_BODY, netlink::RTA_INTERFACE));
        Ok(index.filter(|_| !routed))
    }

    /// Returns the interface of a number, if it is up and carries Ethernet frames.
    ///
    /// # Errors
    /// The kernel has no such interface, refuses the request, or answers something else.
    pub fn interface(&mut self, index: u32) -> Result<Option<EthernetInterface>> {
        let mut body = vec![0; LINK_BODY];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let what = format!("asking for interface {index}");
        let answer = self.kernel.exchange(&what, GET_LINK, netlink::REQUEST, &body)?;
        let Some((netlink::NEW_LINK, body)) = answer else { return Ok(None) };
        let kind = half(body.get(2..4));
        let up = word(body.get(8..12)).is_some_and(|flags| flags & UP != 0);
        let address = find(&body, LINK_BODY, IFLA_ADDRESS).and_then(|a| a.try_into().ok());
        let mtu = word(find(&body, LINK_BODY, IFLA_MTU)).and_then(|mtu| usize::try_from(mtu).ok());
        let loopback = kind == Some(LOOPBACK);
        let (Some(address), Some(mtu)) = (address, mtu) else { return Ok(None) };
        let fits = up && (loopback || kind == Some(ETHERNET));
        Ok(fits.then_some(EthernetInterface { index, address, mtu, loopback }))
    }

    fn neighbour(&mut self, index: u32, to: Ipv4Addr) -> Result<Option<[u8; 6]>> {
        let mut body = vec![0; NEIGHBOUR_BODY];
        body[0] = netlink::INET;
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        attribute(&mut body, NDA_DESTINATION, &to.octets());
        let what = format!("asking for the neighbour {to}");
        let answer = match self.kernel.exchange(&what, GET_NEIGHBOUR, netlink::REQUEST, &body) {
            Err(e) if e.errno == rustix::io::Errno::NOENT => return Ok(None),
            answer => answer?,
        };
        let Some((NEW_NEIGHBOUR, body)) = answer else { return Ok(None) };
        let known = half(body.get(8..10)).is_some_and(|state| state & KNOWN != 0);
        let address = find(&body, NEIGHBOUR_BODY, NDA_LINK_ADDRESS);
        Ok(address.filter(|_| known).and_then(|a| a.try_into().ok()))
    }
}

/// Returns the interfaces that have `address`, in order of the kernel's list; several may share
/// one.
pub fn interfaces_of(address: Ipv4Addr) -> Vec<u32> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the kernel's answer is put into a list that lives until freeifaddrs below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let (mut at, mut found) = (list, Vec::new());
    // SAFETY: every element of the list is live; an address of family AF_INET is a sockaddr_in, and
    // a name ends in zero.
    unsafe {
        while let Some(one) = at.as_ref() {
            let is_ip = one
                .ifa_addr
                .as_ref()
                .is_some_and(|a| libc::c_int::from(a.sa_family) == libc::AF_INET);
            if is_ip {
                let has = one.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned().sin_addr.s_addr;
                if Ipv4Addr::from_bits(u32::from_be(has)) == address {
                    found.push(libc::if_nametoindex(one.ifa_name));
                }
            }
            at = one.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found.retain(|index| *index != 0);
    found
}

/// Returns the value of the first attribute of a kind behind a fixed body.
fn find(message: &[u8], body: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(body..)?;
    loop {
        let length = usize::from(half(rest.get(..2))?);
        let value = rest.get(4..length)?;
        if half(rest.get(2..4)) == Some(wanted) {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn word(bytes: Option<&[u8]>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes?.try_into().ok()?))
}

fn half(bytes: Option<&[u8]>) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_without_a_neighbour() {
        let way = NeighborTable::open().unwrap().find(Ipv4Addr::LOCALHOST).unwrap();
        let Some(Neighbor { interface, to }) = way else {
            eprintln!("SKIPPED: loopback is down here (ip link set lo up)");
            return;
        };
        assert!(interface.loopback && interface.mtu > 1500);
        assert_eq!((interface.address, to), ([0; 6], [0; 6]));
    }

    #[test]
    fn interfaces_are_found_by_their_address() {
        let lo = NeighborTable::open().unwrap().find(Ipv4Addr::LOCALHOST).unwrap();
        let Some(Neighbor { interface, .. }) = lo else {
            eprintln!("SKIPPED: loopback is down here (ip link set lo up)");
            return;
        };
        assert_eq!(interfaces_of(Ipv4Addr::LOCALHOST), [interface.index]);
        assert_eq!(interfaces_of(Ipv4Addr::new(203, 0, 113, 7)), []);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error_and_no_panic() {
        let mut ways = NeighborTable::open().unwrap();
        assert!(ways.interface(u32::MAX >> 1).is_err());
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_search() {
        let mut message = vec![0; 4];
        attribute(&mut message, 7, &[1, 2, 3, 4]);
        attribute(&mut message, 9, &[5]);
        assert_eq!(find(&message, 4, 7), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find(&message, 4, 9), Some(&[5][..]));
        assert_eq!(find(&message, 4, 8), None);
        for lie in [0_u16, 3, 200] {
            message[4..6].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(find(&message, 4, 9), None);
        }
        assert_eq!(find(&message, 400, 9), None);
    }
}
