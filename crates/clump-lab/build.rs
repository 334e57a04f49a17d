//! Embeds the stored instruction counts, where the tree has some, in the program.
#![allow(clippy::disallowed_methods, reason = "cargo tells build scripts their folder this way")]

fn main() -> std::io::Result<()> {
    const COUNTS: &str = "../../xtask/icount.json";
    println!("cargo::rerun-if-changed={COUNTS}");
    let counts = std::fs::read_to_string(COUNTS).unwrap_or_else(|_| "{}".into());
    let folder = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(std::path::Path::new(&folder).join("icount.json"), counts)
}
