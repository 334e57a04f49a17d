//! Time: nanoseconds of some clock that never goes back, and the 64 ns ticks in which headers count
//! it.

/// Nanoseconds since any fixed moment, by a clock that never goes back.
pub type Nanos = u64;

/// Bits of a tick: one tick of a header's times is this power of two of nanoseconds, 64 ns.
const TICK_SHIFT: u32 = 6;

/// Whole ticks since the clock's beginning; headers carry their low 32 bits.
pub(crate) type Ticks = u64;

/// Returns the tick in which `now` lies.
#[inline]
pub(crate) const fn ticks(now: Nanos) -> Ticks {
    now >> TICK_SHIFT
}

/// Returns the duration of so many ticks.
#[inline]
pub(crate) const fn nanos(ticks: Ticks) -> Nanos {
    ticks << TICK_SHIFT
}

/// Returns the latest tick up to `now` whose low 32 bits are `low`: headers wrap every 275 s.
#[inline]
pub(crate) const fn widen(now: Ticks, low: u32) -> Ticks {
    let widened = now.wrapping_sub((now as u32).wrapping_sub(low) as u64);
    debug_assert!(widened as u32 == low, "the low bits stay");
    widened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_wrap_of_its_header() {
        for sent in [0, 5, 0xffff_fff0, 0x1_0000_0003, 0x77_ffff_ffff_u64] {
            for age in [0, 1, 20, 0xffff_ffff] {
                assert_eq!(widen(sent + age, sent as u32), sent);
            }
        }
    }
}
