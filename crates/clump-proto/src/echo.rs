//! The newest packet that arrived, whose time is echoed to its sender.

use crate::Nanos;
use crate::time::{Ticks, ticks};
use clump_wire::{Flags, Header};

/// Least age at which an echo is left out: older than half a lap of the header's clock it could not
/// be told from a newer one.
const OLDEST: Ticks = 1 << 31;

/// The newest packet by number, and its time of arrival.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    number: u64,
    sent: u32,
    arrived: Ticks,
    any: bool,
}

impl Echo {
    /// Notes a packet that reached this machine at `arrived`; returns true if it is newer than all
    /// before.
    #[inline]
    pub(crate) fn on_packet(&mut self, arrived: Nanos, header: &Header) -> bool {
        let newer = header.number > self.number || !self.any;
        if newer {
            *self = Self {
                number: header.number,
                sent: header.sent,
                arrived: ticks(arrived),
                any: true,
            };
        }
        debug_assert!(self.any && self.number >= header.number, "the newest is kept");
        newer
    }

    /// Returns true if any packet has arrived.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Writes the echo into a header.
    #[inline]
    pub(crate) fn stamp(&self, now: Nanos, header: &mut Header) {
        debug_assert!(!header.flags.has(Flags::HAS_ECHO), "a packet has one echo");
        // The caller's clock may have been read before the packet's arrival.
        let held = ticks(now).saturating_sub(self.arrived);
        if self.any && held < OLDEST {
            header.echo = self.sent;
            header.held = held as u32;
            header.flags = header.flags.with(Flags::HAS_ECHO);
        }
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let nothing = self.number == 0 && self.sent == 0 && self.arrived == 0;
        assert!(self.any || nothing, "a time is echoed only of a packet");
    }
}
