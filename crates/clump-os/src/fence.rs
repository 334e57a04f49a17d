//! The asymmetric fence: senders pay nothing, whoever goes to sleep pays for both.
//!
//! A sender publishes a message and then looks whether its receiver sleeps; a receiver announces
//! that it sleeps and then looks for messages. One of the two must see the other, which needs a
//! store-load fence on *both* sides. `membarrier(GLOBAL_EXPEDITED)` executes the sender's half on
//! all processors that run a registered process, at the time the receiver asks (membarrier(2)); so
//! [`light`] is a compiler fence. Where the call is missing, both sides take the full fence.

#[cfg(not(loom))]
use crate::sync::Ordering;
#[cfg(loom)]
use crate::sync::{Ordering, Site};

const CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// How the processes of a job agree to order "publish, then look for sleepers".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceKind {
    /// The sleeper interrupts all running processors once; senders pay nothing.
    Asymmetric,
    /// Sender and sleeper each execute a full fence.
    Symmetric,
}

/// Returns true if the kernel offers what [`FenceKind::Asymmetric`] needs, and this process is now
/// registered.
pub fn register() -> FenceKind {
    // SAFETY: membarrier takes no pointers; an unknown command is answered with EINVAL or ENOSYS.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) };
    if rc == 0 { FenceKind::Asymmetric } else { FenceKind::Symmetric }
}

/// The sender's half: orders its earlier stores before its later loads, as seen by [`heavy`].
#[inline(always)]
pub fn light(kind: FenceKind) {
    #[cfg(not(loom))]
    match kind {
        FenceKind::Asymmetric => std::sync::atomic::compiler_fence(Ordering::SeqCst),
        FenceKind::Symmetric => std::sync::atomic::fence(Ordering::SeqCst),
    }
    // loom knows no membarrier: its two halves are two full fences.
    #[cfg(loom)]
    {
        let _ = kind;
        full();
    }
}

/// The sleeper's half: after it returns, stores of senders made before their [`light`] are visible
/// here.
pub fn heavy(kind: FenceKind) {
    #[cfg(not(loom))]
    {
        std::sync::atomic::fence(Ordering::SeqCst);
        if kind == FenceKind::Asymmetric {
            // SAFETY: membarrier takes no pointers. It cannot fail once registration succeeded.
            unsafe { libc::syscall(libc::SYS_membarrier, CMD_GLOBAL_EXPEDITED, 0, 0) };
        }
    }
    #[cfg(loom)]
    {
        let _ = kind;
        full();
    }
}

/// A full fence on this side only.
#[inline(always)]
pub fn full() {
    #[cfg(not(loom))]
    std::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(loom)]
    if crate::sync::weakened() != Some(Site::ParkFence) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
