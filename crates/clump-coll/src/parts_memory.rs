//! Memory for the byte strings that members give: of any lengths, or the caller's.

use crate::arguments::check_bytes;
use clump_am::{ErrorKind, Result};

/// Memory that a collective writes the members' byte strings into.
pub(crate) trait PartsMemory {
    /// Returns the bytes that each member must give; `None`: as many as it likes.
    fn each(&self) -> Option<usize>;
    /// Makes room for the byte string of a member, of `len` bytes: of [`PartsMemory::each`], if
    /// that is set.
    ///
    /// # Errors
    /// There is no memory.
    fn make_room(&mut self, member: usize, len: u64) -> Result<()>;
    /// Returns the room of a member.
    fn part(&mut self, member: usize) -> &mut [u8];
}

/// By member; those without room yet are empty.
impl PartsMemory for Vec<Vec<u8>> {
    fn each(&self) -> Option<usize> {
        None
    }

    fn make_room(&mut self, member: usize, len: u64) -> Result<()> {
        debug_assert!(member < self.len(), "one for each member");
        self[member] = zeroed(len)?;
        Ok(())
    }

    fn part(&mut self, member: usize) -> &mut [u8] {
        &mut self[member]
    }
}

/// The caller's memory: parts of equal lengths, one behind the other.
#[derive(Debug)]
pub(crate) struct EqualParts<'a> {
    bytes: &'a mut [u8],
    each: usize,
    /// The member whose part is the first.
    first: usize,
}

impl<'a> EqualParts<'a> {
    /// Takes memory for the parts of `members` members, from 0.
    pub(crate) fn of_all(bytes: &'a mut [u8], members: usize) -> Self {
        debug_assert!(bytes.len().is_multiple_of(members), "equal parts");
        Self { each: bytes.len() / members, bytes, first: 0 }
    }

    /// Takes memory for the part of one member.
    pub(crate) fn of_one(bytes: &'a mut [u8], member: usize) -> Self {
        Self { each: bytes.len(), bytes, first: member }
    }
}

impl PartsMemory for EqualParts<'_> {
    fn each(&self) -> Option<usize> {
        Some(self.each)
    }

    fn make_room(&mut self, member: usize, len: u64) -> Result<()> {
        debug_assert!(member >= self.first && len == self.each as u64, "its length was checked");
        Ok(())
    }

    fn part(&mut self, member: usize) -> &mut [u8] {
        debug_assert!(member >= self.first, "a member with a part");
        let at = (member - self.first) * self.each;
        &mut self.bytes[at..at + self.each]
    }
}

/// Returns so many bytes, or an error where there is no memory for them.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>> {
    check_bytes(len)?;
    let len = len as usize;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| ErrorKind::NoMemory(len))?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Cuts bytes into parts of equal lengths, one for each member.
pub(crate) fn equal_parts(bytes: &[u8], members: usize) -> Vec<&[u8]> {
    let each = bytes.len() / members;
    debug_assert_eq!(each * members, bytes.len(), "equal parts");
    (0..members).map(|member| &bytes[member * each..(member + 1) * each]).collect()
}
