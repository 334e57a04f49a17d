//! Numbers of contributions: collective, phase, chunk. They only grow.

/// Slots of a rank: contributions that it may be ahead of the slowest reader.
pub(crate) const SLOTS: usize = 4;
/// Bits below the number of a collective.
const SEQ_SHIFT: u32 = 24;
/// Bits below its phase.
const PHASE_SHIFT: u32 = 22;

/// Returns the number of a contribution, which is never 0.
pub(crate) fn number_of(seq: u64, phase: u64, chunk: u64) -> u64 {
    debug_assert!(seq < 1 << (64 - SEQ_SHIFT), "more collectives than are counted");
    debug_assert!(phase < 1 << (SEQ_SHIFT - PHASE_SHIFT), "few phases");
    debug_assert!(chunk + 1 < 1 << PHASE_SHIFT, "few chunks");
    (seq << SEQ_SHIFT) + (phase << PHASE_SHIFT) + chunk + 1
}

/// Returns the number before all contributions of a phase, or behind those of the last.
pub(crate) fn before_phase(seq: u64, phase: u64) -> u64 {
    debug_assert!(seq > 0 && phase <= 1 << (SEQ_SHIFT - PHASE_SHIFT), "few phases");
    (seq << SEQ_SHIFT) + (phase << PHASE_SHIFT) - 1
}

/// Returns the number behind all contributions of a collective.
pub(crate) fn last_of(seq: u64) -> u64 {
    (seq << SEQ_SHIFT) | ((1 << SEQ_SHIFT) - 1)
}

/// Returns the slot of a contribution. Those that follow each other have different ones. The number
/// may be one that another process wrote, and anything.
pub(crate) fn slot_of(number: u64) -> usize {
    let phase = number >> PHASE_SHIFT & ((1 << (SEQ_SHIFT - PHASE_SHIFT)) - 1);
    let chunk = (number & ((1 << PHASE_SHIFT) - 1)).wrapping_sub(1);
    ((number >> SEQ_SHIFT).wrapping_add(phase).wrapping_add(chunk) % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_and_slots_take_turns() {
        let cases = [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 3, 7), (2, 0, 0), (2, 2, 1 << 20)];
        let numbers = cases.map(|(seq, phase, chunk)| number_of(seq, phase, chunk));
        assert!(numbers.is_sorted());
        for ((seq, phase, chunk), number) in cases.into_iter().zip(numbers) {
            assert!(before_phase(seq, phase) < number && number < before_phase(seq, phase + 1));
            assert!(number < last_of(seq) && last_of(seq) == before_phase(seq + 1, 0));
            assert_eq!(slot_of(number) as u64, (seq + phase + chunk) % SLOTS as u64);
        }
        assert!([0, 1 << PHASE_SHIFT, u64::MAX].map(slot_of).iter().all(|&slot| slot < SLOTS));
    }
}
