//! Arguments and environment of a program whose threads run on several ranks: a pointer into them
//! that one thread keeps is one for all. The arguments, which a program may change, are in the
//! shared heap. The environment, which the kernel reads for children, is a private copy of rank 0's
//! at one address.

use crate::svm_sync::fault;
use clump::svm::{Home, Svm};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::c_library as c;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Address of the environment: behind the largest heap, and before what `link/threads.ld` places.
const ENVIRONMENT: usize = 0x1ff_0000_0000;
/// Beginning of the names that each rank has for itself.
const OWN: &[u8] = b"CLUMP_";

/// Arguments of `main`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MainArguments {
    pub(crate) argc: c_int,
    pub(crate) argv: *mut *mut c_char,
    pub(crate) envp: *mut *mut c_char,
}

/// Returns the texts that are listed before a null.
///
/// # Safety
/// They are such.
unsafe fn texts<'a>(list: *mut *mut c_char) -> Vec<&'a CStr> {
    let mut all = Vec::new();
    if list.is_null() {
        return all;
    }
    let mut at = list;
    // SAFETY: the caller's contract; no null was before.
    while let Some(text) = unsafe { at.read().as_ref() } {
        // SAFETY: a text, and a place behind which the list continues.
        unsafe {
            all.push(CStr::from_ptr(text));
            at = at.add(1);
        }
    }
    all
}

/// Writes texts, and behind them the words that point to them, and a null; returns the words.
///
/// # Safety
/// There is room for [`bytes_of`] them.
unsafe fn write(at: *mut u8, texts: &[&CStr], more: &[&CStr]) -> *mut *mut c_char {
    let bytes: usize = texts.iter().map(|text| text.count_bytes() + 1).sum();
    // SAFETY: behind the texts, with as much room as there are words.
    let words = unsafe { at.add(bytes.next_multiple_of(16)) }.cast::<*mut c_char>();
    let mut into = at;
    // SAFETY: the caller's contract.
    unsafe {
        for (number, text) in texts.iter().enumerate() {
            let text = text.to_bytes_with_nul();
            into.copy_from_nonoverlapping(text.as_ptr(), text.len());
            words.add(number).write(into.cast());
            into = into.add(text.len());
        }
        for (number, text) in more.iter().enumerate() {
            words.add(texts.len() + number).write(text.as_ptr().cast_mut());
        }
        words.add(texts.len() + more.len()).write(std::ptr::null_mut());
    }
    words
}

/// Returns the bytes that texts take, and the words that point to them and to `more` others.
fn bytes_of(texts: &[&CStr], more: usize) -> usize {
    let bytes: usize = texts.iter().map(|text| text.count_bytes() + 1).sum();
    bytes.next_multiple_of(16) + (texts.len() + more + 1) * size_of::<usize>()
}

/// Places arguments and environment alike in all ranks; those of rank 0 count. A collective.
///
/// # Safety
/// They are what `main` was called with, and no other thread changes the environment.
pub(crate) unsafe fn place(svm: &Svm, own: MainArguments) -> Result<MainArguments> {
    // SAFETY: lists of the system or the C library.
    let (arguments, environment) = unsafe { (texts(own.argv), texts(c::environ)) };
    let is_own = |text: &&CStr| text.to_bytes().starts_with(OWN);
    let (mine, common): (Vec<&CStr>, Vec<&CStr>) = environment.into_iter().partition(is_own);
    let allocated = |bytes: usize| svm.alloc_alone(bytes as u64, Home::Node(0)).map_err(fault);
    // Rank 0's: the address of the environment, and its number of texts.
    let said = svm.array::<u64>(2, Home::Node(0)).map_err(fault)?;
    let mut all = own;
    if svm.rank() == 0 {
        let place = allocated(bytes_of(&arguments, 0))?;
        // SAFETY: a fresh allocation of so many bytes.
        all.argv = unsafe { write(place.as_ptr(), &arguments, &[]) };
        let place = allocated(bytes_of(&common, 0))?;
        // SAFETY: as above.
        let words = unsafe { write(place.as_ptr(), &common, &[]) };
        said.set(0, words.expose_provenance() as u64);
        said.set(1, common.len() as u64);
    }
    svm.barrier().map_err(fault)?;
    let words = with_exposed_provenance_mut::<*mut c_char>(said.get(0) as usize);
    // SAFETY: the list that rank 0 has written, which is not changed.
    let common = unsafe { texts(words) };
    debug_assert_eq!(common.len() as u64, said.get(1), "all of them");
    // SAFETY: private memory of this process from here on.
    unsafe {
        let place = private_at(ENVIRONMENT, bytes_of(&common, mine.len()))?;
        c::environ = write(place, &common, &mine);
        all.envp = c::environ;
    }
    Ok(all)
}

/// Maps private memory at an address.
fn private_at(address: usize, bytes: usize) -> Result<*mut u8> {
    let (rights, flags) =
        (c::PROT_READ | c::PROT_WRITE, c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_FIXED_NOREPLACE);
    let wanted = with_exposed_provenance::<u8>(address).cast_mut();
    // SAFETY: takes no memory that is used.
    let place = unsafe { c::mmap(wanted.cast(), bytes, rights, flags, -1, 0) };
    if place.addr() != address {
        let what = format!("no memory at {address:#x} for the environment of the program");
        return Err(Fault::new(S::CLUMP_ERR_SYSTEM, what));
    }
    Ok(place.cast())
}
