//! Names of the objects of this process's program, and of the objects of its libraries.

use crate::error::{OsError, Result};
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::with_exposed_provenance;

/// Types of sections and symbols (elf(5)).
const SHT_SYMTAB: u32 = 2;
const STT_OBJECT: u8 = 1;
/// Bytes of a header of a section, and of a symbol.
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// Variables of this process's program, by address.
#[derive(Debug, Default)]
pub struct Variables {
    /// Place and name, in order of their addresses.
    all: Vec<(Range<usize>, String)>,
}

impl Variables {
    /// Reads the names from the file of the program, which has fixed addresses. A program without a
    /// table of symbols has none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_this_process() -> Result<Self> {
        let file = std::fs::read("/proc/self/exe");
        let file = file.map_err(|e| OsError::of("reading the program's file", &e))?;
        Ok(Self::in_file(&file).unwrap_or_default())
    }

    /// Reads the table of symbols; `None` if there is none, or if it is damaged.
    fn in_file(file: &[u8]) -> Option<Self> {
        let (first, size, count) =
            (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
        let section = |at: usize| {
            let at = first.checked_add(at.checked_mul(size)?)?;
            file.get(at..at.checked_add(SECTION)?)
        };
        let symbols = (0..count)
            .filter_map(section)
            .find(|s| number(s, 4, 4) == Some(SHT_SYMTAB as usize))?;
        let strings = section(number(symbols, 40, 4)?)?;
        let contents = |section: &[u8]| {
            let first = number(section, 24, 8)?;
            file.get(first..first.checked_add(number(section, 32, 8)?)?)
        };
        let (symbols, strings) = (contents(symbols)?, contents(strings)?);
        let mut all = Vec::new();
        for symbol in symbols.chunks_exact(SYMBOL) {
            let (name, address, bytes) =
                (number(symbol, 0, 4)?, number(symbol, 8, 8)?, number(symbol, 16, 8)?);
            if symbol.get(4)? & 0xf != STT_OBJECT || bytes == 0 {
                continue;
            }
            let name = CStr::from_bytes_until_nul(strings.get(name..)?).ok()?;
            all.push((address..address.checked_add(bytes)?, name.to_string_lossy().into_owned()));
        }
        all.sort_by_key(|(place, _)| place.start);
        Some(Self { all })
    }

    /// Returns the variable at an address: its place and its name.
    pub fn at(&self, address: usize) -> Option<(&Range<usize>, &str)> {
        let behind = self.all.partition_point(|(place, _)| place.start <= address);
        let (place, name) = self.all.get(behind.checked_sub(1)?)?;
        place.contains(&address).then_some((place, name.as_str()))
    }
}

/// Returns a number of `bytes` bytes at an offset.
fn number(from: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let mut word = [0; 8];
    word.get_mut(..bytes)?.copy_from_slice(from.get(at..at.checked_add(bytes)?)?);
    usize::try_from(u64::from_le_bytes(word)).ok()
}

/// An object or function of a library, by numbers that are the same in all processes with that
/// library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryObject {
    /// Number made of the library's name.
    pub library: u64,
    /// Number made of the name of the object that contains it, and of its place there.
    pub name: u64,
    /// Distance from the library's beginning.
    pub offset: u64,
}

/// The libraries of this process.
#[derive(Debug, Default)]
pub struct Libraries {
    /// Number made of the name, beginning, and mapped addresses.
    all: Vec<(u64, usize, Range<usize>)>,
    /// From the first of them to the last.
    span: Range<usize>,
}

impl Libraries {
    /// Returns those that are loaded now.
    pub fn of_this_process() -> Self {
        let mut found = Self::default();
        // SAFETY: the function is called before this returns, with what is passed here.
        unsafe { libc::dl_iterate_phdr(Some(note_library), (&raw mut found).cast()) };
        found
    }

    /// Returns the object or function that begins at an address; with `inside` also if it begins
    /// before, as functions do that libraries choose by the processor.
    pub fn object_at(&self, address: usize, inside: bool) -> Option<LibraryObject> {
        if !self.span.contains(&address) {
            return None;
        }
        let (library, base, _) = self.all.iter().find(|(_, _, place)| place.contains(&address))?;
        let (name, distance) = name_at(address)?;
        if distance > 0 && !inside {
            return None;
        }
        Some(LibraryObject { library: *library, name, offset: (address - base) as u64 })
    }

    /// Returns the address of an object of another process in this one; `None` if this process has
    /// it not, or elsewhere in its library.
    pub fn address_of(&self, object: &LibraryObject) -> Option<usize> {
        let (_, base, place) =
            self.all.iter().find(|(library, _, _)| *library == object.library)?;
        let address = base.checked_add(usize::try_from(object.offset).ok()?)?;
        (place.contains(&address) && name_at(address)?.0 == object.name).then_some(address)
    }
}

/// Returns a number made of the name of the object at an address and of the distance from its
/// beginning, and that distance.
fn name_at(address: usize) -> Option<(u64, usize)> {
    // SAFETY: plain memory, which the dynamic linker fills.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: searches the loaded objects for an address.
    let known = unsafe { libc::dladdr(with_exposed_provenance(address), &raw mut found) } != 0;
    if !known || found.dli_sname.is_null() {
        return None;
    }
    let distance = address.checked_sub(found.dli_saddr.addr())?;
    // SAFETY: the dynamic linker gave a name, which stays while the library does.
    let name = mix(unsafe { CStr::from_ptr(found.dli_sname) }.to_bytes());
    Some((name.wrapping_add(distance as u64), distance))
}

/// Makes a number of a name (FNV-1a).
fn mix(name: &[u8]) -> u64 {
    let step = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Notes a library; the first one that the dynamic linker shows is the program, without a name.
unsafe extern "C" fn note_library(
    info: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    into: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic linker describes a library; the other pointer is of the caller's.
    let (info, into) = unsafe { (&*info, &mut *into.cast::<Libraries>()) };
    // SAFETY: it is null or ends.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    let name = name.map_or(&[][..], CStr::to_bytes);
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if name.is_empty() {
        return 0;
    }
    let base = info.dlpi_addr as usize;
    let (mut start, mut end) = (usize::MAX, 0);
    for number in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: so many headers are there.
        let part = unsafe { &*info.dlpi_phdr.add(number) };
        if part.p_type == libc::PT_LOAD {
            let first = base.wrapping_add(part.p_vaddr as usize);
            start = start.min(first);
            end = end.max(first.saturating_add(part.p_memsz as usize));
        }
    }
    if start >= end {
        return 0;
    }
    into.span = match into.all.is_empty() {
        true => start..end,
        false => into.span.start.min(start)..into.span.end.max(end),
    };
    into.all.push((mix(name), base, start..end));
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_libraries_are_found_again_by_number() {
        let libraries = Libraries::of_this_process();
        let own = libc::malloc as *const () as usize;
        let object = libraries.object_at(own, false).unwrap();
        assert_eq!(libraries.address_of(&object), Some(own));
        assert_eq!(libraries.object_at(own + 1, false), None, "no object begins there");
        let inside = libraries.object_at(own + 1, true).unwrap();
        assert_eq!(libraries.address_of(&inside), Some(own + 1));
        let local = 0_u8;
        assert_eq!(libraries.object_at((&raw const local).addr(), true), None);
        let moved = LibraryObject { offset: object.offset + 8, ..object };
        assert_eq!(libraries.address_of(&moved), None);
    }

    #[test]
    fn damaged_files_have_no_symbols() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let whole = Variables::in_file(&file).unwrap();
        assert!(whole.all.len() > 10, "{}", whole.all.len());
        let (place, name) = &whole.all[whole.all.len() / 2];
        let (found, _) = whole.at(place.start).unwrap();
        assert!(found.contains(&place.start), "{name}");
        assert!(Variables::in_file(&file[..4096]).is_none());
        assert!(Variables::in_file(&[]).is_none());
    }
}
