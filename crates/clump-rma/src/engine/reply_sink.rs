//! Destination of what an engine sends.

use clump_shm::name::Name;

/// Destination of answers.
pub trait ReplySink {
    /// Sends an answer. Returns false when there is no room now.
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool;
    /// Reports to an endpoint the total bytes of its requests consumed.
    fn report(&mut self, to: Name, consumed: u64);
    /// Sends a request of this interface to that of another node.
    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> AskStatus;
}

/// Result of sending a request to another interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskStatus {
    /// It is on its way; its answer, or its return, is handed to the engine.
    Sent,
    /// There is no room now.
    Full,
    /// The node is lost, or there is none of that number.
    Lost,
}
