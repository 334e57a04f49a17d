//! Addresses of this machine's network interfaces.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address that an interface has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// True if the interface is up and has a carrier.
    pub running: bool,
    /// True if it leads back to this machine.
    pub loopback: bool,
}

/// Returns the IP addresses of all interfaces in the kernel's order; none where it does not report
/// them.
pub fn all() -> Vec<InterfaceAddress> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the kernel's answer is put into a list that lives until freeifaddrs below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let (mut at, mut found) = (list, Vec::new());
    // SAFETY: every element of the list is live until freeifaddrs, its name ends in zero, and its
    // address, if there is one, has the length of its family.
    unsafe {
        while let Some(one) = at.as_ref() {
            if let Some(address) = address_of(one.ifa_addr) {
                let has = |flag: libc::c_int| one.ifa_flags & flag.cast_unsigned() != 0;
                found.push(InterfaceAddress {
                    interface: CStr::from_ptr(one.ifa_name).to_string_lossy().into_owned(),
                    address,
                    running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
                    loopback: has(libc::IFF_LOOPBACK),
                });
            }
            at = one.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found
}

/// Returns the IP address behind a pointer of the kernel's list.
///
/// # Safety
/// `address` is null or points to a live address of the length of its family.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by the contract above.
    let family = libc::c_int::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_addresses() {
        let found = all();
        let lo = found.iter().find(|one| one.address == Ipv4Addr::LOCALHOST);
        let Some(lo) = lo else {
            eprintln!("SKIPPED: loopback is down here (ip link set lo up)");
            return;
        };
        assert!(lo.loopback && lo.running, "{lo:?}");
        assert!(found.iter().all(|one| !one.interface.is_empty()), "{found:?}");
    }
}
