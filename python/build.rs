//! Has launcher, libclump and headers put into the package where maturin is run directly: the
//! build backend of pip has done that before, and says so. Cargo alone, as for clippy, needs none
//! of them.
#![allow(
    clippy::disallowed_methods,
    reason = "cargo and maturin tell build scripts what they do this way"
)]

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Set by `build_backend.py`, which has made the programs.
const MADE: &str = "CLUMP_PYTHON_MADE";
/// Set by maturin.
const BY_MATURIN: &str = "PYO3_BUILD_EXTENSION_MODULE";

fn main() -> ExitCode {
    for variable in [MADE, BY_MATURIN] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os(MADE).is_some() || env::var_os(BY_MATURIN).is_none() {
        return ExitCode::SUCCESS;
    }
    // Whether the programs are up to date is cargo's to say: again for every wheel.
    println!("cargo::rerun-if-changed=there-is-no-such-file");
    match programs() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("cargo::error=launcher and libclump of the package: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the backend's own code. It builds in the workspace's target folder, unless this build is
/// there: cargo holds the folder's lock until this program has ended.
fn programs() -> Result<(), String> {
    let text = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let (manifest, out) = (text("CARGO_MANIFEST_DIR")?, text("OUT_DIR")?);
    let (host, target) = (text("HOST")?, text("TARGET")?);
    let python = env::var_os("PYO3_PYTHON").unwrap_or_else(|| "python3".into());
    let mut backend = Command::new(&python);
    backend.args(["-B", "build_backend.py"]).current_dir(&manifest);
    // <target>/<profile>/build/<package>/out, or with <triple> behind <target>.
    let mine = Path::new(&out).ancestors().nth(4).ok_or("cargo's folder is a short one")?;
    let workspace = Path::new(&manifest).with_file_name("target");
    if same(mine, &workspace) || same(mine, &workspace.join(&target)) {
        backend.env("CARGO_TARGET_DIR", mine.join("programs"));
    } else {
        backend.env_remove("CARGO_TARGET_DIR");
    }
    if env::var_os("CLUMP_PYTHON_PROFILE").is_none() {
        let profile = if text("PROFILE")? == "release" { "release" } else { "dev" };
        backend.env("CLUMP_PYTHON_PROFILE", profile);
    }
    if host != target {
        backend.env("CLUMP_PYTHON_TARGET", target);
    }
    let ended = backend.status().map_err(|error| format!("{}: {error}", python.display()))?;
    ended.success().then_some(()).ok_or_else(|| format!("build_backend.py: {ended}"))
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
