//! Programs in C and C++ under the compiler's sanitizers and under valgrind.

use crate::c_programs::{Linked, Workshop};
use crate::{Finished, Job};
use std::path::Path;
use std::process::Command;

/// Flags of the sanitizers for addresses and undefined behaviour.
const SANE: [&str; 4] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"];
/// Options of valgrind: what it finds fails the program, and so does what was leaked.
const CHECKS: [&str; 4] =
    ["--quiet", "--error-exitcode=42", "--leak-check=full", "--errors-for-leak-kinds=definite"];

/// Runs programs of the C interface under the sanitizers, alone and on two nodes, and programs of
/// Active Messages II on one; skips where the compiler has no sanitizers.
///
/// # Panics
/// Panics if they find something.
pub fn under_sanitizers(shop: &Workshop, programs: &[&str], am2: &[&str]) {
    if !has_sanitizers(shop) {
        let why = "this compiler has none; install libasan, libubsan";
        println!("SKIPPED C programs under sanitizers: {why}");
        eprintln!("SKIPPED C programs under sanitizers: {why}");
        return;
    }
    let check = |source: &str, job: Job| {
        let done = sane(job).finish();
        assert_eq!(done.code, 0, "{source}:\n{}\n{}", done.out, done.err);
    };
    for source in programs {
        let program = shop.build_with(&format!("tests/c/{source}"), Linked::Shared, &SANE);
        check(source, Job::any(&program));
        check(source, Job::of_program("-n 2 --nodes 2", &program, []));
    }
    for source in am2 {
        let program = shop.build_with(&format!("tests/c/{source}"), Linked::Static, &SANE);
        check(source, Job::of_program("-n 2", &program, []));
    }
}

/// Runs a program of the C interface under the sanitizer for addresses as it comes, which searches
/// for leaks at the end, on two nodes; skips where it may not search.
///
/// # Panics
/// Panics if it finds something.
pub fn under_search_for_leaks(shop: &Workshop, source: &str) {
    let empty = shop.folder().join("empty");
    if !has_sanitizers(shop) || Job::any(empty).finish().code != 0 {
        let why = "this compiler has no sanitizers, or may not search for leaks (ptrace) here";
        println!("SKIPPED {source} under a search for leaks: {why}");
        eprintln!("SKIPPED {source} under a search for leaks: {why}");
        return;
    }
    let program = shop.build_with(&format!("tests/c/{source}"), Linked::Shared, &SANE);
    let done = Job::of_program("-n 2 --nodes 2", &program, []).finish();
    assert_eq!(done.code, 0, "{source}:\n{}\n{}", done.out, done.err);
}

/// Valgrind checks leaks: the sanitizer's leak search needs rights that are not available
/// everywhere.
fn sane(job: Job) -> Job {
    job.with(|command| {
        command.env("ASAN_OPTIONS", "detect_leaks=0:exitcode=42");
    })
}

fn has_sanitizers(shop: &Workshop) -> bool {
    let (empty, program) = (shop.folder().join("empty.c"), shop.folder().join("empty"));
    std::fs::write(&empty, "int main(void) { return 0; }\n").expect("writing a program");
    let mut cc = Command::new("cc");
    cc.args(SANE).arg(&empty).arg("-o").arg(&program);
    cc.output().is_ok_and(|done| done.status.success())
        && sane(Job::any(program)).finish().code == 0
}

/// Returns true if there is valgrind; says that `what` is skipped if not.
pub fn has_valgrind(what: &str) -> bool {
    let here = Command::new("valgrind").arg("--version").output().is_ok();
    if !here {
        println!("SKIPPED {what}: no `valgrind` here; install it");
        eprintln!("SKIPPED {what}: no `valgrind` here; install it");
    }
    here
}

/// Runs a program with `args` under valgrind, by `job`, a job of valgrind without arguments.
/// Returns its end.
///
/// # Panics
/// Panics if valgrind finds a wrong access or a leak.
pub fn under_valgrind(job: Job, program: &Path, args: &[&str]) -> Finished {
    let program = program.to_string_lossy();
    let done = job.with_args(&CHECKS).with_args(&[&program]).with_args(args).finish();
    assert_eq!(done.code, 0, "{program}:\n{}\n{}", done.out, done.err);
    done
}
