//! Processor time that a page fault takes on this machine beside its server: where time is virtual,
//! the machine file says what a fault costs, and that of the kernel here is left out.

use crate::error::Result;
use clump_os::OsError;
use clump_os::clock;
use clump_os::map::{Mapping, PAGE, Rights};
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};

/// Faults of which the median is taken.
const FAULTS: usize = 33;

/// Faults on the first page of a view that are made to be measured.
#[derive(Debug, Default)]
pub(crate) struct FaultProbe {
    measures: AtomicBool,
    /// Processor time at which the server of the last one began, and at which it ended.
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
}

impl FaultProbe {
    /// Returns the processor time of a fault outside of its server, in ns: the median of some, on a
    /// view on which nobody has rights.
    ///
    /// # Errors
    /// The kernel refuses to change rights.
    pub(crate) fn measure(&self, view: &Mapping) -> Result<u64> {
        debug_assert!(view.bytes() >= PAGE, "a view has a page");
        self.measures.store(true, Ordering::SeqCst);
        let one = || -> std::result::Result<u64, OsError> {
            let word = view.words().first();
            let before_ns = clock::processor_ns();
            let _ = std::hint::black_box(word.map(|word| word.load(Ordering::SeqCst)));
            let after_ns = clock::processor_ns();
            view.protect(0, PAGE, Rights::None)?;
            let load = |ns: &AtomicU64| ns.load(Ordering::SeqCst);
            let entry_ns = load(&self.began_ns).saturating_sub(before_ns);
            Ok(entry_ns + after_ns.saturating_sub(load(&self.ended_ns)))
        };
        let costs: std::result::Result<Vec<u64>, OsError> = (0..FAULTS).map(|_| one()).collect();
        self.measures.store(false, Ordering::SeqCst);
        let mut costs = costs?;
        costs.sort_unstable();
        debug_assert!(!self.measures.load(Ordering::SeqCst), "faults are the program's again");
        Ok(costs.get(FAULTS / 2).copied().unwrap_or(0))
    }

    /// Serves a fault on a page of the view, if it was made to be measured. Returns true if so.
    pub(crate) fn serve(&self, view: &Mapping, page: u32) -> bool {
        if page != 0 || !self.measures.load(Ordering::SeqCst) {
            return false;
        }
        self.began_ns.store(clock::processor_ns(), Ordering::SeqCst);
        let granted = view.protect(0, PAGE, Rights::Read).is_ok();
        debug_assert!(granted, "a right that is taken is granted again");
        self.ended_ns.store(clock::processor_ns(), Ordering::SeqCst);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::access_fault::{self, AccessFault};
    use clump_os::map::sealed_memory;
    use std::sync::OnceLock;

    static PROBED: OnceLock<(Mapping, FaultProbe)> = OnceLock::new();

    fn serve(fault: &AccessFault) -> bool {
        let Some((view, probe)) = PROBED.get() else { return false };
        let at = fault.address.wrapping_sub(view.base().addr().get());
        at < view.bytes() && probe.serve(view, (at / PAGE) as u32)
    }

    #[test]
    fn faults_are_served_and_measured_while_they_are_made_for_that() {
        let view = || Mapping::shared(sealed_memory("of a test", PAGE as u64).unwrap(), 0, PAGE);
        let (view, probe) = PROBED.get_or_init(|| (view().unwrap(), FaultProbe::default()));
        access_fault::give_stack().unwrap();
        access_fault::install(serve).unwrap();
        assert!(!probe.serve(view, 0), "the program's");
        view.protect(0, PAGE, Rights::None).unwrap();
        let cost_ns = probe.measure(view).unwrap();
        assert!(cost_ns > 0, "a fault takes time");
        assert!(!probe.serve(view, 0) && !probe.serve(view, 1), "the program's again");
    }
}
