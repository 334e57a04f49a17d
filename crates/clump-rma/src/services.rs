//! Requests to services of other nodes' interfaces, and where answers may be waited for.

use crate::error::{ErrorKind, Refusal, Result, refused};
use crate::request_payload::RequestPayload;
use crate::rma::Rma;
use clump_onesided::batch::{HALVES, may_be_batched};
use clump_onesided::protocol::{FIRST_CODE, LAST_CODE, code};
use clump_onesided::{AnswerSink, AtomicOp, SpreadUpdate};
use clump_shm::export::SegmentName;
use std::ptr::NonNull;
use zerocopy::IntoBytes;

impl Rma {
    /// Executes one operation without a result on words of segments of any nodes, by index from
    /// their beginning. The interface of node `via` executes the updates of its own segments and
    /// forwards the others, one request for each segment. Returns when all have been executed.
    ///
    /// # Errors
    /// Fails with the first refusal; others may have been executed. [`Refusal::Overloaded`]: the
    /// interface forwards too much for others at the moment. Fails if a node or a rank is lost, or
    /// if `via` is this node, since a rank reaches all others by itself, or no node.
    pub fn spread(&self, via: u32, op: AtomicOp, updates: &[SpreadUpdate]) -> Result<()> {
        if via == self.inner.context.node_number()
            || via >= self.inner.context.nnodes()
            || !may_be_batched(op)
        {
            return Err(refused(SegmentName::from_bits(0), 0, Refusal::Unknown));
        }
        debug_assert!(!op.is_answered(), "callers get no values");
        let mut result = Ok(());
        for part in updates.chunks(SpreadUpdate::MOST) {
            let words = |cookie| [0, 0, cookie, op as u64];
            let load = RequestPayload::Bytes(part.as_bytes());
            let sink = AnswerSink::Value;
            let cookie = self.inner.begin(via, code::SPREAD, sink, words, load)?;
            result = result.and(self.inner.await_one(cookie).map(drop));
        }
        result
    }

    /// Begins as [`Rma::spread`] does, without an answer, on words of eight bytes, or of four if
    /// `halves`. [`Rma::quiet`] waits for all hops, and reports refusals; [`Rma::fence`] orders it
    /// with other requests to the interface of `via`.
    ///
    /// # Errors
    /// Fails for operations that are made for their results, if `via` is no node, or this one and
    /// no proxies run, or if the node is lost.
    pub fn begin_spread(
        &self,
        via: u32,
        (op, halves): (AtomicOp, bool),
        updates: &[SpreadUpdate],
    ) -> Result<()> {
        let memory = self.inner.context.node();
        // A proxy combines what ranks of its node send; without proxies a rank reaches all others.
        let here = via == self.inner.context.node_number() && memory.proxies() == 0;
        if here || via >= self.inner.context.nnodes() || !may_be_batched(op) {
            return Err(refused(SegmentName::from_bits(0), 0, Refusal::Unknown));
        }
        debug_assert!(!here, "an interface takes it");
        let words = [0, 0, 0, op as u64 | if halves { HALVES } else { 0 }];
        for part in updates.chunks(SpreadUpdate::MOST) {
            let load = RequestPayload::Bytes(part.as_bytes());
            let sent = self.inner.send(via, code::SPREAD, &words, load);
            // Its segments are of other nodes: the one that is lost is named.
            let lost = |error: &crate::Error| error.why() == Some(Refusal::NodeLost);
            if sent.as_ref().is_err_and(lost) {
                return Err(ErrorKind::NodeLost { node: via }.into());
            }
            sent?;
        }
        Ok(())
    }

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
        debug_assert!(node < self.inner.context.nnodes(), "a node of the job");
        let words = |cookie| [segment.to_bits(), offset, cookie];
        let cookie = self.inner.begin(node, code, sink, words, RequestPayload::Nothing)?;
        // The buffer is borrowed until the operation has ended, successfully or not.
        self.inner.await_one(cookie).map(drop)
    }

    /// Returns true if a call of a restricted access ([`Rma::open_restricted`]) may be made now,
    /// whatever the code that a signal has interrupted on this thread: it is not inside the stack
    /// of its rank, whose lock it would wait for.
    pub fn may_wait_in_fault(&self) -> bool {
        match self.inner.context.actor() {
            Some(actor) => {
                debug_assert!(self.inner.context.network().is_none(), "no network in virtual time");
                !actor.computation().is_in_handler()
            }
            None => self.inner.context.network().is_some_and(|network| network.is_free()),
        }
    }
}
