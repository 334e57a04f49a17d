//! The newest packet that arrived, whose time is echoed to its sender.

use crate::Nanos;
use crate::time::{Ticks, ticks};
use clump_wire::{Flags, Header};

/// Least age at which an echo is left out: older than half a lap of the header's clock it could not
/// be told from a newer one.
const OLDEST: Ticks = 1 << 31;
/// Time for which a packet may have waited in a socket without a word about it: a part of the
/// queueing delay that counts as congestion on any path.
const CERTAIN: Nanos = 20_000;

/// The newest packet by number, and its time of arrival.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    number: u64,
    sent: u32,
    arrived: Ticks,
    /// True if it may have waited in the socket for longer than is known.
    uncertain: bool,
    any: bool,
}

/// Time for which a packet waited in a socket before it was received: between these bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketWait {
    /// It waited for at least so long,
    pub least: Nanos,
    /// and for at most so long.
    pub most: Nanos,
}

impl SocketWait {
    /// Returns a wait that is known, by a timestamp of the kernel.
    pub fn known(time: Nanos) -> Self {
        Self { least: time, most: time }
    }

    /// Returns a wait since the poll before at most.
    pub fn within(time: Nanos) -> Self {
        Self { least: 0, most: time }
    }

    /// Returns true if its length is known well enough to tell a queue from it.
    #[inline]
    pub(crate) fn is_certain(self) -> bool {
        debug_assert!(self.least <= self.most, "bounds in order");
        self.most - self.least <= CERTAIN
    }
}

impl Echo {
    /// Notes a packet that is received at `now` and waited so long before; returns true if it is
    /// newer than all before.
    #[inline]
    pub(crate) fn on_packet(&mut self, now: Nanos, wait: SocketWait, header: &Header) -> bool {
        let newer = header.number > self.number || !self.any;
        if newer {
            *self = Self {
                number: header.number,
                sent: header.sent,
                arrived: ticks(now.saturating_sub(wait.least)),
                uncertain: !wait.is_certain(),
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
            if self.uncertain {
                header.flags = header.flags.with(Flags::MAY_HAVE_WAITED);
            }
        }
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let nothing = self.number == 0 && self.sent == 0 && self.arrived == 0;
        assert!(self.any || nothing, "a time is echoed only of a packet");
    }
}
