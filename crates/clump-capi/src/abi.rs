//! The version of the binary interface, and the functions that return it.

use std::ffi::{CStr, c_char, c_int};

/// Version of the binary interface. It is in the name of the shared library (`libclump.so.1`), and
/// ::clump_init compares it with that of the headers that a program was compiled with. It changes
/// when a function, a type or the layout that inline functions rely on changes in a way that
/// programs notice.
pub const CLUMP_ABI: c_int = 1;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"unknown",
    };

/// Returns the version of the library as text, for people: `"0.1.0"`. Valid for ever. Any thread,
/// also before ::clump_init.
#[unsafe(no_mangle)]
pub extern "C" fn clump_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the binary interface of the library that runs, to compare with ::CLUMP_ABI of the
/// headers. Any thread, also before ::clump_init.
#[unsafe(no_mangle)]
pub extern "C" fn clump_abi() -> c_int {
    CLUMP_ABI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_library_has_the_same_number() {
        let build = include_str!("../build.rs");
        assert!(build.contains(&format!("const ABI: u32 = {CLUMP_ABI};")));
    }
}
