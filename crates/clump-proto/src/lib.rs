//! The reliable channel between two stacks, as a pure state machine.
//!
//! Layer 1: `clump-net` owns one [`Channel`] per peer, passes arrivals and the time to it, and
//! sends the packets that it asks for. Formats come from `clump-wire`. The same code runs over
//! sockets, in the simulator and in tests.
//!
//! Types to know: [`Channel`] (its documentation is the contract), [`Config`], [`SackBuf`],
//! [`Stats`].
//!
//! Two numbers, because a packet is sent once and a unit as often as needed: packets have a
//! *number* that is never used twice (nonce, replay window), and those that carry messages a *unit*
//! (paper 002 calls it the sequence number). Acknowledgements name units; times belong to packets.
//! So it is always known which packet an answer belongs to, and a late unit is distinguished from a
//! lost one.
//!
//! # Invariants
//! 1. No clock, socket, thread or random source: time and input are arguments, output is polled.
//! 2. Every unit is new to the receiver once, and released at the sender once, after that.
//! 3. At most 262,144 units are in flight. A unit is found lost only if it was described as missing
//!    since a later one arrived: never because a packet has no room to describe it.
//! 4. What the driver does not take was not sent: it is offered again, in its order, within 1.3 ms,
//!    and neither counts as lost nor shrinks a window.
//! 5. While anything is unacknowledged, or the peer's window is closed, or an acknowledgement is
//!    owed, there is a timeout on this side alone that ends in a packet. So no loss can stop both
//!    sides.
//! 6. Nothing allocates but [`Channel::new`] and a window that grows: the table of units in flight
//!    doubles, up to 262,144 entries, until [`Channel::release_spare`]. A packet costs no more than
//!    in proportion to what it newly acknowledges and finds lost.
//! 7. No statement of a peer, even an authenticated one, affects more than its own channel: no
//!    panic, no memory.
//!
//! ```
//! use clump_proto::{Channel, Config, SackBuf, UnitStatus};
//! use clump_wire::{Header, PacketKind};
//! let (config, mut sack) = (Config::default(), SackBuf::new());
//! let (mut here, mut there) = (Channel::new(&config, 0), Channel::<()>::new(&config, 0));
//! let unit = here.launch(1000, 1200, "its body");
//! let mut packet = Header { unit, ..Header::default() };
//! here.stamp(1000, &mut packet, &mut sack);
//! let arrival = there.handle_packet(9000, &packet, sack.words(), 1200, false);
//! assert_eq!(arrival.unit, UnitStatus::New);
//! let mut answer = Header { kind: PacketKind::Ack, ..Header::default() };
//! there.stamp(9000, &mut answer, &mut sack);
//! here.handle_packet(17_000, &answer, sack.words(), 64, false);
//! assert!(here.is_quiet() && here.poll_acked() == Some((0, "its body")));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod ack;
mod backpressure;
mod bits;
mod channel;
mod config;
mod congestion;
mod consumption;
mod echo;
mod judged;
mod keepalive;
mod list;
mod mtu;
mod pacing;
mod probe;
mod receive;
mod replay;
mod retransmit;
mod rtt;
mod sack;
mod send;
mod stats;
mod time;
mod transmissions;
mod window;

pub use channel::{Backlog, Channel, Content, Next, PacketArrival, UnitStatus};
pub use config::{Config, Congestion};
pub use consumption::{Consumption, CreditPool, REQUEST_COST};
pub use echo::SocketWait;
pub use sack::SackBuf;
pub use stats::Stats;
pub use time::Nanos;
