//! The global variables of a program whose `main` creates workers: the copy that workers begin
//! with, and what a rank has stored in its own since.
//!
//! Only pages that the program has used are copied. Words that point to objects of libraries, as
//! `FILE *out = stdout` does, are made to point to those of the rank that takes the copy.

use crate::svm_sync::fault;
use clump::svm::{Home, Svm};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::executable::Executable;
use clump_os::map::PAGE;
use clump_os::symbols::{Libraries, LibraryObject, Variables};
use clump_os::used_pages::used_pages;
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

/// Bytes of a word that may be a pointer.
const WORD: usize = 8;
/// Words before the numbers of pages in a copy, and those of each pointer behind them.
const HEAD: usize = 2;
const POINTER: usize = 4;

/// Variables that are found to differ at most.
const MAX_FOUND: usize = 64;

/// The places of the program's globals.
#[derive(Debug, Clone)]
pub(crate) struct ProgramGlobals {
    place: Range<usize>,
    /// Globals that are zero when a process begins.
    zeroed: Range<usize>,
    /// Words among them that the dynamic linker has pointed to libraries.
    linked: Vec<usize>,
}

/// A word that points to an object of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LibraryPointer {
    address: usize,
    object: LibraryObject,
}

/// A copy of the globals of rank 0, in the heap.
#[derive(Debug)]
pub(crate) struct GlobalsCopy {
    address: usize,
    /// Addresses of the pages that it has.
    pages: Vec<usize>,
    pointers: Vec<LibraryPointer>,
}

/// Returns memory of this process that may be read: globals, or a copy of them in the heap.
///
/// # Safety
/// Nothing writes the memory while the result is used.
unsafe fn memory<'a>(place: &Range<usize>) -> &'a [u8] {
    // SAFETY: by the function's own.
    unsafe { std::slice::from_raw_parts(with_exposed_provenance(place.start), place.len()) }
}

/// Returns as many zeroes, of a page at most.
fn zeroes(bytes: usize) -> &'static [u8] {
    static ZEROES: [u8; PAGE] = [0; PAGE];
    ZEROES.get(..bytes).unwrap_or_default()
}

impl ProgramGlobals {
    pub(crate) fn new(first: usize, last: usize) -> Self {
        let program = Executable::of_this_process();
        let mut linked: Vec<usize> = program.pointers.iter().map(|(at, _)| *at).collect();
        linked.sort_unstable();
        Self { place: first..last, zeroed: program.zeroed, linked }
    }

    /// Returns the first address.
    pub(crate) fn start(&self) -> usize {
        self.place.start
    }

    /// Returns the part of a page that holds globals.
    fn part(&self, page: usize) -> Range<usize> {
        page.max(self.place.start)..(page + PAGE).min(self.place.end)
    }

    /// Returns true if a process has zeroes in a page when it begins.
    fn begins_zeroed(&self, page: usize) -> bool {
        let part = self.part(page);
        self.zeroed.start <= part.start && part.end <= self.zeroed.end
    }

    /// Returns the pages whose contents another process may not have: those with contents in the
    /// program's file, and others that are no longer zero.
    fn filled_pages(&self) -> Vec<usize> {
        let first = self.place.start / PAGE * PAGE;
        let last = self.place.end;
        let from_file = (first..last).step_by(PAGE).filter(|&page| !self.begins_zeroed(page));
        let mut pages: Vec<usize> = from_file.collect();
        let rest = first.max(self.zeroed.start / PAGE * PAGE)..last;
        let used = used_pages(&rest).into_iter().filter(|&page| self.begins_zeroed(page));
        pages.extend(used.filter(|&page| {
            let part = self.part(page);
            // SAFETY: variables of the program, which this thread runs.
            unsafe { memory(&part) != zeroes(part.len()) }
        }));
        pages.sort_unstable();
        pages
    }

    /// Returns the words in these pages that point to objects of libraries.
    fn pointers(&self, pages: &[usize]) -> Vec<LibraryPointer> {
        let libraries = Libraries::of_this_process();
        let mut found = Vec::new();
        for &page in pages {
            let part = self.part(page);
            for address in (part.start.next_multiple_of(WORD)..part.end).step_by(WORD) {
                if address + WORD > part.end {
                    continue;
                }
                // SAFETY: as above.
                let word = unsafe { with_exposed_provenance::<usize>(address).read() };
                let inside = self.linked.binary_search(&address).is_ok();
                if let Some(object) = libraries.object_at(word, inside) {
                    found.push(LibraryPointer { address, object });
                }
            }
        }
        found
    }

    /// Returns the variables that point to memory of this process alone, as `malloc` and `fopen`
    /// give it; `shared` is the heap.
    pub(crate) fn private_pointers(&self, shared: &Range<usize>) -> Vec<usize> {
        let own = own_memory();
        let names = Variables::of_this_process().unwrap_or_default();
        let mut found: Vec<usize> = Vec::new();
        for page in self.filled_pages() {
            let part = self.part(page);
            let words = (part.start.next_multiple_of(WORD)..part.end).step_by(WORD);
            for address in words.filter(|address| address + WORD <= part.end) {
                // SAFETY: a word of the program's variables, which this thread runs.
                let word = unsafe { with_exposed_provenance::<usize>(address).read() };
                let elsewhere = self.place.contains(&word) || shared.contains(&word);
                if elsewhere || !own.iter().any(|place| place.contains(&word)) {
                    continue;
                }
                let variable = names.at(address).map_or(address, |(place, _)| place.start);
                if found.last() != Some(&variable) && found.len() < MAX_FOUND {
                    found.push(variable);
                }
            }
        }
        found
    }

    /// Makes a copy of the globals of this rank. `last` is the copy before, which is returned if
    /// they have not changed since.
    pub(crate) fn copy(&self, svm: &Svm, last: Option<GlobalsCopy>) -> Result<GlobalsCopy> {
        let pages = self.filled_pages();
        if let Some(last) = last {
            if last.pages == pages && self.stored(&last).is_empty() {
                return Ok(last);
            }
            last.free(svm)?;
        }
        let pointers = self.pointers(&pages);
        let mut copy = GlobalsCopy { address: 0, pages, pointers };
        let bytes = copy.contents() + copy.pages.len() * PAGE;
        let place = svm.alloc_alone(bytes as u64, Home::Node(0)).map_err(fault)?;
        copy.address = place.as_ptr().expose_provenance();
        let head = [copy.pages.len() as u64, copy.pointers.len() as u64];
        let pages = copy.pages.iter().map(|&page| page as u64);
        let pointers = copy.pointers.iter().flat_map(|pointer| {
            let LibraryObject { library, name, offset } = pointer.object;
            [pointer.address as u64, library, name, offset]
        });
        for (at, word) in head.into_iter().chain(pages).chain(pointers).enumerate() {
            // SAFETY: a word of the fresh allocation, which is large enough.
            unsafe { place.cast::<u64>().add(at).write(word) };
        }
        for (number, &page) in copy.pages.iter().enumerate() {
            let part = self.part(page);
            let to = copy.page(number) + (part.start - page);
            let to = with_exposed_provenance_mut::<u8>(to);
            // SAFETY: from variables of the program, into the fresh allocation.
            unsafe { to.copy_from_nonoverlapping(memory(&part).as_ptr(), part.len()) };
        }
        Ok(copy)
    }

    /// Makes this rank's globals those of a copy.
    pub(crate) fn take(&self, copy: &GlobalsCopy) -> Result<()> {
        for page in self.filled_pages() {
            if copy.pages.binary_search(&page).is_err() {
                let part = self.part(page);
                let to = with_exposed_provenance_mut::<u8>(part.start);
                // SAFETY: globals of the program, which it lets be overwritten.
                unsafe { to.write_bytes(0, part.len()) };
            }
        }
        let mut contents = vec![0; PAGE];
        for number in 0..copy.pages.len() {
            let part = self.due(copy, number, &mut contents)?;
            let to = with_exposed_provenance_mut::<u8>(part.start);
            // SAFETY: as above.
            unsafe { to.copy_from_nonoverlapping(contents.as_ptr(), part.len()) };
        }
        Ok(())
    }

    /// Writes what this rank has in page `number` of a copy after it has taken it; returns where.
    fn due(&self, copy: &GlobalsCopy, number: usize, into: &mut [u8]) -> Result<Range<usize>> {
        let Some(&page) = copy.pages.get(number) else { return Ok(0..0) };
        let part = self.part(page);
        let from = copy.page(number) + (part.start - page);
        // SAFETY: a part of the copy, which rank 0 leaves as it is.
        let from = unsafe { memory(&(from..from + part.len())) };
        into.get_mut(..part.len()).unwrap_or_default().copy_from_slice(from);
        let behind = copy.pointers.partition_point(|pointer| pointer.address < part.start);
        let pointers = copy.pointers.iter().skip(behind);
        let mut libraries = None;
        for pointer in pointers.take_while(|pointer| part.contains(&pointer.address)) {
            let libraries = libraries.get_or_insert_with(Libraries::of_this_process);
            let Some(address) = libraries.address_of(&pointer.object) else {
                let what = format!(
                    "the global {} points to an object of a library that is another one on this \
                     machine: set the pointer in the worker",
                    name_of(pointer.address)
                );
                return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
            };
            let at = pointer.address - part.start;
            if let Some(word) = into.get_mut(at..at + WORD) {
                word.copy_from_slice(&address.to_ne_bytes());
            }
        }
        Ok(part)
    }

    /// Returns the addresses of bytes that this rank has stored since it took or made a copy: the
    /// first one of each variable, where the program's file names them.
    pub(crate) fn stored(&self, copy: &GlobalsCopy) -> Vec<usize> {
        let mut stored = Found::default();
        let mut contents = vec![0; PAGE];
        for number in 0..copy.pages.len() {
            // A part that cannot be taken has been reported before.
            let Ok(part) = self.due(copy, number, &mut contents) else { continue };
            stored.compare(&part, contents.get(..part.len()).unwrap_or_default());
        }
        for page in self.filled_pages() {
            if copy.pages.binary_search(&page).is_err() {
                let part = self.part(page);
                stored.compare(&part, zeroes(part.len()));
            }
        }
        stored.addresses
    }
}

impl GlobalsCopy {
    /// Reads the head of the copy at an address, which rank 0 has made.
    pub(crate) fn at(address: usize) -> Self {
        // SAFETY: a word of the copy, within its recorded length.
        let word = |at: usize| unsafe { with_exposed_provenance::<usize>(address).add(at).read() };
        let (pages, pointers) = (word(0), word(1));
        let pointer = |number: usize| {
            let at = |part: usize| word(HEAD + pages + number * POINTER + part);
            let object =
                LibraryObject { library: at(1) as u64, name: at(2) as u64, offset: at(3) as u64 };
            LibraryPointer { address: at(0), object }
        };
        Self {
            address,
            pages: (0..pages).map(|number| word(HEAD + number)).collect(),
            pointers: (0..pointers).map(pointer).collect(),
        }
    }

    /// Returns its address, by which other ranks find it.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Gives its memory back. No rank reads it any more.
    pub(crate) fn free(self, svm: &Svm) -> Result<()> {
        let place = NonNull::new(with_exposed_provenance_mut::<u8>(self.address));
        place.map_or(Ok(()), |place| svm.free(place).map_err(fault))
    }

    /// Returns the bytes before the contents of pages.
    fn contents(&self) -> usize {
        let words = HEAD + self.pages.len() + self.pointers.len() * POINTER;
        (words * WORD).next_multiple_of(PAGE)
    }

    fn page(&self, number: usize) -> usize {
        self.address + self.contents() + number * PAGE
    }
}

/// Variables that were found to differ.
#[derive(Debug, Default)]
struct Found {
    addresses: Vec<usize>,
    names: Option<Variables>,
    /// End of the variable that was found last.
    behind: usize,
}

impl Found {
    /// Compares a part of the globals with what is due there.
    fn compare(&mut self, part: &Range<usize>, due: &[u8]) {
        // SAFETY: variables of the program, which this thread runs.
        let now = unsafe { memory(part) };
        if now == due {
            return;
        }
        for (at, (now, due)) in now.iter().zip(due).enumerate() {
            let address = part.start + at;
            if now == due || address < self.behind || self.addresses.len() == MAX_FOUND {
                continue;
            }
            let names = self.names.get_or_insert_with(|| {
                // Without names there are addresses.
                Variables::of_this_process().unwrap_or_default()
            });
            let known = names.at(address);
            self.behind = known.map_or(address / WORD * WORD + WORD, |(place, _)| place.end);
            // Names that begin so are those of compilers: counters of coverage, for example.
            if known.is_none_or(|(_, name)| !name.starts_with("__")) {
                self.addresses.push(known.map_or(address, |(place, _)| place.start));
            }
        }
    }
}

/// Returns memory of this process that has no file and that it may write: stacks, and what `malloc`
/// takes.
fn own_memory() -> Vec<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = |line: &str| {
        let mut words = line.split_whitespace();
        let (place, rights) = (words.next()?, words.next()?);
        let name = words.nth(3).unwrap_or_default();
        if !rights.starts_with("rw-p") || name.starts_with('/') {
            return None;
        }
        let (first, last) = place.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(first)?..number(last)?)
    };
    maps.lines().filter_map(own).collect()
}

/// Returns how a person calls the variable at an address.
pub(crate) fn name_of(address: usize) -> String {
    let names = Variables::of_this_process().unwrap_or_default();
    names.at(address).map_or_else(|| format!("at {address:#x}"), |(_, name)| format!("`{name}`"))
}
