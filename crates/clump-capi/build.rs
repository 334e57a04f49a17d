//! Names the shared library by the version of its binary interface, as programs look for it.

/// The version of the binary interface, which is the number in the library's name. `src/abi.rs` has
/// it too.
const ABI: u32 = 1;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libclump.so.{ABI}");
    // The library's calls bind to itself, whatever else the process loads.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
