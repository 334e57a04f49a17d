//! Networks of several machines emulated on one: namespaces joined pairwise by virtual cables, or
//! by a program that carries their packets.
//!
//! A namespace lives as long as a process is in it or holds its descriptor, cables go with either
//! of their ends, and TUN devices with their descriptors. So nothing has a name, and nothing is
//! left behind, however processes end.
//!
//! Any two nodes are joined by the requested number of cables, or each has one TUN device. By
//! cable `c` node `i` has address 10.77.c.(i+1), by its TUN device that of cable 0, and to each
//! other node `j` an interface of its own: `to-j` by the first cable, `to-j-c` by others.

use crate::error::{OsError, Result};
use crate::netlink::Netlink;
use crate::process;
use crate::tun::Tun;
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Most namespaces: the cables are as many as there are pairs.
pub const MAX_COUNT: u32 = 16;

/// Network namespaces, joined by cables.
#[derive(Debug)]
pub struct Networks {
    /// The user namespace that owns them, where this user may make none without it.
    pub user: Option<OwnedFd>,
    /// The network namespaces, in order.
    pub nets: Vec<OwnedFd>,
}

impl Networks {
    /// Returns the text by which this process hands them to the jobs of a command that it runs:
    /// its number, its descriptor of the user namespace, if any, those of the networks, as in
    /// `70:5:6,7`. They can be entered while this process holds them.
    pub fn handed_over(&self) -> String {
        let user = self.user.as_ref().map(|user| user.as_raw_fd().to_string());
        let nets: Vec<_> = self.nets.iter().map(|net| net.as_raw_fd().to_string()).collect();
        format!("{}:{}:{}", process::own_pid(), user.unwrap_or_default(), nets.join(","))
    }
}

/// Name of the TUN device of a namespace.
const TUNNEL: &str = "path";
/// Packets that may wait in it until the program that carries them reads: 15 MB, so that a program
/// that was not scheduled for some milliseconds loses none.
const TUNNEL_PACKETS: u32 = 10_000;
/// Settings of the buffers of TCP, which each namespace has for itself, and their least, first and
/// largest size: the default would be shorter than a long path.
const TCP_BUFFERS: [&str; 2] = ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"];
const TCP_BUFFER_BYTES: &str = "4096 131072 134217728";
/// Most cables between two of them.
pub const MAX_CABLES: u32 = 4;

/// Returns the address of a node in its namespace, by its first cables.
pub fn address(node: u32) -> Ipv4Addr {
    cable_address(node, 0)
}

/// Returns the node with this address by its first cable, or by its TUN device.
pub fn node_at(address: Ipv4Addr) -> Option<u32> {
    let [10, 77, 0, number] = address.octets() else { return None };
    u32::from(number).checked_sub(1)
}

/// Returns the address of a node in its namespace by cables of this number.
pub fn cable_address(node: u32, cable: u32) -> Ipv4Addr {
    let byte = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 77, byte(cable), byte(node).saturating_add(1))
}

/// Makes `count` namespaces and joins each two by one cable, like [`create_with`].
///
/// # Errors
/// The kernel refuses, most often for users other than root.
pub fn create(count: u32) -> Result<Networks> {
    create_with(count, 1)
}

/// Makes `count` namespaces and joins each two by so many cables. The calling process leaves its
/// own for good, so it should have no other task, and must have one thread only.
///
/// # Errors
/// The kernel refuses, most often for users other than root.
pub fn create_with(count: u32, cables: u32) -> Result<Networks> {
    if count > MAX_COUNT || cables > MAX_CABLES {
        let what = format!("joining {count} namespaces by {cables} cables each");
        return Err(OsError::new(what, Errno::TOOBIG));
    }
    let networks = separate(count)?;
    let nets = &networks.nets;
    for (here, net) in (0..).zip(nets) {
        join(net.as_fd(), LinkNameSpaceType::Network)?;
        let mut kernel = Netlink::open()?;
        for (there, other) in (0..).zip(nets).skip(here as usize + 1) {
            for cable in 0..cables {
                let (near, far) = (interface(there, cable), interface(here, cable));
                kernel.add_cable(&near, &far, other.as_fd())?;
            }
        }
    }
    for (here, net) in (0..count).zip(nets) {
        join(net.as_fd(), LinkNameSpaceType::Network)?;
        let mut kernel = Netlink::open()?;
        kernel.switch("lo", true)?;
        let others = (0..count).filter(|&there| there != here);
        for (there, cable) in others.flat_map(|there| (0..cables).map(move |cable| (there, cable)))
        {
            let name = interface(there, cable);
            let [from, to] = [here, there].map(|node| cable_address(node, cable));
            kernel.add_address(&name, from)?;
            kernel.switch(&name, true)?;
            kernel.add_route(to, &name, from)?;
        }
    }
    Ok(networks)
}

/// Makes `count` namespaces with a TUN device each, by which all others are reached at their
/// [`address`]: packets up to `mtu` bytes go where the holder of the devices carries them. As for
/// [`create_with`], the calling process leaves its own namespace and must have one thread only.
///
/// # Errors
/// The kernel refuses namespaces or TUN devices, most often for users other than root.
pub fn create_tunnels(count: u32, mtu: u32) -> Result<(Networks, Vec<Tun>)> {
    if count > MAX_COUNT {
        return Err(OsError::new(format!("making {count} namespaces"), Errno::TOOBIG));
    }
    let networks = separate(count)?;
    let mut tuns = Vec::new();
    for (here, net) in (0..count).zip(&networks.nets) {
        join(net.as_fd(), LinkNameSpaceType::Network)?;
        // Where the kernel refuses, TCP is limited as it is outside.
        let _ = TCP_BUFFERS.iter().try_for_each(|name| write(name, TCP_BUFFER_BYTES));
        let mut kernel = Netlink::open()?;
        kernel.switch("lo", true)?;
        tuns.push(Tun::open(TUNNEL)?);
        kernel.shorten(TUNNEL, mtu)?;
        kernel.lengthen_queue(TUNNEL, TUNNEL_PACKETS)?;
        kernel.add_address(TUNNEL, address(here))?;
        kernel.switch(TUNNEL, true)?;
        for there in (0..count).filter(|&there| there != here) {
            kernel.add_route(address(there), TUNNEL, address(here))?;
        }
    }
    Ok((networks, tuns))
}

/// Makes namespaces that nothing joins. The process is in the last of them afterwards.
fn separate(count: u32) -> Result<Networks> {
    let user = leave()?;
    let mut nets = Vec::new();
    for node in 0..count {
        if node > 0 {
            unshare(UnshareFlags::NEWNET, "entering a network namespace")?;
        }
        nets.push(OwnedFd::from(open("/proc/thread-self/ns/net")?));
    }
    Ok(Networks { user, nets })
}

/// Enters namespaces that [`create`] made, for good. The calling process must have one thread only.
///
/// # Errors
/// The kernel refuses, for example in a process of several threads.
pub fn enter(user: Option<BorrowedFd<'_>>, net: BorrowedFd<'_>) -> Result<()> {
    if let Some(user) = user {
        join(user, LinkNameSpaceType::User)?;
        stay_visible()?;
    }
    join(net, LinkNameSpaceType::Network)
}

pub(crate) fn interface(there: u32, cable: u32) -> String {
    if cable == 0 { format!("to-{there}") } else { format!("to-{there}-{cable}") }
}

/// Leaves the network namespace for a fresh one, with a user namespace around it where that is the
/// only way.
fn leave() -> Result<Option<OwnedFd>> {
    let what = "entering a network namespace";
    match unshare(UnshareFlags::NEWNET, what) {
        Err(e) if e.errno == Errno::PERM => {}
        done => return done.map(|()| None),
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(
        UnshareFlags::NEWUSER | UnshareFlags::NEWNET,
        "entering a user and a network namespace",
    )?;
    // user_namespaces(7): users keep their identity, and an unprivileged user must give up
    // setgroups.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1", uid = uid.as_raw()))?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1", gid = gid.as_raw()))?;
    stay_visible()?;
    Ok(Some(OwnedFd::from(open("/proc/thread-self/ns/user")?)))
}

/// Keeps the process visible to its own user's tools, from which changing user namespaces hides it.
fn stay_visible() -> Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(|e| OsError::new("prctl(PR_SET_DUMPABLE)", e))
}

fn unshare(flags: UnshareFlags, what: &str) -> Result<()> {
    // SAFETY: the flags are of namespaces only; descriptors stay shared, and no other thread is
    // there.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|e| OsError::new(what, e))
}

fn join(namespace: BorrowedFd<'_>, kind: LinkNameSpaceType) -> Result<()> {
    rustix::thread::move_into_link_name_space(namespace, Some(kind))
        .map_err(|e| OsError::new("joining a namespace", e))
}

fn open(path: &str) -> Result<File> {
    File::open(path).map_err(|e| OsError::of(format!("opening {path}"), &e))
}

fn write(path: &str, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| OsError::of(format!("writing {path}"), &e))
}
