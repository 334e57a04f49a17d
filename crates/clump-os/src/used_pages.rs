//! Pages of this process that have been used.

use crate::map::PAGE;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bits of a word of a page table (proc_pid_pagemap(5)): the page is in memory, or swapped out.
const USED: u64 = 0b11 << 62;
/// Words that are read at once.
const WORDS: usize = 4096;

/// Returns the pages of a range that this process has used, by the address of each. All of them,
/// where the kernel does not show the page table.
pub fn used_pages(range: &Range<usize>) -> Vec<usize> {
    let first = range.start / PAGE;
    let count = range.end.div_ceil(PAGE).saturating_sub(first);
    let Ok(table) = std::fs::File::open("/proc/self/pagemap") else {
        return (first..first + count).map(|page| page * PAGE).collect();
    };
    let (mut used, mut words) = (Vec::new(), vec![0; WORDS * 8]);
    let mut done = 0;
    while done < count {
        let now = (count - done).min(WORDS);
        let bytes = words.get_mut(..now * 8).unwrap_or_default();
        let shown = table.read_exact_at(bytes, (first + done) as u64 * 8).is_ok();
        for (number, word) in bytes.chunks_exact(8).enumerate() {
            let word = word.try_into().map_or(u64::MAX, u64::from_le_bytes);
            if !shown || word & USED != 0 {
                used.push((first + done + number) * PAGE);
            }
        }
        done += now;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::with_exposed_provenance_mut;

    #[test]
    fn only_pages_that_were_written_are_used() {
        let mut memory = vec![0_u8; 0];
        memory.reserve_exact(64 << 20);
        let first = memory.as_mut_ptr().expose_provenance().next_multiple_of(PAGE);
        let range = first..first + (32 << 20);
        let written = [first, first + 5000 * PAGE];
        for page in written {
            // SAFETY: inside the space of the vector.
            unsafe { with_exposed_provenance_mut::<u8>(page).write(1) };
        }
        let used = used_pages(&range);
        assert!(written.iter().all(|page| used.contains(page)), "{used:?}");
        // Huge pages are used as a whole.
        assert!(used.len() <= 2 * 512 + 2, "{}", used.len());
        assert!(used.iter().all(|page| range.contains(page)), "{used:?}");
    }
}
