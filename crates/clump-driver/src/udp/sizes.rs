//! Sizes of calls to UDP sockets.

/// Size up to which parts are copied together: cheaper than a list of parts for the kernel (250 ns
/// for three parts of together 96 bytes, see `clump_os::udp`).
pub(super) const COPY_LIMIT: usize = 2048;

/// Maximum number of messages sent, or received, in one system call.
pub(super) const MESSAGES: usize = 16;
