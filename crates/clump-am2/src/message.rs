//! The words of a message: a head with kind and number of arguments, the tag that it was sent with,
//! and arguments of 32 bits, two in a word.

use clump_am::MAX_CARRIED;

/// Maximum number of arguments of a message.
pub(crate) const MAX_ARGUMENTS: usize = 16;

/// Words before the arguments: head and tag.
const FRONT: usize = MAX_CARRIED - MAX_ARGUMENTS / 2;

/// Mark in each head, which distinguishes messages of this interface from those of others.
const MARK: u64 = 0x0a32 << 16;

/// Kinds of messages, by their payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Short = 1,
    Medium = 2,
    Long = 3,
}

/// Kind, number of arguments and tag of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageHead {
    pub(crate) kind: MessageKind,
    /// Number of arguments: 0 to 16.
    pub(crate) count: usize,
    pub(crate) tag: u64,
}

/// The words of a message to be sent.
#[derive(Debug)]
pub(crate) struct Packed {
    words: [u64; MAX_CARRIED],
    used: usize,
}

impl Packed {
    /// Makes an empty message, which is filled in place: it is not moved before it is sent.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { words: [0; MAX_CARRIED], used: 0 }
    }

    /// Takes `count` arguments at `arguments`; false if there are too many or `arguments` is null.
    ///
    /// # Safety
    /// `arguments` is null or leads to `count` arguments, if that is at most 16.
    #[inline(always)]
    pub(crate) unsafe fn fill(
        &mut self,
        kind: MessageKind,
        count: u32,
        arguments: *const i32,
    ) -> bool {
        let count = count as usize;
        if count > MAX_ARGUMENTS || (arguments.is_null() && count != 0) {
            return false;
        }
        let words = &mut self.words;
        words[0] = MARK | (kind as u64) << 8 | count as u64;
        let mut at = 0;
        while at + 1 < count {
            // SAFETY: the caller's.
            let [low, high] = unsafe { arguments.add(at).cast::<[i32; 2]>().read() };
            words[FRONT + at / 2] = u64::from(low as u32) | u64::from(high as u32) << 32;
            at += 2;
        }
        if at < count {
            // SAFETY: the caller's.
            words[FRONT + at / 2] = u64::from(unsafe { arguments.add(at).read() } as u32);
        }
        self.used = FRONT + count.div_ceil(2);
        true
    }

    /// Sets the tag that the message is sent with; returns its words.
    #[inline(always)]
    pub(crate) fn tagged(&mut self, tag: u64) -> &[u64] {
        self.words[1] = tag;
        self.words.get(..self.used).unwrap_or(&self.words)
    }
}

impl MessageHead {
    /// Reads the head of a message; `None` if no `AM_*` function sent it.
    #[inline(always)]
    pub(crate) fn read(words: &[u64]) -> Option<Self> {
        let &[head, tag, ..] = words else { return None };
        let count = (head & 0xff) as usize;
        let kind = match head ^ MARK {
            bits if bits >> 8 == 1 => MessageKind::Short,
            bits if bits >> 8 == 2 => MessageKind::Medium,
            bits if bits >> 8 == 3 => MessageKind::Long,
            _ => return None,
        };
        let whole = count <= MAX_ARGUMENTS && words.len() == FRONT + count.div_ceil(2);
        whole.then_some(Self { kind, count, tag })
    }
}

/// Returns the argument number `at` of a message; 0 if it has fewer.
#[inline(always)]
pub(crate) fn argument(words: &[u64], at: usize) -> i32 {
    let word = words.get(FRONT + at / 2).copied().unwrap_or(0);
    (word >> (at % 2 * 32)) as u32 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_out_as_they_went_in() {
        let given: Vec<i32> = (0..16).map(|i| (i - 8) * 0x0123_4567).collect();
        for count in 0..=16 {
            for kind in [MessageKind::Short, MessageKind::Medium, MessageKind::Long] {
                let mut packed = Packed::new();
                // SAFETY: there are sixteen.
                assert!(unsafe { packed.fill(kind, count, given.as_ptr()) });
                let words = packed.tagged(0xfeed).to_vec();
                let count = count as usize;
                assert_eq!(
                    MessageHead::read(&words),
                    Some(MessageHead { kind, count, tag: 0xfeed })
                );
                let got: Vec<i32> = (0..count).map(|at| argument(&words, at)).collect();
                assert_eq!(got, given[..count]);
                assert_eq!(argument(&words, 17), 0);
            }
        }
        // SAFETY: nothing is read.
        assert!(!unsafe { Packed::new().fill(MessageKind::Short, 17, given.as_ptr()) });
        // SAFETY: nothing is read.
        assert!(!unsafe { Packed::new().fill(MessageKind::Short, 1, std::ptr::null()) });
    }

    #[test]
    fn words_of_anybody_else_are_refused() {
        let mut words = Packed::new();
        // SAFETY: no arguments are read.
        assert!(unsafe { words.fill(MessageKind::Short, 0, std::ptr::null()) });
        let good = words.words[0];
        for words in [
            &[][..],
            &[good],
            &[good, 0, 0],
            &[good + 1, 0],
            &[good + 17, 0],
            &[good + 0x300, 0],
            &[good & 0xff, 0],
            &[good | 1 << 40, 0],
            &[7; 10],
        ] {
            assert_eq!(MessageHead::read(words), None, "{words:?}");
        }
    }
}
