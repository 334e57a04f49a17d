//! Traces of any length that no job has made: what the laboratory needs for long ones is measured
//! with them (`cargo run --example made_trace`) and tested.

use clump_os::clock;
use clump_trace::event::send_key;
use clump_trace::{EventKind, Recorder};
use std::path::Path;

/// Events of both ranks in a round: a message each way, waited for and handled, and a request to
/// the other's interface.
pub const ROUND: u64 = 14;
/// Duration of a round, in ns.
const ROUND_NS: u64 = 10_000;
/// Rounds between two barriers.
const BARRIER: u64 = 1_000;

/// Writes the traces of two ranks of two nodes into a folder, of `rounds` rounds.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, rounds: u64) -> clump_os::error::Result<()> {
    let room = rounds * ROUND / 2 + 2 * (rounds / BARRIER + 1);
    let zero = Recorder::create(folder, (0, 2, 0), room)?;
    let one = Recorder::create(folder, (1, 2, 1), room)?;
    let base = clock::now_ns();
    // A short message to another node.
    const SHORT: u8 = 2;
    for round in 0..rounds {
        let at = |ns: u64| base + round * ROUND_NS + ns;
        for (rank, other, sent) in [(&zero, 1, at(1_000)), (&one, 0, at(1_500))] {
            rank.note(sent, EventKind::Send, 0, (other, SHORT, 8));
            rank.note(sent + 300, EventKind::Wait, 0, (0, 3, 0));
        }
        for (rank, other, sent) in [(&zero, 1, at(1_500)), (&one, 0, at(1_000))] {
            let begun = sent + 3_000;
            rank.note(begun, EventKind::Handle, 0, (other, SHORT, send_key(sent)));
            rank.note(begun + 200, EventKind::HandleEnd, 0, (other, 0, 0));
            rank.note(begun + 300, EventKind::WaitEnd, 0, (0, 0, 0));
        }
        for (rank, node) in [(&zero, 1), (&one, 0)] {
            rank.note(at(6_000), EventKind::Ask, 0, (node, 0, round as u32));
            rank.note(at(8_000), EventKind::Answer, 0, (node, 0, round as u32));
        }
        if round % BARRIER == 0 {
            for (rank, ns) in [(&zero, 8_500), (&one, 9_000)] {
                rank.note(at(ns), EventKind::Barrier, 0, (2, 0, 1));
                rank.note(at(9_300), EventKind::BarrierEnd, 0, (2, 0, 1));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::{RunGraph, Timeline, TraceSummary};
    use clump_loggp::KnobTable;
    use clump_os::scratch::Scratch;

    #[test]
    fn a_long_trace_is_counted_and_played_to_its_last_event() {
        let folder = Scratch::new(&std::env::temp_dir(), "made").unwrap();
        let rounds = 7_200;
        write(folder.path(), rounds).unwrap();
        let open = || Timeline::open(folder.path()).unwrap();
        let events = rounds * ROUND + 4 * rounds.div_ceil(BARRIER);
        assert!(events > 100_000 && open().events() == events);
        let summary = TraceSummary::of(&mut open()).unwrap();
        assert_eq!(summary.events(), events);
        let messages: u64 = summary.messages.values().map(|of| of.handled).sum();
        assert_eq!((messages, summary.unhandled, summary.unsent), (2 * rounds, 0, 0));
        assert_eq!((summary.waits["message"].0, summary.forgotten), (2 * rounds, 0));
        let graph = RunGraph::of(&mut open(), None).unwrap();
        let base = graph.play(&KnobTable::default());
        assert_eq!((base.end().ns, base.unmatched), (graph.recorded_ns, 0));
        let slower = KnobTable::parse("L=+5us", &Default::default()).unwrap();
        // Both ranks wait for a message each round, and for no answer of an interface.
        let more = graph.play(&slower).end().ns - graph.recorded_ns;
        assert_eq!(more, rounds * 5_000);
    }
}
