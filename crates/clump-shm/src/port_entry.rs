//! The entry of one port in the table of its node.

use crate::name::Name;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

/// Entry of a port: the name of the endpoint bound to it, or 0.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct PortEntry {
    name: AtomicU64,
}

// The geometry sets a word aside for each port.
const _: () = assert!(size_of::<PortEntry>() == size_of::<u64>());

// SAFETY: an atomic.
unsafe impl SharedLayout for PortEntry {}

impl PortEntry {
    /// Claims the port for `name`, if it is free, or its holder `is_gone`.
    pub(crate) fn claim(&self, name: Name, is_gone: impl Fn(Name) -> bool) -> Result<(), Name> {
        debug_assert!(name.to_bits() != 0, "the entry of a free port");
        loop {
            let held = self.name.load(Ordering::Relaxed);
            let holder = Name::from_bits(held);
            if held != 0 && !is_gone(holder) {
                return Err(holder);
            }
            // SYNC 14: pairs with holder
            let claimed = self.name.compare_exchange(
                held,
                name.to_bits(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if claimed.is_ok() {
                return Ok(());
            }
        }
    }

    /// Frees the port, if it is held by `name`.
    pub(crate) fn release(&self, name: Name) {
        debug_assert!(name.to_bits() != 0, "a free port has no holder");
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.name.compare_exchange(name.to_bits(), 0, new, old);
    }

    /// Returns the endpoint that holds the port.
    pub(crate) fn holder(&self) -> Option<Name> {
        // SYNC 14: pairs with claim
        match self.name.load(Ordering::Acquire) {
            0 => None,
            bits => Some(Name::from_bits(bits)),
        }
    }
}
