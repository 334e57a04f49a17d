//! Socket addresses as the kernel lays them out (`sockaddr_in`, `sockaddr_in6`), written byte by
//! byte so that nothing here is unsafe.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of `sockaddr_in6`, the larger of the two.
pub(super) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();
const V4_BYTES: usize = size_of::<libc::sockaddr_in>();

/// An address in the kernel's layout, to be read or filled by it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Name {
    bytes: [u8; NAME_BYTES],
}

impl Name {
    /// An empty name for the kernel to fill.
    pub(super) const EMPTY: Self = Self { bytes: [0; NAME_BYTES] };

    /// Returns the name of an address, and its length for the kernel.
    #[inline]
    pub(super) fn new(address: &SocketAddr) -> (Self, libc::socklen_t) {
        let mut name = Self::EMPTY;
        let bytes = &mut name.bytes;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let length = match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                V4_BYTES
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                NAME_BYTES
            }
        };
        (name, length as libc::socklen_t)
    }

    /// Returns the address that the kernel wrote. A sender without an address (there is none over
    /// UDP) gives 0.0.0.0:0.
    #[inline]
    pub(super) fn address(&self) -> SocketAddr {
        let [f0, f1, p0, p1, a, b, c, d, ..] = self.bytes;
        let port = u16::from_be_bytes([p0, p1]);
        if libc::c_int::from(u16::from_ne_bytes([f0, f1])) != libc::AF_INET6 {
            return (Ipv4Addr::new(a, b, c, d), port).into();
        }
        let (mut ip, mut scope) = ([0; 16], [0; 4]);
        ip.copy_from_slice(&self.bytes[8..24]);
        scope.copy_from_slice(&self.bytes[24..28]);
        let scope = u32::from_ne_bytes(scope);
        SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into()
    }

    /// Returns the address of the bytes, for the kernel.
    #[inline]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Returns the address of the bytes, for the kernel to write.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_layout() {
        for text in ["127.0.0.1:80", "255.1.2.3:65535", "[::1]:7", "[fe80::1234:5%9]:4000"] {
            let address: SocketAddr = text.parse().unwrap();
            let (name, length) = Name::new(&address);
            assert_eq!(name.address(), address);
            assert_eq!(length, if address.is_ipv4() { 16 } else { 28 });
        }
    }
}
