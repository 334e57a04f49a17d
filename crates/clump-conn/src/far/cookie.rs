//! Cookies: the sender of a hello proves that it receives packets at its address, before any state
//! is kept for it (as in DTLS, RFC 9147, 5.1, and QUIC, RFC 9000, 8.1.2).
//!
//! A cookie holds the time of issue, and a code over that time and its purpose: client address,
//! handshake socket, and client's key. So issuing one keeps no state. Each is valid once and for
//! [`LIFE_NS`]: a hello that was refused, or answered, is worthless to an eavesdropper.

use super::handshake::{COOKIE_BYTES, Cookie, Hello};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;

/// Lifetime of a cookie.
pub(crate) const LIFE_NS: u64 = 5_000_000_000;
/// Maximum number of spent cookies that are remembered. With more in that time, all as old as the
/// oldest of them are void: their holders get new ones.
pub(crate) const MAX_SPENT: usize = 8192;
const CODE_BYTES: usize = COOKIE_BYTES - size_of::<u64>();

/// A valid cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fresh {
    issued_ns: u64,
    code: [u8; CODE_BYTES],
}

/// The cookies of one invitation.
#[derive(Debug)]
pub(crate) struct Cookies {
    key: hmac::Key,
    spent: VecDeque<Fresh>,
    known: HashSet<[u8; CODE_BYTES]>,
    /// Cookies issued until then are void.
    floor_ns: u64,
}

impl Cookies {
    /// Makes the cookies of an invitation. `None` when there are no random numbers.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Self { key, spent: VecDeque::new(), known: HashSet::new(), floor_ns: 0 })
    }

    /// Issues the cookie for a hello that came from `from` to `handshake_socket`.
    pub(crate) fn issue(
        &self,
        hello: &Hello,
        (from, handshake_socket): (SocketAddr, SocketAddr),
        now_ns: u64,
    ) -> Cookie {
        let code = hmac::sign(&self.key, &claim(hello, (from, handshake_socket), now_ns));
        let mut cookie = [0; COOKIE_BYTES];
        let (time, short) = cookie.split_at_mut(size_of::<u64>());
        time.copy_from_slice(&now_ns.to_le_bytes());
        short.copy_from_slice(&code.as_ref()[..CODE_BYTES]);
        cookie
    }

    /// Returns the hello's cookie, if it was issued for it within its lifetime and has not been
    /// spent.
    pub(crate) fn check(
        &self,
        hello: &Hello,
        (from, handshake_socket): (SocketAddr, SocketAddr),
        now_ns: u64,
    ) -> Option<Fresh> {
        let (time, code) = hello.cookie().split_first_chunk::<8>()?;
        let issued_ns = u64::from_le_bytes(*time);
        let age_ns = now_ns.checked_sub(issued_ns)?;
        if issued_ns <= self.floor_ns || age_ns > LIFE_NS {
            return None;
        }
        let code: [u8; CODE_BYTES] = code.try_into().ok()?;
        let right = hmac::sign(&self.key, &claim(hello, (from, handshake_socket), issued_ns));
        // The comparison need not take constant time: an attacker that sends a valid hello holds
        // the token, and may ask for a cookie.
        let fresh = right.as_ref()[..CODE_BYTES] == code && !self.known.contains(&code);
        fresh.then_some(Fresh { issued_ns, code })
    }

    /// Makes a cookie void.
    pub(crate) fn spend(&mut self, cookie: Fresh) {
        if self.spent.len() >= MAX_SPENT
            && let Some(oldest) = self.spent.pop_front()
        {
            self.known.remove(&oldest.code);
            self.floor_ns = self.floor_ns.max(oldest.issued_ns);
        }
        if self.known.insert(cookie.code) {
            self.spent.push_back(cookie);
        }
        debug_assert!(self.spent.len() == self.known.len() && self.spent.len() <= MAX_SPENT);
    }

    /// Forgets spent cookies that are too old to be valid, and frees their memory.
    pub(crate) fn forget_old(&mut self, now_ns: u64) {
        while let Some(oldest) = self.spent.front()
            && now_ns.saturating_sub(oldest.issued_ns) > LIFE_NS
        {
            self.known.remove(&oldest.code);
            self.spent.pop_front();
        }
        if self.spent.is_empty() && self.spent.capacity() > 0 {
            (self.spent, self.known) = (VecDeque::new(), HashSet::new());
        }
    }

    /// Returns the number of spent cookies that memory is allocated for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.spent.capacity().max(self.known.capacity())
    }
}

/// Returns the bytes that the code of a cookie covers.
fn claim(
    hello: &Hello,
    (from, handshake_socket): (SocketAddr, SocketAddr),
    issued_ns: u64,
) -> Vec<u8> {
    let mut bytes = issued_ns.to_le_bytes().to_vec();
    for address in [from, handshake_socket] {
        match address.ip() {
            std::net::IpAddr::V4(ip) => bytes.extend_from_slice(&ip.to_ipv6_mapped().octets()),
            std::net::IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
        }
        bytes.extend_from_slice(&address.port().to_le_bytes());
    }
    bytes.extend_from_slice(hello.key());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::handshake::{Handshake, Told, Words};
    use super::*;

    const SECRET: [u8; 32] = [3; 32];
    const NOW: u64 = 1_000_000_000_000;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Returns a hello with the cookie that was sent for it.
    fn with_cookie(cookies: &Cookies, issued_ns: u64) -> Hello {
        let words = Words { code: 1, epoch: 2, port: 7 };
        let mut handshake = Handshake::begin(&SECRET, words, 1).unwrap();
        let hello = Hello::read(&SECRET, handshake.hello(0)).unwrap();
        assert_eq!(cookies.check(&hello, (at(1), at(2)), issued_ns), None, "it has none");
        let cookie = cookies.issue(&hello, (at(1), at(2)), issued_ns);
        let again = hello.put_off(&SECRET, super::super::handshake::RETRY, cookie).unwrap();
        assert!(matches!(handshake.handle_answer(&SECRET, 0, &again), Ok(Told::Again)));
        Hello::read(&SECRET, handshake.hello(0)).unwrap()
    }

    #[test]
    fn a_cookie_is_good_once_for_its_hello_its_address_and_a_while() {
        let mut cookies = Cookies::new().unwrap();
        let hello = with_cookie(&cookies, NOW);
        let fresh = cookies.check(&hello, (at(1), at(2)), NOW).unwrap();
        assert!(cookies.check(&hello, (at(1), at(2)), NOW + LIFE_NS).is_some());
        for (from, handshake_socket, now) in
            [(9, 2, NOW), (1, 9, NOW), (1, 2, NOW + LIFE_NS + 1), (1, 2, NOW - 1)]
        {
            assert_eq!(cookies.check(&hello, (at(from), at(handshake_socket)), now), None);
        }
        let others = Cookies::new().unwrap();
        assert_eq!(others.check(&hello, (at(1), at(2)), NOW), None, "another invitation's");
        cookies.spend(fresh);
        assert_eq!(cookies.check(&hello, (at(1), at(2)), NOW), None, "it is spent");
    }

    #[test]
    fn what_is_spent_stays_so_when_it_is_forgotten_and_takes_bounded_memory() {
        let mut cookies = Cookies::new().unwrap();
        let first = with_cookie(&cookies, NOW);
        let fresh = cookies.check(&first, (at(1), at(2)), NOW).unwrap();
        cookies.spend(fresh);
        for number in 0..2 * MAX_SPENT as u64 {
            let mut code = [0; CODE_BYTES];
            code[..8].copy_from_slice(&number.to_le_bytes());
            cookies.spend(Fresh { issued_ns: NOW + 1 + number, code });
        }
        assert!(cookies.spent.len() <= MAX_SPENT && cookies.capacity() <= 4 * MAX_SPENT);
        assert_eq!(
            cookies.check(&first, (at(1), at(2)), NOW),
            None,
            "it is as old as forgotten ones"
        );
        let late = with_cookie(&cookies, NOW + 3 * MAX_SPENT as u64);
        assert!(cookies.check(&late, (at(1), at(2)), NOW + LIFE_NS).is_some());
        cookies.forget_old(NOW + 2 * LIFE_NS);
        assert_eq!(cookies.capacity(), 0, "its memory is given back");
    }
}
