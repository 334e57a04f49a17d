//! Formation of a pair from two ranks of a job of any shape.

use super::live::{Issuer, Server};
use super::{PairNetwork, Scope};
use crate::wire::{Unmet, Wire};
use anyhow::{Context, Result, ensure};
use clump::Clump;
use clump_am::Name;
use clump_wire::Security;
use std::net::{IpAddr, Ipv4Addr};

/// Role of a rank in a measurement of two.
#[derive(Debug)]
pub enum PairRole {
    /// It measures. Rank 0.
    Issuer(Box<Issuer>),
    /// It answers.
    Server(Server),
    /// It waits for the end.
    Onlooker,
}

/// Returns the rank that answers rank 0: its neighbour on one node, or the last rank, which is on
/// the last node. With four ranks bound to two cores these are the two pairs on cores of their own.
pub fn partner(scope: Scope, ranks: usize) -> usize {
    match scope {
        Scope::Shm => 1,
        Scope::Net => ranks.saturating_sub(1),
    }
}

/// Forms the pair; all ranks call it.
///
/// # Errors
/// Fails if the job's shape does not fit `scope`, or if endpoints or sockets cannot be opened.
pub fn meet(cl: &Clump, scope: Scope, security: Security) -> Result<PairRole> {
    let (rank, ranks) = (cl.rank(), cl.nranks());
    let partner = partner(scope, ranks);
    ensure!(ranks >= 2, "a pair needs two ranks: start it with `clump run -n 2`");
    let nodes = [0, partner].map(|rank| u32::try_from(rank).map(|rank| cl.node().node_of(rank)));
    let together = nodes[0] == nodes[1];
    ensure!(
        together == (scope == Scope::Shm),
        "ranks 0 and {partner} sit on {}; start the job with {}",
        if together { "one node" } else { "different nodes" },
        if together { "`--nodes 2`" } else { "both ranks on one node" },
    );
    let other = match rank {
        0 => partner,
        n if n == partner => 0,
        _ => rank,
    };
    let wire = match scope {
        Scope::Net => meet_on_wire(cl, other)?,
        Scope::Shm => None,
    };
    // Collective: onlookers contribute nothing, but take part.
    let exchange = |name: Name| -> Result<Name> {
        let names = cl.all_gather(name.to_bits())?;
        Ok(Name::from_bits(*names.get(other).context("a rank said no name")?))
    };
    if rank == 0 {
        let net = match wire {
            Some(wire) => {
                let address = wire.address()?.ip();
                Some((PairNetwork::new(security, wire.largest(), address), wire))
            }
            None => None,
        };
        Ok(PairRole::Issuer(Box::new(Issuer::open(cl, exchange, net)?)))
    } else if rank == partner {
        Ok(PairRole::Server(Server::open(cl, exchange, wire)?))
    } else {
        exchange(Name::from_bits(0))?;
        Ok(PairRole::Onlooker)
    }
}

/// Opens the laboratory's own sockets on the addresses of both nodes; `None` for onlookers.
fn meet_on_wire(cl: &Clump, other: usize) -> Result<Option<Wire>> {
    let onlooks = other == cl.rank();
    let side = if onlooks { None } else { Some(Unmet::open(address(cl)?)?) };
    let mine = side.as_ref().map_or_else(|| Ok(String::new()), Unmet::addresses)?;
    let all = cl.all_gather_bytes(mine.as_bytes())?;
    let Some(side) = side else { return Ok(None) };
    let theirs = all.get(other).context("a rank said no address")?;
    Ok(Some(side.meet(std::str::from_utf8(theirs)?)?))
}

/// Returns the address of this rank's node; on a job of one node, which has no network, that of
/// this machine.
///
/// # Errors
/// Fails if the node has no address on the network.
pub fn address(cl: &Clump) -> Result<IpAddr> {
    if cl.node().nnodes() == 1 {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let interface = cl.node().own_interfaces().start;
    let place = cl.node().peer(interface).and_then(|peer| peer.place());
    Ok(place.context("this node has no address on the network")?.address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ranks_hold_a_pair_of_either_kind_on_cores_of_its_own() {
        let core = |rank: usize| rank % 2;
        for scope in [Scope::Shm, Scope::Net] {
            for ranks in [2, 4] {
                assert_ne!(core(0), core(partner(scope, ranks)));
            }
        }
        assert_eq!((partner(Scope::Shm, 4), partner(Scope::Net, 4)), (1, 3));
    }
}
