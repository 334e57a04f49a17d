//! Destination of an engine's answers, reports and requests.

use clump_shm::name::Name;
use clump_wire::SendResult;

/// Destination of answers.
pub trait ReplySink {
    /// Sends an answer. Returns false when there is no room now.
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool;
    /// Reports to an endpoint the total bytes of its requests consumed.
    fn report(&mut self, to: Name, consumed: u64);
    /// Sends a request of this interface to that of another node: its answer, or its return, is
    /// handed to the engine. Refused: the node is lost, or there is none of that number.
    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> SendResult;
}
