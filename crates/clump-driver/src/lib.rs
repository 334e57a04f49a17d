//! Drivers, which put datagrams on a wire: one trait, its mechanisms, and wrappers that disturb or
//! observe.
//!
//! The stacks of `clump-net` call it, it calls `clump-os`. A driver knows nothing of packets'
//! contents: it takes datagrams with an address and hands out datagrams with an address; they may
//! be lost, duplicated and overtake each other, with every mechanism.
//!
//! Types to know: [`Driver`], [`Outgoing`] (datagrams to send), [`Inbound`] (received datagrams),
//! [`Capabilities`]; [`Udp`] for the network, [`Packet`] for short messages on Ethernet,
//! [`Multirail`] for several interfaces at once, [`Hub`] for tests in one process, [`Fault`] and
//! [`Trace`] around any of them.
//!
//! # Invariants
//! 1. A driver never blocks, and owns no thread.
//! 2. A datagram arrives whole with its boundaries, or not at all.
//! 3. Datagrams are taken in the order of the batch: when a call stops early, those before were
//!    taken and those after were not.
//! 4. Every queue here is bounded; datagrams that do not fit are refused or counted as lost.
//! 5. The fate of datagrams already taken (loss, unreachable peers) is counted, never an error.
//!
//! ```
//! use clump_driver::{Driver, Hub, Inbound, Outgoing};
//! let hub = Hub::default();
//! let (mut a, mut b) = (hub.attach("10.0.0.1:1".parse()?)?, hub.attach("10.0.0.2:1".parse()?)?);
//! a.send(&[Outgoing { to: b.local(), head: b"hel", body: b"lo", tail: b"" }])?;
//! let mut inbound = Inbound::new(4);
//! assert_eq!(b.receive(&mut inbound)?, 1);
//! assert_eq!(inbound.datagram(0).bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
mod direct;
mod driver;
mod error;
mod fault;
mod frames;
mod inbound;
mod loopback;
mod multirail;
mod peer_paths;
mod refusal;
mod streams;
mod trace;
mod udp;
mod watch;

pub use clock::{Clock, SetClock};
pub use clump_os::xdp::Attached;
pub use direct::{Direct, Opened, open, take, take_all};
pub use driver::{
    Capabilities, Driver, MAX_PATHS, MIN_KEPT, Outgoing, PROBE_KEY_BYTES, PathCounts,
};
pub use error::DriverError;
pub use fault::{Fault, FaultCounts, FaultPlan, FaultSwitch};
pub use frames::{
    FrameCounts, FrameSocket, Frames, Packet, PacketSocket, Xdp, XdpSocket, listeners,
    packet_socket, xdp_socket,
};
pub use inbound::{Datagram, Ecn, FilledBuffer, Inbound};
pub use loopback::{Hub, HubCounts, HubLimits, Loopback, Overflow};
pub use multirail::Multirail;
pub use peer_paths::PeerPaths;
pub use refusal::{ReceiveCall, ReceiveFailure, ReceiveFailures};
pub use streams::{ByteStream, StreamListener, StreamNetwork, StreamTransfer, TcpStreams};
pub use trace::{Trace, TraceCounts, TraceLimits};
pub use udp::{Timestamps, Udp, UdpCounts, UdpOptions};
