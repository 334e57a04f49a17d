//! Properties of headers and library: compilation without warnings, exports, leaks.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::c_programs::{Linked, Workshop, capi, workshop};
use clump_process_tests::{Job, checkers};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Compiles a file that includes only `header`; returns the compiler's output.
fn compile_alone(folder: &Path, header: &str, compiler: &str, standard: &str) -> String {
    let c = compiler == "cc";
    let source = folder.join(if c { "alone.c" } else { "alone.cpp" });
    std::fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n"))
        .unwrap();
    let mut command = Command::new(compiler);
    command.args([standard, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command.args(match c {
        true => &["-Wstrict-prototypes", "-Wmissing-prototypes"],
        false => &["-Wold-style-cast", "-Wshadow"],
    });
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
    // Names included at the end of another header need it.
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
            false => &[
                ("cc", "-std=c90"),
                ("cc", "-std=c11"),
                ("c++", "-std=c++17"),
                ("c++", "-std=c++20"),
            ],
        };
        for (compiler, standard) in ways {
            let said = compile_alone(shop.folder(), &header, compiler, standard);
            assert!(said.is_empty(), "{header} with {compiler} {standard}:\n{said}");
        }
    }
}

/// Checks that C++ headers name what they need of the compiler, and nothing else.
#[test]
fn cpp_headers_say_what_they_need() {
    let Some(shop) = workshop("what C++ headers need") else { return };
    let needs: [(&[&str], &str); 4] = [
        (&["-std=c++17"], "compile with -std=c++20, or by clump-c++"),
        (&["-std=c++11"], "compile with -std=c++20, or by clump-c++"),
        (&["-std=c++20", "-fno-exceptions"], "leave out -fno-exceptions"),
        (&["-std=c++20", "-fno-rtti"], "leave out -fno-rtti"),
    ];
    for (flags, needed) in needs {
        let source = shop.folder().join("needs.cpp");
        let text = "#include <clump/clump.hpp>\nint main() { clump::world(); return 0; }\n";
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("c++");
        command.args(flags).arg("-fsyntax-only").arg("-I").arg(capi().join("include"));
        let done = command.arg(source).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success(), "{flags:?}");
        assert!(said.contains(needed), "{flags:?}: {said}");
        let errors = said.lines().filter(|line| line.contains("error: ")).count();
        assert!(errors <= 2, "{flags:?}: {said}");
    }
}

/// Checks that swapped arguments are an error of the compiler, without any flag, and arguments in
/// order are not.
#[test]
fn swapped_arguments_do_not_compile() {
    let Some(shop) = workshop("swapped arguments") else { return };
    for (compiler, file) in [("cc", "swapped.c"), ("c++", "swapped.cpp")] {
        let compiles = |given: &str| {
            let text = format!(
                "#include <clump.h>\nint reduce(clump_t *cl, void *at) {{ return clump_all_reduce(cl, at, at, 1, \
                 {given}); }}\n"
            );
            let source = shop.folder().join(file);
            std::fs::write(&source, text).unwrap();
            let mut command = Command::new(compiler);
            command.args(["-w", "-fsyntax-only", "-I"]).arg(capi().join("include")).arg(source);
            command.output().unwrap().status.success()
        };
        assert!(compiles("CLUMP_U64, CLUMP_SUM"), "{compiler}");
        assert!(!compiles("CLUMP_SUM, CLUMP_U64"), "{compiler}");
        assert!(!compiles("4, 1"), "{compiler}");
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
    // `--wrap` of the linker gives names of the last kind to what a program for threads calls.
    const FIRST: [&str; 4] = ["clump_", "AM_", "svm_", "__wrap_"];
    let ours = |name: &str| FIRST.iter().any(|first| name.starts_with(first));
    let foreign: Vec<_> = all.iter().filter(|name| !ours(name)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// Returns the symbols of an object file, each with its letter (nm(1)): `U` for undefined ones,
/// `t` for local ones.
fn symbols(object: &Path) -> Vec<(char, String)> {
    let named = Command::new("nm").arg(object).output().unwrap();
    let said = String::from_utf8_lossy(&named.stdout).into_owned();
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let name = words.next()?.to_owned();
        Some((words.next()?.chars().next()?, name))
    };
    said.lines().filter_map(of_line).collect()
}

/// Compiles without inlining, so that inline functions which are called, and no others, are in the
/// object.
fn object_of(shop: &Workshop, source: &Path, flags: &[&str]) -> Vec<(char, String)> {
    let c = source.extension().is_some_and(|ending| ending == "c");
    let object = shop.folder().join("symbols.o");
    let mut command = Command::new(if c { "cc" } else { "c++" });
    command.args([if c { "-std=c11" } else { "-std=c++20" }, "-O0", "-c", "-I"]);
    command.arg(capi().join("include")).args(flags).arg(source).arg("-o").arg(&object);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    symbols(&object)
}

/// Checks that every function that the library exports, and every inline one of the headers, is
/// called by a test: symbols in the tests' objects count, not text.
#[test]
fn every_function_is_tested() {
    let Some(shop) = workshop("which functions are tested") else { return };
    if Command::new("nm").arg("--version").output().is_err() {
        eprintln!("SKIPPED which functions are tested: no `nm` here; install binutils");
        return;
    }
    let ours = |name: &String| name.starts_with("clump_") || name.starts_with("AM_");
    let mut called = BTreeSet::new();
    for entry in std::fs::read_dir(capi().join("tests/c")).unwrap() {
        let path = entry.unwrap().path();
        // Programs beside MPI need its headers, and test no function that others do not.
        let needs_mpi =
            || std::fs::read_to_string(&path).is_ok_and(|text| text.contains("#include <mpi.h>"));
        if path.extension().is_some_and(|ending| ending != "h") && !needs_mpi() {
            called.extend(object_of(&shop, &path, &[]).into_iter().map(|(_, name)| name));
        }
    }
    let all = shop.folder().join("all.c");
    std::fs::write(&all, "#include <clump.h>\n#include <clump/am2.h>\n").unwrap();
    let inline = object_of(&shop, &all, &["-fkeep-inline-functions"]);
    let inline = inline.into_iter().filter(|(kind, _)| *kind == 't').map(|(_, name)| name);
    let exported = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(shop.folder().join("libclump.so"))
        .output()
        .unwrap();
    let exported = String::from_utf8_lossy(&exported.stdout).into_owned();
    let exported = exported.lines().filter_map(|line| line.split_whitespace().nth(2));
    let all: Vec<String> =
        inline.chain(exported.map(str::to_owned)).filter(|name| ours(name)).collect();
    assert!(all.len() > 250, "only {} functions: {all:?}", all.len());
    let missing: Vec<_> = all.iter().filter(|name| !called.contains(*name)).collect();
    assert!(missing.is_empty(), "no test calls {missing:?}");
}

/// Checks that what shared memory keeps for ever is no leak.
#[test]
fn a_search_for_leaks_finds_nothing_of_shared_memory() {
    let Some(shop) = workshop("shared memory under a search for leaks") else { return };
    checkers::under_search_for_leaks(&shop, "svm.c");
}

/// Checks that sanitizers and valgrind find nothing in two small programs; `tests/memory.rs` has
/// all.
#[test]
fn checkers_are_content_with_small_programs() {
    let Some(shop) = workshop("C programs under checkers") else { return };
    checkers::under_sanitizers(&shop, &["job.c"], &["am2_misuse.c"]);
    if checkers::has_valgrind("C programs under valgrind") {
        let program = shop.build("tests/c/job.c", Linked::Shared);
        checkers::under_valgrind(Job::any("valgrind"), &program, &[]);
        let program = shop.build("tests/c/am2_misuse.c", Linked::Static);
        checkers::under_valgrind(Job::any("valgrind"), &program, &[]);
    }
}
