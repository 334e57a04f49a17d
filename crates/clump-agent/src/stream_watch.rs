//! Signs of life on a control stream between machines, where a cut does not end the stream: a
//! connection without traffic looks alive for hours. Pure.

/// Signs in a node timeout.
const SIGNS: u64 = 4;

/// One end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamWatch {
    period_ns: u64,
    limit_ns: u64,
    next_ns: u64,
    heard_ns: u64,
    looked_ns: u64,
}

impl StreamWatch {
    /// Watches a stream that counts as dead after so many node timeouts without a sign.
    pub(crate) fn new(node_timeout_ms: u64, timeouts: u64, now_ns: u64) -> Self {
        let timeout_ns = node_timeout_ms.saturating_mul(1_000_000);
        debug_assert!(timeout_ns >= SIGNS && timeouts > 0, "periods are apart");
        Self {
            period_ns: timeout_ns / SIGNS,
            limit_ns: timeout_ns.saturating_mul(timeouts),
            next_ns: now_ns,
            heard_ns: now_ns,
            looked_ns: now_ns,
        }
    }

    /// Records that something has come.
    pub(crate) fn on_heard(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// Returns the time for the next call of [`StreamWatch::handle_timeout`].
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns true if a sign is due.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        // Time in which this process was stopped, or not scheduled, is not the other's silence.
        let late_ns = now_ns.saturating_sub(self.looked_ns.saturating_add(2 * self.period_ns));
        self.heard_ns = self.heard_ns.saturating_add(late_ns).min(now_ns);
        self.looked_ns = now_ns;
        self.next_ns = now_ns.saturating_add(self.period_ns);
        true
    }

    /// Returns true if the other end has given no sign for too long.
    pub(crate) fn is_dead(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.heard_ns) >= self.limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn silence_counts_and_own_absence_does_not() {
        let mut watch = StreamWatch::new(400, 5, 0);
        let mut signs = 0;
        for now in (0..2000 * MS).step_by(10 * MS as usize) {
            signs += u32::from(watch.handle_timeout(now));
            assert!(!watch.is_dead(now), "at {now}");
        }
        assert_eq!(signs, 20, "four in each timeout");
        assert!(watch.is_dead(2000 * MS));
        watch.on_heard(2000 * MS);
        // Stopped for a minute: what has come meanwhile has not been read yet.
        watch.handle_timeout(2010 * MS);
        assert!(watch.handle_timeout(62_000 * MS));
        assert!(!watch.is_dead(62_000 * MS));
        for now in (62_000 * MS..64_000 * MS).step_by(10 * MS as usize) {
            watch.handle_timeout(now);
        }
        assert!(watch.is_dead(64_000 * MS));
    }
}
