//! Messages returned to their sender: handler 0 (paper 000, 2.2).

use crate::message::{Handler, MessageKind, OutgoingMessage};
use clump_shm::name::Name;
use clump_trace::Role;
use clump_wire::Reason;

/// Handler 0 of an endpoint.
pub(crate) type OnReturned = Box<dyn FnMut(&Returned)>;

/// A message returned to the endpoint that sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The rank that sent it: this one.
    pub rank: u32,
    /// The endpoint it was sent to.
    pub dest: Name,
    /// Reason for the return.
    pub reason: Reason,
    /// True if it was a reply.
    pub reply: bool,
    /// The handler it was meant for.
    pub handler: Handler,
    /// Words of the message, 0 to 8.
    pub words: Vec<u64>,
    /// Payload (medium messages); empty for short and long ones.
    pub payload: Vec<u8>,
    /// Offset and bytes of the deposit (long messages). The bytes may or may not have been written.
    pub deposit: Option<(u64, u64)>,
}

impl Returned {
    /// Builds the return of a message of `rank` to `dest`.
    pub(crate) fn of(
        rank: u32,
        dest: Name,
        (role, reason): (Role, Reason),
        message: &OutgoingMessage<'_>,
    ) -> Self {
        debug_assert!(message.kind != MessageKind::Returned, "it went back to its sender already");
        let is_medium = message.kind == MessageKind::Medium;
        let payload = if is_medium { message.payload.to_vec() } else { Vec::new() };
        let (words, deposit) = (message.arguments().to_vec(), message.deposit());
        let (reply, handler) = (role == Role::Reply, message.handler);
        Self { rank, dest, reason, reply, handler, words, payload, deposit }
    }
}
