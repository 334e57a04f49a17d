//! Requests to the kernel's network configuration (rtnetlink(7)), for the namespace of the caller.
//!
//! Messages are built by hand: a fixed header, a fixed body, and attributes (length, type, value).

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// linux/netlink.h, linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/veth.h,
// linux/pkt_cls.h
/// Flag of a request, and nothing more.
pub(crate) const REQUEST: u16 = 0x1;
const REQUEST_AND_ACK: u16 = REQUEST | 0x4;
const CREATE_NEW: u16 = 0x400 | 0x200;
pub(crate) const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
pub(crate) const NEW_ROUTE: u16 = 24;
const NEW_DISCIPLINE: u16 = 36;
const NEW_FILTER: u16 = 44;
const ERROR: u16 = 2;
const HEADER: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
pub(crate) const RTA_DESTINATION: u16 = 1;
pub(crate) const RTA_INTERFACE: u16 = 4;
const RTA_PREFERRED_SOURCE: u16 = 7;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_BPF_FLAGS: u16 = 8;
const BPF_VERDICTS: u32 = 1;
const CLSACT: u32 = 0xffff_0000;
const CLSACT_PARENT: u32 = 0xffff_fff1;
const CLSACT_ARRIVING: u32 = 0xffff_fff2;
const UP: u32 = 1;
pub(crate) const INET: u8 = 2;
pub(crate) const WHOLE: u8 = 32;
const MAIN_TABLE: u8 = 254;
const STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;

/// A connection to the kernel, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    number: u32,
}

impl Netlink {
    pub(crate) fn open() -> Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None, // NETLINK_ROUTE, which is zero
        )
        .map_err(|e| OsError::new("opening a netlink socket", e))?;
        Ok(Self { socket, number: 0 })
    }

    /// Makes a virtual cable: one end here, called `name`, the other in namespace `to`, called
    /// `peer`.
    pub(crate) fn add_cable(&mut self, name: &str, peer: &str, to: BorrowedFd<'_>) -> Result<()> {
        let mut there = link_body(0, 0);
        attribute(&mut there, IFLA_IFNAME, &terminated(peer));
        attribute(&mut there, IFLA_NET_NS_FD, &to.as_raw_fd().to_ne_bytes());
        let mut data = Vec::new();
        attribute(&mut data, VETH_PEER, &there);
        let mut info = Vec::new();
        attribute(&mut info, INFO_KIND, b"veth");
        attribute(&mut info, INFO_DATA, &data);
        let mut body = link_body(0, 0);
        attribute(&mut body, IFLA_IFNAME, &terminated(name));
        attribute(&mut body, IFLA_LINKINFO, &info);
        self.ask(&format!("making the cable {name}"), NEW_LINK, CREATE_NEW, &body)
    }

    /// Switches an interface on or off.
    pub(crate) fn switch(&mut self, name: &str, on: bool) -> Result<()> {
        let mut body = link_body(if on { UP } else { 0 }, UP);
        attribute(&mut body, IFLA_IFNAME, &terminated(name));
        self.ask(&format!("switching {name} {}", if on { "on" } else { "off" }), NEW_LINK, 0, &body)
    }

    /// Sets the longest packet that an interface takes.
    pub(crate) fn shorten(&mut self, name: &str, bytes: u32) -> Result<()> {
        self.set(name, IFLA_MTU, &bytes.to_ne_bytes())
    }

    /// Sets the number of packets that may wait in an interface.
    pub(crate) fn lengthen_queue(&mut self, name: &str, packets: u32) -> Result<()> {
        self.set(name, IFLA_TXQLEN, &packets.to_ne_bytes())
    }

    /// Gives an interface another hardware address.
    pub(crate) fn set_hardware_address(&mut self, name: &str, address: [u8; 6]) -> Result<()> {
        self.set(name, IFLA_ADDRESS, &address)
    }

    /// Has the kernel segment its sends through an interface into packets before the interface, not
    /// behind it.
    pub(crate) fn send_singly(&mut self, name: &str) -> Result<()> {
        self.set(name, IFLA_GSO_MAX_SEGS, &1_u32.to_ne_bytes())
    }

    fn set(&mut self, name: &str, what: u16, value: &[u8]) -> Result<()> {
        let mut body = link_body(0, 0);
        attribute(&mut body, IFLA_IFNAME, &terminated(name));
        attribute(&mut body, what, value);
        self.ask(&format!("setting attribute {what} of {name} to {value:?}"), NEW_LINK, 0, &body)
    }

    /// Filters each packet that arrives at an interface by a classic BPF program, whose result is a
    /// verdict of traffic control (linux/pkt_cls.h). Once for an interface.
    pub(crate) fn filter_arriving(&mut self, name: &str, program: &[Instruction]) -> Result<()> {
        let index = index_of(name)?;
        let mut body = traffic_body(index, CLSACT, CLSACT_PARENT, 0);
        attribute(&mut body, TCA_KIND, &terminated("clsact"));
        self.ask(
            &format!("making room for a filter of {name}"),
            NEW_DISCIPLINE,
            CREATE_NEW,
            &body,
        )?;
        let mut options = Vec::new();
        let count = u16::try_from(program.len()).unwrap_or(u16::MAX);
        attribute(&mut options, TCA_BPF_OPS_LEN, &count.to_ne_bytes());
        attribute(&mut options, TCA_BPF_OPS, &program.iter().flat_map(encode).collect::<Vec<u8>>());
        attribute(&mut options, TCA_BPF_FLAGS, &BPF_VERDICTS.to_ne_bytes());
        // Of priority 1, for every protocol (ETH_P_ALL, in network order).
        let mut body = traffic_body(index, 0, CLSACT_ARRIVING, 1 << 16 | u32::from(3_u16.to_be()));
        attribute(&mut body, TCA_KIND, &terminated("bpf"));
        attribute(&mut body, TCA_OPTIONS, &options);
        self.ask(&format!("filtering what arrives at {name}"), NEW_FILTER, CREATE_NEW, &body)
    }

    /// Gives an interface an address of its own.
    pub(crate) fn add_address(&mut self, name: &str, address: Ipv4Addr) -> Result<()> {
        let mut body = vec![INET, WHOLE, 0, 0];
        body.extend(index_of(name)?.to_ne_bytes());
        attribute(&mut body, IFA_LOCAL, &address.octets());
        attribute(&mut body, IFA_ADDRESS, &address.octets());
        self.ask(&format!("giving {name} the address {address}"), NEW_ADDRESS, CREATE_NEW, &body)
    }

    /// Reaches `to` directly through an interface, as `from`.
    pub(crate) fn add_route(&mut self, to: Ipv4Addr, name: &str, from: Ipv4Addr) -> Result<()> {
        let mut body = vec![INET, WHOLE, 0, 0, MAIN_TABLE, STATIC, SCOPE_LINK, UNICAST, 0, 0, 0, 0];
        attribute(&mut body, RTA_DESTINATION, &to.octets());
        attribute(&mut body, RTA_INTERFACE, &index_of(name)?.to_ne_bytes());
        attribute(&mut body, RTA_PREFERRED_SOURCE, &from.octets());
        self.ask(&format!("routing {to} through {name}"), NEW_ROUTE, CREATE_NEW, &body)
    }

    /// Sends a request and waits for its acknowledgement.
    fn ask(&mut self, what: &str, kind: u16, flags: u16, body: &[u8]) -> Result<()> {
        match self.exchange(what, kind, REQUEST_AND_ACK | flags, body)? {
            None => Ok(()),
            Some(_) => Err(OsError::new(what, Errno::BADMSG)),
        }
    }

    /// Sends a request and waits for its answer: returns the kind and contents of a message, or
    /// `None` for a bare acknowledgement.
    pub(crate) fn exchange(
        &mut self,
        what: &str,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<Option<(u16, Vec<u8>)>> {
        let failed = |e| OsError::new(what, e);
        self.number += 1;
        let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.number.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(body);
        rustix::net::send(&self.socket, &message, SendFlags::empty()).map_err(failed)?;
        let mut answer = vec![0_u8; 16_384];
        let (bytes, _) =
            rustix::net::recv(&self.socket, &mut answer, RecvFlags::empty()).map_err(failed)?;
        let broken = || failed(Errno::BADMSG);
        let answer = answer.get(..bytes).ok_or_else(broken)?;
        let word = |at: usize| -> Option<[u8; 4]> { answer.get(at..at + 4)?.try_into().ok() };
        let end = u32::from_ne_bytes(word(0).ok_or_else(broken)?) as usize;
        let [k0, k1, ..] = word(4).ok_or_else(broken)?;
        let contents = answer.get(HEADER..end).ok_or_else(broken)?;
        match u16::from_ne_bytes([k0, k1]) {
            ERROR => match word(HEADER).map(i32::from_ne_bytes) {
                Some(0) => Ok(None),
                Some(error) => Err(failed(Errno::from_raw_os_error(error.wrapping_neg()))),
                None => Err(broken()),
            },
            kind => Ok(Some((kind, contents.to_vec()))),
        }
    }
}

/// Returns a struct ifinfomsg.
fn link_body(flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend(flags.to_ne_bytes());
    body.extend(change.to_ne_bytes());
    body
}

/// Returns a struct tcmsg.
fn traffic_body(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [index, handle, parent, info] {
        body.extend(word.to_ne_bytes());
    }
    body
}

/// An instruction of classic BPF (linux/filter.h): code, instructions to skip if true, if false,
/// operand.
pub(crate) type Instruction = (u16, u8, u8, u32);

fn encode(&(code, if_true, if_false, operand): &Instruction) -> impl Iterator<Item = u8> {
    let head = code.to_ne_bytes().into_iter().chain([if_true, if_false]);
    head.chain(operand.to_ne_bytes())
}

pub(crate) fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn index_of(name: &str) -> Result<u32> {
    let text = terminated(name);
    // SAFETY: a string that ends in zero and outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr().cast()) } {
        0 => Err(OsError::last(format!("looking for the interface {name}"))),
        index => Ok(index),
    }
}
