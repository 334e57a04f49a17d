//! Requests of the user, or of lost output, to end a job, and how long agents may take to obey.

const MS: u64 = 1_000_000;
/// Time that agents have to end a job before the launcher does it: they themselves need 300 ms.
pub const ASKED_ONCE_NS: u64 = 700 * MS;
/// Time that they have where no user waits: at a time limit, or where output cannot be written. On
/// a busy machine they report what ranks waited for, which the launcher could not.
pub const OWN_REASON_NS: u64 = 10_000 * MS;
/// Time that agents have to end a job after the user has asked twice.
pub const ASKED_TWICE_NS: u64 = 300 * MS;

/// A request to pass on to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRequest {
    /// Send the ranks this signal.
    Interrupt(u8),
    /// Kill everything.
    Kill,
}

/// The requests to end a job, as the launcher gets them.
#[derive(Debug, Default)]
pub struct EndRequests {
    /// First signal of the user.
    signal: Option<u8>,
    times: u32,
    deadline_ns: Option<u64>,
}

impl EndRequests {
    /// Handles a signal of the user. The second request kills.
    pub fn handle_signal(&mut self, signal: u8, now_ns: u64) -> EndRequest {
        debug_assert_ne!(signal, 0, "signals begin at 1");
        self.signal.get_or_insert(signal);
        self.request(signal, now_ns, ASKED_ONCE_NS)
    }

    /// Handles a reason of the launcher's own to end the job, as if the user had sent `signal`.
    pub fn handle_request(&mut self, signal: u8, now_ns: u64) -> EndRequest {
        self.request(signal, now_ns, OWN_REASON_NS)
    }

    fn request(&mut self, signal: u8, now_ns: u64, once_ns: u64) -> EndRequest {
        debug_assert!(once_ns >= ASKED_TWICE_NS, "the first request is the more patient one");
        self.times = self.times.saturating_add(1);
        let (request, limit_ns) = match self.times {
            1 => (EndRequest::Interrupt(signal), once_ns),
            _ => (EndRequest::Kill, ASKED_TWICE_NS),
        };
        let deadline = now_ns.saturating_add(limit_ns);
        self.deadline_ns = Some(self.deadline_ns.map_or(deadline, |at| at.min(deadline)));
        debug_assert!(self.deadline_ns <= Some(deadline), "a later request gives no more time");
        self.check_invariants();
        request
    }

    /// Begins to wait for the reader of the remaining output, for as long as it takes unless the
    /// job was asked to end.
    pub fn handle_concluding(&mut self, now_ns: u64) {
        let asked = self.times > 0;
        self.deadline_ns = asked.then(|| now_ns.saturating_add(ASKED_TWICE_NS));
        debug_assert_eq!(self.deadline_ns.is_some(), asked, "only the asked for hurries");
    }

    /// Records that the launcher has ended the job itself: nothing is waited for any more.
    pub fn handle_taken_over(&mut self) {
        debug_assert!(self.times > 0, "the launcher takes over only when asked");
        self.deadline_ns = None;
    }

    /// Returns the time when the launcher ends the job itself.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Returns true if the time to obey is over.
    pub fn is_late(&self, now_ns: u64) -> bool {
        self.deadline_ns.is_some_and(|at| at <= now_ns)
    }

    /// Returns the first signal of the user.
    pub fn signal(&self) -> Option<u8> {
        self.signal
    }

    /// Returns the number of requests.
    pub fn times(&self) -> u32 {
        self.times
    }

    fn check_invariants(&self) {
        debug_assert!(self.signal.is_none() || self.times > 0, "a signal is a request");
        debug_assert!(self.times == 0 || self.deadline_ns.is_some(), "a request has a deadline");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_kills_and_never_gives_more_time() {
        let mut requests = EndRequests::default();
        assert!(!requests.is_late(u64::MAX));
        assert_eq!(requests.handle_signal(2, 0), EndRequest::Interrupt(2));
        assert_eq!(requests.next_deadline_ns(), Some(ASKED_ONCE_NS));
        assert_eq!(requests.handle_signal(15, 600 * MS), EndRequest::Kill);
        assert_eq!(requests.next_deadline_ns(), Some(ASKED_ONCE_NS), "no later than before");
        assert!(!requests.is_late(ASKED_ONCE_NS - 1) && requests.is_late(ASKED_ONCE_NS));
        assert_eq!((requests.signal(), requests.times()), (Some(2), 2));
        requests.handle_taken_over();
        assert!(!requests.is_late(u64::MAX));
    }

    #[test]
    fn output_that_cannot_be_written_ends_the_job_without_a_signal() {
        let mut requests = EndRequests::default();
        assert_eq!(requests.handle_request(15, 5), EndRequest::Interrupt(15));
        assert_eq!((requests.signal(), requests.times()), (None, 1));
        assert_eq!(requests.next_deadline_ns(), Some(5 + OWN_REASON_NS), "nobody waits");
        assert_eq!(requests.handle_signal(2, 7), EndRequest::Kill);
        assert_eq!(requests.next_deadline_ns(), Some(7 + ASKED_TWICE_NS), "somebody does");
    }

    #[test]
    fn a_reader_may_take_its_time_unless_the_job_was_asked_to_end() {
        let mut requests = EndRequests::default();
        requests.handle_concluding(7);
        assert_eq!(requests.next_deadline_ns(), None);
        requests.handle_signal(2, 10);
        requests.handle_concluding(20);
        assert_eq!(requests.next_deadline_ns(), Some(20 + ASKED_TWICE_NS));
    }
}
