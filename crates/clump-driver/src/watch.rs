//! Several descriptors as one that becomes readable when any of them does.

use clump_os::OsError;
use rustix::event::epoll;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Returns an epoll descriptor over all of `sockets`.
pub(crate) fn watch<'a>(
    sockets: impl IntoIterator<Item = BorrowedFd<'a>>,
) -> Result<OwnedFd, OsError> {
    let failed = |e| OsError::new("watching several sockets by epoll", e);
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    for (i, socket) in sockets.into_iter().enumerate() {
        let token = epoll::EventData::new_u64(i as u64);
        epoll::add(&watch, socket, token, epoll::EventFlags::IN).map_err(failed)?;
    }
    Ok(watch)
}
