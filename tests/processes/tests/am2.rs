//! Programs of Active Messages II in C (`clump/am2.h`): alone, on one node, on two, over a network
//! that loses packets; under valgrind.

use clump_process_tests::c_programs::{Linked, Workshop, capi, workshop};
use clump_process_tests::{Folder, Job};
use clump_test_tier::first_of;
use std::path::Path;

/// A network that loses, doubles, reorders and damages packets.
const TROUBLE: &str = "loss=2%,duplicate=2%,reorder=5%,corrupt=5000ppm,seed=7";

fn right(job: Job) -> String {
    let done = job.finish();
    done.expect_clean();
    assert!(done.out.contains("rank 0: all is right\n"), "{}\n{}", done.out, done.err);
    done.out
}

fn troubled(job: Job) -> Job {
    job.with(|command| {
        command.env("CLUMP_NET_FAULTS", TROUBLE);
    })
}

fn build(shop: &Workshop, name: &str, linked: Linked) -> std::path::PathBuf {
    shop.build(&format!("tests/c/{name}.c"), linked)
}

fn run(options: &str, program: &Path) -> Job {
    Job::of_program(options, program, [])
}

#[test]
fn messages_of_every_kind_have_0_to_16_arguments_and_payloads_of_every_length() {
    let Some(shop) = workshop("kinds of messages of am2.h") else { return };
    for &linked in first_of(1, &[Linked::Shared, Linked::Static]) {
        let program = build(&shop, "am2_kinds", linked);
        right(Job::any(&program));
        right(run("-n 3", &program));
        right(run("-n 4 --nodes 2", &program));
    }
    let program = build(&shop, "am2_kinds", Linked::Static);
    right(run("-n 3", &program).with(|command| {
        command.env("CLUMP_LANES", "0");
    }));
    right(troubled(run("-n 2 --nodes 2", &program)));
}

/// Runs a program alone, on one node, on two, and over a troubled network.
fn everywhere(name: &str) {
    let Some(shop) = workshop(name) else { return };
    let program = build(&shop, name, Linked::Shared);
    right(Job::any(&program));
    right(run("-n 3", &program));
    right(run("-n 4 --nodes 2", &program));
    right(troubled(run("-n 2 --nodes 2", &program)));
}

#[test]
fn what_cannot_be_handled_comes_back_with_its_reason_and_all_of_it() {
    everywhere("am2_refusals");
}

#[test]
fn what_finds_no_room_or_no_requester_comes_back() {
    let Some(shop) = workshop("late returns of am2.h") else { return };
    for lanes in ["0", "16"] {
        let job = Job::any(build(&shop, "am2_backs", Linked::Shared));
        right(job.with(|command| {
            command.env("CLUMP_SEND_TIMEOUT_MS", "50").env("CLUMP_LANES", lanes);
        }));
    }
}

#[test]
fn misuse_is_an_error_and_never_a_crash() {
    everywhere("am2_misuse");
}

#[test]
fn threads_share_bundles_or_have_their_own_and_endpoints_move_between_them() {
    everywhere("am2_threads");
}

#[test]
fn handlers_and_threads_of_parallel_bundles_do_not_wait_for_each_other() {
    everywhere("am2_crossing");
}

#[test]
fn deposits_without_waiting_are_few_and_go_where_they_were_meant_to() {
    everywhere("am2_async");
}

#[test]
fn the_header_is_c_and_cxx_and_each_call_takes_exactly_its_arguments() {
    let Some(shop) = workshop("am2.h in C and C++") else { return };
    for (source, flags) in [
        ("tests/c/am2_forms.c", &["-std=c11"][..]),
        ("tests/c/am2_forms.c", &["-std=c17"][..]),
        ("tests/c/am2_forms.cc", &["-std=c++17"][..]),
        ("tests/c/am2_forms.cc", &["-std=c++20"][..]),
    ] {
        let program = shop.build_with(source, Linked::Shared, flags);
        right(run("-n 2", &program));
    }
}

/// Adds arguments to a program.
fn with_args(job: Job, args: &[&str]) -> Job {
    job.with_args(args)
}

#[test]
fn random_programs_handle_every_message_once_or_get_it_back() {
    let Some(shop) = workshop("random programs of am2.h") else { return };
    let program = build(&shop, "am2_random", Linked::Static);
    for seed in ["1", "2", "3", "4"] {
        let args = [seed, "1000"];
        right(with_args(Job::any(&program), &args));
        right(with_args(run("-n 3", &program), &args));
        right(with_args(run("-n 3", &program), &args).with(|command| {
            command.env("CLUMP_LANES", "0");
        }));
        right(with_args(run("-n 4 --nodes 2", &program), &args));
        right(with_args(run("-n 4 --nodes 2 --ni proxy:1", &program), &args));
        right(with_args(troubled(run("-n 3 --nodes 3", &program)), &args));
    }
}

#[test]
fn what_was_sent_to_a_rank_that_dies_comes_back_or_ends_the_job() {
    let Some(shop) = workshop("a death under am2.h") else { return };
    let program = build(&shop, "am2_death", Linked::Static);
    for nodes in ["", "--nodes 2"] {
        let options = format!("-n 2 --on-death continue {nodes}");
        let done = with_args(run(&options, &program), &["survive"]).finish();
        done.expect(9, &["rank 1 of `am2_death-Static` exited with code 9"]);
        assert!(done.out.contains("rank 0: it came back\n"), "{}\n{}", done.out, done.err);
        let done = run(&format!("-n 2 {nodes}"), &program).finish();
        done.expect(9, &["rank 1 of `am2_death-Static` exited with code 9"]);
    }
}

#[test]
fn the_programs_of_the_documents_run() {
    let Some(shop) = workshop("examples of am2.h") else { return };
    let table = shop.build("examples/c/am2_table.c", Linked::Static);
    for options in ["-n 1", "-n 4", "-n 4 --nodes 2"] {
        let done = run(options, &table).finish();
        done.expect_clean();
        assert!(done.out.contains("2000 words are right"), "{}\n{}", done.out, done.err);
    }
    // A program that knows only Active Messages II: its processes find each other by files in a
    // folder.
    let flags = format!("-I{}", capi().join("include/clump").display());
    let stencil = shop.build_with("examples/c/am2_stencil.c", Linked::Static, &[&flags]);
    for (options, ranks) in [("-n 1", "1"), ("-n 3", "3"), ("-n 4 --nodes 2", "4")] {
        let folder = Folder::new();
        let folder = folder.path().display().to_string();
        let done = run(options, &stencil).with_args(&[&folder, ranks, "600", "40"]).finish();
        done.expect_clean();
        assert!(done.out.contains("all 600 cells are right"), "{}\n{}", done.out, done.err);
    }
    let page = capi().join("../../docs/am2.md");
    let page = std::fs::read_to_string(page).expect("the page about am2.h");
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let source = shop.folder().join("page.c");
    std::fs::write(&source, program.expect("a program on the page")).expect("writing a program");
    let program = shop.build(&source.to_string_lossy(), Linked::Static);
    run("-n 4 --nodes 2", &program).finish().expect_clean();
}
