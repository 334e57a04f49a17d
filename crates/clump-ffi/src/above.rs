//! The interface beside this one, which has handles of its own.

use std::sync::OnceLock;

/// An interface with handles of its own beside [`crate::slot::Slot`]: it is notified when the job
/// ends.
#[derive(Debug)]
pub struct Above {
    /// Closes everything; false if something is in use.
    pub close: fn() -> bool,
    /// Invalidates all handles, in a child by `fork`. Takes no lock and allocates nothing.
    pub abandon: fn(),
    /// Returns true if one of its handlers runs in this thread.
    pub is_handling: fn() -> bool,
}

/// The registered interface, if there is one.
pub(crate) static ABOVE: OnceLock<Above> = OnceLock::new();

/// Registers the interface that has handles of its own. There is one; later calls change nothing.
pub fn register(above: Above) {
    let _ = ABOVE.set(above);
}

/// Returns true if a handler of the registered interface runs in this thread.
pub(crate) fn is_handling_above() -> bool {
    ABOVE.get().is_some_and(|above| (above.is_handling)())
}
