//! Counters of a stack's work and of the errors it met.

/// Counts since the stack was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "clump-trace's table of counters says what each means")]
pub struct Stats {
    pub packets_sent: u64,
    pub bytes_sent: u64,
    pub acks_sent: u64,
    pub units_sent: u64,
    pub units_resent: u64,
    pub units_ahead: u64,
    pub units_fragmented: u64,
    pub paths_narrowed: u64,
    pub packets_received: u64,
    pub bytes_received: u64,
    pub units_duplicate: u64,
    pub packets_foreign: u64,
    pub packets_forged: u64,
    pub packets_replayed: u64,
    pub packets_malformed: u64,
    pub frames_malformed: u64,
    pub sends_refused: u64,
    pub receives_failed: u64,
    pub returned_here: u64,
    pub credits_sent: u64,
    pub marks_received: u64,
    pub streams_opened: u64,
    pub streams_given_up: u64,
    pub streams_broken: u64,
    pub records_sent: u64,
    pub records_received: u64,
}
