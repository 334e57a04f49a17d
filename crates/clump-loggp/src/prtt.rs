//! A second opinion: the parametrised round trip of Hoefler, Lichei and Rehm (Low-Overhead LogGP
//! Parameter Assessment for Modern Interconnection Networks, IPDPS 2007, section 3).
//!
//! A client sends `n` messages with a delay `d` between them; the server answers only the last. One
//! message: a plain round trip. Without delay every further message adds g; with a delay longer
//! than the round trip every further message adds `o_s + d`. The sender's clock need not resolve a
//! single send, so this is an independent check of o_s = T(1).

use crate::median::Median;
use serde::{Deserialize, Serialize};

/// Measured trains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prtt {
    /// `n`, at least 2.
    pub messages: u32,
    /// `d`, at least a round trip.
    pub delay_ns: f64,
    /// PRTT(1, 0): one sample per repetition.
    pub single_ns: Vec<f64>,
    /// PRTT(n, 0), one sample per repetition.
    pub train_ns: Vec<f64>,
    /// PRTT(n, d), one sample per repetition.
    pub delayed_ns: Vec<f64>,
}

/// Result of the trains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrttEstimate {
    /// o_s, nanoseconds.
    pub o_s: Median,
    /// g of a stream that is not answered. The bursts' g answers every message, so it is at least
    /// o_s + o_r, where this one may be as small as the larger of o_s and o_r.
    pub g_one_way: Median,
    /// Round trip.
    pub rtt: Median,
}

impl Prtt {
    /// Computes the estimate; `None` without samples or with a train of one.
    pub fn estimate(&self) -> Option<PrttEstimate> {
        let further = f64::from(self.messages.checked_sub(1).filter(|&n| n > 0)?);
        let rtt = Median::of(self.single_ns.iter().copied())?;
        let per_message =
            |samples: &[f64]| Median::of(samples.iter().map(|t| (t - rtt.value) / further));
        Some(PrttEstimate {
            o_s: per_message(&self.delayed_ns)?.scaled(1.0, -self.delay_ns),
            g_one_way: per_message(&self.train_ns)?,
            rtt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_worked_out_by_hand() {
        // Round trip 400, o_s 20, g 35, d 1000, n 11.
        let p = Prtt {
            messages: 11,
            delay_ns: 1000.0,
            single_ns: vec![400.0; 7],
            train_ns: vec![400.0 + 350.0; 7],
            delayed_ns: vec![400.0 + 10.0 * 1020.0; 7],
        };
        let e = p.estimate().unwrap();
        assert_eq!((e.o_s.value, e.g_one_way.value, e.rtt.value), (20.0, 35.0, 400.0));
        assert!(Prtt { messages: 1, ..p.clone() }.estimate().is_none());
        assert!(Prtt { train_ns: vec![], ..p }.estimate().is_none());
    }
}
