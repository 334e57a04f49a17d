//! Datagrams whose memory is kept until they have arrived: their pages are shown to the kernel.

use super::Udp;
use super::send::is_passing;
use crate::driver::{LEAST_KEPT, Outgoing};
use crate::error::DriverError;
use clump_os::udp::Passage;
use rustix::io::Errno;

/// Failures after which this machine is taken to have no such way.
const MOST_FAILURES: u32 = 8;

/// The way for pages, made when it is needed first, and anew after a failure.
#[derive(Debug, Default)]
pub(super) struct Showing {
    passage: Option<Passage>,
    failures: u32,
}

impl Udp {
    /// Sends in order, by showing pages as far as that works.
    pub(super) fn send_shown(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        for (taken, datagram) in batch.iter().enumerate() {
            if !self.show(datagram) {
                let rest = self.send_copied(&batch[taken..]);
                return rest.map(|sent| taken + sent).map_err(|e| e.behind(taken));
            }
        }
        Ok(batch.len())
    }

    /// Whether a datagram was sent. Only connected sockets can: a page bears no address.
    fn show(&mut self, datagram: &Outgoing<'_>) -> bool {
        let Outgoing { to, head, body, tail } = datagram;
        let whole =
            body.is_empty() && tail.is_empty() && head.len() >= LEAST_KEPT && Passage::takes(head);
        if !whole || self.showing.failures >= MOST_FAILURES {
            return false;
        }
        let main = self.socket_towards(to);
        let connection = self.connection_to(main, to);
        let Some(socket) = connection.and_then(|number| self.connections.socket(number)) else {
            return false;
        };
        let passage = self.showing.passage.take().map_or_else(Passage::new, Ok);
        let result = match passage {
            Err(_) => Err(Errno::MFILE),
            Ok(mut passage) => {
                let sent = passage.send(socket, head);
                // What is left in it after a failure must not get into the next datagram.
                self.showing.passage = sent.is_ok().then_some(passage);
                sent
            }
        };
        self.counts.send_calls += 1;
        match result {
            Ok(()) => {
                self.counts.sent += 1;
                self.counts.shown += 1;
            }
            // Whether it is too long is told when it is copied.
            Err(e) => self.showing.failures += u32::from(!is_passing(e) && e != Errno::MSGSIZE),
        }
        result.is_ok()
    }
}
