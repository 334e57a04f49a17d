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

/// Returns what went wrong, if anything.
fn in_folder(site: &Site, folder: &Path) -> Result<Option<String>> {
    let prefix = folder.join("prefix");
    fs::create_dir_all(&prefix).with_context(|| prefix.display().to_string())?;
    let prefix = prefix.canonicalize()?;
    Installation { root: &site.root, prefix: prefix.clone(), profile: "release" }.install()?;
    let work = folder.join("fresh");
    fs::create_dir_all(&work)?;
    let examples = site.root.join("crates/clump-capi/examples/c");
    for entry in fs::read_dir(&examples).with_context(|| examples.display().to_string())? {
        let path = entry?.path();
        fs::copy(&path, work.join(path.file_name().unwrap_or_default()))?;
    }
    let cc = prefix.join("bin/clump-cc").display().to_string();
    let cxx = prefix.join("bin/clump-c++").display().to_string();
    let strict = "-O2 -Wall -Wextra -pedantic -Werror";
    let found = "$(pkg-config --cflags --libs clump)";
    let mut builds = vec![
        ("ping_pong", format!("{cc} -std=c11 {strict} ping_pong.c -o ping_pong")),
        ("ring", format!("{cc} --clump-static -std=c11 {strict} ring.c -o ring")),
        ("ping_pong_cpp", format!("{cxx} {strict} ping_pong.cpp -o ping_pong_cpp")),
        (
            "counter_cpp",
            format!("{cxx} --clump-static -std=c++20 {strict} counter.cpp -o counter_cpp"),
        ),
        (
            "words",
            format!(
                "{cc} --clump-threads -std=c11 {strict} -c pthread_words.c && \
                 {cc} --clump-threads pthread_words.o -o words"
            ),
        ),
        ("parts", format!("{cc} -c counter.c -o parts.o && {cc} parts.o -o parts")),
    ];
    match host::program("pkg-config") {
        Some(_) => {
            builds.push(("counter", format!("cc {strict} counter.c {found} -o counter")));
            let archive = "$(pkg-config --cflags --libs clump-static)";
            builds.push((
                "archived",
                format!(
                    "cc {strict} counter.c {archive} -o archived && ! ldd archived | grep clump"
                ),
            ));
        }
        None => println!("SKIPPED finding libclump by pkg-config: it is not here; install it"),
    }
    match host::program("cmake") {
        Some(_) => {
            let at = prefix.display();
            let make = format!("cmake -B build -DCMAKE_PREFIX_PATH={at} && cmake --build build");
            builds.extend([
                ("build/counter", make),
                ("build/ping_pong_static", String::new()),
                ("build/counter_cpp", String::new()),
            ]);
        }
        None => println!("SKIPPED finding libclump by CMake: it is not here; install it"),
    }
    for (program, build) in builds {
        let run = format!("{}/bin/clump run -n 4 --nodes 2 ./{program}", prefix.display());
        let both = if build.is_empty() { run } else { format!("{build} && {run}") };
        let mut shell = Command::new("sh");
        shell.args(["-ec", &both]).current_dir(&work);
        shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let ended = command::run(&mut shell, RUN)?;
        if !ended.success {
            return Ok(Some(format!("{program}: {}", ended.why)));
        }
    }
    foreign_symbols(&prefix)
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
