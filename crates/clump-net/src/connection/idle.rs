//! Memory of an idle connection: what traffic has made it grow by is given back.

use super::Connection;
use super::traffic_count::TrafficCount;
use crate::idle_time::IDLE_NS;
use clump_proto::Nanos;

impl Connection {
    /// Gives back memory if there was no traffic for a while. Returns the time of the next attempt;
    /// `None` if there is nothing to give back.
    pub(super) fn release_idle(&mut self, now: Nanos) -> Option<Nanos> {
        if self.spare_bytes() == 0 {
            return None;
        }
        let counts = self.channel.stats();
        let units = counts.units_sent + counts.units_received + self.records_end();
        if units != self.traffic.units || !self.is_quiet() {
            self.traffic = TrafficCount { units, since: now };
        }
        let due = self.traffic.since.saturating_add(IDLE_NS);
        if now < due {
            return Some(due);
        }
        self.release_spare();
        debug_assert!(self.spare_bytes() == 0, "all of it was given back");
        None
    }

    /// Gives back the memory that nothing in flight or waiting needs.
    fn release_spare(&mut self) {
        debug_assert!(self.is_quiet(), "what is in flight is kept");
        self.channel.release_spare();
        self.queue.release_spare();
        if let Some(bulk) = &mut self.bulk {
            bulk.sender.release_spare();
        }
    }

    /// Returns the bytes that are given back once the connection is idle.
    pub(crate) fn spare_bytes(&self) -> usize {
        let bulk = self.bulk.as_ref().map_or(0, |bulk| bulk.sender.records().spare_bytes());
        self.channel.spare_bytes() + self.queue.spare_bytes() + bulk
    }
}
