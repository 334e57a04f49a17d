//! The names of the machine that the launcher runs on: agents there are children of the launcher,
//! and take no remote shell.

use crate::spec::RemoteStart;
use clump_os::{interface_address, process};
use std::net::{IpAddr, ToSocketAddrs};

/// The names and addresses of this machine.
#[derive(Debug)]
pub(super) struct ThisMachine {
    host_name: String,
    addresses: Vec<IpAddr>,
    /// True if loopback leads here. By a remote shell with options of its own, as `ssh -p 2222`, it
    /// may lead into a container.
    owns_loopback: bool,
}

impl ThisMachine {
    /// Finds out, for a user who reaches other machines in this way.
    pub(super) fn new(remote: &RemoteStart) -> Self {
        let mut addresses: Vec<IpAddr> =
            interface_address::all().into_iter().map(|one| one.address).collect();
        addresses.retain(|address| !address.is_loopback());
        let owns_loopback = remote.shell == RemoteStart::default().shell;
        Self { host_name: process::host_name(), addresses, owns_loopback }
    }

    /// Returns true if `name`, as the user has it, is this machine.
    pub(super) fn is(&self, name: &str) -> bool {
        self.is_by(name, |name| {
            // The port has no meaning.
            (name, 22).to_socket_addrs().map_or(Vec::new(), |all| all.map(|at| at.ip()).collect())
        })
    }

    fn is_by(&self, name: &str, resolve: impl Fn(&str) -> Vec<IpAddr>) -> bool {
        if name == "localhost" || name == self.host_name {
            return true;
        }
        if let Ok(address) = name.parse::<IpAddr>() {
            return self.owns(address);
        }
        // Only a name with the same first part is worth a question to the resolver.
        let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        first(name) == first(&self.host_name)
            && resolve(name).iter().any(|&ip| self.owns(ip) || ip.is_loopback())
    }

    fn owns(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || self.owns_loopback && address.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_full_name_and_its_addresses() {
        let own: IpAddr = "10.0.0.7".parse().unwrap();
        let mut here = ThisMachine {
            host_name: "head".into(),
            addresses: vec![own, "fd00::7".parse().unwrap()],
            owns_loopback: true,
        };
        let resolve = |name: &str| match name {
            "head.example.org" => vec![own],
            "head.localdomain" => vec!["127.0.1.1".parse().unwrap()],
            _ => vec!["10.0.0.8".parse().unwrap()],
        };
        for name in ["localhost", "head", "head.example.org", "head.localdomain", "10.0.0.7"] {
            assert!(here.is_by(name, resolve), "{name}");
        }
        assert!(here.is_by("fd00::7", resolve) && here.is_by("127.0.0.1", resolve));
        for name in ["head.elsewhere.org", "header", "10.0.0.8", "me@head", "b", "::2"] {
            assert!(!here.is_by(name, resolve), "{name}");
        }
        here.host_name = "head.example.org".into();
        assert!(here.is_by("head", |_| vec![own]));
        here.owns_loopback = false;
        assert!(!here.is_by("127.0.0.1", resolve) && here.is_by("localhost", resolve));
    }
}
