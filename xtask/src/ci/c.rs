//! The step that installs libclump and builds C programs against it, as an outside user would.

use super::step::{RUN, Site, StepOutcome, plain};
use crate::command;
use crate::host;
use crate::install::Installation;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Installs into a fresh folder, and builds the examples there by clump-cc, clump-c++, pkg-config
/// and CMake; runs each on two nodes; checks the exports of the libraries.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn installed(site: &Site) -> Result<StepOutcome> {
    let missing: Vec<&str> = ["cc", "c++", "ld", "objcopy", "ar", "nm"]
        .into_iter()
        .filter(|name| host::program(name).is_none())
        .collect();
    if !missing.is_empty() {
        let why = format!("no {}; install a C and C++ compiler and binutils", missing.join(", "));
        return Ok(StepOutcome::Skipped(why));
    }
    let folder = site.scratch()?.join("install");
    let done = in_folder(site, &folder);
    fs::remove_dir_all(&folder).ok();
    Ok(match done? {
        None => plain(true, ""),
        Some(why) => plain(false, &why),
    })
}

/// Names of the folders where the installation lies, one after the other. In the last no shared
/// library can be found, nor any file of pkg-config.
const PLACES: [&str; 3] = ["prefix", "a b,c", "a b,c:d"];

/// Returns what went wrong, if anything.
fn in_folder(site: &Site, folder: &Path) -> Result<Option<String>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize()?;
    let mut prefix = folder.join(PLACES[0]);
    Installation { root: &site.root, prefix: prefix.clone(), profile: "release" }.install()?;
    let colon = folder.join(PLACES[2]);
    let colon = Installation { root: &site.root, prefix: colon, profile: "release" };
    if colon.install().is_ok() {
        return Ok(Some(format!("`{}` was not refused", PLACES[2])));
    }
    let examples = site.root.join("crates/clump-capi/examples/c");
    for place in PLACES {
        let moved = folder.join(place);
        fs::rename(&prefix, &moved).with_context(|| moved.display().to_string())?;
        prefix = moved;
        let work = folder.join("fresh");
        fs::remove_dir_all(&work).ok();
        fs::create_dir_all(&work)?;
        for entry in fs::read_dir(&examples).with_context(|| examples.display().to_string())? {
            let path = entry?.path();
            fs::copy(&path, work.join(path.file_name().unwrap_or_default()))?;
        }
        let mut builds = archived();
        if !place.contains(':') {
            builds.extend(wrapped().into_iter().chain(found()));
        }
        if let Some(why) = built(&prefix, &work, &builds)? {
            return Ok(Some(format!("installed in `{place}`: {why}")));
        }
    }
    foreign_symbols(&prefix)
}

/// Program, and the shell's command that builds it; empty if another one did.
type Build = (&'static str, String);

/// Options of compilers.
const STRICT: &str = "-O2 -Wall -Wextra -pedantic -Werror";

/// Returns builds by the wrappers with the archive.
fn archived() -> Vec<Build> {
    let (cc, cxx) = ("\"$PREFIX/bin/clump-cc\"", "\"$PREFIX/bin/clump-c++\"");
    vec![
        ("ring", format!("{cc} --clump-static -std=c11 {STRICT} ring.c -o ring")),
        (
            "counter_cpp",
            format!("{cxx} --clump-static -std=c++20 {STRICT} counter.cpp -o counter_cpp"),
        ),
    ]
}

/// Returns builds by the wrappers with the shared library.
fn wrapped() -> Vec<Build> {
    let (cc, cxx) = ("\"$PREFIX/bin/clump-cc\"", "\"$PREFIX/bin/clump-c++\"");
    vec![
        ("ping_pong", format!("{cc} -std=c11 {STRICT} ping_pong.c -o ping_pong")),
        ("ping_pong_cpp", format!("{cxx} {STRICT} ping_pong.cpp -o ping_pong_cpp")),
        (
            "words",
            format!(
                "{cc} --clump-threads -std=c11 {STRICT} -c pthread_words.c && \
                 {cc} --clump-threads pthread_words.o -o words"
            ),
        ),
        ("parts", format!("{cc} -c counter.c -o parts.o && {cc} parts.o -o parts")),
    ]
}

/// Returns builds by pkg-config and CMake, as far as these are here.
fn found() -> Vec<Build> {
    let mut builds = Vec::new();
    match host::program("pkg-config") {
        Some(_) => {
            // pkg-config puts a backslash in front of a blank, which `eval` takes.
            let cc = |library: &str, program: &str| {
                let words = format!("$(pkg-config --cflags --libs {library})");
                format!("eval \"cc {STRICT} counter.c {words} -o {program}\"")
            };
            let archive = cc("clump-static", "archived");
            builds.push(("counter", cc("clump", "counter")));
            builds.push(("archived", format!("{archive} && ! ldd archived | grep clump")));
        }
        None => println!("SKIPPED finding libclump by pkg-config: it is not here; install it"),
    }
    match host::program("cmake") {
        Some(_) => {
            let make = "cmake -B build \"-DCMAKE_PREFIX_PATH=$PREFIX\" && cmake --build build";
            builds.extend([
                ("build/counter", make.to_owned()),
                ("build/ping_pong_static", String::new()),
                ("build/counter_cpp", String::new()),
            ]);
        }
        None => println!("SKIPPED finding libclump by CMake: it is not here; install it"),
    }
    builds
}

/// Builds programs in a folder, and runs each on two nodes; returns what went wrong, if anything.
fn built(prefix: &Path, work: &Path, builds: &[Build]) -> Result<Option<String>> {
    for (program, build) in builds {
        let run = format!("\"$PREFIX/bin/clump\" run -n 4 --nodes 2 ./{program}");
        let both = if build.is_empty() { run } else { format!("{build} && {run}") };
        let mut shell = Command::new("sh");
        shell.args(["-ec", &both]).current_dir(work).env("PREFIX", prefix);
        shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let ended = command::run(&mut shell, RUN)?;
        if !ended.success {
            return Ok(Some(format!("{program}: {}", ended.why)));
        }
    }
    Ok(None)
}

/// Beginnings of the names of functions of the C interface; the last of those that stand in for
/// functions of the C library.
const OURS: [&str; 4] = ["clump_", "AM_", "svm_", "__wrap_"];

/// Returns symbols of the installed libraries that are not ours.
fn foreign_symbols(prefix: &Path) -> Result<Option<String>> {
    for (library, which) in [("libclump.so", "-D"), ("libclump.a", "-g")] {
        let mut nm = Command::new("nm");
        nm.args([which, "--defined-only"]).arg(prefix.join("lib").join(library));
        let ended = command::run_quiet(&mut nm, RUN)?;
        let names = ended.stdout.lines().filter_map(|line| line.split_whitespace().nth(2));
        let (ours, foreign): (Vec<&str>, Vec<&str>) =
            names.partition(|name| OURS.iter().any(|first| name.starts_with(first)));
        if !ended.success || ours.is_empty() || !foreign.is_empty() {
            let some: Vec<_> = foreign.into_iter().take(5).collect();
            return Ok(Some(format!(
                "{library}: {} symbols of ours, foreign {some:?}",
                ours.len()
            )));
        }
        println!("{library} exports {} symbols, all of them ours", ours.len());
    }
    Ok(None)
}
