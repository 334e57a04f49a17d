//! The machine in seven numbers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// LogGP parameters (papers 000 and 001): nanoseconds, `big_g` nanoseconds per byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// o_s: processor time to send a short request.
    pub o_s_ns: f64,
    /// o_r: processor time to receive a short message that has arrived, handler included.
    pub o_r_ns: f64,
    /// L: the rest of half a round trip without both overheads. Negative where sending and
    /// receiving overlap (paper 000, table 2).
    pub l_ns: f64,
    /// g: steady interval between requests that are answered.
    pub g_ns: f64,
    /// G: time per byte of a stream of bulk messages; bytes per nanosecond, its inverse, are GB/s.
    pub big_g_ns_per_byte: f64,
    /// Time from sending a request until its reply handler has run.
    pub rtt_ns: f64,
    /// Message size that reaches half of the bandwidth 1/G.
    pub half_power_bytes: f64,
}

impl Parameters {
    /// Returns the bandwidth of long streams in GB/s (10^9 bytes per second).
    pub fn bandwidth_gb_s(&self) -> f64 {
        1.0 / self.big_g_ns_per_byte
    }

    /// Returns o: the mean of both overheads, as paper 001 models it.
    pub fn o_ns(&self) -> f64 {
        f64::midpoint(self.o_s_ns, self.o_r_ns)
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "o_s {:.1} ns, o_r {:.1} ns, L {:.1} ns, g {:.1} ns, G {:.4} ns/B ({:.2} GB/s), \
             RTT {:.1} ns, half power {:.0} B",
            self.o_s_ns,
            self.o_r_ns,
            self.l_ns,
            self.g_ns,
            self.big_g_ns_per_byte,
            self.bandwidth_gb_s(),
            self.rtt_ns,
            self.half_power_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The multi-protocol shared-memory column of paper 000, table 2.
    #[test]
    fn display_shows_every_parameter() {
        let p = Parameters {
            o_s_ns: 2100.0,
            o_r_ns: 1900.0,
            l_ns: -400.0,
            g_ns: 2600.0,
            big_g_ns_per_byte: 6.25,
            rtt_ns: 7200.0,
            half_power_bytes: 5300.0,
        };
        assert_eq!(p.o_ns(), 2000.0);
        assert_eq!(
            p.to_string(),
            "o_s 2100.0 ns, o_r 1900.0 ns, L -400.0 ns, g 2600.0 ns, G 6.2500 ns/B (0.16 GB/s), \
             RTT 7200.0 ns, half power 5300 B"
        );
    }
}
