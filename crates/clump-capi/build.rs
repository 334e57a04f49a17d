//! Names the shared library as programs will look for it: by the version of its binary interface.

/// The version of the binary interface, which is the number in the library's name. `src/abi.rs` has it too.
const ABI: u32 = 1;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libclump.so.{ABI}");
    // One copy of this library in a process, whatever else is loaded: its calls bind to itself.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
