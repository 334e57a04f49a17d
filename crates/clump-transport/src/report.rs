//! Counters of a stack, and findings for its agent, copied to where observers read them.

use crate::timing::Times;
use clump_driver::PathCounts;
use clump_net::Stack;
use clump_shm::rank::RankBlock;
use clump_trace::{Counter, Counters, Gauge, Gauges, Stage};

/// Copies the time gauges of a rank's own stack, and the round-trip times of its channels.
pub(crate) fn count_times(gauges: Gauges<'_>, times: Times, round_trips: &[u64]) {
    for large in [false, true] {
        for (stage, of) in [
            (Stage::Source, times.source),
            (Stage::ToWire, times.to_wire),
            (Stage::Delivery, times.delivery),
        ] {
            gauges.set_times(stage, large, of[usize::from(large)]);
        }
    }
    gauges.set(Gauge::Busy, times.busy);
    debug_assert!(round_trips.iter().all(|&srtt| srtt > 0), "unknown ones are left out");
    for srtt in round_trips {
        gauges.time(Stage::Wire, false, srtt / 2);
    }
}

/// Shortest silence of a peer that is noted.
const UNANSWERED_NS: u64 = 500_000_000;

/// Notes which peer of a stack does not answer, so that the agent can explain why a job makes no
/// progress. The times are that of the stack, and that of the machine.
pub fn note_unanswered(block: &RankBlock, stack: &Stack, (ticked_ns, now_ns): (u64, u64)) {
    let long = stack.unanswered(ticked_ns).filter(|&(_, silent_ns)| silent_ns >= UNANSWERED_NS);
    block.note_unanswered(long.map(|(peer, silent_ns)| (peer, now_ns.saturating_sub(silent_ns))));
}

/// Notes a path of a stack that carries less than before, so that the agent can tell the user; one
/// at a time.
pub fn note_narrowed(block: &RankBlock, stack: &mut Stack, ticked_ns: u64) {
    if block.is_narrowed_taken()
        && let Some(narrowed) = stack.take_narrowed(ticked_ns)
    {
        block.note_narrowed(narrowed);
    }
}

/// Notes that a stack receives nothing any more, for its agent, which ends the job.
pub fn note_receive_failure(block: &RankBlock, stack: &Stack) {
    if let Some(failure) = stack.receive_failure() {
        block.note_receive_failure(failure.to_bits());
    }
}

/// Copies what a stack has counted, and its driver if that has several paths.
pub fn count_stack(counters: Counters<'_>, stack: &Stack) {
    let stats = stack.stats();
    for (counter, value) in [
        (Counter::NetPacketsSent, stats.packets_sent),
        (Counter::NetBytesSent, stats.bytes_sent),
        (Counter::NetAcksSent, stats.acks_sent),
        (Counter::NetUnitsSent, stats.units_sent),
        (Counter::NetUnitsResent, stats.units_resent),
        (Counter::NetUnitsSpurious, stack.spurious()),
        (Counter::NetUnitsAhead, stats.units_ahead),
        (Counter::NetUnitsFragmented, stats.units_fragmented),
        (Counter::NetPathsNarrowed, stats.paths_narrowed),
        (Counter::NetPacketsReceived, stats.packets_received),
        (Counter::NetBytesReceived, stats.bytes_received),
        (Counter::NetDuplicates, stats.units_duplicate),
        (Counter::NetForeign, stats.packets_foreign),
        (Counter::NetForged, stats.packets_forged),
        (Counter::NetReplayed, stats.packets_replayed),
        (Counter::NetMalformed, stats.packets_malformed),
        (Counter::NetFramesMalformed, stats.frames_malformed),
        (Counter::NetSendsRefused, stats.sends_refused),
        (Counter::NetOverflowed, stack.driver().overflowed()),
        (Counter::NetReceivesFailed, stats.receives_failed),
        (Counter::NetReturnedHere, stats.returned_here),
        (Counter::NetCreditsSent, stats.credits_sent),
        (Counter::NetMarks, stats.marks_received),
        (Counter::NetStreamsOpened, stats.streams_opened),
        (Counter::NetStreamsGivenUp, stats.streams_given_up),
        (Counter::NetStreamsBroken, stats.streams_broken),
        (Counter::NetRecordsSent, stats.records_sent),
        (Counter::NetRecordsReceived, stats.records_received),
    ] {
        counters.set(counter, value);
    }
    if let Some(paths) = stack.driver().paths() {
        count_paths(counters, paths);
    }
}

fn count_paths(counters: Counters<'_>, paths: &PathCounts) {
    let sent = [Counter::NetPath0, Counter::NetPath1, Counter::NetPath2, Counter::NetPath3];
    debug_assert_eq!(sent.len(), paths.sent.len(), "each path has a counter");
    debug_assert!(paths.came_back <= paths.taken_out, "a path comes back after it was taken out");
    for (counter, value) in sent.into_iter().zip(paths.sent) {
        counters.set(counter, value);
    }
    counters.set(Counter::NetPathsOut, paths.taken_out);
    counters.set(Counter::NetPathsBack, paths.came_back);
}
