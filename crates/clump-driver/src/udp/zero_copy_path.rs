//! State of zero-copy sends.

use clump_os::udp::ZeroCopyPipe;

/// State of zero-copy sends: the pipe, made when it is first needed, and anew after a failure.
#[derive(Debug, Default)]
pub(super) struct ZeroCopyPath {
    pub(super) zero_copy_pipe: Option<ZeroCopyPipe>,
    pub(super) failures: u32,
}
