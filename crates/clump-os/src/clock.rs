//! Time: the monotonic clock, and the processor's cycle counter where it is steady.
#![allow(clippy::disallowed_methods, reason = "this module is where time comes from")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns nanoseconds of `CLOCK_MONOTONIC`: the same clock in every process of a machine. In a
/// thread whose time is virtual, nanoseconds of its own clock.
pub fn now_ns() -> u64 {
    #[cfg(not(loom))]
    if let Some(thread) = crate::virtual_thread::current() {
        return thread.now_ns();
    }
    machine_ns()
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`, whatever the time of this thread.
pub fn machine_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time that this thread has used, in ns.
pub fn processor_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
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
    #[cfg(target_arch = "aarch64")]
    return virtual_counter();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    now_ns()
}

/// Reads the counter that all processors of a machine share (Arm ARM, D12: `CNTVCT_EL0`); Linux
/// lets programs read it.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn virtual_counter() -> u64 {
    let count: u64;
    // SAFETY: reads a register, and nothing else.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// Time and cycles of the moment from which the counter's rate is measured.
static BEGIN: OnceLock<(u64, u64)> = OnceLock::new();

/// Begins to measure the rate of the counter, where the processor does not state it. A program that
/// calls it 2 ms before it needs the rate does not wait for that.
pub fn begin() {
    BEGIN.get_or_init(|| (now_ns(), cycles()));
}

/// Returns cycles of [`cycles`] per millisecond, at least 1: reported by the processor, else
/// measured once per process (over 2 ms or more, since [`begin`]).
fn cycles_per_ms() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    let measured = || measured_per_ms(*BEGIN.get_or_init(|| (now_ns(), cycles())));
    *RATE.get_or_init(|| stated_per_ms().unwrap_or_else(measured).max(1))
}

/// Returns the rate that the processor states (`CNTFRQ_EL0`); firmware that did not set it left 0.
#[cfg(target_arch = "aarch64")]
fn stated_per_ms() -> Option<u64> {
    let hertz: u64;
    // SAFETY: reads a register, and nothing else.
    unsafe {
        std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
    }
    Some(hertz / 1000).filter(|&rate| rate > 0)
}

/// Returns the rate that the processor states: none here.
#[cfg(not(target_arch = "aarch64"))]
fn stated_per_ms() -> Option<u64> {
    None
}

/// Returns the rate since a moment, 2 ms after it at the earliest.
fn measured_per_ms((t0, c0): (u64, u64)) -> u64 {
    while now_ns() - t0 < 2_000_000 {
        std::hint::spin_loop();
    }
    let (t1, c1) = (now_ns(), cycles());
    let rate = u128::from(c1.wrapping_sub(c0)) * 1_000_000 / u128::from((t1 - t0).max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns cycles of [`cycles`] per microsecond, at least 1.
pub fn cycles_per_us() -> u64 {
    (cycles_per_ms() / 1000).max(1)
}

/// Returns nanoseconds from the cycle counter: cheaper than [`now_ns`], for spans inside one
/// process. Never decreases by more than processors' counters differ, and has a zero of its own.
#[inline]
pub fn ticked_ns() -> u64 {
    static SCALE: OnceLock<(u64, u64)> = OnceLock::new();
    let &(start, scale) = SCALE.get_or_init(|| (cycles(), (1_000_000 << 32) / cycles_per_ms()));
    let passed = cycles().wrapping_sub(start);
    ((u128::from(passed) * u128::from(scale)) >> 32) as u64
}

/// Time that a yield takes in a thread whose time is virtual, so that others can go on.
#[cfg(not(loom))]
const VIRTUAL_YIELD: Duration = Duration::from_micros(1);

/// Yields the processor to other threads.
#[inline]
pub fn yield_now() {
    #[cfg(not(loom))]
    if let Some(thread) = crate::virtual_thread::current() {
        return thread.pass(VIRTUAL_YIELD);
    }
    // Not rustix's, which asserts that no filter refuses the call: then time passes all the same.
    std::thread::yield_now();
}

/// Sleeps for `span`: for agents that poll now and then, not for tests.
pub fn pass(span: Duration) {
    #[cfg(not(loom))]
    if let Some(thread) = crate::virtual_thread::current() {
        return thread.pass(span);
    }
    machine_pass(span);
}

/// Sleeps for `span` of the machine's time, whatever the time of this thread.
pub fn machine_pass(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_runs_and_its_rate_is_of_the_right_order() {
        let (start, ticked) = (now_ns(), ticked_ns());
        while now_ns() - start < 2_000_000 {
            std::hint::spin_loop();
        }
        assert!(ticked_ns() > ticked);
        assert!((1..=20_000_000).contains(&cycles_per_ms()), "{}", cycles_per_ms());
        assert_eq!(cycles_per_us(), (cycles_per_ms() / 1000).max(1));
        if let Some(stated) = stated_per_ms() {
            // A preemption between two readings of the pair makes the measured rate wrong.
            let close = (0..50)
                .any(|_| measured_per_ms((now_ns(), cycles())).abs_diff(stated) <= stated / 20);
            assert!(close, "the processor states {stated}");
        }
    }
}
