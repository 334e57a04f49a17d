//! The headers and the library as things: what compiles without a warning, what is exported, what leaks.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_cluster_tests::Job;
use clump_cluster_tests::c_programs::{Linked, capi, workshop};
use std::path::Path;
use std::process::Command;

/// Compiles a file that includes only `header`; gives what the compiler says.
fn compile_alone(folder: &Path, header: &str, compiler: &str, standard: &str) -> String {
    let c = compiler == "cc";
    let source = folder.join(if c { "alone.c" } else { "alone.cpp" });
    std::fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n"))
        .unwrap();
    let mut command = Command::new(compiler);
    command.args([standard, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command.args(if c { &["-Wstrict-prototypes", "-Wmissing-prototypes"][..] } else { &[] });
    let done = command.arg("-I").arg(capi().join("include")).arg(source).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { String::new() } else { said }
}

#[test]
fn headers_compile_alone_without_warnings() {
    let Some(shop) = workshop("compiling headers") else { return };
    let include = capi().join("include");
    let mut names = vec!["clump.h".to_owned()];
    let inside = std::fs::read_dir(include.join("clump")).unwrap();
    // What is included at the end of another header needs it.
    names.extend(
        inside
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.contains("_inline") && !name.contains("_calls")),
    );
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let header = if name == "clump.h" { name.clone() } else { format!("clump/{name}") };
        let ways: &[(&str, &str)] = match name.ends_with(".hpp") {
            true => &[("c++", "-std=c++20")],
            false => &[("cc", "-std=c11"), ("c++", "-std=c++17"), ("c++", "-std=c++20")],
        };
        for (compiler, standard) in ways {
            let said = compile_alone(shop.folder(), &header, compiler, standard);
            assert!(said.is_empty(), "{header} with {compiler} {standard}:\n{said}");
        }
    }
}

#[test]
fn the_shared_library_exports_only_ours() {
    let Some(shop) = workshop("exported symbols") else { return };
    let Ok(named) = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(shop.folder().join("libclump.so"))
        .output()
    else {
        eprintln!("SKIPPED exported symbols: no `nm` here; install binutils");
        return;
    };
    let named = String::from_utf8_lossy(&named.stdout).into_owned();
    let all: Vec<&str> = named.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(all.contains(&"clump_init_abi") && all.len() > 80, "{all:?}");
    let foreign: Vec<_> =
        all.iter().filter(|name| !name.starts_with("clump_") && !name.starts_with("AM_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// Every function of the headers is called by a test.
#[test]
fn every_function_is_tested() {
    let Some(shop) = workshop("which functions are tested") else { return };
    let Ok(named) = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(shop.folder().join("libclump.so"))
        .output()
    else {
        eprintln!("SKIPPED which functions are tested: no `nm` here; install binutils");
        return;
    };
    let folder = capi().join("tests/c");
    let sources = std::fs::read_dir(&folder).unwrap();
    let inline = ["am_inline.h", "rma_inline.h", "job_inline.h"];
    let inline = inline.map(|name| capi().join("include/clump").join(name));
    let text: String = sources
        .map(|entry| entry.unwrap().path())
        .chain(inline)
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let named = String::from_utf8_lossy(&named.stdout).into_owned();
    let ours = named.lines().filter_map(|line| line.split_whitespace().nth(2));
    let missing: Vec<_> = ours
        .filter(|name| name.starts_with("clump_") && !text.contains(&format!("{name}(")))
        // Called by the macros of rma_inline.h, which paste their names; and what am2.h stands on.
        .filter(|name| !name.starts_with("clump_rma_atomic_u") && !name.starts_with("clump_am_"))
        .collect();
    assert!(missing.is_empty(), "no test calls {missing:?}");
}

/// Valgrind finds no wrong access and no leak in programs that do everything.
#[test]
fn valgrind_is_content() {
    let Some(shop) = workshop("C programs under valgrind") else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED C programs under valgrind: it is not here; install valgrind");
        return;
    }
    for source in ["job", "collectives", "messages", "rma"] {
        let program = shop.build(&format!("tests/c/{source}.c"), Linked::Shared);
        let checks = [
            "--quiet",
            "--error-exitcode=42",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ];
        let job = Job::any("valgrind").with_args(&checks).with(|command| {
            command.arg(&program);
        });
        let done = job.finish();
        assert_eq!(done.code, 0, "{source}:\n{}\n{}", done.out, done.err);
    }
}
