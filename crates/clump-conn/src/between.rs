//! Settings of connections between jobs.

use crate::error::{Error, Result};
use clump_boot::Config;
use clump_transport::FaultPlan;
use clump_wire::Security;
use std::time::Duration;

/// Settings of a connection between two jobs.
#[derive(Debug, Clone)]
pub struct Between {
    /// Maximum silence of the other side: after it the connection has ended.
    pub silence: Duration,
    /// Protection of packets. The listener decides, and its token says so.
    pub security: Security,
    /// Faults injected into the network, and the seed of the random choice.
    pub faults: Option<(FaultPlan, u64)>,
}

impl Between {
    /// Reads the settings: `CLUMP_CONN_SILENCE_MS` and `CLUMP_NET_FAULTS`.
    ///
    /// # Errors
    /// A setting outside of its range.
    pub fn configured() -> Result<Self> {
        let config = Config::load().map_err(|e| Error::Between(e.to_string()))?;
        Ok(Self {
            silence: Duration::from_millis(config.conn_silence_ms),
            security: Security::Aead,
            faults: clump_transport::faults(&config),
        })
    }
}
