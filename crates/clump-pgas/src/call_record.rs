//! Encoding of remote calls and their answers: contiguous records, many in one message.

use crate::error::{ErrorKind, Result};

/// Bytes of a record before its arguments or result.
pub(crate) const HEAD: usize = 16;

/// A call, or the answer of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallRecord<'a> {
    /// Number of the function; of an answer 0, or 1 if its bytes are the text of an error.
    pub(crate) number: u32,
    /// Number of the call at the rank that waits for its answer; 0 if none does.
    pub(crate) cookie: u64,
    /// Arguments or result.
    pub(crate) bytes: &'a [u8],
}

impl CallRecord<'_> {
    /// Returns the bytes of a record with so many bytes of arguments.
    pub(crate) fn length(arguments: usize) -> usize {
        HEAD + arguments
    }

    /// Appends the record to a message.
    pub(crate) fn append_to(&self, message: &mut Vec<u8>) {
        let before = message.len();
        let bytes = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        debug_assert_eq!(bytes as usize, self.bytes.len(), "it fits into a message");
        message.extend_from_slice(&self.number.to_le_bytes());
        message.extend_from_slice(&bytes.to_le_bytes());
        message.extend_from_slice(&self.cookie.to_le_bytes());
        message.extend_from_slice(self.bytes);
        debug_assert_eq!(message.len() - before, Self::length(self.bytes.len()), "a record");
    }
}

/// The records of a message. Ends behind the first that is damaged.
#[derive(Debug)]
pub(crate) struct CallRecords<'a>(&'a [u8]);

impl<'a> CallRecords<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Takes the next record off the front; `None` if it is damaged.
    fn take(&mut self) -> Option<CallRecord<'a>> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (cookie, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        let (number, cookie) = (u32::from_le_bytes(*number), u64::from_le_bytes(*cookie));
        Some(CallRecord { number, cookie, bytes })
    }
}

impl<'a> Iterator for CallRecords<'a> {
    type Item = Result<CallRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.take();
        if record.is_none() {
            self.0 = &[];
        }
        Some(record.ok_or_else(|| ErrorKind::BadArguments.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::{CallRecord, CallRecords, HEAD};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            given in prop::collection::vec(
                (any::<u32>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let mut message = Vec::new();
            for (number, cookie, bytes) in &given {
                CallRecord { number: *number, cookie: *cookie, bytes }.append_to(&mut message);
            }
            let read: Vec<_> = CallRecords::of(&message)
                .map(|record| record.map(|it| (it.number, it.cookie, it.bytes.to_vec())))
                .collect::<Result<_, _>>()
                .unwrap();
            prop_assert_eq!(read, given);
        }

        #[test]
        fn damaged_messages_end_with_an_error(
            whole in 0..5_usize,
            rest in prop::collection::vec(any::<u8>(), 1..HEAD),
        ) {
            let mut message = Vec::new();
            for cookie in 0..whole as u64 {
                CallRecord { number: 7, cookie, bytes: &[1, 2, 3] }.append_to(&mut message);
            }
            message.extend_from_slice(&rest);
            let read: Vec<_> = CallRecords::of(&message).collect();
            prop_assert_eq!(read.len(), whole + 1);
            prop_assert!(read.last().unwrap().is_err());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = CallRecords::of(&bytes).filter_map(Result::ok);
            let length: usize = read.map(|record| CallRecord::length(record.bytes.len())).sum();
            prop_assert!(length <= bytes.len());
        }
    }
}
