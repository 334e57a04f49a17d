//! Reads by services of other nodes' interfaces, and where they may be waited for.

use crate::error::Result;
use crate::request_payload::RequestPayload;
use crate::requester::AnswerSink;
use crate::rma::Rma;
use crate::service::{FIRST_CODE, LAST_CODE};
use clump_shm::export::SegmentName;
use std::ptr::NonNull;

impl Rma {
    /// Makes a request of `segment offset cookie` to a service of the interface of another node,
    /// which answers with as many bytes as `to` has.
    ///
    /// # Errors
    /// Fails if the service refuses or answers with another number of bytes, or if the node or a
    /// rank is lost. Then the contents of `to` are unspecified.
    pub fn read_service(
        &self,
        node: u32,
        code: u8,
        (segment, offset): (SegmentName, u64),
        to: &mut [u8],
    ) -> Result<()> {
        debug_assert!((FIRST_CODE..=LAST_CODE).contains(&code), "a service's");
        let sink = AnswerSink::Buffer(NonNull::from(&mut *to).cast::<u8>(), to.len());
        let words = |cookie| [segment.to_bits(), offset, cookie];
        let cookie = self.inner.begin(node, code, sink, words, RequestPayload::Nothing)?;
        // The buffer is borrowed until the operation has ended, successfully or not.
        self.inner.await_one(cookie).map(drop)
    }

    /// Returns true if a call of a restricted access ([`Rma::open_restricted`]) may be made now,
    /// whatever the code that a signal has interrupted on this thread: it is not inside the stack
    /// of its rank, whose lock it would wait for.
    pub fn may_wait_in_fault(&self) -> bool {
        self.inner.context.network().is_some_and(|network| network.is_free())
    }
}
