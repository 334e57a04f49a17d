//! Datagrams one way, a bounded number of bytes in flight.
//!
//! Only bytes are counted, not individual datagrams: lost ones are replaced by as many others. So
//! the stream needs no sequence numbers and no copies for sending again, and is as bare as a stream
//! that still ends can be.

use super::{Call, LEAST, Silence, Wire, first_word};
use anyhow::Result;
use clump_os::{clock, raw_udp};

/// Length of an acknowledgement: the workload, and the number of bytes received.
const ACK: usize = 2 * LEAST;

/// Returns the bytes that one call hands over.
fn burst(call: Call, bytes: usize) -> usize {
    match call {
        Call::Each | Call::ReadWrite | Call::Blocking => bytes,
        Call::Many => raw_udp::BATCH * bytes,
        Call::Segments => (raw_udp::LARGEST / bytes).clamp(1, raw_udp::BATCH) * bytes,
    }
}

impl Wire {
    /// Runs the measuring side. Returns the nanoseconds until everything was acknowledged.
    pub(super) fn stream_out(
        &mut self,
        call: Call,
        bytes: usize,
        total: u64,
        window: usize,
    ) -> Result<u64> {
        let give_up_ns = self.give_up_ns;
        self.bound.set_nonblocking(true)?;
        if let (Call::Segments, Ok(segment)) = (call, u16::try_from(bytes)) {
            raw_udp::set_segment(&self.bound, segment)?;
        }
        let window = window.max(bytes) as u64;
        let word = self.word(1);
        let mut out = vec![7; burst(call, bytes)];
        for datagram in out.chunks_mut(bytes) {
            datagram[..8].copy_from_slice(&word.to_le_bytes());
        }
        let (mut sent, mut acked) = (0u64, 0u64);
        let mut silence: Option<Silence> = None;
        let start = clock::now_ns();
        while acked < total {
            while sent < total && sent - acked + bytes as u64 <= window {
                let room = usize::try_from((window - (sent - acked)).min(total - sent));
                let now = room.unwrap_or(usize::MAX).next_multiple_of(bytes).min(out.len());
                let taken = self.send(call, &out[..now], bytes)?;
                sent += taken as u64;
                if taken == 0 || sent - acked > window / 2 {
                    break;
                }
            }
            if let Some(count) = self.acknowledged(word)? {
                acked = acked.max(count);
                // Datagrams that seemed lost and were replaced may arrive after all.
                sent = sent.max(acked);
                silence = None;
            } else if sent >= total || sent - acked + bytes as u64 > window {
                // Nothing can be done but wait for the other side.
                if silence.get_or_insert_with(|| Silence::begin(give_up_ns)).goes_on(Call::Each)? {
                    sent = acked;
                }
            }
        }
        Ok(clock::now_ns() - start)
    }

    fn acknowledged(&self, word: u64) -> Result<Option<u64>> {
        let mut ack = [0; ACK];
        let got = raw_udp::read(&self.bound, &mut ack)?;
        let valid = got == Some(ACK) && first_word(&ack) == Some(word);
        Ok(valid.then(|| first_word(&ack[LEAST..])).flatten())
    }

    /// Runs the other side: counts until it has `total`.
    pub(super) fn stream_in(
        &mut self,
        call: Call,
        bytes: usize,
        total: u64,
        window: usize,
    ) -> Result<()> {
        let give_up_ns = self.give_up_ns;
        let mut into = std::mem::take(&mut self.buffer);
        let most = match call {
            Call::Many => raw_udp::BATCH * bytes,
            _ => raw_udp::LARGEST,
        };
        into.resize(into.len().max(most), 0);
        let word = self.word(1);
        let step = (window / 4).max(1) as u64;
        let (mut received, mut told) = (0u64, 0u64);
        let mut silence: Option<Silence> = None;
        while received < total {
            let due = match self.receive(call, &mut into[..most], bytes)? {
                Some(got) if first_word(&into) == Some(word) => {
                    received += got as u64;
                    silence = None;
                    received - told >= step || received >= total
                }
                Some(_) => false,
                None => silence.get_or_insert_with(|| Silence::begin(give_up_ns)).goes_on(call)?,
            };
            if due {
                let mut ack = [0; ACK];
                ack[..LEAST].copy_from_slice(&word.to_le_bytes());
                ack[LEAST..].copy_from_slice(&received.to_le_bytes());
                raw_udp::write(&self.bound, &ack)?;
                told = received;
            }
        }
        self.buffer = into;
        Ok(())
    }
}
