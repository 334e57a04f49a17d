//! The asymmetric fence: senders pay nothing, the sleeper pays for both sides.
//!
//! A sender publishes a message and then checks if its receiver sleeps; a receiver announces that
//! it sleeps and then checks for messages. One of the two must see the other, which needs a
//! store-load fence on *both* sides. `membarrier(GLOBAL_EXPEDITED)` executes the sender's half on
//! all processors that run a registered process, when the receiver calls it (membarrier(2)); so
//! [`light`] is a compiler fence. Where the call is missing, both sides take the full fence.

#[cfg(not(loom))]
use crate::sync::Ordering;
#[cfg(loom)]
use crate::sync::{Ordering, Site};

const CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Fence that all processes of a job use between publishing and the check for sleepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceKind {
    /// The sleeper interrupts all running processors once; senders pay nothing.
    Asymmetric,
    /// Sender and sleeper each execute a full fence.
    Symmetric,
}

/// Registers this process for [`FenceKind::Asymmetric`]. Returns [`FenceKind::Symmetric`] if the
/// kernel does not offer it.
pub fn register() -> FenceKind {
    // SAFETY: membarrier takes no pointers; an unknown command is answered with EINVAL or ENOSYS.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) };
    if rc == 0 { FenceKind::Asymmetric } else { FenceKind::Symmetric }
}

/// Executes the sender's half: orders its earlier stores before its later loads, as seen by
/// [`heavy`].
#[inline(always)]
pub fn light(kind: FenceKind) {
    #[cfg(not(loom))]
    match kind {
        FenceKind::Asymmetric => std::sync::atomic::compiler_fence(Ordering::SeqCst),
        FenceKind::Symmetric => std::sync::atomic::fence(Ordering::SeqCst),
    }
    // loom has no membarrier: its two halves are two full fences.
    #[cfg(loom)]
    {
        let _ = kind;
        full();
    }
}

/// Executes the sleeper's half: after it returns, stores of senders made before their [`light`] are
/// visible here.
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

/// Executes a full fence on this side only.
#[inline(always)]
pub fn full() {
    #[cfg(not(loom))]
    std::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(loom)]
    if crate::sync::weakened() != Some(Site::ParkFence) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
