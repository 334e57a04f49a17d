//! Diffs: the bytes of a page that differ from its twin, and the merge of a fetched page.

use crate::varint::{ByteReader, DecodeError, push_u32};

/// Runs of changed bytes of one page, in ascending order, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Diff {
    /// First byte and length of each run.
    runs: Vec<(u32, u32)>,
    /// Bytes of all runs, one behind the other.
    bytes: Vec<u8>,
}

/// Returns where `a` and `b` first differ at `from` or later.
fn first_difference(a: &[u8], b: &[u8], from: usize) -> usize {
    debug_assert!(a.len() == b.len() && from <= a.len());
    let mut at = from;
    // Eight bytes at a time while they are equal: most of a page is.
    while let (Some(left), Some(right)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let changed = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if changed != 0 {
            return at + changed.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    debug_assert!(a.len() - at < 8, "only a tail is left");
    at + a[at..].iter().zip(&b[at..]).take_while(|(left, right)| left == right).count()
}

impl Diff {
    /// Returns the bytes of `page` that differ from its `twin`.
    pub fn between(twin: &[u8], page: &[u8]) -> Self {
        debug_assert_eq!(twin.len(), page.len(), "a twin has the page's length");
        debug_assert!(u32::try_from(page.len()).is_ok());
        let mut diff = Self::default();
        let mut at = first_difference(twin, page, 0);
        while at < page.len() {
            let differing = twin[at..].iter().zip(&page[at..]);
            let len = differing.take_while(|(old, new)| old != new).count();
            debug_assert!(len > 0, "a run begins with a difference");
            diff.runs.push((at as u32, len as u32));
            diff.bytes.extend_from_slice(&page[at..at + len]);
            at = first_difference(twin, page, at + len);
        }
        diff
    }

    /// Returns true if nothing differs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of runs.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of changed bytes.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Returns each run: its first byte within the page, and its bytes.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut rest = &self.bytes[..];
        self.runs.iter().map(move |&(first, len)| {
            let (run, behind) = rest.split_at(len as usize);
            rest = behind;
            (first as usize, run)
        })
    }

    /// Stores the runs, and no other byte, into `page`.
    pub fn apply(&self, page: &mut [u8]) {
        debug_assert!(self.runs.last().is_none_or(|run| (run.0 + run.1) as usize <= page.len()));
        let mut stored = 0;
        for (first, run) in self.runs() {
            page[first..first + run.len()].copy_from_slice(run);
            stored += run.len();
        }
        debug_assert_eq!(stored, self.bytes.len(), "every byte has its run");
    }

    /// Appends the diff: of each run the gap before it and its length, then all bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_u32(out, self.runs.len() as u32);
        let mut next = 0;
        for &(first, len) in &self.runs {
            debug_assert!(first >= next && len > 0, "runs ascend");
            push_u32(out, first - next);
            push_u32(out, len);
            next = first + len;
        }
        debug_assert_eq!(
            self.runs.iter().map(|run| run.1 as usize).sum::<usize>(),
            self.bytes.len()
        );
        out.extend_from_slice(&self.bytes);
    }

    /// Takes a diff of a page of `page_bytes` bytes that [`Diff::encode`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are no such diff.
    pub fn decode(page_bytes: u32, from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mut runs = Vec::new();
        let (mut next, mut total) = (0_u32, 0_u32);
        for at in 0..from.take_u32()? {
            let gap = from.take_u32()?;
            let len = from.take_u32()?;
            if len == 0 || (at > 0 && gap == 0) {
                return Err(DecodeError::Unordered);
            }
            let first = next.checked_add(gap).ok_or(DecodeError::OutOfRange)?;
            next = first.checked_add(len).ok_or(DecodeError::OutOfRange)?;
            if next > page_bytes {
                return Err(DecodeError::OutOfRange);
            }
            total += len;
            runs.push((first, len));
        }
        debug_assert!(total <= page_bytes, "runs do not overlap");
        debug_assert!(runs.len() <= total as usize, "no run is empty");
        Ok(Self { runs, bytes: from.take_bytes(total as usize)?.to_vec() })
    }
}

/// Brings `page` up to date with what its home sent: it takes the bytes in which `fetched` differs
/// from its twin. What local ranks wrote stays, and the twin becomes `fetched`.
///
/// `fetched` must contain every local write that has been compared with the twin already, or those
/// would be undone: [`crate::NodeState`] asks for such a version.
pub fn merge(page: &mut [u8], twin: &mut [u8], fetched: &[u8]) {
    debug_assert_eq!(page.len(), twin.len(), "a twin has the page's length");
    debug_assert_eq!(page.len(), fetched.len(), "whole pages are fetched");
    for ((byte, old), &new) in page.iter_mut().zip(twin.iter()).zip(fetched) {
        if *old != new {
            *byte = new;
        }
    }
    twin.copy_from_slice(fetched);
}
