//! What connects a stack with the simulated network.

use crate::switch::{SharedSwitch, address_of};
use clump_driver::{Capabilities, Driver, DriverError, Inbound, Outgoing};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A driver at a seat of the switch.
#[derive(Debug)]
pub(crate) struct SimDriver {
    switch: SharedSwitch,
    seat: u32,
    capabilities: Capabilities,
}

impl SimDriver {
    pub(crate) fn new(switch: &SharedSwitch, seat: u32) -> Self {
        let port = switch.lock().port(seat).clone();
        let capabilities = Capabilities {
            name: "sim".to_owned(),
            max_datagram: port.mtu,
            gso: false,
            gro: false,
            ecn: true,
            timestamps: false,
            answerable: true,
            receive_buffer: port.socket_bytes,
            send_buffer: usize::try_from(port.card_bytes).unwrap_or(usize::MAX),
        };
        Self { switch: switch.clone(), seat, capabilities }
    }
}

impl Driver for SimDriver {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        address_of(self.seat)
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let mut switch = self.switch.lock();
        for (index, outgoing) in batch.iter().enumerate() {
            let bytes = outgoing.bytes();
            if bytes > self.capabilities.max_datagram {
                return Err(DriverError::Oversized { index, bytes, to: outgoing.to });
            }
            if !switch.send(self.seat, outgoing) {
                return Ok(index);
            }
        }
        Ok(batch.len())
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        Ok(self.switch.lock().receive(self.seat, into))
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn path_hint(&self, _to: SocketAddr) -> Option<usize> {
        Some(self.capabilities.max_datagram)
    }
}
