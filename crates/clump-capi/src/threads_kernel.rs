//! Calls of a program that pass pointers to the kernel, which serves no faults of shared memory: it
//! gets private copies, which are copied back afterwards.

use crate::threads_heap::{are_mallocs_shared, end_for, is_shared};
use crate::threads_memory::copied;
use clump_os::c_library as c;
use clump_os::console;
use clump_os::error::set_errno;
use clump_os::sync::{AtomicUsize, Ordering};
use std::ffi::CString;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Arguments that such a call has at most, all of them words.
const WORDS: usize = 6;
/// Bytes of a pointer and a length of `readv`.
const BUFFER: usize = size_of::<c::iovec>();
/// Bytes of a message of `sendmmsg`, and in it of the message of `sendmsg`.
const MESSAGE: usize = 64;

/// Number of bytes at a pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent {
    /// A constant number.
    Of(usize),
    /// The value of an argument.
    Argument(usize),
    /// The value of an argument times the bytes of an object.
    Objects(usize, usize),
    /// The number that an argument points to.
    At(usize),
    /// A set of as many bits as the value of an argument.
    Bits(usize),
    /// A text with its zero.
    Text,
}
pub(crate) use Extent::{Argument, At, Bits, Objects, Of, Text as Zeroed};

/// Argument that is a pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pointer {
    /// Memory that the kernel reads or writes.
    Memory(usize, Extent),
    /// A text.
    Text(usize),
    /// Texts, behind which a null is.
    Texts(usize),
    /// Buffers of `readv`, as many as an argument.
    Buffers(usize, usize),
    /// A message of `sendmsg`.
    Message(usize),
    /// Messages of `sendmmsg`, as many as an argument.
    Messages(usize, usize),
    /// Memory that must not be shared.
    Private(usize),
    /// None: where this argument is null, the result is a text that the C library has allocated.
    Gives(usize),
    /// None: the result is a text that the C library has allocated.
    GivesAlways,
}
pub(crate) use Pointer::{
    Buffers, Gives, GivesAlways, Memory, Message, Messages, Private, Text, Texts,
};

type Words = [usize; WORDS];
type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;

/// Call of the C library that takes words, some of them pointers.
#[derive(Debug)]
pub(crate) struct KernelCall {
    /// Name of what stands in for it.
    name: &'static str,
    pointers: &'static [Pointer],
    /// Address of the C library's function, once it is known.
    real: AtomicUsize,
}

/// Private copy of memory of the program.
#[derive(Debug)]
struct PrivateCopy {
    theirs: usize,
    bytes: usize,
    own: Vec<u64>,
    /// Contents before the call.
    before: Vec<u64>,
}

impl PrivateCopy {
    /// Copies memory of the program.
    ///
    /// # Safety
    /// So many bytes are there.
    unsafe fn of(theirs: usize, bytes: usize) -> Option<Self> {
        let mut own: Vec<u64> = Vec::new();
        let words = bytes.div_ceil(size_of::<u64>()).max(1);
        own.try_reserve_exact(words).ok()?;
        own.resize(words, 0);
        let from = with_exposed_provenance::<u8>(theirs);
        // SAFETY: the caller's bytes, and as many of a fresh allocation.
        unsafe { from.copy_to_nonoverlapping(own.as_mut_ptr().cast(), bytes) };
        let mut before = Vec::new();
        before.try_reserve_exact(words).ok()?;
        before.extend_from_slice(&own);
        Some(Self { theirs, bytes, own, before })
    }

    fn address(&self) -> usize {
        self.own.as_ptr().expose_provenance()
    }

    /// Sets a word, which is not for the program to see.
    fn point(&mut self, offset: usize, to: usize) {
        let at = offset / size_of::<u64>();
        self.own[at] = to as u64;
        self.before[at] = to as u64;
    }

    fn word(&self, offset: usize) -> usize {
        self.own[offset / size_of::<u64>()] as usize
    }

    /// Stores in the program's memory what the call has changed, and nothing else: other threads
    /// may use what is beside it.
    fn give_back(&self) {
        let into = with_exposed_provenance_mut::<u8>(self.theirs);
        for (number, (own, before)) in self.own.iter().zip(&self.before).enumerate() {
            if own == before {
                continue;
            }
            let bytes = own.to_ne_bytes().into_iter().zip(before.to_ne_bytes());
            for (at, (own, before)) in bytes.enumerate() {
                let offset = number * size_of::<u64>() + at;
                if own != before && offset < self.bytes {
                    // SAFETY: memory of the program to which the kernel would have written.
                    unsafe { into.add(offset).write_volatile(own) };
                }
            }
        }
    }
}

/// Copies that a call needs.
#[derive(Debug, Default)]
struct Copies {
    all: Vec<PrivateCopy>,
}

/// Failure to allocate a copy.
struct NoMemory;

fn is_shared_address(address: usize) -> bool {
    is_shared(with_exposed_provenance::<u8>(address))
}

impl Copies {
    /// Returns the address of a copy of memory, or of the memory itself if it is private.
    ///
    /// # Safety
    /// So many bytes are there, if they are shared.
    unsafe fn of(&mut self, theirs: usize, bytes: usize) -> Result<usize, NoMemory> {
        if !is_shared_address(theirs) {
            return Ok(theirs);
        }
        // SAFETY: the caller's.
        unsafe { self.always_of(theirs, bytes) }
    }

    /// # Safety
    /// So many bytes are there.
    unsafe fn always_of(&mut self, theirs: usize, bytes: usize) -> Result<usize, NoMemory> {
        // SAFETY: the caller's.
        let copy = unsafe { PrivateCopy::of(theirs, bytes) }.ok_or(NoMemory)?;
        let address = copy.address();
        self.all.push(copy);
        Ok(address)
    }

    /// Copies a text.
    ///
    /// # Safety
    /// It is one.
    unsafe fn text(&mut self, theirs: usize) -> Result<usize, NoMemory> {
        if !is_shared_address(theirs) {
            return Ok(theirs);
        }
        // SAFETY: a text of the program.
        unsafe { self.always_of(theirs, c::strlen(with_exposed_provenance(theirs)) + 1) }
    }

    /// Copies texts, and the words that point to them.
    ///
    /// # Safety
    /// They are such, and a null is behind them.
    unsafe fn texts(&mut self, theirs: usize) -> Result<usize, NoMemory> {
        let mut count = 0;
        let word = |at: usize| {
            // SAFETY: the caller's contract; no null was before.
            unsafe { with_exposed_provenance::<usize>(theirs).add(at).read() }
        };
        while word(count) != 0 {
            count += 1;
        }
        let shared = (0..count).any(|at| is_shared_address(word(at)));
        if !shared && !is_shared_address(theirs) {
            return Ok(theirs);
        }
        // SAFETY: so many words, and the null.
        let address = unsafe { self.always_of(theirs, (count + 1) * size_of::<usize>()) }?;
        let own = self.all.len() - 1;
        for at in 0..count {
            // SAFETY: a text of the program.
            let text = unsafe { self.text(word(at)) }?;
            self.all[own].point(at * size_of::<usize>(), text);
        }
        Ok(address)
    }

    /// Copies buffers, and the words that point to them.
    ///
    /// # Safety
    /// They are such.
    unsafe fn buffers(&mut self, theirs: usize, count: usize) -> Result<usize, NoMemory> {
        if theirs == 0 {
            return Ok(0);
        }
        // SAFETY: so many pointers and lengths.
        let address = unsafe { self.always_of(theirs, count * BUFFER) }?;
        let own = self.all.len() - 1;
        for at in 0..count {
            let (base, len) =
                (self.all[own].word(at * BUFFER), self.all[own].word(at * BUFFER + 8));
            // SAFETY: a buffer of the program.
            let copy = unsafe { self.of(base, len) }?;
            self.all[own].point(at * BUFFER, copy);
        }
        Ok(address)
    }

    /// Copies messages, what they point to, and the words that do.
    ///
    /// # Safety
    /// They are such, of so many bytes each.
    unsafe fn messages(
        &mut self,
        theirs: usize,
        count: usize,
        each: usize,
    ) -> Result<usize, NoMemory> {
        if theirs == 0 {
            return Ok(0);
        }
        // SAFETY: so many messages.
        let address = unsafe { self.always_of(theirs, count * each) }?;
        let own = self.all.len() - 1;
        for first in (0..count).map(|at| at * each) {
            let word = |copies: &Self, at: usize| copies.all[own].word(first + at);
            // Name, its bytes; buffers, their number; control data, its bytes; flags.
            let (name, bytes) = (word(self, 0), word(self, 8) & 0xffff_ffff);
            // SAFETY: the message's fields.
            let name = unsafe { self.of(name, bytes) }?;
            let (buffers, count) = (word(self, 16), word(self, 24));
            // SAFETY: the message's fields.
            let buffers = unsafe { self.buffers(buffers, count) }?;
            let (control, bytes) = (word(self, 32), word(self, 40));
            // SAFETY: the message's fields.
            let control = unsafe { self.of(control, bytes) }?;
            for (at, to) in [(0, name), (16, buffers), (32, control)] {
                self.all[own].point(first + at, to);
            }
        }
        Ok(address)
    }

    /// Gives the changes back; returns the program's address for one of a copy.
    fn give_back(&self, result: usize) -> usize {
        let mut theirs = result;
        for copy in &self.all {
            copy.give_back();
            let offset = result.wrapping_sub(copy.address());
            if offset < copy.bytes {
                theirs = copy.theirs + offset;
            }
        }
        theirs
    }
}

/// Returns the bytes that a pointer is about.
///
/// # Safety
/// The words are those of a call, the pointer among them.
unsafe fn bytes_of(extent: Extent, pointer: usize, words: &Words) -> usize {
    let count = |at: usize| usize::try_from(words[at] as i32).unwrap_or(0);
    match extent {
        Of(bytes) => bytes,
        Argument(at) => words[at],
        Objects(at, each) => count(at) * each,
        Bits(at) => count(at).div_ceil(64) * 8,
        At(at) if words[at] == 0 => 0,
        // SAFETY: a length of the program.
        At(at) => unsafe { with_exposed_provenance::<u32>(words[at]).read() as usize },
        // SAFETY: a text of the program.
        Zeroed => unsafe { c::strlen(with_exposed_provenance(pointer)) + 1 },
    }
}

impl KernelCall {
    /// Describes the call for which a function of this name stands in.
    pub(crate) const fn new(name: &'static str, pointers: &'static [Pointer]) -> Self {
        Self { name, pointers, real: AtomicUsize::new(0) }
    }

    /// Returns the name of the C library's function.
    fn name(&self) -> &'static str {
        self.name.strip_prefix("__wrap_").unwrap_or(self.name)
    }

    /// Returns the address of the C library's function.
    pub(crate) fn address(&self) -> usize {
        let mut address = self.real.load(Ordering::Relaxed);
        if address == 0 {
            let name = CString::new(self.name()).unwrap_or_default();
            // SAFETY: looks for a name.
            address = unsafe { c::dlsym(c::RTLD_DEFAULT, name.as_ptr()) }.expose_provenance();
            if address == 0 {
                end_for(self.name(), &"the C library of this machine does not have it");
            }
            self.real.store(address, Ordering::Relaxed);
        }
        address
    }

    /// Returns true if the call needs nothing: all pointers are to private memory.
    fn is_private(&self, words: &Words) -> bool {
        self.pointers.iter().all(|pointer| match *pointer {
            Memory(at, _) | Text(at) | Private(at) => !is_shared_address(words[at]),
            Texts(at) | Message(at) | Messages(at, _) | Buffers(at, _) => words[at] == 0,
            Gives(at) => words[at] != 0 || !are_mallocs_shared(),
            GivesAlways => !are_mallocs_shared(),
        })
    }

    /// Makes the call.
    ///
    /// # Safety
    /// The program upholds the contract of the C function.
    pub(crate) unsafe fn run(&self, words: Words) -> usize {
        // SAFETY: a function of the C library that takes words and returns one.
        let real = unsafe { std::mem::transmute::<usize, Function>(self.address()) };
        let call = |[a, b, c, d, e, f]: Words| {
            // SAFETY: the program upholds the contract of the C function.
            unsafe { real(a, b, c, d, e, f) }
        };
        if self.is_private(&words) {
            return call(words);
        }
        let mut copies = Copies::default();
        // SAFETY: as above.
        let Ok(own) = (unsafe { self.copy(words, &mut copies) }) else {
            set_errno(c::ENOMEM);
            return usize::MAX;
        };
        let result = call(own);
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let mut result = copies.give_back(result);
        if self.gives(&words) && result != 0 {
            let text = with_exposed_provenance_mut(result);
            // SAFETY: a text that the C library has allocated.
            result = unsafe {
                let own = copied(text, c::strlen(text));
                c::free(text.cast());
                own.expose_provenance()
            };
        }
        if result as i32 == -1 && errno == c::EFAULT {
            let what = "failed (EFAULT): the kernel got a pointer to memory that ranks share";
            console::err_at_once(&["clump: ", self.name(), ": ", what, "\n"]);
        }
        set_errno(errno);
        result
    }

    fn gives(&self, words: &Words) -> bool {
        are_mallocs_shared()
            && self.pointers.iter().any(|pointer| match *pointer {
                Gives(at) => words[at] == 0,
                GivesAlways => true,
                _ => false,
            })
    }

    /// Copies what pointers of the call are about; returns the words for the kernel.
    unsafe fn copy(&self, words: Words, copies: &mut Copies) -> Result<Words, NoMemory> {
        let mut own = words;
        for pointer in self.pointers {
            // SAFETY: the program upholds the contract of the C function.
            unsafe {
                match *pointer {
                    Memory(at, extent) if is_shared_address(words[at]) => {
                        let bytes = bytes_of(extent, words[at], &words);
                        own[at] = copies.of(words[at], bytes)?;
                    }
                    Text(at) => own[at] = copies.text(words[at])?,
                    Texts(at) if words[at] != 0 => own[at] = copies.texts(words[at])?,
                    Buffers(at, count) => {
                        let count = bytes_of(Objects(count, 1), 0, &words);
                        own[at] = copies.buffers(words[at], count)?;
                    }
                    Message(at) => own[at] = copies.messages(words[at], 1, MESSAGE - 8)?,
                    Messages(at, count) => {
                        let count = bytes_of(Objects(count, 1), 0, &words);
                        own[at] = copies.messages(words[at], count, MESSAGE)?;
                    }
                    Private(at) if is_shared_address(words[at]) => refuse_shared(self.name()),
                    Memory(..) | Texts(_) | Private(_) | Gives(_) | GivesAlways => {}
                }
            }
        }
        Ok(own)
    }
}

/// Ends the program because it has called a function with shared memory that cannot have any.
#[cold]
pub(crate) fn refuse_shared(name: &str) -> ! {
    end_for(name, &"clump cannot make this call with memory that ranks share")
}

/// Prints that a function of the C library does not work across ranks.
#[cold]
pub(crate) fn say_refused(name: &str, why: &str) {
    console::err_at_once(&["clump: ", name, ": ", why, "\n"]);
}
