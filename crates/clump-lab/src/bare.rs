//! Baselines of a pair's figures: bare memory or the bare network, whichever lies between the two
//! ranks.

use crate::baseline;
use crate::pair::{BulkPath, Pair, PairNetwork};
use crate::wire::{Call, LEAST, WINDOW, WireWorkload};
use anyhow::{Context, Result};
use clump_loggp::Median;
use serde::Serialize;

/// The stream of datagrams that is fastest on this network; found by trial, because it changes with
/// kernel, interface and cache, and a baseline must not be slow by accident.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StreamShape {
    /// Bytes of a datagram.
    pub datagram_bytes: usize,
    /// Maximum bytes in flight.
    pub window_bytes: usize,
}

/// Datagram sizes that are tried: Ethernet's, its jumbo frames', and sizes that GSO cuts into few
/// or none.
const DATAGRAMS: [usize; 4] = [1472, 8972, 16 << 10, clump_os::raw_udp::LARGEST];
/// Windows that are tried.
const WINDOWS: [usize; 3] = [WINDOW / 2, WINDOW, 4 * WINDOW];
/// Bytes and repetitions of one trial.
const TRIAL: (u64, usize) = (2 << 20, 5);

/// Finds the fastest stream; `None` without a network.
///
/// # Errors
/// Fails if a trial fails.
pub fn tune<P: Pair>(pair: &mut P) -> Result<Option<StreamShape>> {
    let Some(link) = pair.link() else { return Ok(None) };
    let largest = link.datagram_bytes;
    let mut best: Option<(f64, StreamShape)> = None;
    let mut sizes = DATAGRAMS.map(|bytes| bytes.min(largest)).to_vec();
    sizes.dedup();
    for datagram_bytes in sizes {
        for window_bytes in WINDOWS {
            let shape = StreamShape { datagram_bytes, window_bytes };
            let trials = (0..TRIAL.1).map(|_| transfer(pair, shape, TRIAL.0));
            let ns = Median::of(trials.collect::<Result<Vec<f64>>>()?).context("no trials")?.value;
            if best.is_none_or(|(least, _)| ns < least) {
                best = Some((ns, shape));
            }
        }
    }
    Ok(best.map(|(_, shape)| shape))
}

/// Returns the nanoseconds that a stream of this many bytes takes.
fn transfer<P: Pair>(pair: &mut P, shape: StreamShape, total: u64) -> Result<f64> {
    let StreamShape { datagram_bytes, window_bytes } = shape;
    let call = Call::Segments;
    pair.wire_game(WireWorkload::Stream {
        call,
        bytes: datagram_bytes,
        total,
        window: window_bytes,
    })
}

/// Returns the nanoseconds of a round of the minimum that any request and reply must do: two lines,
/// or two datagrams of the same size.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn round_trip<P: Pair>(pair: &mut P, rounds: u32) -> Result<f64> {
    match pair.link() {
        None => {
            let ticks = pair.flag_rounds(rounds)?;
            Ok(pair.ns(ticks) / f64::from(rounds))
        }
        Some(_) => datagram_round_trip(pair, Call::Each, rounds),
    }
}

/// Returns the nanoseconds of a round of two datagrams through the given system calls.
///
/// # Errors
/// Fails without a network between the two ranks, or if the other side stops answering.
pub fn datagram_round_trip<P: Pair>(pair: &mut P, call: Call, rounds: u32) -> Result<f64> {
    let bytes = pair.link().context("no network between the two ranks")?.packet_bytes;
    Ok(pair.wire_game(WireWorkload::PingPong { call, bytes, rounds })? / f64::from(rounds))
}

/// Returns the messages per second: slots of a bare ring, or datagrams of a short message's size
/// that the kernel segments and joins.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn rate<P: Pair>(pair: &mut P, messages: u32) -> Result<f64> {
    match pair.link() {
        None => Ok(baseline::ring_rate(u64::from(messages))?),
        Some(_) => datagram_rate(pair, Call::Segments, messages),
    }
}

/// Returns the datagrams of a short message's size per second.
///
/// # Errors
/// Fails without a network between the two ranks, or if the other side stops answering.
pub fn datagram_rate<P: Pair>(pair: &mut P, call: Call, messages: u32) -> Result<f64> {
    let bytes = pair.link().context("no network between the two ranks")?.packet_bytes.max(LEAST);
    let total = u64::from(messages) * bytes as u64;
    let ns = pair.wire_game(WireWorkload::Stream { call, bytes, total, window: WINDOW })?;
    Ok(f64::from(messages) * 1e9 / ns)
}

/// Returns the bytes per second of `count` messages of `bytes` each: copies, or a stream of
/// datagrams.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn stream<P: Pair>(
    pair: &mut P,
    shape: Option<StreamShape>,
    way: BulkPath,
    bytes: usize,
    count: usize,
) -> Result<f64> {
    let Some(shape) = shape else {
        return Ok(match way {
            BulkPath::Medium => baseline::two_copies(bytes, count)?,
            BulkPath::Long => baseline::one_copy(bytes, count),
        });
    };
    let datagram_bytes = shape.datagram_bytes.min(bytes.max(LEAST));
    let total = (bytes * count) as u64;
    let ns = transfer(pair, StreamShape { datagram_bytes, ..shape }, total)?;
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    let total = total as f64;
    Ok(total * 1e9 / ns)
}

/// Names of the three baselines in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Names {
    /// Name of [`round_trip`].
    pub round_trip: &'static str,
    /// Name of [`rate`].
    pub rate: &'static str,
    /// Name of [`stream`] against medium messages.
    pub medium: &'static str,
    /// Name of [`stream`] against long messages.
    pub long: &'static str,
}

impl Names {
    /// Returns the names for this kind of pair.
    pub const fn of(link: Option<&PairNetwork>) -> Self {
        match link {
            None => Self {
                round_trip: "two-line ping-pong",
                rate: "bare ring, 64 B slots",
                medium: "memcpy, two copies",
                long: "memcpy, one copy",
            },
            Some(_) => Self {
                round_trip: "UDP spin, same size",
                rate: "UDP GSO/GRO, same size",
                medium: "UDP GSO/GRO stream",
                long: "UDP GSO/GRO stream",
            },
        }
    }

    /// Returns the name of the baseline of a stream.
    pub const fn stream(&self, way: BulkPath) -> &'static str {
        match way {
            BulkPath::Medium => self.medium,
            BulkPath::Long => self.long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;
    use clump_wire::Security;

    #[test]
    fn a_pair_with_a_network_is_held_against_the_network() {
        let mut pair = FakePair::default();
        let rtt = round_trip(&mut pair, 10).unwrap();
        assert!((rtt - 2.0 * pair.l).abs() < 1e-6);
        assert!(tune(&mut pair).unwrap().is_none());
        assert!(datagram_rate(&mut pair, Call::Many, 100).is_err());

        pair.link = Some(PairNetwork::new(Security::Crc, 1472, [127, 0, 0, 1].into()));
        let shape = tune(&mut pair).unwrap().unwrap();
        assert_eq!(shape.datagram_bytes, 1472);
        assert!((round_trip(&mut pair, 10).unwrap() - 2.0 * pair.l).abs() < 1e-6);
        let bandwidth = stream(&mut pair, Some(shape), BulkPath::Long, 4096, 100).unwrap();
        assert!((bandwidth - 2e9 / pair.big_g).abs() < 1.0);
        assert!(rate(&mut pair, 1000).unwrap() > 0.0);
    }

    /// The parts are header, frame head, route and one word, trailer.
    #[test]
    fn the_packet_of_a_short_request_is_as_long_as_the_format_says() {
        let bytes = |security| PairNetwork::new(security, 1472, [127, 0, 0, 1].into()).packet_bytes;
        assert_eq!(bytes(Security::Crc), 64 + 8 + 24 + 8 + 4);
        assert_eq!(bytes(Security::Aead), 64 + 8 + 24 + 8 + 16);
    }
}
