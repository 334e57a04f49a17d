//! Synthetic machines with known parameters are recovered, also from disturbed samples.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_loggp::{Bulk, Burst, Estimate, Exchanges, Measurement, Prtt, Signature};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A LogGP machine that is exact about its parameters.
#[derive(Debug, Clone, Copy)]
struct Machine {
    o_s: f64,
    o_r: f64,
    l: f64,
    g: f64,
    big_g: f64,
    bulk_start: f64,
}

impl Machine {
    fn rtt(&self) -> f64 {
        2.0 * (self.o_s + self.l + self.o_r)
    }

    fn window(&self) -> u32 {
        (self.rtt() / self.g).ceil() as u32 + 8
    }

    /// Simulates a burst of `m` answered requests: delay, then a poll for replies, then the send; a
    /// full window waits for a reply. The interface lets one message pass per g.
    fn burst(&self, m: u32, delay: f64) -> f64 {
        let (mut now, mut nic_free) = (0.0f64, 0.0f64);
        let mut replies: VecDeque<f64> = VecDeque::new();
        for i in 0..m {
            if i > 0 {
                now += delay;
                while replies.front().is_some_and(|&at| at <= now) {
                    replies.pop_front();
                    now += self.o_r;
                }
            }
            if replies.len() as u32 == self.window() {
                let reply = replies.pop_front().unwrap_or(now);
                now = now.max(reply) + self.o_r;
            }
            now += self.o_s;
            nic_free = now.max(nic_free + self.g);
            // The far side is idle and answers each request as it arrives.
            replies.push_back(nic_free + 2.0 * self.l + self.o_r + self.o_s);
        }
        now
    }

    fn train(&self, n: u32, delay: f64) -> f64 {
        let interval = if delay > 0.0 { self.o_s + delay } else { self.g.max(self.o_s) };
        self.rtt() + f64::from(n - 1) * interval
    }

    fn measure(&self, mut disturb: impl FnMut(f64) -> f64) -> (Measurement, Prtt) {
        let repetitions = 31;
        let mut samples = |t: f64| (0..repetitions).map(|_| disturb(t)).collect::<Vec<_>>();
        let mut bursts = Vec::new();
        for delay in [0.0, self.g / 2.0, self.g, self.rtt(), 2.0 * self.rtt()] {
            let mut m = 1;
            while m <= 2048.max(16 * self.window()) {
                let samples_ns = samples(self.burst(m, delay));
                bursts.push(Burst { messages: m, delay_ns: delay, samples_ns });
                m *= 2;
            }
        }
        let bulk = [4096u64, 16384, 65536, 262_144].map(|bytes| Bulk {
            bytes,
            interval_ns: samples(self.bulk_start + self.big_g * bytes as f64),
        });
        let measurement = Measurement {
            signature: Signature { bursts },
            exchanges: Exchanges { send_ns: samples(self.o_s), receive_ns: samples(self.o_r) },
            rtt_ns: samples(self.rtt()),
            bulk: bulk.to_vec(),
            window_messages: self.window(),
        };
        let d = 2.0 * self.rtt();
        let prtt = Prtt {
            messages: 16,
            delay_ns: d,
            single_ns: samples(self.train(1, 0.0)),
            train_ns: samples(self.train(16, 0.0)),
            delayed_ns: samples(self.train(16, d)),
        };
        (measurement, prtt)
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    let overhead = 5.0..5000.0f64;
    (overhead.clone(), overhead, 1.0..20_000.0f64, 1.0..8.0f64, 0.01..10.0f64, 50.0..5000.0f64)
        .prop_map(|(o_s, o_r, l, slack, big_g, bulk_start)| Machine {
            o_s,
            o_r,
            l,
            g: slack * (o_s + o_r), // below o_s + o_r the processor is the bottleneck, not the gap
            big_g,
            bulk_start,
        })
}

fn estimate(measurement: &Measurement) -> Estimate {
    measurement.estimate().unwrap_or_else(|missing| panic!("{missing}"))
}

fn assert_close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let allowed = tolerance * expected.abs().max(1e-9);
    assert!((got - expected).abs() <= allowed, "{what}: {got} instead of {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn exact_samples_give_the_machine_back(machine in machines()) {
        let (measurement, prtt) = machine.measure(|t| t);
        let p = estimate(&measurement).parameters();
        assert_close("o_s", p.o_s_ns, machine.o_s, 1e-9);
        // Steady intervals are slopes of a staircase of replies: right to a step in hundreds.
        assert_close("g", p.g_ns, machine.g, 0.02);
        assert_close("o_r", p.o_r_ns, machine.o_r, 0.02);
        assert!((p.l_ns - machine.l).abs() <= 0.02 * machine.o_r + 1e-6 * machine.l.abs());
        assert_close("G", p.big_g_ns_per_byte, machine.big_g, 1e-6);
        assert_close("RTT", p.rtt_ns, machine.rtt(), 1e-9);
        assert_close("half power", p.half_power_bytes, machine.bulk_start / machine.big_g, 1e-4);
        let second = prtt.estimate().unwrap();
        let estimate = estimate(&measurement);
        for row in estimate.methods(&second) {
            prop_assert!(row.disagreement_percent().is_none_or(|apart| apart < 0.01), "{row:?}");
        }
        // On this machine the messages of a burst share nothing.
        assert_close("o of a paced burst", estimate.paced.value, machine.o_s + machine.o_r, 0.02);
        assert_close("g of trains", second.g_one_way.value, machine.g, 1e-6);
    }

    /// One of every ten samples, at a random place, is prolonged up to twentyfold, as by an
    /// interrupt or a neighbour; the others jitter by up to half a percent.
    #[test]
    fn disturbed_samples_still_give_the_machine(machine in machines(), seed in any::<u64>()) {
        let mut state = seed | 1;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        let (mut taken, mut hit) = (0, 0);
        let (measurement, _) = machine.measure(|t| {
            if taken % 10 == 0 {
                hit = taken + (uniform() * 10.0) as usize;
            }
            taken += 1;
            let longer = if taken == hit + 1 { 1.0 + 19.0 * uniform() } else { 1.0 };
            t * longer * (1.0 + 0.005 * uniform())
        });
        let estimate = estimate(&measurement);
        let p = estimate.parameters();
        assert_close("o_s", p.o_s_ns, machine.o_s, 0.01);
        assert_close("RTT", p.rtt_ns, machine.rtt(), 0.01);
        assert_close("g", p.g_ns, machine.g, 0.05);
        assert_close("G", p.big_g_ns_per_byte, machine.big_g, 0.05);
        prop_assert!(estimate.o_s.low <= estimate.o_s.value && estimate.o_s.value <= estimate.o_s.high);
        prop_assert!(estimate.rtt.spread() < 0.02, "the interval is not fooled either: {:?}", estimate.rtt);
    }
}

/// The shared-memory column of paper 000, table 2: overheads overlap, so L is negative.
#[test]
fn negative_latency_is_reported_not_hidden() {
    let machine =
        Machine { o_s: 1800.0, o_r: 1500.0, l: 0.0, g: 3400.0, big_g: 6.0, bulk_start: 900.0 };
    let (mut measurement, _) = machine.measure(|t| t);
    measurement.rtt_ns = vec![5600.0; 31];
    let l = estimate(&measurement).l.value;
    assert_close("L", l, 2800.0 - 1800.0 - 1500.0, 0.1);
    assert!(l < 0.0);
}
