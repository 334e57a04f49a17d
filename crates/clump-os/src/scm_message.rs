//! Messages with several parts and several descriptors, over a pair of
//! [`crate::socket::message_pair`].
//!
//! Parts are gathered and scattered by the kernel, so that secrets are never copied on the way: a
//! part may be in memory that is excluded from dumps.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors of one message (the kernel's `SCM_MAX_FD`, rounded down).
pub const MAX_DESCRIPTORS: usize = 250;
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// Sends `parts` as one message, with copies of `descriptors`.
///
/// # Errors
/// There are too many descriptors, or the other end is closed.
pub fn send(socket: impl AsFd, parts: &[&[u8]], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.len() <= MAX_DESCRIPTORS;
    if !fits
        || (!descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)))
    {
        let what = format!("sending {} descriptors at once", descriptors.len());
        return Err(OsError::new(what, Errno::TOOBIG));
    }
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
        .map_err(|e| OsError::new("sending on a unix socket", e))?;
    Ok(())
}

/// A message taken by [`receive`].
#[derive(Debug)]
pub struct ScmMessage {
    /// Bytes of the message, put into the parts one after the other.
    pub bytes: usize,
    /// The descriptors that came along, closed on exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Takes the next message; returns `None` when none is there now or the other end is closed.
///
/// # Errors
/// The message is longer than the parts, or carries too many descriptors.
pub fn receive(socket: impl AsFd, parts: &mut [&mut [u8]]) -> Result<Option<ScmMessage>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts: Vec<IoSliceMut<'_>> =
        parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match rustix::net::recvmsg(socket, &mut parts, &mut control, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
        Err(e) => return Err(OsError::new("receiving from a unix socket", e)),
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            descriptors.extend(some);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(OsError::new("receiving from a unix socket", Errno::MSGSIZE));
    }
    let there = got.bytes > 0 || !descriptors.is_empty();
    Ok(there.then_some(ScmMessage { bytes: got.bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::message_pair;

    #[test]
    fn parts_and_descriptors_arrive_in_order() {
        let (a, b) = message_pair().unwrap();
        let files = [4096, 8192].map(|size| crate::map::sealed_memory("x", size).unwrap());
        let (first, second) = (files[0].as_fd(), files[1].as_fd());
        send(&a, &[b"he", b"llo", b""], &[first, second]).unwrap();
        let (mut front, mut rest) = ([0; 4], [0; 8]);
        let parcel = receive(&b, &mut [&mut front, &mut rest]).unwrap().unwrap();
        assert_eq!((parcel.bytes, &front, &rest[..2]), (5, b"hell", &b"o\0"[..]));
        let sizes =
            parcel.descriptors.iter().map(|fd| crate::map::sealed_size(fd.as_fd()).unwrap());
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(4096), Some(8192)]);
        assert!(receive(&b, &mut [&mut front]).unwrap().is_none());
        drop(a);
        assert!(receive(&b, &mut [&mut front]).unwrap().is_none());
    }

    #[test]
    fn as_many_descriptors_as_promised_and_not_more() {
        let (a, b) = message_pair().unwrap();
        let one = a.as_fd();
        send(&a, &[b"x"], &vec![one; MAX_DESCRIPTORS]).unwrap();
        let parcel = receive(&b, &mut [&mut [0; 1]]).unwrap().unwrap();
        assert_eq!(parcel.descriptors.len(), MAX_DESCRIPTORS);
        assert!(send(&a, &[b"x"], &vec![one; MAX_DESCRIPTORS + 1]).is_err());
        send(&a, &[b"long"], &[]).unwrap();
        assert!(receive(&b, &mut [&mut [0; 2]]).is_err(), "half a message is none");
    }
}
