//! System calls on memory of the heap. The kernel serves no page faults of the heap: a call on a
//! page that the rank has no right on fails with EFAULT. So the pages are touched before the call,
//! and again when another thread's acquire has taken some away meanwhile.

use crate::array::SharedArray;
use crate::svm::Svm;
use clump_coll::Plain;
use clump_os::transfer::{TransferCall, TransferPart, is_unmapped};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Times that a call is made: threads that acquire take pages away only now and then, so memory
/// that is still not mapped is none that could be.
const MAX_TRIES: u32 = 100;

/// Elements of a shared array, for [`Svm::transfer`].
#[derive(Debug, Clone, Copy)]
pub struct SharedPart<'a> {
    part: TransferPart,
    array: PhantomData<&'a ()>,
}

impl<T: Plain> SharedArray<T> {
    /// Returns elements as memory for [`Svm::transfer`].
    ///
    /// # Panics
    /// Panics if there are no such elements.
    pub fn part(&self, elements: Range<usize>) -> SharedPart<'_> {
        let Range { start, end } = elements;
        assert!(start <= end && end <= self.len(), "{start}..{end} of {} elements", self.len());
        // SAFETY: inside the allocation, or at its end (just checked).
        let first = unsafe { self.address().add(start) }.cast::<u8>().as_ptr();
        let part = TransferPart { first, bytes: (end - start) * size_of::<T>() };
        SharedPart { part, array: PhantomData }
    }
}

impl Svm {
    /// Makes a system call that moves bytes between a descriptor and elements of shared arrays, one
    /// part behind the other. Returns the bytes that were moved, which may be fewer than there are.
    ///
    /// # Errors
    /// Fails as the call does, but for EFAULT: that is [`io::ErrorKind::InvalidInput`], and says
    /// why. So does memory of the heap that was not allocated.
    pub fn transfer(
        &self,
        fd: impl AsFd,
        how: TransferCall,
        parts: &[SharedPart<'_>],
    ) -> io::Result<usize> {
        let parts: Vec<TransferPart> = parts.iter().map(|shared| shared.part).collect();
        // SAFETY: elements of allocations, for which all bits are a value, and which are accessed
        // by raw copies alone (invariant 4).
        unsafe { self.transfer_memory(fd, how, &parts) }
    }

    /// Makes a system call as [`Svm::transfer`] does, on any memory: of the heap, or the program's
    /// own. More than 16 MiB are moved by several calls where that makes no difference, and else by
    /// one that moves no more.
    ///
    /// # Errors
    /// As [`Svm::transfer`].
    ///
    /// # Safety
    /// As for [`TransferCall::make`].
    pub unsafe fn transfer_memory(
        &self,
        fd: impl AsFd,
        how: TransferCall,
        parts: &[TransferPart],
    ) -> io::Result<usize> {
        for part in parts {
            self.check_allocated((part.first.addr(), part.bytes))
                .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why.to_string()))?;
        }
        let fd = fd.as_fd();
        let all = parts.iter().map(|part| part.bytes).sum::<usize>();
        let mut done = 0;
        loop {
            let piece = piece_of(parts, done, PIECE);
            let bytes = piece.iter().map(|part| part.bytes).sum::<usize>();
            let ready = || {
                for part in &piece {
                    if let Some(first) = NonNull::new(part.first) {
                        self.touch_all(first, part.bytes, how.stores());
                    }
                }
            };
            // SAFETY: the caller vouches for the memory.
            match made_again(ready, || unsafe { how.behind(done).make(fd, &piece) }) {
                Ok(moved) => {
                    done += moved;
                    if moved < bytes || done >= all || !how.goes_on(fd) {
                        return Ok(done);
                    }
                }
                // What was moved before the failure was moved.
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Bytes that are made ready at once: a transfer fetches no more pages before it moves any.
const PIECE: usize = 16 << 20;

/// Returns the parts of at most `most` bytes that follow the first `done`.
fn piece_of(parts: &[TransferPart], done: usize, most: usize) -> Vec<TransferPart> {
    let (mut skipped, mut left) = (done, most);
    let mut piece = Vec::new();
    for part in parts {
        let skips = skipped.min(part.bytes);
        skipped -= skips;
        let bytes = (part.bytes - skips).min(left);
        // A part of no bytes is left as it is.
        if skipped == 0 && (bytes > 0 || part.bytes == 0) {
            piece.push(TransferPart { first: part.first.wrapping_add(skips), bytes });
            left -= bytes;
        }
        if left == 0 {
            break;
        }
    }
    piece
}

/// Makes a call behind each `ready`, until it fails for another reason than unmapped memory.
fn made_again<R>(
    mut ready: impl FnMut(),
    mut call: impl FnMut() -> io::Result<R>,
) -> io::Result<R> {
    for _ in 0..MAX_TRIES {
        ready();
        match call() {
            Err(error) if is_unmapped(&error) => {}
            done => return done,
        }
    }
    let why = format!(
        "bad address (EFAULT) in {MAX_TRIES} calls: memory outside of the shared heap, or pages \
         that other threads' acquires take away again and again"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn pieces_are_all_of_the_parts_in_order() {
        let base = std::ptr::without_provenance_mut::<u8>(1 << 20);
        let part = |at: usize, bytes| TransferPart { first: base.wrapping_add(at), bytes };
        let parts = [part(0, 10), part(100, 0), part(200, 25), part(300, 1)];
        let bytes = |parts: &[TransferPart]| {
            let of = |part: &TransferPart| part.first.addr()..part.first.addr() + part.bytes;
            parts.iter().flat_map(of).collect::<Vec<usize>>()
        };
        for most in [1, 7, 10, 11, 36, 100] {
            let (mut all, mut done) = (Vec::new(), 0);
            while done < 36 {
                let piece = bytes(&piece_of(&parts, done, most));
                assert_eq!(piece.len(), most.min(36 - done), "{done} of pieces of {most}");
                done += piece.len();
                all.extend(piece);
            }
            assert_eq!(all, bytes(&parts));
        }
        assert_eq!(piece_of(&[part(5, 0)], 0, 8), [part(5, 0)]);
    }

    #[test]
    fn a_call_is_made_until_its_memory_is_there() {
        let (touched, calls) = (Cell::new(0), Cell::new(0));
        let ready = || touched.set(touched.get() + 1);
        let bad_address =
            || io::Error::from_raw_os_error(clump_os::error::Errno::FAULT.raw_os_error());
        let third = || {
            assert_eq!(touched.get(), calls.get() + 1, "touched before each call");
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err(bad_address()) } else { Ok(7) }
        };
        assert_eq!(made_again(ready, third).unwrap(), 7);
        let never = made_again(|| {}, || Err::<(), _>(bad_address())).unwrap_err();
        assert_eq!(never.kind(), io::ErrorKind::InvalidInput);
        assert!(never.to_string().contains("EFAULT"), "{never}");
        let other = made_again(|| {}, || Err::<(), _>(io::ErrorKind::BrokenPipe.into()));
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
