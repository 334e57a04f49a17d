//! Addresses at which other machines may reach this one.

use clump_os::interface_address::InterfaceAddress;
use std::net::{IpAddr, Ipv4Addr};

/// Most addresses of a node in use, each a path of its own.
pub(crate) const MAX_PATHS: usize = 4;
/// Most addresses of a node that are offered to others.
const MAX_OFFERED: usize = 16;

/// Returns the addresses of this machine at which others may reach it, each with the number of its
/// interface, the most promising first: those of interfaces that are up and lead elsewhere, IPv4
/// before IPv6; without any, loopback. If there are `wanted` interfaces or networks, only theirs.
pub(crate) fn usable(
    all: &[InterfaceAddress],
    wanted: &[String],
) -> Result<Vec<(IpAddr, usize)>, String> {
    let is_wanted = |one: &&InterfaceAddress| {
        let by = |text: &String| *text == one.interface || is_in(one.address, text);
        wanted.is_empty() || wanted.iter().any(by)
    };
    let leads_elsewhere =
        |one: &&InterfaceAddress| one.running && !one.loopback && !is_of_one_link(one.address);
    let number = |name: &str| all.iter().position(|one| one.interface == name).unwrap_or(0);
    let candidates = all.iter().filter(leads_elsewhere).filter(is_wanted);
    let mut found: Vec<_> = candidates.map(|one| (one.address, number(&one.interface))).collect();
    found.sort_by_key(|(address, _)| address.is_ipv6());
    found.truncate(MAX_OFFERED);
    if found.is_empty() && !wanted.is_empty() {
        let there = all.iter().filter(leads_elsewhere);
        let there: Vec<String> =
            there.map(|one| format!("{} {}", one.interface, one.address)).collect();
        return Err(format!(
            "no interface or network {} leads elsewhere there (--interface); there are: {}",
            wanted.join(", "),
            there.join(", ")
        ));
    }
    if found.is_empty() {
        found.push((Ipv4Addr::LOCALHOST.into(), 0));
    }
    Ok(found)
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

    #[test]
    fn addresses_that_lead_elsewhere_are_offered() {
        let one = |address: &str, running, loopback| InterfaceAddress {
            interface: "x".into(),
            address: address.parse().unwrap(),
            running,
            loopback,
        };
        let mut all = vec![
            one("127.0.0.1", true, true),
            one("fe80::1", true, false),
            one("fd00::2", true, false),
            one("10.0.0.9", false, false),
            one("169.254.1.1", true, false),
        ];
        assert_eq!(usable(&all, &[]).unwrap(), [("fd00::2".parse::<IpAddr>().unwrap(), 0)]);
        all.extend((1..20).map(|host| one(&format!("10.0.1.{host}"), true, false)));
        let found = usable(&all, &[]).unwrap();
        assert_eq!(found.len(), MAX_OFFERED);
        assert_eq!(found[0].0, "10.0.1.1".parse::<IpAddr>().unwrap());
        let alone = usable(&all[..1], &[]).unwrap();
        assert_eq!(alone, [(IpAddr::from(Ipv4Addr::LOCALHOST), 0)]);
        let network = |text: &str| usable(&all, &[text.into()]);
        assert_eq!(network("10.0.1.4/30").unwrap().len(), 4);
        assert_eq!(network("fd00::/16").unwrap().len(), 1);
        assert_eq!(network("x").unwrap().len(), MAX_OFFERED);
        assert!(network("10.9.0.0/16").unwrap_err().contains("x fd00::2"));
        for none in ["y", "10.0.1.1/33", "10.0.1.1/", "/8"] {
            assert!(network(none).is_err(), "{none}");
        }
    }
}
