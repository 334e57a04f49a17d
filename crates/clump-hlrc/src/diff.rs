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

/// First number of a diff whose runs are a mask; of others it is even.
const MASK: u32 = 1;

/// Number of bytes that one word of marks covers.
const MARKED: usize = u64::BITS as usize;

/// Returns a bit for each of eight bytes that is not 0, the first byte's lowest.
fn nonzero_bytes(bytes: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // No sum leaves its byte, so the highest bit of each is set if any bit of it is.
    let highest = (((bytes & LOW) + LOW) | bytes) & !LOW;
    (highest >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Returns a bit for each of at most 64 bytes in which `a` and `b` differ, the first byte's lowest.
fn differing(a: &[u8], b: &[u8]) -> u64 {
    debug_assert!(a.len() == b.len() && a.len() <= MARKED, "as many bytes as bits");
    let ((left, left_rest), (right, right_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut marks = 0;
    for (at, (left, right)) in left.iter().zip(right).enumerate() {
        let changed = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if changed != 0 {
            marks |= nonzero_bytes(changed) << (8 * at);
        }
    }
    let left_words = left.len();
    for (at, (left, right)) in left_rest.iter().zip(right_rest).enumerate() {
        marks |= u64::from(left != right) << (8 * left_words + at);
    }
    marks
}

impl Diff {
    /// Returns the bytes of `page` that differ from its `twin`.
    pub fn between(twin: &[u8], page: &[u8]) -> Self {
        debug_assert_eq!(twin.len(), page.len(), "a twin has the page's length");
        debug_assert!(u32::try_from(page.len()).is_ok());
        let words = twin.chunks(MARKED).zip(page.chunks(MARKED));
        Self::of_marked(page, words.map(|(twin, page)| differing(twin, page)))
    }

    /// Returns the bytes of `page` that are marked: each word has bits for 64 bytes, the first
    /// byte's lowest.
    pub fn of_marked(page: &[u8], marks: impl IntoIterator<Item = u64>) -> Self {
        let mut diff = Self::default();
        for (word, marks) in marks.into_iter().enumerate() {
            diff.note_marks((word * MARKED) as u32, marks);
        }
        for &(first, len) in &diff.runs {
            let (first, len) = (first as usize, len as usize);
            debug_assert!(first + len <= page.len(), "marks are of bytes");
            diff.bytes.extend_from_slice(&page[first..first + len]);
        }
        diff
    }

    /// Adds the runs of a word of marks, whose lowest is that of byte `base`.
    fn note_marks(&mut self, base: u32, marks: u64) {
        debug_assert!(self.runs.last().is_none_or(|run| run.0 + run.1 <= base), "runs ascend");
        let mut rest = marks;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let len = (rest >> first).trailing_ones();
            match self.runs.last_mut() {
                Some(last) if last.0 + last.1 == base + first => last.1 += len,
                _ => self.runs.push((base + first, len)),
            }
            rest &= u64::MAX.checked_shl(first + len).unwrap_or(0);
        }
    }

    /// Returns a diff of each run; this one, if there are none.
    pub fn into_runs(self) -> Vec<Self> {
        if self.runs.len() <= 1 {
            return vec![self];
        }
        let one = |(first, bytes): (usize, &[u8])| Self {
            runs: vec![(first as u32, bytes.len() as u32)],
            bytes: bytes.to_vec(),
        };
        self.runs().map(one).collect()
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

    /// Appends the diff: of each run the gap before it and its length, or, where that is shorter, a
    /// bit for each byte of the page; then all bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let end = self.runs.last().map_or(0, |run| run.0 + run.1);
        let mask_bytes = end.div_ceil(8);
        // A run takes two bytes or more. Whole pages would undo what other nodes have written.
        if self.runs.len() > 2 + mask_bytes as usize / 2 {
            push_u32(out, MASK);
            push_u32(out, mask_bytes);
            self.encode_mask(mask_bytes as usize, out);
        } else {
            push_u32(out, (self.runs.len() as u32) << 1);
            let mut next = 0;
            for &(first, len) in &self.runs {
                debug_assert!(first >= next && len > 0, "runs ascend");
                push_u32(out, first - next);
                push_u32(out, len);
                next = first + len;
            }
        }
        debug_assert_eq!(
            self.runs.iter().map(|run| run.1 as usize).sum::<usize>(),
            self.bytes.len()
        );
        out.extend_from_slice(&self.bytes);
    }

    /// Appends a bit for each byte up to the last that is changed.
    fn encode_mask(&self, mask_bytes: usize, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + mask_bytes, 0);
        for &(first, len) in &self.runs {
            debug_assert!(((first + len) as usize) <= 8 * mask_bytes, "runs end within the mask");
            for at in first as usize..(first + len) as usize {
                out[begin + at / 8] |= 1 << (at % 8);
            }
        }
        debug_assert!(out.last().is_some_and(|&last| last != 0), "it ends with the last run");
    }

    /// Takes a diff of a page of `page_bytes` bytes that [`Diff::encode`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are no such diff.
    pub fn decode(page_bytes: u32, from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mut diff = match from.take_u32()? {
            MASK => Self::decode_mask(page_bytes, from)?,
            runs if runs & 1 == 0 => Self::decode_runs(page_bytes, runs >> 1, from)?,
            _ => return Err(DecodeError::OutOfRange),
        };
        let total: u32 = diff.runs.iter().map(|run| run.1).sum();
        debug_assert!(total <= page_bytes, "runs do not overlap");
        debug_assert!(diff.runs.len() <= total as usize, "no run is empty");
        diff.bytes = from.take_bytes(total as usize)?.to_vec();
        Ok(diff)
    }

    /// Takes a mask, and returns its runs.
    fn decode_mask(page_bytes: u32, from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mask = from.take_u32()? as usize;
        let mask = from.take_bytes(mask)?;
        let mut diff = Self::default();
        for (base, bits) in (0..page_bytes).step_by(8).zip(mask) {
            diff.note_marks(base, u64::from(*bits));
        }
        let end = diff.runs.last().map_or(0, |run| run.0 + run.1);
        if end > page_bytes || end.div_ceil(8) as usize != mask.len() {
            return Err(DecodeError::OutOfRange);
        }
        debug_assert!(diff.bytes.is_empty(), "they follow");
        Ok(diff)
    }

    /// Takes `count` runs.
    fn decode_runs(
        page_bytes: u32,
        count: u32,
        from: &mut ByteReader<'_>,
    ) -> Result<Self, DecodeError> {
        let mut diff = Self::default();
        let mut next = 0_u32;
        for at in 0..count {
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
            diff.runs.push((first, len));
        }
        debug_assert!(next <= page_bytes, "runs end within the page");
        Ok(diff)
    }
}

/// Updates `page` from its home: it takes the bytes in which `fetched` differs from its twin. Bytes
/// that local ranks wrote stay, and the twin becomes `fetched`.
///
/// `fetched` must contain every local write that has been compared with the twin already, or those
/// would be undone: [`crate::NodeState`] requests such a version.
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
