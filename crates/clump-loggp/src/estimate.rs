//! From measured tables to parameters (method: papers 000 section 4.1 and 001 section 3.3).

use crate::burst::Signature;
use crate::exchange::{ExchangeEstimate, Exchanges};
use crate::fit::block_lines;
use crate::median::Median;
use crate::parameters::Parameters;
use serde::{Deserialize, Serialize};

/// A stream of bulk messages of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    /// Payload of each message.
    pub bytes: u64,
    /// Steady interval between messages of the stream, one sample per repetition.
    pub interval_ns: Vec<f64>,
}

impl Bulk {
    fn size(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let bytes = self.bytes as f64;
        bytes
    }

    /// Returns the bandwidth in GB/s (bytes per nanosecond).
    pub fn bandwidth_gb_s(&self) -> Option<Median> {
        let per_message = self.interval_ns.iter().map(|t| self.size() / t);
        Median::of(per_message)
    }
}

/// The input of the estimate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Bursts of answered requests, over sizes and delays, with delay 0 among them.
    pub signature: Signature,
    /// Lone requests and their replies.
    pub exchanges: Exchanges,
    /// Round trips of single requests in nanoseconds.
    pub rtt_ns: Vec<f64>,
    /// Streams of bulk messages, at least two sizes.
    pub bulk: Vec<Bulk>,
    /// Requests that can be in flight before the sender has to wait; bursts well beyond it show g.
    pub window_messages: u32,
}

/// Parameters with their intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// o_s = T(1), nanoseconds: of a lone request.
    pub o_s: Median,
    /// o_r of a lone reply that has arrived before it is received.
    pub o_r: Median,
    /// Both overheads by lone exchanges.
    pub exchanges: ExchangeEstimate,
    /// Steady interval at the largest delay, minus that delay: o_s + o_r of a message of a paced
    /// burst. Less than the sum of both where messages share packets and system calls.
    pub paced: Median,
    /// L = RTT/2 - o_s - o_r; may be negative.
    pub l: Median,
    /// g = slope of the burst time beyond the window, without delay.
    pub g: Median,
    /// G = slope of the steady interval over bytes, nanoseconds per byte.
    pub big_g: Median,
    /// Round trip.
    pub rtt: Median,
    /// Size that reaches half of 1/G, bytes.
    pub half_power_bytes: f64,
}

/// Burst sizes that show the interval at a delay over a round trip. No window limits anything
/// there, so short bursts do; and a long one lasts so long that something else interrupts it.
const PACED: (u32, u32) = (8, 256);

/// Reason why a measurement does not suffice.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// A table that the estimate needs has no samples.
    #[error("the measurement has no {0}; measure it before estimating")]
    Missing(&'static str),
    /// Fewer than two burst sizes show the steady interval.
    #[error(
        "a slope needs two burst sizes from {least} to {most} messages at delay {delay_ns} ns; \
         measure more sizes"
    )]
    TooFewBursts {
        /// The smallest size that would count.
        least: u32,
        /// The largest.
        most: u32,
        /// The delay whose curve has too few.
        delay_ns: f64,
    },
    /// Larger messages take no longer: there is no measurable bandwidth.
    #[error(
        "bulk intervals do not grow with size (slope {slope} ns/B); measure more or larger sizes"
    )]
    NoBandwidth {
        /// The slope that was found.
        slope: f64,
    },
}

impl Measurement {
    /// Works out the parameters.
    ///
    /// # Errors
    /// Fails if a table has no samples or too few burst sizes, or if bulk intervals do not grow
    /// with size.
    pub fn estimate(&self) -> Result<Estimate, EstimateError> {
        let delays = self.signature.delays_ns();
        let largest = *delays.last().ok_or(EstimateError::Missing("bursts"))?;
        let single = self.signature.bursts.iter().filter(|b| b.messages == 1);
        // A burst of one has no delay in it: samples of all curves show o_s.
        let o_s = Median::of(single.flat_map(|b| b.samples_ns.iter().copied()))
            .ok_or(EstimateError::Missing("bursts of one message"))?;
        // Twice the window: a burst as long as the window is issued before it limits anything.
        let g = self.steady(0.0, (self.window_messages.saturating_mul(2).max(2), u32::MAX))?;
        let paced = self.steady(largest, PACED)?.scaled(1.0, -largest);
        let exchanges = self.exchanges.estimate();
        let exchanges = exchanges.ok_or(EstimateError::Missing("lone exchanges"))?;
        let o_r = exchanges.o_r;
        let rtt =
            Median::of(self.rtt_ns.iter().copied()).ok_or(EstimateError::Missing("round trips"))?;
        let (big_g, intercept) = self.bandwidth()?;
        Ok(Estimate {
            o_s,
            o_r,
            exchanges,
            paced,
            l: rtt.scaled(0.5, 0.0).minus(o_s).minus(o_r),
            g,
            big_g,
            rtt,
            half_power_bytes: self.half_power(big_g.value, intercept),
        })
    }

    fn steady(&self, delay_ns: f64, (least, most): (u32, u32)) -> Result<Median, EstimateError> {
        self.signature.steady_interval(delay_ns, least..=most).ok_or(EstimateError::TooFewBursts {
            least,
            most,
            delay_ns,
        })
    }

    /// Returns G with its interval, and the time of an empty bulk message.
    fn bandwidth(&self) -> Result<(Median, f64), EstimateError> {
        let columns: Vec<_> =
            self.bulk.iter().map(|b| (b.size(), b.interval_ns.as_slice())).collect();
        let lines = block_lines(&columns);
        let missing = EstimateError::Missing("streams of two bulk sizes");
        let slope = Median::of(lines.iter().map(|l| l.slope)).ok_or(missing.clone())?;
        let intercept = Median::of(lines.iter().map(|l| l.intercept)).ok_or(missing)?;
        if slope.value <= 0.0 {
            return Err(EstimateError::NoBandwidth { slope: slope.value });
        }
        Ok((slope, intercept.value))
    }

    /// Returns the size at which the measured bandwidth first reaches half of 1/G, between two
    /// sizes by interpolation of the interval; below the smallest size by the fitted line.
    fn half_power(&self, big_g: f64, intercept: f64) -> f64 {
        let mut curve: Vec<(f64, f64)> = self
            .bulk
            .iter()
            .filter_map(|b| Some((b.size(), Median::of(b.interval_ns.iter().copied())?.value)))
            .collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Half the bandwidth: an interval of 2 G n. `short` is the excess over that interval.
        let short = |&(n, t): &(f64, f64)| t - 2.0 * big_g * n;
        for pair in curve.windows(2) {
            let (a, b) = (short(&pair[0]), short(&pair[1]));
            if a > 0.0 && b <= 0.0 {
                return pair[0].0 + (pair[1].0 - pair[0].0) * a / (a - b);
            }
        }
        (intercept / big_g).max(0.0)
    }
}

impl Estimate {
    /// Returns the medians alone.
    pub fn parameters(&self) -> Parameters {
        Parameters {
            o_s_ns: self.o_s.value,
            o_r_ns: self.o_r.value,
            l_ns: self.l.value,
            g_ns: self.g.value,
            big_g_ns_per_byte: self.big_g.value,
            rtt_ns: self.rtt.value,
            half_power_bytes: self.half_power_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::Burst;

    #[test]
    fn what_is_missing_is_named() {
        let mut m = Measurement { window_messages: 4, ..Measurement::default() };
        assert_eq!(m.estimate(), Err(EstimateError::Missing("bursts")));
        let burst = |messages| Burst { messages, delay_ns: 0.0, samples_ns: vec![10.0] };
        m.signature.bursts = vec![burst(4)];
        assert_eq!(m.estimate(), Err(EstimateError::Missing("bursts of one message")));
        m.signature.bursts = vec![burst(1), burst(4), burst(8)];
        let error = EstimateError::TooFewBursts { least: 8, most: u32::MAX, delay_ns: 0.0 };
        assert_eq!(m.estimate(), Err(error));
        m.signature.bursts.push(burst(16));
        assert_eq!(m.estimate(), Err(EstimateError::Missing("lone exchanges")));
        m.exchanges = Exchanges { send_ns: vec![1.0], receive_ns: vec![1.0] };
        assert_eq!(m.estimate(), Err(EstimateError::Missing("round trips")));
        m.rtt_ns = vec![1.0];
        assert_eq!(m.estimate(), Err(EstimateError::Missing("streams of two bulk sizes")));
        let bulk = |bytes| Bulk { bytes, interval_ns: vec![5.0] };
        m.bulk = vec![bulk(4096), bulk(8192)];
        assert!(matches!(m.estimate(), Err(EstimateError::NoBandwidth { .. })));
    }

    #[test]
    fn half_power_lies_where_the_line_says() {
        // 100 ns + 0.1 ns/B: half of 10 GB/s at 1000 B, inside and below the measured sizes.
        for sizes in [[512u64, 4096, 65536], [4096, 16384, 65536]] {
            let bulk = sizes
                .map(|bytes| Bulk { bytes, interval_ns: vec![100.0 + 0.1 * bytes as f64] })
                .to_vec();
            let m = Measurement { bulk, ..Measurement::default() };
            let (g, intercept) = m.bandwidth().unwrap();
            assert!((g.value - 0.1).abs() < 1e-9 && (intercept - 100.0).abs() < 1e-6);
            assert!((m.half_power(g.value, intercept) - 1000.0).abs() < 1e-3);
        }
    }
}
