//! Code that this process has had compiled for itself, loaded from a library.

use crate::error::{OsError, Result};
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A function of loaded code: cells, words, and a number that says what to do.
type LoadedFunction = unsafe extern "C" fn(*mut i64, *mut u64, u32) -> i32;

/// A library with one function, which is never unloaded.
#[derive(Debug, Clone, Copy)]
pub struct LoadedCode {
    function: LoadedFunction,
    cells: usize,
    words: usize,
}

impl LoadedCode {
    /// Loads a library that was made by the program itself. Its text declares `cells` and `words`,
    /// the lengths of the arrays that its function `name` accesses, as numbers of these names with
    /// `_cells` and `_words` behind.
    ///
    /// # Errors
    /// The library cannot be loaded, or is not one of this kind.
    pub fn open(path: &Path, name: &str) -> Result<Self> {
        let bad = |what: String| OsError::new(what, rustix::io::Errno::NOEXEC);
        let file = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| bad("a path with a zero".into()))?;
        // SAFETY: the name ends with a zero. The library is one that this program has just had
        // compiled from its own text, which has no start-up code.
        let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(bad(format!("loading {}", path.display())));
        }
        let find = |name: &str| {
            let name = CString::new(name).map_err(|_| bad("a name with a zero".into()))?;
            // SAFETY: `library` is what `dlopen` has returned, never closed; the name ends with a
            // zero.
            let found: *mut c_void = unsafe { libc::dlsym(library, name.as_ptr()) };
            if found.is_null() { Err(bad(format!("finding {name:?}"))) } else { Ok(found) }
        };
        let number = |name: &str| {
            let found = find(name)?;
            // SAFETY: the text declares a number of eight bytes of this name.
            Ok::<_, OsError>(unsafe { found.cast::<u64>().read_unaligned() } as usize)
        };
        let (cells, words) = (number(&format!("{name}_cells"))?, number(&format!("{name}_words"))?);
        // SAFETY: the text declares the function so.
        let function = unsafe { std::mem::transmute::<*mut c_void, LoadedFunction>(find(name)?) };
        Ok(Self { function, cells, words })
    }

    /// Runs the function. Returns its result.
    ///
    /// # Errors
    /// The arrays are shorter than it needs.
    pub fn run(&self, cells: &mut [i64], words: &mut [u64], what: u32) -> Result<i32> {
        if cells.len() < self.cells || words.len() < self.words {
            let short = "arrays for loaded code are short".to_owned();
            return Err(OsError::new(short, rustix::io::Errno::INVAL));
        }
        // SAFETY: the function accesses no more than the lengths that its library declares.
        Ok(unsafe { (self.function)(cells.as_mut_ptr(), words.as_mut_ptr(), what) })
    }
}
