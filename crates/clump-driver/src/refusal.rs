//! Failures of the call that receives: which call, why, and whether it lasts.
//!
//! One failure says little: memory may be short for a moment, and some kernels report here what
//! became of a datagram sent earlier. A call that a filter refuses fails every time, and then
//! nothing is received ever again.

use rustix::io::Errno;

/// Failures in a row that last, at least.
const MIN_FAILURES: u32 = 16;
/// Time from the first to the last of them, at least.
const LASTING_NS: u64 = 1_000_000_000;
/// Gap that starts a new series of failures, ns.
const ROW_ENDS_NS: u64 = 5_000_000_000;

/// The system call that a driver receives by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveCall {
    /// `recvfrom`.
    RecvFrom,
    /// `recvmsg`.
    RecvMsg,
    /// `recvmmsg`.
    RecvMmsg,
}

impl ReceiveCall {
    const ALL: [Self; 3] = [Self::RecvFrom, Self::RecvMsg, Self::RecvMmsg];

    /// Its name in manuals and in the lists of filters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RecvFrom => "recvfrom",
            Self::RecvMsg => "recvmsg",
            Self::RecvMmsg => "recvmmsg",
        }
    }
}

/// Why nothing is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveFailure {
    /// The call that fails.
    pub call: ReceiveCall,
    /// The kernel's reason.
    pub errno: Errno,
}

impl ReceiveFailure {
    /// As one number, never 0, for memory that processes share.
    pub fn to_bits(self) -> u64 {
        let call = ReceiveCall::ALL.iter().position(|call| *call == self.call).unwrap_or(0) as u64;
        (call + 1) << 32 | u64::from(self.errno.raw_os_error().unsigned_abs())
    }

    /// Decodes the bits of [`ReceiveFailure::to_bits`]; `None` for anything else.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let call = usize::try_from(bits >> 32).ok()?.checked_sub(1)?;
        let call = *ReceiveCall::ALL.get(call)?;
        // Errors of the kernel lie below 4096 (include/linux/err.h).
        let number = i32::try_from(bits & 0xffff_ffff).ok().filter(|n| (1..4096).contains(n))?;
        Some(Self { call, errno: Errno::from_raw_os_error(number) })
    }

    /// Returns true if the error is one that filters of system calls give.
    pub fn is_refusal(self) -> bool {
        matches!(self.errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS)
    }
}

impl std::fmt::Display for ReceiveFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.call.name(), self.errno)
    }
}

/// Failures in a row, with nothing received in between.
#[derive(Debug, Default)]
pub struct ReceiveFailures {
    failures: u32,
    first_ns: u64,
    last_ns: u64,
    /// Datagrams received when the row of failures began.
    received: u64,
    lasting: Option<ReceiveFailure>,
}

impl ReceiveFailures {
    /// A call has failed at `now_ns`; `received` datagrams had come by then, ever. Successes need
    /// not be told.
    #[cold]
    pub fn on_failure(&mut self, now_ns: u64, received: u64, failure: ReceiveFailure) {
        debug_assert!(received >= self.received, "it is a count");
        let goes_on = self.failures > 0
            && received == self.received
            && now_ns.saturating_sub(self.last_ns) < ROW_ENDS_NS;
        if !goes_on {
            (self.failures, self.first_ns, self.received) = (0, now_ns, received);
        }
        self.failures = self.failures.saturating_add(1);
        self.last_ns = now_ns;
        if self.failures >= MIN_FAILURES && now_ns.saturating_sub(self.first_ns) >= LASTING_NS {
            self.lasting.get_or_insert(failure);
        }
    }

    /// The failure that lasts, from the moment on that one does.
    pub fn lasting(&self) -> Option<ReceiveFailure> {
        self.lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const REFUSED: ReceiveFailure =
        ReceiveFailure { call: ReceiveCall::RecvMmsg, errno: Errno::PERM };

    /// Returns true if failures every `step` last, where `received` tells what has come by each.
    fn lasts(step: u64, count: u64, received: impl Fn(u64) -> u64) -> bool {
        let mut failures = ReceiveFailures::default();
        for number in 0..count {
            failures.on_failure(number * step, received(number), REFUSED);
        }
        failures.lasting().is_some()
    }

    #[test]
    fn only_failures_that_go_on_for_a_second_with_nothing_received_last() {
        assert!(lasts(MS, 1001, |_| 7) && !lasts(MS, 1000, |_| 7));
        assert!(lasts(100 * MS, 16, |_| 0) && !lasts(100 * MS, 15, |_| 0));
        assert!(!lasts(MS, 10_000, |number| number / 500), "something comes");
        assert!(!lasts(6000 * MS, 1000, |_| 0), "one now and then");
    }

    #[test]
    fn a_failure_survives_shared_memory_and_nothing_else_does() {
        for call in ReceiveCall::ALL {
            let failure = ReceiveFailure { call, errno: Errno::NOSYS };
            assert_eq!(ReceiveFailure::from_bits(failure.to_bits()), Some(failure));
        }
        for bits in [0, 1, 4 << 32 | 1, 1 << 32, 1 << 32 | 4096, u64::MAX] {
            assert_eq!(ReceiveFailure::from_bits(bits), None, "{bits:#x}");
        }
    }
}
