//! Traces that are written by hand, and the runs that they are played as.

use super::*;
use clump_os::clock;
use clump_os::scratch::Scratch;
use clump_trace::Recorder;
use clump_trace::event::send_key;
use clump_virtual::{PageCosts, PathCosts};

/// An event: its rank and thread, time and kind, and what [`Recorder::note`] takes.
type Noted = ((usize, u8), u64, EventKind, (u32, u8, u32));

/// Events of two ranks on two nodes.
#[derive(Default)]
struct Written(Vec<Noted>);

/// A short message to another node.
const SHORT: u8 = 2;

impl Written {
    fn note(&mut self, rank: usize, at_ns: u64, kind: EventKind, of: (u32, u8, u32)) {
        self.0.push(((rank, 0), at_ns, kind, of));
    }

    /// Notes a message: when it was sent, and when its handler began and ended.
    fn message(&mut self, from: usize, [sent, begun, ended]: [u64; 3]) {
        let to = 1 - from;
        self.note(from, sent, EventKind::Send, (to as u32, SHORT, 8));
        self.note(to, begun, EventKind::Handle, (from as u32, SHORT, sent as u32));
        self.note(to, ended, EventKind::HandleEnd, (from as u32, 0, 0));
    }

    fn wait(&mut self, rank: usize, [from, to]: [u64; 2]) {
        self.note(rank, from, EventKind::Wait, (0, 0, 0));
        self.note(rank, to, EventKind::WaitEnd, (0, 0, 0));
    }

    /// Writes the traces, each in the order of time, and reads them.
    fn graph(self) -> RunGraph {
        self.graph_of(None)
    }

    /// Reads them as those of a run in virtual time on a machine.
    fn graph_of(mut self, machine: Option<Machine>) -> RunGraph {
        let folder = Scratch::new(&std::env::temp_dir(), "graph").unwrap();
        let ranks = [0, 1].map(|r| Recorder::create(folder.path(), (r, 2, r), 100).unwrap());
        let base_ns = clock::now_ns();
        self.0.sort_by_key(|&(_, at_ns, ..)| at_ns);
        for ((rank, track), at_ns, kind, (peer, detail, value)) in self.0 {
            let is_handler = kind == EventKind::Handle;
            let sent = || send_key(base_ns + u64::from(value));
            let value = if is_handler { sent() } else { value };
            ranks[rank].note(base_ns + at_ns, kind, track, (peer, detail, value));
        }
        RunGraph::of(&mut Timeline::open(folder.path()).unwrap(), machine).unwrap()
    }
}

/// Returns a machine with these costs between nodes.
fn machine(gap_ns: u64, latency_ns: u64, byte_ps: u64) -> Machine {
    let node = PathCosts { send_ns: 1, ..PathCosts::default() };
    let network = PathCosts { gap_ns, latency_ns, byte_ps, ..node };
    Machine { node, network, nics: 1, cpu_ppm: 0, execute_ns: 0, pages: PageCosts::default() }
}

/// Returns the time by which each setting makes the run longer, in ns.
fn longer<const N: usize>(graph: &RunGraph, settings: [&str; N]) -> [u64; N] {
    let end = |text: &str| {
        let played = graph.play(&KnobTable::parse(text, &Default::default()).unwrap());
        assert_eq!(played.unmatched, 0, "{text}");
        played.end().ns
    };
    let recorded = end("");
    assert_eq!(recorded, graph.recorded_ns, "it takes as long as it took");
    settings.map(|text| end(text) - recorded)
}

#[test]
fn what_a_rank_waits_for_comes_later_on_a_slower_network() {
    let mut written = Written::default();
    for round in 0..3 {
        // Rank 0 asks at 1 us, and has the answer at 9 us; rank 1 has the question at 5 us.
        let at = |us: u64| round * 10_000 + us * 1_000;
        written.message(0, [at(1), at(5), at(6)]);
        written.message(1, [at(5) + 500, at(8), at(9)]);
        written.wait(0, [at(2), at(9) + 100]);
        written.wait(1, [at(0), at(6)]);
    }
    let graph = written.graph();
    assert_eq!(graph.unexplained_ns, 0);
    assert_eq!(longer(&graph, ["L=+5us", "o=+1us"]), [3 * 2 * 5_000, 3 * 4 * 1_000]);
    let counts = graph.play(&KnobTable::default()).end().counts;
    assert_eq!((counts.latencies, counts.overheads), (3 * 2, 3 * 4));
    // Each rank sends every 10 us; each interface takes one every 12 us.
    let late =
        |text: &str| graph.late_by_gap(&KnobTable::parse(text, &Default::default()).unwrap());
    assert_eq!(["g=12us", "g=9us", "L=+5us"].map(late), [Some(4_000.0), Some(0.0), None]);
}

#[test]
fn a_wait_for_room_is_not_for_what_is_handled_meanwhile() {
    // Both ranks send bursts, and handle each other's while the network takes no more.
    let mut written = Written::default();
    for (rank, other) in [(0, 1), (1, 0)] {
        for round in 0..3 {
            let at = |us: u64| round * 10_000 + us * 1_000 + rank as u64 * 100;
            written.message(rank, [at(1), at(5), at(5) + 50]);
            written.note(rank, at(4), EventKind::Wait, (other as u32, ROOM, 0));
            written.note(rank, at(8), EventKind::WaitEnd, (0, 0, 0));
        }
    }
    let graph = written.graph();
    assert_eq!(longer(&graph, ["L=+5us", "L=+100us"]), [0, 0], "nobody waits for a message");
    // Three sendings and three receptions of a rank.
    assert_eq!(longer(&graph, ["o=+1us"]), [6_000]);
}

#[test]
fn a_message_that_is_handled_late_had_come_before() {
    let mut written = Written::default();
    // The first takes 2 us; the second waits 48 us for a rank that computes until it polls.
    written.message(0, [1_000, 3_000, 3_500]);
    written.message(0, [10_000, 60_000, 60_500]);
    written.message(1, [60_200, 62_200, 62_400]);
    written.wait(0, [11_000, 62_400]);
    let graph = written.graph();
    assert_eq!(longer(&graph, ["L=+30us"]), [30_000], "of the answer alone");
    // 2 us more than the 48 us that it had been there before, and the answer's.
    assert_eq!(longer(&graph, ["L=+50us"]), [2_000 + 50_000]);
}

#[test]
fn ranks_leave_a_barrier_after_the_last_has_come() {
    let mut written = Written::default();
    for (rank, arrived) in [(0, 1_000), (1, 50_000)] {
        written.note(rank, arrived, EventKind::Barrier, (2, 0, 7));
        written.note(rank, 50_200, EventKind::BarrierEnd, (2, 0, 7));
    }
    written.note(0, 51_000, EventKind::Send, (1, SHORT, 8));
    let graph = written.graph();
    assert_eq!(longer(&graph, ["L=+5us", "o=+3us"]), [0, 3_000]);
}

#[test]
fn an_answer_of_an_interface_has_two_latencies() {
    let mut written = Written::default();
    written.note(0, 1_000, EventKind::Ask, (1, 0, 5));
    written.note(0, 1_100, EventKind::Wait, (0, 0, 0));
    written.note(0, 9_000, EventKind::Answer, (1, 0, 5));
    written.note(0, 9_000, EventKind::WaitEnd, (0, 0, 0));
    let graph = written.graph();
    assert_eq!(longer(&graph, ["L=+5us"]), [2 * 5_000]);
    assert_eq!(graph.send_times(KnobScope::Net)[&0].len(), 1);
    assert_eq!(graph.send_times(KnobScope::Shm)[&0].len(), 0);
}

#[test]
fn a_wait_for_nothing_that_was_traced_stays_as_long() {
    let mut written = Written::default();
    written.wait(1, [1_000, 41_000]);
    let graph = written.graph();
    assert_eq!(graph.unexplained_ns, 40_000);
    assert_eq!(longer(&graph, ["L=+5us"]), [0]);
}

#[test]
fn stores_without_an_answer_hold_up_the_request_that_waits_for_them() {
    let mut written = Written::default();
    for store in 0..10 {
        written.note(0, 1_000 + store * 100, EventKind::Batch, (0, 0, 1));
        written.note(0, 1_000 + store * 100, EventKind::Post, (1, 0, 8));
    }
    written.note(0, 2_000, EventKind::Ask, (1, 0, 5));
    written.note(0, 2_000, EventKind::Wait, (0, 0, 0));
    written.note(0, 9_000, EventKind::Answer, (1, 0, 5));
    written.note(0, 9_000, EventKind::WaitEnd, (0, 0, 0));
    let graph = written.graph();
    assert_eq!(graph.send_times(KnobScope::Net)[&0].len(), 11, "a batch is no message");
    // The request leaves ten gaps after the first store, at 1 us.
    let late = 1_000 + 10 * 3_000 - 2_000;
    assert_eq!(longer(&graph, ["L=+5us", "g=3us,scope=net"]), [2 * 5_000, late]);
}

#[test]
fn stores_in_virtual_time_wait_for_the_nic_and_end_the_wait_of_the_rank_that_awaits_them() {
    let mut written = Written::default();
    // Three stores at 1, 2 and 3 us leave every 5 us, and take 4 us more; the executor beside rank
    // 1 handles each for 1 us. Rank 1 waits for the last.
    for (sent, handled) in [(1_000, 5_000), (2_000, 10_000), (3_000, 15_000)] {
        written.note(0, sent, EventKind::Send, (1, SHORT, 8));
        let handler =
            [(handled, EventKind::Handle, sent as u32), (handled + 1_000, EventKind::HandleEnd, 0)];
        let noted = handler.map(|(at_ns, kind, sent)| ((1, 1), at_ns, kind, (0, SHORT, sent)));
        written.0.extend(noted);
    }
    written.note(1, 500, EventKind::Wait, (0, WORD, 0));
    written.note(1, 16_100, EventKind::WaitEnd, (0, 0, 0));
    let graph = written.graph_of(Some(machine(5_000, 4_000, 0)));
    assert_eq!(graph.unexplained_ns, 0);
    // Sent at 11, 22 and 33 us, none waits for the NIC.
    assert_eq!(longer(&graph, ["o_s=+10us"]), [33_000 + 4_000 + 1_100 - 16_100]);
    // The executor handles them at 5, 16 and 27 us.
    assert_eq!(longer(&graph, ["o_r=+10us"]), [5_000 + 3 * 11_000 + 100 - 16_100]);
    assert_eq!(longer(&graph, ["L=+30us", "g=20us"]), [30_000, 2 * 15_000]);
}
