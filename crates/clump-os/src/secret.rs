//! Keys in memory: pages for nothing else that no core dump holds, and the removal of the copies
//! that working with them leaves on the stack and in registers.
//!
//! A core dump shows the memory of a process and the registers of its threads to any reader of the
//! file. A [`Secret`] keeps its value out of the first (`MADV_DONTDUMP`) and, where the limits
//! allow, out of swap (`mlock`). Values derived from a key pass through the stack: [`scrubbed`]
//! runs the derivation and overwrites the stack below it. AES round keys stay behind in vector
//! registers, and each of them gives the key away: [`scrub_registers`].
//!
//! Left open: a dump taken, or a signal handled, in the middle of a derivation or of one
//! encryption.

mod registers;
mod slab;

pub use registers::scrub_registers;
pub use slab::wipe;

use crate::error::{OsError, Result};
use slab::{LINE, SecretPlace};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes below its caller that [`scrubbed`] overwrites on the stack. Deriving a key with ring takes
/// about 3 KiB; the frame of a signal in between up to 12 KiB (AVX-512 and AMX state).
pub const SCRUBBED_BYTES: usize = 32 << 10;

/// A value in memory that core dumps leave out, on pages with other secrets; overwritten with zeros
/// when dropped.
///
/// `T` must hold its value itself: memory behind a `Box` or `Vec` would not be protected, so types
/// that need dropping do not compile.
///
/// In a child made by `fork` the memory reads as zeros (`MADV_WIPEONFORK`), so that no two
/// processes ever encrypt under one key and counter. A child that continues without `exec` must not
/// use secrets of its parent: the unsafe caller of `fork` ensures that.
pub struct Secret<T> {
    /// The beginning of its place.
    value: NonNull<T>,
    /// Kept for its drop.
    _place: SecretPlace,
}

// SAFETY: a Secret owns its value as a Box does; the place is an address range that nothing else
// uses.
unsafe impl<T: Send> Send for Secret<T> {}
// SAFETY: as above; `&Secret<T>` gives out `&T` only.
unsafe impl<T: Sync> Sync for Secret<T> {}

impl<T> Secret<T> {
    /// Keeps the result of `make`, and scrubs the stack and the registers that it used. Values that
    /// `make` captures should be borrowed: those moved into it stay in the caller's frame.
    ///
    /// # Errors
    /// No memory can be mapped, or it cannot be kept out of core dumps.
    pub fn new(make: impl FnOnce() -> T) -> Result<Self> {
        Self::try_new(|| Ok(make()))
    }

    /// Keeps the result of a `make` that can fail, as [`Secret::new`] does.
    ///
    /// # Errors
    /// `make` fails, no memory can be mapped, or it cannot be kept out of core dumps.
    pub fn try_new<E: From<OsError>>(
        make: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<Self, E> {
        let (place, value) = Self::room()?;
        scrubbed(|| {
            let made = make()?;
            // SAFETY: `value` is a fresh place with room for a T, on a cache line, and
            // nothing else refers to it.
            unsafe { value.write(made) };
            Ok::<(), E>(())
        })?;
        Ok(Self { value, _place: place })
    }

    /// Takes a fresh place; returns it and the address of the value.
    fn room() -> Result<(SecretPlace, NonNull<T>)> {
        const { assert!(!std::mem::needs_drop::<T>(), "a secret holds its value itself") };
        const { assert!(align_of::<T>() <= LINE, "a secret is aligned to cache lines") };
        let place = SecretPlace::new(size_of::<T>())?;
        let value = place.start().cast();
        Ok((place, value))
    }
}

impl<const N: usize> Secret<[u8; N]> {
    /// Creates a secret of zeros, to be filled in place.
    ///
    /// # Errors
    /// No memory can be mapped, or it cannot be kept out of core dumps.
    pub fn zeroed() -> Result<Self> {
        let (place, value) = Self::room()?;
        // A fresh place is zeros, and zeros are bytes.
        Ok(Self { value, _place: place })
    }

    /// Creates a secret of bytes from the operating system's random source, which never were
    /// anywhere else.
    ///
    /// # Errors
    /// No memory can be mapped, or the kernel has no random source.
    pub fn random() -> Result<Self> {
        let mut secret = Self::zeroed()?;
        let mut filled = 0;
        while let Some(rest) = secret.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
                .map_err(|e| OsError::new("getrandom", e))?;
        }
        Ok(secret)
    }

    /// Moves `bytes` here: overwrites them with zeros where they were.
    ///
    /// # Errors
    /// No memory can be mapped, or it cannot be kept out of core dumps.
    pub fn taking(bytes: &mut [u8; N]) -> Result<Self> {
        let secret = Self::new(|| *bytes);
        wipe(bytes);
        secret
    }
}

impl<T> Deref for Secret<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `try_new` wrote a T there, or `zeroed` found bytes; the place stays its own
        // while this lives.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Secret<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in deref, and `&mut self` makes the access exclusive.
        unsafe { self.value.as_mut() }
    }
}

impl<T> std::fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Runs `work`, then overwrites the stack that it used, down to [`SCRUBBED_BYTES`] below the
/// caller, and the vector registers. The result is not overwritten, so it should hold no secret.
pub fn scrubbed<R>(work: impl FnOnce() -> R) -> R {
    let result = apart(work);
    scrub_stack();
    scrub_registers();
    result
}

/// Calls `work` in a frame of its own, so that all that it leaves is where [`scrub_stack`] has its
/// own.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[inline(never)]
fn scrub_stack() {
    let mut below = [const { MaybeUninit::<u64>::uninit() }; SCRUBBED_BYTES / 8];
    for word in &mut below {
        // SAFETY: a plain store to a local, volatile so that it happens.
        unsafe { std::ptr::write_volatile(word.as_mut_ptr(), 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::PAGE;
    use rustix::io::Errno;

    /// Returns the flags of the mapping that holds `address`, as smaps gives them.
    fn flags_at(address: usize) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.map(|(a, b)| [a, b].map(|hex| usize::from_str_radix(hex, 16)));
            if let Some([Ok(start), Ok(end)]) = ends {
                inside = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags: ").filter(|_| inside) {
                return flags.split_ascii_whitespace().map(str::to_owned).collect();
            }
        }
        panic!("no mapping holds {address:#x}");
    }

    #[test]
    fn dumps_and_children_do_not_get_a_secret_and_debug_does_not_print_it() {
        let mut bytes = *b"0123456789abcdef";
        let secret = Secret::taking(&mut bytes).unwrap();
        assert_eq!((bytes, *secret), ([0; 16], *b"0123456789abcdef"));
        let flags = flags_at(std::ptr::from_ref(&*secret).addr());
        assert!(flags.contains(&"dd".to_owned()), "not kept out of dumps: {flags:?}");
        assert!(flags.contains(&"wf".to_owned()), "not wiped on fork: {flags:?}");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let ordinary = flags_at(std::ptr::from_ref(&bytes).addr());
        assert!(!ordinary.contains(&"dd".to_owned()), "this test sees nothing: {ordinary:?}");
    }

    /// Returns the bytes of this process's memory from `address` on.
    fn bytes_at(address: usize, bytes: usize) -> std::io::Result<Vec<u8>> {
        use std::os::unix::fs::FileExt;
        let mut read = vec![0; bytes];
        let memory = std::fs::File::open("/proc/self/mem")?;
        memory.read_exact_at(&mut read, address as u64).map(|()| read)
    }

    #[test]
    fn secrets_share_pages_apart_from_each_other_and_leave_zeros_behind() {
        // A size that no other test has: their secrets are on other pages.
        const BYTES: usize = 5 * LINE - 3;
        let make = |number: u8| Secret::<[u8; BYTES]>::new(|| [number; BYTES]).unwrap();
        let mut secrets: Vec<_> = (0..96).map(make).collect();
        let address = |secret: &Secret<[u8; BYTES]>| std::ptr::from_ref(&**secret).addr();
        let pages: std::collections::BTreeSet<_> =
            secrets.iter().map(|secret| address(secret) / PAGE).collect();
        assert_eq!(pages.len(), 8, "twelve to a page");
        assert!(slab::shared_pages() >= pages.len());
        for (number, secret) in (0..).zip(&secrets) {
            assert!(secret.iter().all(|byte| *byte == number), "another overlaps secret {number}");
        }
        let flags = flags_at(address(&secrets[95]));
        assert!(flags.contains(&"dd".to_owned()), "not kept out of dumps: {flags:?}");
        let freed = address(&secrets[7]);
        drop(secrets.swap_remove(7));
        assert_eq!(bytes_at(freed, BYTES).unwrap(), vec![0; BYTES]);
        let again = make(200);
        assert_eq!(address(&again), freed, "a place is used again");
        assert!(secrets.iter().all(|secret| secret.iter().all(|byte| *byte == secret[0])));
        drop((again, secrets));
        let mapped = pages.iter().filter(|page| bytes_at(*page * PAGE, 1).is_ok()).count();
        // Another thread of the tests may have mapped one of the addresses since.
        assert!(mapped < pages.len() / 2, "{mapped} pages without secrets are still there");
    }

    #[test]
    fn random_secrets_differ_and_large_ones_fit() {
        let (a, b) = (Secret::<[u8; 300]>::random().unwrap(), Secret::random().unwrap());
        assert_ne!(*a, *b);
        assert!(a.iter().filter(|&&byte| byte == 0).count() < 30);
        let mut wide = Secret::<[u8; 2 * PAGE - 5]>::zeroed().unwrap();
        assert!(wide.iter().all(|&byte| byte == 0));
        wide.fill(9);
        let full = Secret::<[u8; PAGE]>::random().unwrap();
        assert!(full.iter().any(|&byte| byte != 0));
        assert!(wide.iter().all(|&byte| byte == 9));
    }

    #[test]
    fn a_secret_that_cannot_be_made_is_an_error() {
        let failed: Result<Secret<u64>> =
            Secret::try_new(|| Err(OsError::new("asking a test", Errno::PERM)));
        assert_eq!(failed.unwrap_err().errno, Errno::PERM);
    }

    const MARK: [u8; 8] = 0x5eed_c0de_5eed_c0de_u64.to_le_bytes();

    #[inline(never)]
    fn dirty_frame() {
        std::hint::black_box(&mut [u64::from_le_bytes(MARK); 1024]);
    }

    /// Returns how often the mark is found in the stack below this frame.
    fn marks_below(memory: &std::fs::File) -> usize {
        use std::os::unix::fs::FileExt;
        let mut stack = vec![0; SCRUBBED_BYTES];
        let here = std::ptr::from_ref(&memory).addr();
        memory.read_exact_at(&mut stack, (here - SCRUBBED_BYTES) as u64).unwrap();
        stack.windows(8).filter(|bytes| *bytes == MARK).count()
    }

    #[test]
    fn the_stack_of_a_derivation_is_overwritten() {
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        dirty_frame();
        assert!(marks_below(&memory) > 100, "this test sees no stale frame");
        scrubbed(dirty_frame);
        assert_eq!(marks_below(&memory), 0);
    }
}
