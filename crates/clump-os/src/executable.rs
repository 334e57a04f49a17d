//! The program of this process, as the dynamic linker has loaded it: the addresses of its
//! variables, and which of them are not its own.

use crate::page::PAGE;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::with_exposed_provenance;

/// Entries of a dynamic section (elf(5)).
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_BIND_NOW: i64 = 24;
const DT_FLAGS: i64 = 30;
const DT_FLAGS_1: i64 = 0x6fff_fffb;
/// Bits of `DT_FLAGS` and `DT_FLAGS_1` that have all functions found at the start.
const DF_BIND_NOW: u64 = 8;
const DF_1_NOW: u64 = 1;
/// Relocation by which a program has a library's object in its own memory.
const COPY: u32 = if cfg!(target_arch = "aarch64") { 1024 } else { 5 };

/// The program of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Executable {
    /// Distance of its addresses from those that it was linked for.
    pub moved: usize,
    /// Pages of its variables, behind what the dynamic linker has made read-only.
    pub globals: Range<usize>,
    /// Variables that its file has no contents for: zero at the start.
    pub zeroed: Range<usize>,
    /// Objects of libraries among them, by name.
    pub copied: Vec<String>,
    /// Words among them that the dynamic linker has pointed to libraries: address, and the name of
    /// the object or function.
    pub pointers: Vec<(usize, String)>,
    /// True if functions of libraries are found at the start, not when they are first called: then
    /// there is no word for that among its variables.
    pub bound_early: bool,
}

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    bytes: u64,
}

/// Parts of a program as it is loaded.
#[derive(Debug, Default)]
struct LoadedProgram {
    moved: usize,
    /// Writable parts, and where the contents of each end in the file.
    writable: Vec<(Range<usize>, usize)>,
    /// Made read-only once the program is linked.
    read_only: Option<Range<usize>>,
    dynamic: usize,
}

impl Executable {
    /// Returns the program of this process.
    pub fn of_this_process() -> Self {
        let mut loaded = LoadedProgram::default();
        // SAFETY: the function is called before this returns, with what is passed here.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loaded).cast()) };
        // SAFETY: tables of the program, as the dynamic linker has loaded and described them.
        unsafe { Self::described_by(&loaded) }
    }

    /// Reads the tables of a program.
    ///
    /// # Safety
    /// The parts are those of a program that is loaded.
    unsafe fn described_by(loaded: &LoadedProgram) -> Self {
        let linked = loaded.read_only.as_ref().map_or(0, |part| part.end.next_multiple_of(PAGE));
        let last = loaded.writable.iter().max_by_key(|(part, _)| part.end);
        let zeroed = last.map_or(0..0, |(part, filled)| *filled..part.end);
        let globals = last.map_or(0..0, |(part, _)| {
            let first = (part.start / PAGE * PAGE).max(linked);
            first..part.end.next_multiple_of(PAGE).max(first)
        });
        let mut own = Self { moved: loaded.moved, globals, zeroed, ..Self::default() };
        let [mut strings, mut symbols, mut relocations, mut bytes] = [0_usize; 4];
        let mut at = with_exposed_provenance::<DynamicEntry>(loaded.dynamic);
        while !at.is_null() {
            // SAFETY: an entry of the dynamic section, which one with tag 0 ends.
            let entry = unsafe { &*at };
            let value = entry.value as usize;
            match entry.tag {
                0 => break,
                DT_STRTAB => strings = value,
                DT_SYMTAB => symbols = value,
                DT_RELA => relocations = value,
                DT_RELASZ => bytes = value,
                DT_BIND_NOW => own.bound_early = true,
                DT_FLAGS => own.bound_early |= entry.value & DF_BIND_NOW != 0,
                DT_FLAGS_1 => own.bound_early |= entry.value & DF_1_NOW != 0,
                _ => {}
            }
            // SAFETY: as above: there is another one.
            at = unsafe { at.add(1) };
        }
        for number in 0..bytes / size_of::<Relocation>() {
            let table = with_exposed_provenance::<Relocation>(relocations);
            // SAFETY: inside the table.
            let entry = unsafe { &*table.add(number) };
            let address = own.moved.wrapping_add(entry.offset as usize);
            let symbol = (entry.info >> 32) as usize;
            if symbol == 0 || !own.globals.contains(&address) {
                continue;
            }
            // SAFETY: relocations name symbols of the table.
            let symbol = unsafe { &*with_exposed_provenance::<Symbol>(symbols).add(symbol) };
            let name = with_exposed_provenance(strings + symbol.name as usize);
            // SAFETY: names are in the table of strings, and end there.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            if entry.info as u32 == COPY {
                own.copied.push(name);
            } else if symbol.section == 0 {
                own.pointers.push((address, name));
            }
        }
        own
    }
}

/// Notes the parts of the first program, and ends the round.
unsafe extern "C" fn first(
    info: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    into: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic linker describes a program; the other pointer is of the caller's.
    let (info, into) = unsafe { (&*info, &mut *into.cast::<LoadedProgram>()) };
    into.moved = info.dlpi_addr as usize;
    for number in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: so many headers are there.
        let part = unsafe { &*info.dlpi_phdr.add(number) };
        let first = into.moved.wrapping_add(part.p_vaddr as usize);
        let place = first..first + part.p_memsz as usize;
        match part.p_type {
            libc::PT_LOAD if part.p_flags & libc::PF_W != 0 => {
                let filled = place.start + part.p_filesz as usize;
                into.writable.push((place, filled));
            }
            libc::PT_GNU_RELRO => into.read_only = Some(place),
            libc::PT_DYNAMIC => into.dynamic = first,
            _ => {}
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicUsize, Ordering};

    static OWN: AtomicUsize = AtomicUsize::new(7);

    #[test]
    fn own_variables_lie_among_the_globals_and_others_do_not() {
        let program = Executable::of_this_process();
        let own = std::ptr::from_ref(&OWN).addr();
        assert_eq!(OWN.load(Ordering::Relaxed), 7);
        assert!(program.globals.contains(&own), "{own:#x}: {program:?}");
        assert!(program.globals.start.is_multiple_of(PAGE), "{program:?}");
        let local = 0_u8;
        for other in [(&raw const local).addr(), libc::malloc as *const () as usize] {
            assert!(!program.globals.contains(&other), "{other:#x}: {program:?}");
        }
        for (address, name) in &program.pointers {
            assert!(program.globals.contains(address) && !name.is_empty(), "{program:?}");
        }
    }
}
