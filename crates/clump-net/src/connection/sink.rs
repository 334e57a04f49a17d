//! The way of one peer's packets: its path, and what all peers share.

use crate::outbox::{Outbox, Unit};
use crate::peer_path::PeerPath;
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;
use clump_driver::DriverError;
use clump_proto::{Channel, Content, Nanos};
use clump_wire::{Header, PacketKind};

/// Everything needed to send to one peer.
pub(crate) struct PacketSink<'a> {
    pub(crate) path: &'a PeerPath,
    pub(crate) transmitter: &'a mut Transmitter,
    pub(crate) schedule: &'a mut Schedule,
}

impl PacketSink<'_> {
    /// Sends the loaded packets; returns false if the driver did not take all of them.
    #[inline]
    pub(super) fn flush(
        &mut self,
        now: Nanos,
        channel: &mut Channel<Unit>,
        outbox: &Outbox,
    ) -> bool {
        let Self { path, transmitter, .. } = self;
        let count = transmitter.arena.len();
        debug_assert!(count > 0, "a call of the driver sends something");
        let (result, bytes) =
            transmitter.arena.flush(&mut *transmitter.driver, path.address, channel, outbox);
        if let Err(DriverError::Oversized { bytes, .. }) = result {
            let carried = transmitter.driver.path_hint(path.address);
            channel.handle_too_big(now, bytes, carried);
        }
        transmitter.after_send(&result, count, bytes)
    }

    /// Loads a packet without a unit; `overhead` are the bytes of header and trailer.
    pub(super) fn load_answer(&mut self, header: &Header, content: Content, overhead: usize) {
        debug_assert!(header.kind != PacketKind::Data, "an answer carries no unit");
        let arena = &mut self.transmitter.arena;
        let padding = match content {
            Content::Probe(bytes) => bytes.saturating_sub(overhead),
            _ => 0,
        };
        // Selective acknowledgements take their share of a probe's length.
        let padding = padding.saturating_sub(8 * arena.sack.words().len());
        let body = vec![0; padding];
        debug_assert!(arena.len() == 0, "an answer is a packet of its own");
        arena.load(header, true, &self.path.sealer, &body);
        self.transmitter.stats.acks_sent += u64::from(content == Content::Ack);
    }
}
