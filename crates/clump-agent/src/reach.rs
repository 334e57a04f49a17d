//! Addresses at which other machines may reach this one.

use clump_os::interface_address::InterfaceAddress;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Most addresses of a node in use, each a path of its own.
pub(crate) const MAX_PATHS: usize = 4;
/// Most addresses of a node that are offered to others.
const MAX_OFFERED: usize = 16;

/// Addresses of a machine at which others may reach it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsableAddresses {
    /// Each with the number of its interface, the most promising first.
    pub(crate) offered: Vec<(IpAddr, usize)>,
    /// Number of further ones, which an offer has no room for.
    pub(crate) left_out: u32,
}

/// Returns the addresses of this machine at which others may reach it: those of interfaces that are
/// up and lead elsewhere, one of each interface before the second of any, IPv4 before IPv6; without
/// any, loopback. If there are `wanted` interfaces or networks, only theirs, which may be addresses
/// that the loopback interface has beside its own (a host that announces its address by a routing
/// protocol keeps it there).
pub(crate) fn usable(
    all: &[InterfaceAddress],
    wanted: &[String],
) -> Result<UsableAddresses, String> {
    let is_wanted = |one: &&InterfaceAddress| {
        let by = |text: &String| *text == one.interface || is_in(one.address, text);
        wanted.is_empty() || wanted.iter().any(by)
    };
    // Without having been named, an address at `lo` may be one that several machines serve.
    let leads_elsewhere = |one: &&InterfaceAddress| {
        let at_loopback = one.loopback && (wanted.is_empty() || one.address.is_loopback());
        one.running && !at_loopback && !is_of_one_link(one.address)
    };
    let number = |name: &str| all.iter().position(|one| one.interface == name).unwrap_or(0);
    let candidates = all.iter().filter(leads_elsewhere).filter(is_wanted);
    let mut turns: HashMap<(bool, usize), usize> = HashMap::new();
    let mut in_turn = |one: &InterfaceAddress| {
        let (is_ipv6, at) = (one.address.is_ipv6(), number(&one.interface));
        let turn = turns.entry((is_ipv6, at)).or_default();
        *turn += 1;
        ((is_ipv6, *turn), (one.address, at))
    };
    let mut found: Vec<_> = candidates.map(&mut in_turn).collect();
    found.sort_by_key(|(place, _)| *place);
    let mut offered: Vec<_> = found.into_iter().map(|(_, one)| one).collect();
    let left_out = offered.len().saturating_sub(MAX_OFFERED) as u32;
    if left_out > 0 && !wanted.is_empty() {
        return Err(format!(
            "{} have {} addresses there, and {MAX_OFFERED} can be used (--interface): name fewer",
            wanted.join(", "),
            offered.len()
        ));
    }
    offered.truncate(MAX_OFFERED);
    if offered.is_empty() && !wanted.is_empty() {
        let there = all.iter().filter(leads_elsewhere);
        let there: Vec<String> =
            there.map(|one| format!("{} {}", one.interface, one.address)).collect();
        return Err(format!(
            "no interface or network {} leads elsewhere there (--interface); there are: {}",
            wanted.join(", "),
            there.join(", ")
        ));
    }
    if offered.is_empty() {
        offered.push((Ipv4Addr::LOCALHOST.into(), 0));
    }
    debug_assert!((1..=MAX_OFFERED).contains(&offered.len()), "an offer has an address");
    Ok(UsableAddresses { offered, left_out })
}

/// Returns true if `text` is a network, `ADDRESS/BITS`, that has `address`.
fn is_in(address: IpAddr, text: &str) -> bool {
    let Some((network, bits)) = text.split_once('/') else { return false };
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    let same = |a: u128, b: u128, width: u32| {
        bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Returns true for an address that means nothing without the interface that has it.
fn is_of_one_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(interface: &str, address: &str) -> InterfaceAddress {
        let (interface, address) = (interface.into(), address.parse().unwrap());
        InterfaceAddress { interface, address, running: true, loopback: false }
    }

    fn offered(all: &[InterfaceAddress], wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(|&text| text.into()).collect();
        let found = usable(all, &wanted).unwrap();
        found.offered.into_iter().map(|(address, _)| address.to_string()).collect()
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_offered() {
        let mut all = vec![
            InterfaceAddress { loopback: true, ..one("lo", "127.0.0.1") },
            one("x", "fe80::1"),
            one("x", "fd00::2"),
            InterfaceAddress { running: false, ..one("x", "10.0.0.9") },
            one("x", "169.254.1.1"),
        ];
        assert_eq!(offered(&all, &[]), ["fd00::2"]);
        all.extend((1..20).map(|host| one("x", &format!("10.0.1.{host}"))));
        let found = usable(&all, &[]).unwrap();
        assert_eq!((found.offered.len(), found.left_out), (MAX_OFFERED, 4));
        assert_eq!(found.offered[0].0, "10.0.1.1".parse::<IpAddr>().unwrap());
        assert_eq!(offered(&all[..1], &[]), ["127.0.0.1"]);
        assert_eq!(offered(&all, &["10.0.1.4/30"]).len(), 4);
        assert_eq!(offered(&all, &["fd00::/16"]).len(), 1);
        let refused = |text: &str| usable(&all, &[text.into()]).unwrap_err();
        assert!(refused("10.9.0.0/16").contains("x fd00::2"));
        assert!(refused("x").contains("20 addresses"), "{}", refused("x"));
        for none in ["y", "lo", "10.0.1.1/33", "10.0.1.1/", "/8"] {
            assert!(refused(none).contains("leads elsewhere"), "{none}");
        }
    }

    #[test]
    fn each_interface_is_offered_before_the_second_address_of_any() {
        let mut all: Vec<_> = (1..30).map(|host| one("br", &format!("172.17.0.{host}"))).collect();
        all.push(one("eth", "10.0.0.1"));
        all.push(one("ib", "fd00::1"));
        let found = offered(&all, &[]);
        assert_eq!(found[..2], ["172.17.0.1", "10.0.0.1"]);
        assert_eq!(found.len(), MAX_OFFERED);
    }

    #[test]
    fn an_address_of_the_loopback_interface_is_used_when_it_is_named() {
        let all = [
            InterfaceAddress { loopback: true, ..one("lo", "127.0.0.1") },
            InterfaceAddress { loopback: true, ..one("lo", "10.255.0.5") },
            one("eth", "10.0.0.1"),
        ];
        assert_eq!(offered(&all, &[]), ["10.0.0.1"]);
        assert_eq!(offered(&all, &["lo"]), ["10.255.0.5"]);
        assert_eq!(offered(&all, &["10.255.0.0/16"]), ["10.255.0.5"]);
    }
}
