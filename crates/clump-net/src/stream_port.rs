//! The making of streams: listeners and connections with the keys that belong to them.

use crate::seal::{RecordCipher, StreamKeys, StreamPath};
use clump_driver::{ByteStream, StreamListener, StreamNetwork};
use clump_wire::record::{HELLO_BYTES, Hello};
use clump_wire::{Header, Security};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The messages that go by streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamUse {
    /// Bytes of the shortest payload that does; none shorter than 32 KiB does.
    pub min_payload: usize,
    /// Bytes of a datagram from which on paths need no streams.
    pub max_datagram: usize,
}

impl StreamUse {
    /// All that may.
    pub const ALWAYS: Self = Self { min_payload: 0, max_datagram: usize::MAX };
    /// Those that are long, where packets are short.
    pub const SHORT_PACKETS: Self = Self { min_payload: 128 << 10, max_datagram: 16 << 10 };
}

/// One end of a stream that is being made, its cipher, and the hello that begins it.
pub(crate) type Made<S> = (Box<S>, RecordCipher, [u8; HELLO_BYTES]);

/// Makes the streams of a stack.
#[derive(Debug)]
pub(crate) struct StreamPort {
    network: Box<dyn StreamNetwork>,
    keys: StreamKeys,
    security: Security,
    stream_use: StreamUse,
}

impl StreamPort {
    pub(crate) fn new(
        network: Box<dyn StreamNetwork>,
        keys: StreamKeys,
        security: Security,
        stream_use: StreamUse,
    ) -> Self {
        Self { network, keys, security, stream_use }
    }

    /// Returns true if a payload goes by a stream where datagrams of `datagram_bytes` would carry
    /// it.
    pub(crate) fn carries(&self, payload_bytes: usize, datagram_bytes: usize) -> bool {
        debug_assert!(datagram_bytes > 0, "datagrams carry something");
        let StreamUse { min_payload, max_datagram } = self.stream_use;
        payload_bytes >= min_payload && datagram_bytes < max_datagram
    }

    /// Returns the descriptor that becomes readable when anything arrives.
    pub(crate) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.network.readiness()
    }

    /// Listens for a stream from the peer that packets with this header go to; returns the random
    /// numbers of its key too.
    pub(crate) fn listen(
        &mut self,
        header: &Header,
        stream: u32,
    ) -> Option<(Made<dyn StreamListener>, [u64; 2])> {
        let random = [self.network.random()?, self.network.random()?];
        let (from, to) = ((header.target, header.target_epoch), (header.source, header.epoch));
        let path = StreamPath { from, to, stream, random };
        debug_assert!(header.source != header.target, "a stream leads to another stack");
        let (cipher, hello) = self.keys_of(header.job, &path)?;
        let listener = self.network.listen()?;
        debug_assert!(listener.port() != 0, "a listener is bound");
        Some(((listener, cipher, hello), random))
    }

    /// Begins a stream to the peer that packets with this header go to.
    pub(crate) fn dial(
        &mut self,
        header: &Header,
        to: SocketAddr,
        stream: u32,
        random: [u64; 2],
    ) -> Option<Made<dyn ByteStream>> {
        let (from, target) = ((header.source, header.epoch), (header.target, header.target_epoch));
        let path = StreamPath { from, to: target, stream, random };
        let (cipher, hello) = self.keys_of(header.job, &path)?;
        debug_assert!(to.port() != 0, "the peer has said where it listens");
        Some((self.network.connect(to)?, cipher, hello))
    }

    fn keys_of(&self, job: u32, path: &StreamPath) -> Option<(RecordCipher, [u8; HELLO_BYTES])> {
        let cipher = self.keys.cipher(self.security, path).ok()?;
        let proof = self.keys.proof(path).ok()?;
        let StreamPath { from: (source, _), to: (target, _), stream, .. } = *path;
        debug_assert!(source != target, "a stream leads to another stack");
        Some((cipher, Hello { job, source, target, stream, proof }.encode()))
    }
}
