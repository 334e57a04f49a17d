//! The C interface, function by function and error by error, by programs in C: alone, on one node,
//! on two.

use clump_process_tests::Job;
use clump_process_tests::c_programs::{Linked, workshop};
use std::ffi::OsString;

/// Compiles a program and runs it in all ways; it checks itself, and prints the result.
fn in_all_ways(source: &str, says: &str) {
    let Some(shop) = workshop(source) else { return };
    for linked in [Linked::Static, Linked::Shared] {
        let program = shop.build(source, linked);
        let jobs = [
            Job::any(&program),
            Job::of_program("-n 3", &program, []),
            Job::of_program("-n 4 --nodes 2", &program, []),
        ];
        for job in jobs {
            let done = job.finish();
            done.expect_clean();
            assert!(done.out.contains(&format!("rank 0: {says} are right\n")), "{}", done.out);
        }
    }
}

#[test]
fn messages_of_all_kinds() {
    in_all_ways("tests/c/messages.c", "messages");
}

#[test]
fn one_sided_operations() {
    in_all_ways("tests/c/rma.c", "one-sided operations");
}

#[test]
fn collectives() {
    in_all_ways("tests/c/collectives.c", "collectives");
}

#[test]
fn threads() {
    in_all_ways("tests/c/threads.c", "threads");
}

/// Checks that drain waits for handlers, and that requests can be held back: alone, on nodes with
/// stacks of ranks, by proxies.
#[test]
fn phases() {
    in_all_ways("tests/c/phases.c", "phases");
    let Some(shop) = workshop("phases by proxies") else { return };
    let program = shop.build("tests/c/phases.c", Linked::Shared);
    let done = Job::of_program("-n 4 --nodes 2 --ni proxy:1", &program, []).finish();
    done.expect_clean();
    assert!(done.out.contains("rank 0: phases are right\n"), "{}", done.out);
}

/// Checks that absurd lengths and counts are errors.
#[test]
fn absurd_numbers() {
    in_all_ways("tests/c/absurd.c", "refusals");
}

#[test]
fn cpp_layer() {
    in_all_ways("tests/c/layer.cpp", "the layers");
}

/// Checks that a job continues despite children by `fork`, and ends without those that stay: each
/// rank with a stack of its own, and by proxies.
#[test]
fn children_by_fork_are_no_ranks() {
    let Some(shop) = workshop("children by fork") else { return };
    let options = ["-n 3", "-n 4 --nodes 2", "-n 4 --nodes 2 --ni proxy:1"];
    let c = shop.build("tests/c/fork.c", Linked::Static);
    let cpp = shop.build("tests/c/forked.cpp", Linked::Shared);
    for options in options {
        for (program, args, says) in [
            (&c, &[][..], "children are right"),
            (&c, &["stays"][..], "children are right"),
            (&cpp, &[], "destructors are right"),
        ] {
            let done = Job::of_program(options, program, []).with_args(args).finish();
            // Processes that stay are reported as killed.
            assert_eq!(done.code, 0, "{options}: {}\n{}", done.out, done.err);
            assert_eq!(done.err.contains("had left running"), !args.is_empty(), "{}", done.err);
            assert!(done.out.contains(&format!("rank 0: {says}\n")), "{}\n{}", done.out, done.err);
        }
        Job::of(options, "fork").finish().expect_clean();
    }
    Job::any(&c).finish().expect_clean();
}

/// Checks that every failure is an error or an end that `clump run` explains, never a hang.
#[test]
fn bad_ends() {
    let Some(shop) = workshop("bad ends from C") else { return };
    let program = shop.build("tests/c/ending.c", Linked::Shared);
    for kind in [None, Some("shared")] {
        let run = |how: &str| {
            let args = [Some(how), kind].into_iter().flatten().map(OsString::from);
            Job::of_program("-n 3 --nodes 2", &program, args).finish()
        };
        run("exit7").expect(7, &["rank 2", "exited with code 7"]);
        run("exit0").expect(1, &["rank 2", "without finalizing"]);
        run("leave").expect(1, &["rank 2", "without finalizing"]);
        let aborted = run("abort");
        aborted.expect(9, &["rank 2", "exited with code 9"]);
        assert!(aborted.err.contains("rank 2 aborts: it was asked to"), "{}", aborted.err);
        run("abort0").expect(1, &["rank 2", "exited with code 1"]);
        let jumped = run("longjmp");
        jumped.expect(5, &["rank 2", "exited with code 5"]);
        assert!(jumped.out.contains("rank 2: still here"), "{}", jumped.out);
    }
}
