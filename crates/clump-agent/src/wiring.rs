//! The process that creates the network namespaces of virtual nodes, and the agents' entry into
//! them.
//!
//! A process that creates namespaces leaves its own for good. So neither the launcher does it,
//! which may be part of a program with other things to do, nor an agent: a process of its own
//! creates them, passes their descriptors to the launcher, and ends.

use crate::spec::Namespaces;
use clump_os::{netns, scm_message};
use std::fs::File;
use std::os::fd::AsFd;

/// First byte of the answer when there are namespaces; a second byte tells whether a user
/// namespace comes first.
pub(crate) const MADE: u8 = 1;
/// First byte of the answer when there are none; the reason follows.
pub(crate) const REFUSED: u8 = 0;

/// Creates `count` namespaces, joined by so many cables each, and passes them to the launcher.
pub(crate) fn make(launcher: impl AsFd + Copy, count: u32, cables: u32) -> clump_os::Result<()> {
    match netns::create_with(count, cables) {
        Ok(networks) => {
            let led = u8::from(networks.user.is_some());
            let all: Vec<_> = networks.user.iter().chain(&networks.nets).map(AsFd::as_fd).collect();
            scm_message::send(launcher, &[&[MADE, led]], &all)
        }
        Err(why) => scm_message::send(launcher, &[&[REFUSED, 0], why.to_string().as_bytes()], &[]),
    }
}

/// Enters the namespaces of a node.
pub(crate) fn enter(namespaces: &Namespaces) -> anyhow::Result<()> {
    let open = |number: i32| File::open(format!("/proc/{}/fd/{number}", namespaces.holder));
    let net = open(namespaces.net)?;
    let user = namespaces.user.map(open).transpose()?;
    Ok(netns::enter(user.as_ref().map(AsFd::as_fd), net.as_fd())?)
}
