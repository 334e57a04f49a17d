//! libpmix, loaded at run time: its first call, where it comes from, and the layouts of its
//! structures.
//!
//! The structures are those of `pmix_common.h`, the same in all versions from 2 on; the library's
//! own name carries the version of that interface (`libpmix.so.2`).

use crate::error::{Error, Result};
use crate::key_store::KeyStore;
use clump_os::process;
use clump_os::procfs::{self, Process};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The name of the library: of the interface, not of a release.
const LIBRARY: &str = "libpmix.so.2";
/// Most processes between a rank and the engine that started it: shells, wrappers.
const MAX_WRAPPERS: usize = 4;
/// Bytes of a name space, with the zero behind it (`PMIX_MAX_NSLEN`).
const SPACE_BYTES: usize = 256;
/// The number that means all processes (`PMIX_RANK_WILDCARD`).
const ALL: u32 = u32::MAX - 1;
/// Types of values (`PMIX_STRING`, `PMIX_UINT32`).
const STRING: u16 = 3;
const NUMBER: u16 = 14;
/// Readers of what is put: all (`PMIX_GLOBAL`).
const GLOBAL: u8 = 3;
/// The key of the number of processes (`PMIX_JOB_SIZE`).
const SIZE_KEY: &CStr = c"pmix.job.size";

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProcessName {
    space: [c_char; SPACE_BYTES],
    rank: u32,
}

/// `pmix_value_t`: a type, and the largest member of a union, three pointers long.
#[repr(C)]
struct Value {
    kind: u16,
    content: [*mut c_void; 3],
}

type InitCall = unsafe extern "C" fn(*mut ProcessName, *const c_void, usize) -> c_int;
type GetCall = unsafe extern "C" fn(
    *const ProcessName,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut Value,
) -> c_int;
type PutCall = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type CommitCall = unsafe extern "C" fn() -> c_int;
type FenceCall = unsafe extern "C" fn(*const ProcessName, usize, *const c_void, usize) -> c_int;
type FinalizeCall = unsafe extern "C" fn(*const c_void, usize) -> c_int;

/// The six functions.
#[derive(Clone, Copy)]
struct Functions {
    init: InitCall,
    get: GetCall,
    put: PutCall,
    commit: CommitCall,
    fence: FenceCall,
    finalize: FinalizeCall,
}

/// The store of an engine that speaks PMIx.
pub(crate) struct PmixStore {
    functions: Functions,
    own: ProcessName,
    size: u32,
    engine: &'static str,
}

/// Returns the address of a function of the library, which stays loaded.
fn function(library: *mut c_void, name: &CStr) -> std::result::Result<*mut c_void, String> {
    // SAFETY: `library` is what `dlopen` has returned, never closed; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        Err(format!("libpmix has no {}", name.to_string_lossy()))
    } else {
        Ok(found)
    }
}

/// Returns the files that may be the library, the best first: what the engine above this process
/// has loaded itself, since releases that differ understand each other less well; then what the
/// system finds by the name.
fn candidates() -> Vec<CString> {
    let above = |pid: &u32| Process::read(*pid).map(|process| process.parent);
    let ancestors = std::iter::successors(Some(process::parent_pid()), above).take(MAX_WRAPPERS);
    let own = ancestors.filter(|&pid| pid > 1).find_map(|pid| procfs::mapped_file(pid, LIBRARY));
    let own = own.map(|file| file.into_os_string().into_encoded_bytes());
    own.into_iter()
        .chain([LIBRARY.as_bytes().to_vec()])
        .filter_map(|name| CString::new(name).ok())
        .collect()
}

impl Functions {
    fn load() -> std::result::Result<Self, String> {
        // The library would bring a second C library with it.
        if cfg!(target_feature = "crt-static") {
            return Err(
                "this program is linked statically, and cannot load libpmix: use `clump run`, \
                        or a clump that is linked with shared libraries (the Debian package)"
                    .into(),
            );
        }
        let open = |file: CString| {
            // SAFETY: the name ends with a zero; the library's own start-up code runs, as in every
            // program that is linked with it.
            let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            (!library.is_null()).then_some(library)
        };
        let Some(library) = candidates().into_iter().find_map(open) else {
            return Err(
                "libpmix.so.2 cannot be loaded: install it (Debian: libpmix2), or name its \
                        folder (LD_LIBRARY_PATH)"
                    .into(),
            );
        };
        let of = |name| function(library, name);
        // SAFETY: each address is the function of that name, whose parameters `pmix.h` declares so
        // in all versions from 2 on.
        unsafe {
            Ok(Self {
                init: std::mem::transmute::<*mut c_void, InitCall>(of(c"PMIx_Init")?),
                get: std::mem::transmute::<*mut c_void, GetCall>(of(c"PMIx_Get")?),
                put: std::mem::transmute::<*mut c_void, PutCall>(of(c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, CommitCall>(of(c"PMIx_Commit")?),
                fence: std::mem::transmute::<*mut c_void, FenceCall>(of(c"PMIx_Fence")?),
                finalize: std::mem::transmute::<*mut c_void, FinalizeCall>(of(c"PMIx_Finalize")?),
            })
        }
    }
}

impl PmixStore {
    /// Loads the library and says hello to the engine.
    ///
    /// # Errors
    /// There is no library, or no engine behind it.
    pub(crate) fn open(engine: &'static str) -> Result<Self> {
        let functions = Functions::load().map_err(|why| Error::Engine { engine, why })?;
        let own = ProcessName { space: [0; SPACE_BYTES], rank: 0 };
        let mut store = Self { functions, own, size: 0, engine };
        // SAFETY: the library writes one name, which lives; there are no further arguments.
        let done = unsafe { (functions.init)(&raw mut store.own, std::ptr::null(), 0) };
        store.check("PMIx_Init", done)?;
        let all = ProcessName { rank: ALL, ..store.own };
        let value = store.value(&all, SIZE_KEY)?;
        if value.kind != NUMBER {
            return Err(store.refused(format!("its job size is of type {}", value.kind)));
        }
        // The number is the first four bytes of the union.
        let bytes = value.content[0].addr().to_ne_bytes();
        store.size = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if store.own.rank >= store.size {
            let why = format!("it says rank {} of {}", store.own.rank, store.size);
            return Err(store.refused(why));
        }
        Ok(store)
    }

    fn refused(&self, why: String) -> Error {
        Error::Engine { engine: self.engine, why }
    }

    fn check(&self, call: &str, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            code => Err(self.refused(format!("{call} returned {code}"))),
        }
    }

    /// Returns a value that the engine has. The library's copy is not given back: there are few.
    fn value(&self, of: &ProcessName, key: &CStr) -> Result<Value> {
        let mut found: *mut Value = std::ptr::null_mut();
        // SAFETY: name and key live during the call; the library writes a pointer.
        let done =
            unsafe { (self.functions.get)(of, key.as_ptr(), std::ptr::null(), 0, &raw mut found) };
        self.check("PMIx_Get", done)?;
        if found.is_null() {
            return Err(self.refused("PMIx_Get gave nothing".into()));
        }
        // SAFETY: on success the pointer is that of a value, which nobody frees.
        Ok(unsafe { std::ptr::read(found) })
    }

    fn text(&self, text: &str) -> Result<CString> {
        CString::new(text).map_err(|_| self.refused("a text has a zero in it".into()))
    }
}

impl KeyStore for PmixStore {
    fn place(&self) -> (u32, u32) {
        (self.own.rank, self.size)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let (key, text) = (self.text(key)?, self.text(value)?);
        let nothing = std::ptr::null_mut();
        let content = [text.as_ptr().cast_mut().cast(), nothing, nothing];
        let mut value = Value { kind: STRING, content };
        // SAFETY: key and value live during the call, in which the library copies both.
        let done = unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", done)
    }

    fn fence(&mut self) -> Result<()> {
        // SAFETY: takes nothing.
        self.check("PMIx_Commit", unsafe { (self.functions.commit)() })?;
        let nothing = std::ptr::null();
        // SAFETY: no names mean all processes; no arguments follow.
        let done = unsafe { (self.functions.fence)(std::ptr::null(), 0, nothing, 0) };
        self.check("PMIx_Fence", done)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String> {
        let of = ProcessName { rank, ..self.own };
        let value = self.value(&of, &self.text(key)?)?;
        let content: *const c_char = value.content[0].cast();
        if value.kind != STRING || content.is_null() {
            return Err(self.refused(format!("rank {rank} has put a value of type {}", value.kind)));
        }
        // SAFETY: a value of that type is a text that ends with a zero, which nobody frees.
        Ok(unsafe { CStr::from_ptr(content) }.to_string_lossy().into_owned())
    }

    fn finish(&mut self) -> Result<()> {
        // SAFETY: takes no arguments.
        let done = unsafe { (self.functions.finalize)(std::ptr::null(), 0) };
        self.check("PMIx_Finalize", done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(std::mem::size_of::<ProcessName>(), 260);
        assert_eq!(std::mem::offset_of!(ProcessName, rank), 256);
        assert_eq!(std::mem::size_of::<Value>(), 8 + 3 * std::mem::size_of::<usize>());
        assert_eq!(std::mem::offset_of!(Value, content), 8);
    }
}
