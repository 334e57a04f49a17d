//! Which thread this is, in one instruction.

/// What tells this thread from all others that live now: where its control block lies. A later thread may have the
/// same. 0 where that is not to be had so cheaply, which no thread has.
#[inline(always)]
pub fn pointer() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let at: usize;
        // SAFETY: on Linux the first word behind `fs` is its own address, in each thread (x86-64 psABI, variant II
        // of thread-local storage); it is only read.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) at, options(nostack, pure, readonly, preserves_flags));
        }
        at
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_live_at_one_time_differ() {
        let mine = pointer();
        let theirs = std::thread::scope(|scope| scope.spawn(pointer).join());
        assert_eq!(pointer(), mine);
        assert!(theirs.is_ok_and(|theirs| theirs != mine || theirs == 0));
    }
}
