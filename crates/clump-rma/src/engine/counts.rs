//! Counts of an interface's executed requests.

/// Requests that an engine has executed since it was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EngineCounts {
    /// Requests, those to services included.
    pub executed: u64,
    /// Requests that were refused, at once or later.
    pub refused: u64,
    /// Requests to services.
    pub services: u64,
    /// Requests to services that were not answered at once.
    pub later: u64,
    /// Requests of services to other interfaces.
    pub asked: u64,
    /// Requests to services that were forwarded together with an earlier one.
    pub joined: u64,
    /// Times that a request had to wait until less was being forwarded.
    pub delayed: u64,
}
