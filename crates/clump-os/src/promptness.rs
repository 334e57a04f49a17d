//! Scheduling of a thread that has to run soon after each of its wake-ups.

use std::num::NonZeroU64;

/// Time for which the scheduler lets such a thread run at a time, ns: of two threads that want a
/// processor, the one with the shorter slice gets it sooner (Linux 6.12).
const SLICE_NS: u64 = 100_000;
/// Lowest priority in real time: before all ordinary threads.
const PRIORITY: u32 = 1;

/// Class of a thread that was to run soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promptness {
    /// It runs before all ordinary threads.
    RealTime,
    /// It shares the processors with others, in short slices where the kernel has them.
    Shared,
}

/// Lets this thread run as soon after each wake-up as this user may, and its timers end within a
/// microsecond.
pub fn raise() -> Promptness {
    // Where this fails, timers end up to 50 us late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    // SAFETY: an all-zero sched_attr is a valid one: it has numbers only.
    let ordinary = libc::sched_attr { size, ..unsafe { std::mem::zeroed() } };
    let policy = u32::try_from(libc::SCHED_RR).unwrap_or(0);
    let real_time = libc::sched_attr { sched_policy: policy, sched_priority: PRIORITY, ..ordinary };
    if set(&real_time) {
        return Promptness::RealTime;
    }
    // Where this fails, it has the slice of all others.
    set(&libc::sched_attr { sched_runtime: SLICE_NS, ..ordinary });
    Promptness::Shared
}

fn set(attributes: &libc::sched_attr) -> bool {
    // SAFETY: `attributes` is a live block of the size that it announces; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_raised_as_far_as_the_kernel_allows() {
        let policy = || {
            std::thread::spawn(|| {
                let raised = raise();
                // SAFETY: no pointers; 0 is this thread.
                (raised, unsafe { libc::sched_getscheduler(0) })
            })
        };
        match policy().join().unwrap() {
            (Promptness::RealTime, policy) => assert_eq!(policy, libc::SCHED_RR),
            (Promptness::Shared, policy) => assert_eq!(policy, libc::SCHED_OTHER),
        }
    }
}
