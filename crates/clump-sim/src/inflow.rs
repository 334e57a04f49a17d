//! What an endpoint has consumed of another's requests, and when it says so: as endpoints of `clump-am` do.

use clump_net::REQUEST_COST;

/// See the module. In bytes.
#[derive(Debug, Default)]
pub(crate) struct Inflow {
    consumed: u64,
    reported: u64,
    asked: Option<u64>,
}

impl Inflow {
    /// A request with so many bytes of payload was consumed.
    pub(crate) fn consume(&mut self, payload: usize) {
        self.consumed += REQUEST_COST + payload as u64;
    }

    /// The other wants to be told once so much has been consumed. Questions overtake each other: the least is surely
    /// reached, and then the other asks again.
    pub(crate) fn ask(&mut self, total: u64) {
        self.asked = Some(self.asked.map_or(total, |earlier| earlier.min(total)));
    }

    /// What the other, which may have `credit` bytes unconsumed, is to be told now.
    pub(crate) fn due(&mut self, credit: u64) -> Option<u64> {
        let due = self.consumed - self.reported >= credit / 4
            || self.asked.is_some_and(|asked| self.consumed >= asked);
        due.then(|| {
            (self.reported, self.asked) = (self.consumed, None);
            self.consumed
        })
    }

    /// What the other has not been told.
    pub(crate) fn untold(&self) -> Option<u64> {
        (self.consumed != self.reported).then_some(self.consumed)
    }
}
