//! Faults of the virtual cables of [`crate::netns`] while a job uses them: cut, mend, shorten their
//! packets, lose some, change a hardware address. The kernel applies them, not a wrapper around a
//! socket.
//!
//! Each call is made in the namespace of one node ([`crate::netns::enter`]) and names the node at
//! the cable's other end, and which of the cables to that node it is.

use crate::error::{OsError, Result};
use crate::netlink::{Instruction, Netlink};
use crate::netns::{cable_address, interface};
use rustix::io::Errno;

// linux/bpf_common.h, linux/filter.h, linux/pkt_cls.h
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_NOT_BELOW: u16 = 0x35;
const RETURN: u16 = 0x06;
const PROTOCOL: u32 = 0xffff_f000;
const RANDOM: u32 = 0xffff_f000 + 56;
const IP: u32 = 0x0800;
const PASS: u32 = 0;
const DROP: u32 = 2;
const MILLION: u64 = 1_000_000;

/// Cuts the cable to `there`: no packet passes in either direction.
///
/// # Errors
/// There is no such cable here, or this process may not.
pub fn cut((there, cable): (u32, u32)) -> Result<()> {
    Netlink::open()?.switch(&interface(there, cable), false)
}

/// Mends the cable from `here` to `there`.
///
/// # Errors
/// As for [`cut`].
pub fn mend(here: u32, (there, cable): (u32, u32)) -> Result<()> {
    let (mut kernel, name) = (Netlink::open()?, interface(there, cable));
    kernel.switch(&name, true)?;
    // Routes went with the cable; addresses stay.
    kernel.add_route(cable_address(there, cable), &name, cable_address(here, cable))
}

/// Lets no IP packet of more than `bytes` through to `there`.
///
/// # Errors
/// As for [`cut`]; less than the minimum of IP.
pub fn shorten((there, cable): (u32, u32), bytes: u32) -> Result<()> {
    Netlink::open()?.shorten(&interface(there, cable), bytes)
}

/// Gives this end of the cable to `there` another hardware address, and has the kernel announce it
/// (gratuitous ARP), as a bond does that fails over.
///
/// # Errors
/// As for [`cut`]; the kernel's settings cannot be written.
pub fn change_hardware_address((there, cable): (u32, u32), address: [u8; 6]) -> Result<()> {
    let name = interface(there, cable);
    let setting = format!("/proc/sys/net/ipv4/conf/{name}/arp_notify");
    std::fs::write(&setting, "1").map_err(|e| {
        let errno = e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        OsError::new(format!("writing {setting}"), errno)
    })?;
    Netlink::open()?.set_hardware_address(&name, address)
}

/// Has the kernel drop so many of a million IP packets that arrive from `there`, at random. Call it
/// at both ends: each end segments its sends into packets before the filter, so that each packet is
/// dropped independently. Once for an end.
///
/// # Errors
/// As for [`cut`]; the kernel has no filters, or has one there already.
pub fn lose((there, cable): (u32, u32), ppm: u32) -> Result<()> {
    let share = u64::from(ppm);
    let limit = u32::try_from((share << 32) / MILLION)
        .map_err(|_| OsError::new("losing every packet", Errno::INVAL))?;
    let program: [Instruction; 6] = [
        (LOAD, 0, 0, PROTOCOL),
        (IF_EQUAL, 0, 3, IP),
        (LOAD, 0, 0, RANDOM),
        (IF_NOT_BELOW, 1, 0, limit),
        (RETURN, 0, 0, DROP),
        (RETURN, 0, 0, PASS),
    ];
    let mut kernel = Netlink::open()?;
    kernel.send_singly(&interface(there, cable))?;
    kernel.filter_arriving(&interface(there, cable), &program)
}
