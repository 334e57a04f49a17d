//! Lone exchanges: both overheads by themselves, as Kielmann, Bal and Verstoep measure them (Fast
//! Measurement of LogP Parameters for Message Passing Platforms, IPDPS workshops 2000, section 3).
//!
//! A request leaves while nothing else is under way. The requester computes until its reply has
//! long arrived, and only then receives it. So each message pays for its own system calls, which
//! the messages of a burst may share.

use crate::median::Median;
use serde::{Deserialize, Serialize};

/// Measured exchanges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchanges {
    /// Time of the call that sends the request, one sample per repetition.
    pub send_ns: Vec<f64>,
    /// Time to receive a reply that has arrived, handler included, one sample per repetition.
    pub receive_ns: Vec<f64>,
}

/// Result of the exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExchangeEstimate {
    /// o_s, nanoseconds.
    pub o_s: Median,
    /// o_r, nanoseconds.
    pub o_r: Median,
}

impl Exchanges {
    /// Computes the estimate; `None` without samples.
    pub fn estimate(&self) -> Option<ExchangeEstimate> {
        Some(ExchangeEstimate {
            o_s: Median::of(self.send_ns.iter().copied())?,
            o_r: Median::of(self.receive_ns.iter().copied())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_both_halves() {
        let exchanges =
            Exchanges { send_ns: vec![20.0, 900.0, 22.0], receive_ns: vec![31.0, 30.0, 29.0] };
        let estimate = exchanges.estimate().unwrap();
        assert_eq!((estimate.o_s.value, estimate.o_r.value), (22.0, 30.0));
        assert!(Exchanges::default().estimate().is_none());
    }
}
