//! Progress of this process as a rank, and the errors of calls outside of a job.

use crate::fault::Fault;
use crate::status::clump_status as S;
use clump_os::sync::{AtomicU32, Ordering};

/// Progress of this process: 0 before, 1 as a rank, 2 after.
pub(crate) static STATE: AtomicU32 = AtomicU32::new(0);

/// Returns the reason why no function of clump works now, if none does.
pub fn not_running() -> Option<Fault> {
    if clump_os::forked::is_child() {
        return Some(forked());
    }
    let what = match STATE.load(Ordering::Relaxed) {
        0 => "clump_init has not been called in this process",
        1 => return None,
        _ => "clump_finalize has been called; this process is no rank any more",
    };
    Some(Fault::new(S::CLUMP_ERR_NOT_RUNNING, what))
}

/// The error of a call in a child by `fork`.
#[cold]
pub fn forked() -> Fault {
    clump_am::Error::from(clump_am::ErrorKind::Forked).into()
}
