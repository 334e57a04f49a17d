//! The wire format between nodes: packets, and the frames of messages inside them.
//!
//! Layer 0, formats only: no clock, no socket, no key. `clump-proto` fills in and reads
//! [`Header`]s, `clump-net` packs and unpacks [`frame`]s and protects the bytes between header and
//! trailer.
//!
//! ```text
//! packet: header, 64 B | selective acks, 8 B each | body | trailer: 16 B (AEAD) or 4 B (CRC-32C)
//! body: frames
//! body where a path has shrunk: offset, 4 B | bytes of the unit, 4 B | fragment of the unit
//! frame: head, 8 B | route, 24 B, unless as before | order, 8 B | fragment, 16 B
//!        | words, 8 B each | payload
//! ```
//! Little endian throughout. Every part of a frame is padded to 8 bytes. Packets of another
//! [`VERSION`] are refused; a new format gets a new number.
//!
//! Types to know: [`Header`], [`Packet`] (a datagram split into its parts), [`frame::Frame`],
//! [`frame::Frames`].
//!
//! # Invariants
//! 1. Any bytes parse or are refused: no panic, no allocation, work bounded by their length.
//! 2. Everything written is read back the same.
//! 3. Parsing reads each byte of heads once and no byte of payloads.
//!
//! ```
//! use clump_wire::{Header, Packet, PacketKind};
//! let header = Header { kind: PacketKind::Ack, ack: 7, ..Header::default() };
//! let bytes = header.encode(1);
//! let datagram = [&bytes[..], &1_u64.to_le_bytes(), &[0; 16]].concat();
//! let packet = Packet::parse(&datagram).unwrap();
//! assert_eq!((packet.header.ack, packet.sack_words(), packet.sealed_at), (7, 1, 72));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod append;
pub mod frame;
mod header;
pub mod hostile;
mod message;
mod original;
mod reason;
pub mod record;
mod security;
mod send_result;
mod unit_fragment;

pub use append::Append;
pub use header::{
    Flags, HEADER_BYTES, Header, MAX_SACK_WORDS, Packet, PacketKind, Refused, VERSION,
};
pub use message::{Message, OwnedMessage};
pub use original::Original;
pub use reason::Reason;
pub use security::Security;
pub use send_result::SendResult;
pub use unit_fragment::{UNIT_FRAGMENT_BYTES, UnitFragment};
