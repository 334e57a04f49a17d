//! The endpoints of a simulated rank as its stack sees them.
//!
//! Segments are imaginary: the offset of a deposit encodes the message and the position in it, so
//! every fragment is checked as it is written.

use super::ledger::{self, SharedLedger};
use clump_net::EndpointTable;
use clump_wire::Reason;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits of an offset that encode the position inside a message.
const PLACE_BITS: u32 = 20;
/// Offsets from here on are outside every segment.
pub(crate) const OUTSIDE: u64 = 1 << 62;
/// Deposits that begin here end outside every segment.
pub(crate) const TOO_LONG: u64 = 1 << 61;

/// Returns the offset at which message `id` is to be deposited.
pub(crate) fn offset_of(id: u64) -> u64 {
    id << PLACE_BITS
}

#[derive(Debug, Clone, Copy)]
struct OpenEndpoint {
    name: u64,
    tag: u64,
    open: bool,
}

/// The endpoints of a rank, open and closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenEndpoints {
    endpoints: Arc<Mutex<Vec<OpenEndpoint>>>,
}

impl OpenEndpoints {
    fn lock(&self) -> MutexGuard<'_, Vec<OpenEndpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an endpoint.
    pub(crate) fn open(&self, name: u64, tag: u64) {
        self.lock().push(OpenEndpoint { name, tag, open: true });
    }

    /// Closes an endpoint.
    pub(crate) fn close(&self, name: u64) {
        for door in self.lock().iter_mut().filter(|door| door.name == name) {
            door.open = false;
        }
    }
}

/// Endpoint table of a simulated stack; it reports deposits to the ledger.
#[derive(Debug)]
pub(crate) struct SimEndpoints {
    pub(crate) doorway: OpenEndpoints,
    pub(crate) ledger: SharedLedger,
}

impl SimEndpoints {
    fn endpoint(&self, to: u64) -> Result<OpenEndpoint, Reason> {
        let endpoints = self.doorway.lock();
        // Newest first: closed endpoints gather at the beginning.
        let door =
            endpoints.iter().rev().find(|door| door.name == to).ok_or(Reason::NoSuchEndpoint)?;
        if door.open { Ok(*door) } else { Err(Reason::EndpointGone) }
    }
}

impl EndpointTable for SimEndpoints {
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason> {
        let door = self.endpoint(to)?;
        match tag {
            Some(tag) if tag != door.tag => Err(Reason::BadTag),
            _ => Ok(to as u8),
        }
    }

    fn fits(&self, to: u64, offset: u64, _bytes: u64) -> Result<(), Reason> {
        self.endpoint(to)?;
        match offset {
            OUTSIDE.. => Err(Reason::BadOffset),
            TOO_LONG.. => Err(Reason::BadLength),
            _ => Ok(()),
        }
    }

    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        self.fits(to, offset, data.len() as u64)?;
        let place = offset & ((1 << PLACE_BITS) - 1);
        ledger::lock(&self.ledger).on_deposit(offset >> PLACE_BITS, to, place, data);
        Ok(())
    }
}

/// Endpoint table that admits everything, so that the oracle sees messages that should not arrive.
#[derive(Debug)]
pub(crate) struct AcceptAllEndpoints;

impl EndpointTable for AcceptAllEndpoints {
    fn admit(&self, _to: u64, _tag: Option<u64>) -> Result<u8, Reason> {
        Ok(0)
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn deposit(&self, _to: u64, _offset: u64, _data: &[u8]) -> Result<(), Reason> {
        Ok(())
    }
}
