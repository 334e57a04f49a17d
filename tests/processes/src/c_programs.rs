//! Programs in C and C++: compiled against this build's library and headers, as a user would.

use crate::Folder;
// Built because this package depends on it; linked by C programs only.
use clump_capi as _;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// System libraries that a static libclump needs.
const SYSTEM: &[&str] = &["-lpthread", "-ldl", "-lm"];

/// Object files of this process, by the compiler's arguments: tests share programs, and most of
/// their time is the compiler's.
static OBJECTS: Mutex<Option<HashMap<Vec<String>, Object>>> = Mutex::new(None);
type Object = Arc<OnceLock<Arc<Vec<u8>>>>;

/// A compiler for C and one for C++, and the folder for programs.
#[derive(Debug)]
pub struct Workshop {
    folder: Folder,
}

/// The library that a program is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    /// `libclump.so`.
    Shared,
    /// `libclump.a`.
    Static,
}

/// Returns a workshop; `None`, and a notice, if there is no C compiler.
pub fn workshop(test: &str) -> Option<Workshop> {
    for compiler in ["cc", "c++"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("SKIPPED {test}: no `{compiler}` here; install a compiler for C and C++");
            eprintln!("SKIPPED {test}: no `{compiler}` here; install a compiler for C and C++");
            return None;
        }
    }
    let folder = Folder::new();
    let shared = built("libclump_capi.so");
    for name in ["libclump.so", "libclump.so.1"] {
        std::os::unix::fs::symlink(&shared, folder.path().join(name)).expect("linking a library");
    }
    let archive = folder.path().join("libclump.a");
    std::os::unix::fs::symlink(built("libclump_capi.a"), archive).expect("linking a library");
    Some(Workshop { folder })
}

/// Returns the path of a library of this build.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    // Tests lie beside it, programs one folder above.
    let folders = [own.parent().map(Path::to_owned), own.parent().map(|at| at.join("deps"))];
    let found = folders.into_iter().flatten().map(|at| at.join(name)).find(|at| at.is_file());
    found.unwrap_or_else(|| panic!("`{name}` is not built beside {}", own.display()))
}

/// Returns the folder of the C interface.
pub fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/clump-capi")
}

impl Workshop {
    /// Compiles a program of `crates/clump-capi`, `tests/c/job.c` for example; warnings are errors.
    pub fn build(&self, source: &str, linked: Linked) -> PathBuf {
        self.build_with(source, linked, &[])
    }

    /// Compiles a program as [`Workshop::build`] does, with more flags.
    ///
    /// # Panics
    /// Panics if it does not compile.
    pub fn build_with(&self, source: &str, linked: Linked, flags: &[&str]) -> PathBuf {
        let stem = Path::new(source).file_stem().expect("a file").to_string_lossy().into_owned();
        // A flag may name a folder.
        let flagged: String = flags.iter().filter_map(|flag| flag.rsplit('/').next()).collect();
        let out = self.folder.path().join(format!("{stem}-{linked:?}{flagged}"));
        let object = self.folder.path().join(format!("{stem}-{linked:?}{flagged}.o"));
        let compiled = self.compiled(source, flags);
        std::fs::write(&object, &*compiled).expect("writing an object file");
        let mut command = Command::new(compiler(source));
        command.args(flags).arg(&object).arg("-o").arg(&out);
        match linked {
            Linked::Static => command.arg(self.folder.path().join("libclump.a")).args(SYSTEM),
            Linked::Shared => {
                let rpath = format!("-Wl,-rpath,{}", self.folder.path().display());
                command.arg("-L").arg(self.folder.path()).args([&rpath, "-lclump", "-lpthread"])
            }
        };
        run(&mut command, source);
        out
    }

    /// Returns the object file of a program, compiled once for all tests of this process.
    fn compiled(&self, source: &str, flags: &[&str]) -> Arc<Vec<u8>> {
        let standard = if compiler(source) == "cc" { "-std=c11" } else { "-std=c++20" };
        let own = [standard, "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"];
        let arguments: Vec<String> =
            own.iter().chain(flags).chain([&source]).map(ToString::to_string).collect();
        let object = {
            let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
            objects.get_or_insert_default().entry(arguments).or_default().clone()
        };
        let compile = || {
            let path = self.folder.path().join("compiled.o");
            let mut command = Command::new(compiler(source));
            command.args(own).args(flags).arg("-I").arg(capi().join("include"));
            run(command.arg("-c").arg(capi().join(source)).arg("-o").arg(&path), source);
            Arc::new(std::fs::read(path).expect("reading an object file"))
        };
        object.get_or_init(compile).clone()
    }

    /// Returns the folder of programs and libraries.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns the compiler for a source file.
fn compiler(source: &str) -> &'static str {
    if source.ends_with(".c") { "cc" } else { "c++" }
}

/// Runs a compiler or linker, which must succeed.
fn run(command: &mut Command, source: &str) {
    let done = command.output().expect("starting the compiler");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{source} does not compile:\n{said}");
}
