//! Driver that connects a stack with the simulated network.

use super::switch::{SharedSwitch, address_of};
use crate::time::SocketClock;
use clump_driver::{Capabilities, Driver, DriverError, Inbound, Outgoing};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Driver at a socket of the switch.
#[derive(Debug)]
pub(crate) struct SimDriver {
    switch: SharedSwitch,
    socket: u32,
    capabilities: Capabilities,
    /// Clock that the calls advance, if they take time.
    clock: Option<SocketClock>,
}

impl SimDriver {
    pub(crate) fn new(switch: &SharedSwitch, socket: u32) -> Self {
        let port = switch.lock().port(socket).clone();
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
        Self { switch: switch.clone(), socket, capabilities, clock: None }
    }

    /// Returns a driver whose calls advance `clock`.
    pub(crate) fn with_clock(switch: &SharedSwitch, socket: u32, clock: SocketClock) -> Self {
        Self { clock: Some(clock), ..Self::new(switch, socket) }
    }
}

impl Driver for SimDriver {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        address_of(self.socket)
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let mut switch = self.switch.lock();
        for (index, outgoing) in batch.iter().enumerate() {
            let bytes = outgoing.bytes();
            if bytes > self.capabilities.max_datagram {
                return Err(DriverError::Oversized { index, bytes, to: outgoing.to });
            }
            let now = self.clock.as_ref().map_or(0, |clock| {
                clock.on_sent(bytes);
                clock.get()
            });
            if !switch.send(self.socket, outgoing, now) {
                return Ok(index);
            }
        }
        Ok(batch.len())
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let received = self.switch.lock().receive(self.socket, into);
        if let Some(clock) = &self.clock {
            for at in 0..received {
                clock.on_received(into.datagram(at).bytes.len());
            }
        }
        Ok(received)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn path_hint(&self, _to: SocketAddr) -> Option<usize> {
        Some(self.capabilities.max_datagram)
    }
}
