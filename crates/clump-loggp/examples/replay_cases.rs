//! Random runs of a few ranks, played on slower networks: one JSON object a line, for a check by
//! other means (`oracles/check_replay.py`).
//!
//! ```text
//! cargo run -p clump-loggp --example replay_cases -- SEED CASES
//! ```
//!
//! A receipt is always one that its rank waits for, so that the time of every step is the latest
//! of sums, which a linear program can have as constraints.

use clump_loggp::replay::{Run, Step, replay, tolerance};
use clump_loggp::{KnobClass, KnobScope, KnobTable};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::error::Error;

const ROWS: [(KnobScope, KnobClass); 2] =
    [(KnobScope::Net, KnobClass::Short), (KnobScope::Net, KnobClass::Bulk)];
const KNOBS: [&str; 6] =
    ["", "L=+7us", "o=+2us", "g=+3us", "G=+5ns/B", "o=+1us,g=+2us,L=+4us,G=+2ns/B"];
/// Largest latency that is tried for the tolerance, in ns.
const MAX_NS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = std::env::args_os().skip(1).map(|word| word.to_string_lossy().parse());
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    let &[seed, cases] = &numbers[..] else { return Err("give a seed and a number".into()) };
    for case in 0..cases {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(case));
        println!("{}", described(&random_run(&mut random))?);
    }
    Ok(())
}

/// Returns the steps of each rank of a run that ends: they are made in an order in which they could
/// have happened.
fn random_run(random: &mut impl Rng) -> Vec<Vec<Step>> {
    let mut below = |most: u64| random.next_u64() % most;
    let ranks = 2 + below(4) as u32;
    let mut run = vec![Vec::new(); ranks as usize];
    // The phase in which each rank is.
    let mut phases = vec![None; ranks as usize];
    // Messages under way: sender, target, key.
    let mut sent: Vec<(u32, u32, u64)> = Vec::new();
    for key in 0..10 + below(60) {
        let me = below(u64::from(ranks)) as u32;
        let steps = &mut run[me as usize];
        if below(2) == 0 {
            steps.push(Step::Compute { ns: below(20_000) });
        }
        if below(3) == 0 {
            let phase = &mut phases[me as usize];
            *phase = if let Some(name) = phase.take() {
                steps.push(Step::PhaseEnd { name });
                None
            } else {
                let name = below(3);
                steps.push(Step::Phase { name });
                Some(name)
            };
        }
        let pending: Vec<usize> = (0..sent.len()).filter(|&at| sent[at].1 == me).collect();
        match below(8) {
            0 => {
                for steps in &mut run {
                    let after_ns = below(500);
                    steps.extend([Step::Meet { key, ranks }, Step::Part { key, after_ns }]);
                }
            }
            1..4 if !pending.is_empty() => {
                steps.push(Step::Wait);
                // Those that are waited for together are taken in any order.
                let count = 1 + below(pending.len() as u64) as usize;
                for _ in 0..count {
                    let of_me: Vec<usize> =
                        (0..sent.len()).filter(|&at| sent[at].1 == me).collect();
                    let (from, _, key) =
                        sent.swap_remove(of_me[below(of_me.len() as u64) as usize]);
                    let transit_ns = 100 + below(10_000);
                    steps.push(Step::Receive { from, key, transit_ns });
                    steps.extend([Step::Compute { ns: below(300) }, Step::Handled]);
                }
                steps.push(Step::WaitEnd);
            }
            _ => {
                let to = (me + 1 + below(u64::from(ranks) - 1) as u32) % ranks;
                let (bytes, row) = (below(3000) as u32, ROWS[below(2) as usize]);
                let bytes_ns = Some(below(8_000)).filter(|ns| ns % 2 == 0);
                steps.push(Step::Send { to, key, bytes, row, waits: false, bytes_ns });
                sent.push((me, to, key));
            }
        }
    }
    run
}

/// Returns a run and the results of its replays.
///
/// # Errors
/// A setting is none.
fn described(run: &[Vec<Step>]) -> Result<Value, Box<dyn Error>> {
    let runs = (0..).zip(run).map(|(rank, steps)| Run { rank, nic: rank, steps });
    let runs: Vec<Run<'_>> = runs.collect();
    let mut played = Vec::new();
    for text in KNOBS {
        let knobs = KnobTable::parse(text, &Default::default())?;
        let [short, bulk] = ROWS.map(|(scope, class)| {
            let knob = knobs.get(scope, class);
            json!({
                "send": knob.send_ns, "receive": knob.receive_ns, "gap": knob.gap_ns,
                "latency": knob.latency_ns, "byte_ps": knob.byte_ps, "stream_ps": knob.stream_ps,
            })
        });
        let result = replay(&runs, &knobs);
        let (end, counts) = (result.end(), result.end().counts);
        played.push(json!({
            "text": text, "short": short, "bulk": bulk, "end": end.ns,
            "unmatched": result.unmatched, "overheads": counts.overheads,
            "latencies": counts.latencies, "gaps": counts.gaps, "bytes": counts.bytes,
            "phases": result.phases_ns.into_iter().collect::<Vec<_>>(),
        }));
    }
    let tolerated = [1.01, 1.5].map(|slowdown| {
        let end = |latency_ns: u64| {
            let text = format!("L=+{latency_ns}ns");
            let knobs = KnobTable::parse(&text, &Default::default()).unwrap_or_default();
            replay(&runs, &knobs).end().ns
        };
        json!({ "slowdown": slowdown, "latency": tolerance(slowdown, MAX_NS, end) })
    });
    let steps = |steps: &Vec<Step>| steps.iter().copied().map(words).collect::<Vec<_>>();
    Ok(json!({
        "ranks": run.iter().map(steps).collect::<Vec<_>>(),
        "played": played,
        "most": MAX_NS,
        "tolerated": tolerated,
    }))
}

/// Returns a step as its name and numbers.
fn words(step: Step) -> Value {
    match step {
        Step::Compute { ns } => json!(["compute", ns]),
        Step::Wait => json!(["wait"]),
        Step::WaitEnd => json!(["wait end"]),
        Step::Send { to, key, bytes, row, bytes_ns, .. } => {
            json!(["send", to, key, bytes, row.1 == KnobClass::Bulk, bytes_ns])
        }
        Step::Receive { from, key, transit_ns } => json!(["receive", from, key, transit_ns]),
        Step::Handled => json!(["handled"]),
        Step::Meet { key, ranks } => json!(["meet", key, ranks]),
        Step::Part { key, after_ns } => json!(["part", key, after_ns]),
        Step::Phase { name } => json!(["phase", name]),
        Step::PhaseEnd { name } => json!(["phase end", name]),
    }
}
