//! Time: the monotonic clock, and the processor's cycle counter where it is steady.
#![allow(clippy::disallowed_methods, reason = "this module is where time comes from")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns nanoseconds of `CLOCK_MONOTONIC`: the same clock in every process of a machine.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns nanoseconds of the real-time clock (UTC): the clock of the kernel's time stamps, which
/// may be set.
pub fn real_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // libc rather than rustix: valgrind, which counts our instructions, cannot run rustix's vdso
    // code.
    // SAFETY: `t` is a live timespec; these clocks exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Returns an instant, for measuring spans inside one process.
pub fn instant() -> Instant {
    Instant::now()
}

/// Reads the cycle counter (nanoseconds where the processor has none that is safe to read).
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc exists on every x86_64 processor and touches no memory.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    now_ns()
}

/// Returns cycles of [`cycles`] per microsecond, measured once per process (about 2 ms), at least
/// 1.
pub fn cycles_per_us() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (t0, c0) = (now_ns(), cycles());
        while now_ns() - t0 < 2_000_000 {
            std::hint::spin_loop();
        }
        let (t1, c1) = (now_ns(), cycles());
        ((c1.wrapping_sub(c0)) * 1000 / (t1 - t0).max(1)).max(1)
    })
}

/// Returns nanoseconds from the cycle counter: cheaper than [`now_ns`], for spans inside one
/// process. Never goes back by more than processors' counters differ, and has a zero of its own.
#[inline]
pub fn ticked_ns() -> u64 {
    static SCALE: OnceLock<(u64, u64)> = OnceLock::new();
    let &(start, scale) = SCALE.get_or_init(|| (cycles(), (1000 << 32) / cycles_per_us()));
    let passed = cycles().wrapping_sub(start);
    ((u128::from(passed) * u128::from(scale)) >> 32) as u64
}

/// Yields the processor to other threads.
#[inline]
pub fn yield_now() {
    // Not rustix's, which asserts that no filter refuses the call: then time passes all the same.
    std::thread::yield_now();
}

/// Sleeps for `span`: for agents that poll now and then, not for tests.
pub fn pass(span: Duration) {
    std::thread::sleep(span);
}
