//! Configuration of a stack.

use crate::peer_directory::PeerDirectory;
use clump_wire::Security;
use std::sync::Arc;

/// Configuration of a stack.
#[derive(Debug, Clone)]
pub struct StackConfig {
    /// Number of this stack.
    pub me: u32,
    /// Its incarnation.
    pub epoch: u32,
    /// Protection of packets.
    pub security: Security,
    /// Configuration of each channel.
    pub channel: clump_proto::Config,
    /// Bytes of requests from one endpoint that another may have unconsumed.
    pub credit_bytes: u64,
    /// Every stack that this one may talk to.
    pub peers: Arc<dyn PeerDirectory>,
}
