//! All C programs that use everything, under the compiler's sanitizers and under valgrind. A target
//! of its own that `cargo test` leaves out: it takes as long as all other tests of this package
//! (`cargo xtask ci`, step `memory`). Two small programs are checked by `c_library`.

use clump_process_tests::Job;
use clump_process_tests::c_programs::{Linked, workshop};
use clump_process_tests::checkers::{has_valgrind, under_sanitizers, under_valgrind};
use std::path::Path;

/// Checks that sanitizers for addresses and undefined behaviour find nothing.
#[test]
fn sanitizers_are_content() {
    let Some(shop) = workshop("C programs under sanitizers") else { return };
    let programs = [
        "job.c",
        "collectives.c",
        "teams.c",
        "messages.c",
        "rma.c",
        "pgas.c",
        "remote.c",
        "threads.c",
        "layer.cpp",
        "teams.cpp",
        "pgas.cpp",
        "remote.cpp",
        "tasks.cpp",
    ];
    let am2 = ["am2_kinds.c", "am2_refusals.c", "am2_misuse.c", "am2_async.c"];
    under_sanitizers(&shop, &programs, &am2);
}

/// Checks that valgrind finds no wrong access and no leak.
#[test]
fn valgrind_is_content() {
    let Some(shop) = workshop("C programs under valgrind") else { return };
    if !has_valgrind("C programs under valgrind") {
        return;
    }
    for source in ["job", "collectives", "teams", "messages", "rma"] {
        let program = shop.build(&format!("tests/c/{source}.c"), Linked::Shared);
        under_valgrind(Job::any("valgrind"), &program, &[]);
    }
}

/// Checks the same of programs of Active Messages II.
#[test]
fn valgrind_is_content_with_am2() {
    let Some(shop) = workshop("memory under am2.h") else { return };
    if !has_valgrind("memory under am2.h") {
        return;
    }
    let build = |name: &str| shop.build(&format!("tests/c/{name}.c"), Linked::Static);
    let right = |job: Job, program: &Path, args: &[&str]| {
        let done = under_valgrind(job, program, args);
        done.expect_clean();
        assert!(done.out.contains("rank 0: all is right\n"), "{}\n{}", done.out, done.err);
    };
    for name in ["am2_refusals", "am2_misuse"] {
        right(Job::any("valgrind"), &build(name), &[]);
    }
    let run = |options: &str| Job::of_program(options, Path::new("valgrind"), []);
    let random = build("am2_random");
    right(run("-n 2"), &random, &["5", "200"]);
    // Valgrind does not see writes by the hand-written assembly that encrypts in place.
    right(run("-n 2 --nodes 2 --security crc"), &random, &["6", "200"]);
}
