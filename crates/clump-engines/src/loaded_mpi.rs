//! An MPI library in this process. It speaks with the engine as clump does, over one connection:
//! the order of their calls is checked here.

use crate::error::{Error, Result};
use clump_os::{process, procfs};
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStringExt;

/// Beginning of the names of MPI libraries: `libmpi.so.40`, `libmpich.so.12`.
const LIBRARY: &str = "libmpi";

type Question = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Returns true if MPI has been initialized, and keeps the connection to the engine.
///
/// # Errors
/// MPI is there, and has not been initialized yet, or has been finalized already: its own calls, or
/// clump's, would find the engine gone.
pub(crate) fn is_running(engine: &'static str) -> Result<bool> {
    let Some(library) = library() else { return Ok(false) };
    let ask = |name| answer(library, name);
    let refused = |why: &str| Error::Engine { engine, why: why.into() };
    match (ask(c"MPI_Initialized"), ask(c"MPI_Finalized")) {
        (None, _) => Ok(false),
        (Some(true), Some(true)) => {
            Err(refused("MPI has taken leave of the engine: initialize clump before MPI_Finalize"))
        }
        (Some(true), _) => Ok(true),
        (Some(false), _) => Err(refused(
            "this program uses MPI, too, which has to be the first: call MPI_Init before clump is \
             initialized",
        )),
    }
}

/// Returns the handle of the library, if one is loaded.
fn library() -> Option<*mut c_void> {
    // A program without shared libraries could not ask.
    if cfg!(target_feature = "crt-static") {
        return None;
    }
    let file = procfs::mapped_file(process::own_pid(), LIBRARY)?;
    let file = CString::new(file.into_os_string().into_vec()).ok()?;
    // SAFETY: the name ends with a zero; the library is loaded already, so that no code runs.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!library.is_null()).then_some(library)
}

/// Returns what one of MPI's functions says that may be called at any time.
fn answer(library: *mut c_void, name: &CStr) -> Option<bool> {
    // SAFETY: `library` is what `dlopen` has returned, never closed; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the MPI standard declares both functions so (MPI 4.1, 11.2.2).
    let call = unsafe { std::mem::transmute::<*mut c_void, Question>(found) };
    let mut flag = 0;
    // SAFETY: the function writes one number, which lives.
    let status = unsafe { call(&raw mut flag) };
    (status == 0).then_some(flag != 0)
}
