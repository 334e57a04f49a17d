//! The C interface, function by function and error by error, by programs in C: alone, on one node,
//! on two.

use clump_process_tests::c_programs::{Linked, workshop};
use clump_process_tests::{Folder, Job};
use clump_test_tier::{first_of, pick};
use std::ffi::OsString;

/// Flags for programs that calculate; they come before the objects.
const MATHS: [&str; 2] = ["-Wl,--no-as-needed", "-lm"];

/// Compiles a program and runs it in all ways; it checks itself, and prints the result.
fn in_all_ways(source: &str, says: &str) {
    let Some(shop) = workshop(source) else { return };
    for &linked in first_of(1, &[Linked::Shared, Linked::Static]) {
        let program = shop.build(source, linked);
        let jobs = [
            Job::any(&program),
            Job::of_program("-n 3", &program, []),
            Job::of_program("-n 4 --nodes 2", &program, []),
        ];
        for job in jobs {
            let done = job.finish();
            done.expect_clean();
            let right = |is| done.out.contains(&format!("rank 0: {says} {is} right\n"));
            assert!(right("are") || right("is"), "{}", done.out);
        }
    }
}

/// Runs a program that checks itself with eight ranks, on one node and on two.
fn of_eight(source: &str, says: &str) {
    let Some(shop) = workshop(source) else { return };
    let program = shop.build(source, Linked::Shared);
    for options in ["-n 8", "-n 8 --nodes 2"] {
        let done = Job::of_program(options, &program, []).finish();
        done.expect_clean();
        assert!(done.out.contains(&format!("rank 7: {says} are right\n")), "{}", done.out);
    }
}

#[test]
fn messages_of_all_kinds() {
    in_all_ways("tests/c/messages.c", "messages");
}

/// The inlined sends of C fall back on the library's while messages are delayed on purpose.
#[test]
fn messages_that_are_delayed_on_purpose() {
    let Some(shop) = workshop("C messages that are delayed") else { return };
    let program = shop.build("tests/c/messages.c", Linked::Static);
    for options in ["-n 3", "-n 4 --nodes 2"] {
        let job = Job::of_program(&format!("{options} --emu L=+2ms,o=+1us,g=2us"), &program, []);
        let done = job.finish();
        done.expect_clean();
        assert!(done.out.contains("rank 0: messages are right\n"), "{}", done.out);
        // Its requests and their answers are delayed, whichever way they are sent.
        assert!(done.took >= std::time::Duration::from_millis(4), "{:?}", done.took);
    }
}

/// The inlined sends and polls of C fall back on the library's while the rank is traced.
#[test]
fn messages_that_are_traced_have_both_ends() {
    let Some(shop) = workshop("traced C messages") else { return };
    let program = shop.build("tests/c/polling.c", Linked::Static);
    for options in ["-n 3", "-n 3 --nodes 3"] {
        let folder = Folder::new();
        let traces = folder.path().join("traces");
        let job = Job::of_program(options, &program, []).with(|command| {
            command.env("CLUMP_TRACE", &traces).env("CLUMP_TRACE_EVENTS", "200000");
        });
        job.finish().expect_clean();
        let looked = Job::command(&format!("lab trace {} --json", traces.display())).finish();
        looked.expect_clean();
        let report = looked.json();
        let messages = report["tables"][1]["rows"].as_array().unwrap();
        assert!(!messages.is_empty(), "{options}: {report}");
        for message in messages {
            let [sent, handled] =
                [0, 1].map(|at| message["figures"][at]["value"].as_f64().unwrap_or(0.0));
            assert!(sent > 0.0 && sent == handled, "{options}: {report}");
        }
    }
}

/// Checks that loops which only poll give their processors to others where these are too few, and
/// that counters show it.
#[test]
fn polling_loops_of_more_ranks_than_cores_give_way() {
    let Some(shop) = workshop("polling loops in C") else { return };
    let ranks = (clump_os::topology::usable_cores() + 2).min(64);
    for (source, args, says) in [
        ("tests/c/polling.c", &[][..], "the token went around"),
        ("tests/c/polling.c", &["by-call"][..], "the token went around"),
        ("tests/c/am2_polling.c", &[][..], "all is right"),
    ] {
        let program = shop.build(source, Linked::Static);
        for nodes in [1, 2] {
            let options = format!("-n {ranks} --nodes {nodes} --json");
            let done = Job::of_program(&options, &program, []).with_args(args).finish();
            assert_eq!(done.code, 0, "{options}: {}", done.err);
            assert!(done.out.contains(&format!("rank 0: {says}\n")), "{}", done.out);
            let json = done.json();
            let of = |rank: usize, name: &str| json["counters"][rank][name].as_u64().unwrap_or(0);
            for rank in 0..ranks {
                let gave_way = of(rank, "wait.yields.polls") + of(rank, "wait.parks.polls");
                assert!(gave_way > 0, "{source} {args:?} {options}: rank {rank} of {json}");
            }
        }
    }
}

#[test]
fn one_sided_operations() {
    in_all_ways("tests/c/rma.c", "one-sided operations");
}

#[test]
fn global_memory() {
    in_all_ways("tests/c/pgas.c", "global memory");
}

#[test]
fn global_memory_in_cpp() {
    in_all_ways("tests/c/pgas.cpp", "global memory in C++");
}

#[test]
fn remote_calls_and_vectors() {
    in_all_ways("tests/c/remote.c", "remote calls");
}

#[test]
fn remote_calls_and_vectors_in_cpp() {
    in_all_ways("tests/c/remote.cpp", "remote calls in C++");
}

#[test]
fn tasks_in_cpp() {
    in_all_ways("tests/c/tasks.cpp", "tasks in C++");
}

#[test]
fn shared_memory() {
    in_all_ways("tests/c/svm.c", "shared virtual memory");
}

#[test]
fn shared_memory_in_cpp() {
    in_all_ways("tests/c/svm.cpp", "shared virtual memory in C++");
}

/// Checks that clump's own copies take faults on the heap, by every way of finding accesses, of
/// which the last three need the kernel's permission.
#[test]
fn payloads_in_shared_memory_that_is_elsewhere() {
    let Some(shop) = workshop("payloads in shared memory from C") else { return };
    let program = shop.build("tests/c/svm_payloads.c", Linked::Static);
    // Where the kernel permits all ways.
    let (mut faults, mut least) = (0, pick(10_000, 1_000_000));
    for (engine, options, bulk) in [
        ("auto", "", "stream"),
        ("auto", "--ni proxy:1", "datagram"),
        ("protect", "", "datagram"),
        ("protect", "--security crc", "stream"),
        ("userfault", "", "stream"),
        ("scan", "--security crc", "stream"),
        ("scan-own", "", "datagram"),
    ] {
        let options = format!("-n 4 --nodes 2 {options} --lab svm.faults={engine}");
        let rounds = [OsString::from(pick(2, 48).to_string())];
        let job = Job::of_program(&options, &program, rounds).with(|command| {
            command.env("CLUMP_NET_BULK", bulk);
        });
        let done = job.finish();
        if done.code != 0 && done.err.contains("userfaultfd") {
            println!(
                "SKIPPED {engine}: {}; a kernel that permits userfaultfd would run it",
                done.err
            );
            least = 10_000;
            continue;
        }
        assert_eq!(done.code, 0, "{engine} {options} {bulk}: {}", done.err);
        let says = "rank 0: payloads in shared memory are right\n";
        assert!(done.out.contains(says), "{engine} {options} {bulk}: {}", done.out);
        let taken = done.out.lines().find_map(|line| line.strip_prefix("rank 0: faults: "));
        let taken: u64 = taken.and_then(|taken| taken.parse().ok()).expect(&done.out);
        println!("{engine} {options} {bulk}: {taken} faults");
        faults += taken;
    }
    assert!(faults >= least, "{faults} faults were taken");
}

/// Checks that children by `fork` have no heap, and that an access outside of it is a crash of the
/// program itself.
#[test]
fn children_and_crashes_beside_shared_memory() {
    let Some(shop) = workshop("children of ranks with shared memory") else { return };
    let program = shop.build("tests/c/svm_children.c", Linked::Shared);
    for engine in ["auto", "protect"] {
        let job = |words: &[&str]| {
            let words = words.iter().map(OsString::from);
            let options = format!("-n 2 --nodes 2 --lab svm.faults={engine}");
            Job::of_program(&options, &program, words)
        };
        let done = job(&[]).finish();
        assert_eq!(done.code, 0, "{engine}: {}", done.err);
        assert!(done.out.contains("rank 0: children are none of the heap"), "{}", done.out);
        let crashed = job(&["outside"]).finish();
        crashed.expect(139, &["rank 1 of `svm_children-Shared` was killed by signal 11"]);
        assert!(!crashed.err.contains("of the shared heap at"), "{}", crashed.err);
    }
}

/// Checks that handlers which take the faults of the heap, or wait for the thread that they have
/// interrupted, are named.
#[test]
fn handlers_in_the_way_of_shared_memory_are_named() {
    let Some(shop) = workshop("handlers beside shared memory") else { return };
    let program = shop.build("tests/c/svm_handlers.c", Linked::Shared);
    let job = |words: &[&str]| {
        let words = words.iter().map(OsString::from);
        Job::of_program("-n 2 --nodes 2 --lab svm.faults=protect", &program, words)
    };
    job(&[]).finish().expect_clean();
    let late = job(&["late"]).finish();
    let says = "the program has installed a handler of SIGSEGV after it opened the shared heap";
    assert_eq!(late.err.matches(says).count(), 2, "each rank says it once: {}", late.err);
    let silent = job(&["silent"]).finish();
    assert_eq!(silent.code, 9, "{}", silent.err);
    assert!(silent.err.contains(says), "said at the end: {}", silent.err);
    let within = job(&["within"]).finish();
    assert_eq!(within.code, 1, "{}", within.err);
    let says = "a signal handler used the shared heap while the thread that it interrupted";
    assert!(within.err.contains(says), "{}", within.err);
}

/// Checks that handlers of signals run on the program's threads, on nodes with threads of clump.
#[test]
fn signals_are_handled_on_threads_of_the_program() {
    let Some(shop) = workshop("signals of C programs") else { return };
    let program = shop.build("tests/c/signals.c", Linked::Shared);
    for (options, beside) in [("-n 2", ""), ("-n 2 --nodes 2 --ni direct", ", beside threads")] {
        let done = Job::of_program(options, &program, []).finish();
        done.expect_clean();
        for rank in 0..2 {
            let says = format!("rank {rank}: signals are right{beside}");
            assert!(done.out.contains(&says), "{options}: {}", done.out);
        }
    }
}

/// Checks that the examples on shared virtual memory give the results of one process.
#[test]
fn examples_on_shared_memory() {
    let Some(shop) = workshop("C examples on shared memory") else { return };
    for (source, says) in [
        ("examples/c/svm_jacobi.c", "are those of one"),
        ("examples/c/svm_lu.c", " 0 elements other than serially"),
        ("examples/c/svm_bank.c", "no money lost"),
    ] {
        let program = shop.build_with(source, Linked::Shared, &MATHS);
        for job in [Job::any(&program), Job::of_program("-n 4 --nodes 2", &program, [])] {
            let done = job.finish();
            done.expect_clean();
            assert!(done.out.contains(says), "{}", done.out);
        }
    }
}

#[test]
fn the_calls_of_treadmarks() {
    in_all_ways("tests/c/treadmarks.c", "the calls of TreadMarks");
    let Some(shop) = workshop("an example by the calls of TreadMarks") else { return };
    let program = shop.build("examples/c/tmk_jacobi.c", Linked::Shared);
    for (options, processes) in [("-n 1", 1), ("-n 3", 3), ("-n 4 --nodes 2", 4)] {
        let words = ["50", "7"].map(OsString::from);
        let done = Job::of_program(options, &program, words).finish();
        done.expect_clean();
        let says = format!("7 steps by {processes} processes: 0 places other than by one");
        assert!(done.out.contains(&says), "{options}: {}", done.out);
    }
}

/// Checks that programs in the style of PARMACS run unchanged on threads and on two nodes.
#[test]
fn programs_with_workers() {
    let Some(shop) = workshop("programs with workers") else { return };
    let on_clump = ["-include", "clump/parmacs.h", "-fPIC", "-no-pie", MATHS[0], MATHS[1]];
    let on_threads = ["-include", "clump/parmacs.h", "-DCLUMP_PARMACS_THREADS", MATHS[0], MATHS[1]];
    for (source, says) in [
        ("examples/c/parmacs_tasks.c", "by 4 workers is right"),
        ("examples/c/parmacs_waves.c", "waves by 4 workers are those of one"),
    ] {
        let nodes = shop.build_with(source, Linked::Shared, &on_clump);
        let threads = shop.build_with(source, Linked::Shared, &on_threads);
        let alone = std::process::Command::new(threads).arg("4").output().unwrap();
        assert!(alone.status.success(), "{alone:?}");
        assert!(String::from_utf8_lossy(&alone.stdout).contains(says), "{alone:?}");
        for options in ["-n 4", "-n 4 --nodes 2", "-n 5 --nodes 2"] {
            let done = Job::of_program(options, &nodes, [OsString::from("4")]).finish();
            done.expect_clean();
            assert!(done.out.contains(says), "{options}: {}", done.out);
        }
        // Too few ranks are an error that says so.
        let done = Job::of_program("-n 2", &nodes, [OsString::from("4")]).finish();
        assert_ne!(done.code, 0, "{}", done.out);
        assert!(done.err.contains("give `clump run -n` one for each"), "{}", done.err);
    }
    let own = shop.build_with("tests/c/workers.c", Linked::Shared, &["-fPIC", "-no-pie"]);
    for job in [
        Job::any(&own),
        Job::of_program("-n 3", &own, []),
        Job::of_program("-n 4 --nodes 2", &own, []),
    ] {
        let done = job.finish();
        done.expect_clean();
        assert!(done.out.contains("rank 0: workers are right"), "{}", done.out);
    }
    let fixed = shop.build_with("examples/c/parmacs_waves.c", Linked::Static, &on_clump);
    let done = Job::of_program("-n 2", &fixed, [OsString::from("2")]).finish();
    assert!(done.code != 0 && done.err.contains("linked with libclump.so"), "{}", done.err);
}

/// Checks that the kernels that are measured beside threads are right on threads and on two nodes.
#[test]
fn kernels_with_workers() {
    let Some(shop) = workshop("kernels with workers") else { return };
    let common = ["-include", "clump/parmacs.h", MATHS[0], MATHS[1]];
    for (name, args, says) in [
        ("lu", &["3", "128"][..], "lu of order 128 by 3 workers is right"),
        ("fft", &["3", "10"], "fft of 2^10 numbers by 3 workers is right"),
        ("ocean", &["3", "32", "8"], "ocean of 32 cells a side by 3 workers is right"),
        ("water", &["3", "64", "4"], "water of 64 molecules by 3 workers is right"),
    ] {
        let source = format!("examples/c/parmacs_{name}.c");
        let build = |flags: &[&str]| {
            shop.build_with(&source, Linked::Shared, &[&common[..], flags].concat())
        };
        let threads = build(&["-DCLUMP_PARMACS_THREADS"]);
        let alone = std::process::Command::new(threads).args(args).output().unwrap();
        assert!(alone.status.success(), "{alone:?}");
        assert!(String::from_utf8_lossy(&alone.stdout).contains(says), "{alone:?}");
        let nodes = build(&["-fPIC", "-no-pie"]);
        for options in ["-n 3", "-n 4 --nodes 2"] {
            let done = Job::of_program(options, &nodes, []).with_args(args).finish();
            done.expect_clean();
            assert!(done.out.contains(says), "{options}: {}", done.out);
        }
    }
}

#[test]
fn collectives() {
    in_all_ways("tests/c/collectives.c", "collectives");
}

#[test]
fn sampled_regions_in_c_and_cpp() {
    let source = "tests/c/sampled.cpp";
    in_all_ways(source, "sampled regions");
    let Some(shop) = workshop(source) else { return };
    let program = shop.build(source, Linked::Shared);
    let options = "-n 3 --nodes 2 --virtual now1997 --cpu fixed:0";
    let done = Job::of_program(options, &program, ["virtual".into()]).finish();
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(done.out.matches("sampled regions are right").count(), 3, "{}", done.out);
}

#[test]
fn teams() {
    in_all_ways("tests/c/teams.c", "teams");
    of_eight("tests/c/teams.c", "teams");
}

#[test]
fn teams_in_cpp() {
    in_all_ways("tests/c/teams.cpp", "teams in C++");
    of_eight("tests/c/teams.cpp", "teams in C++");
}

#[test]
fn irregular_programs() {
    in_all_ways("tests/c/work.c", "irregular programs");
}

#[test]
fn irregular_programs_in_cpp() {
    in_all_ways("tests/c/work.cpp", "irregular programs in C++");
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

/// Checks that calls from what runs at the end of a process work: functions of `atexit`,
/// destructors of static objects and of the program, after `main` has returned and after `exit`.
#[test]
fn calls_at_the_end_of_a_process() {
    let Some(shop) = workshop("calls at the end of a process") else { return };
    for linked in [Linked::Shared, Linked::Static] {
        let program = shop.build("tests/c/exit_handlers.cpp", linked);
        for (how, places) in [
            ("atexit", &["atexit"][..]),
            ("static", &["atexit", "a static object"]),
            ("destructor", &["atexit", "a static object", "a destructor"]),
        ] {
            for (options, by_exit) in [("-n 1", false), ("-n 3", true), ("-n 3 --nodes 3", false)] {
                let args = [how, "exit"];
                let args = if by_exit { &args[..] } else { &args[..1] };
                let done = Job::of_program(options, &program, []).with_args(args).finish();
                done.expect_clean();
                let last = if options == "-n 1" { 0 } else { 2 };
                for place in places {
                    let line = format!("rank {last}: {place} is right\n");
                    assert!(done.out.contains(&line), "{how} {options}: {}", done.out);
                }
                let finished = done.out.matches("finalize is right\n").count();
                assert_eq!(finished, last + 1, "{how} {options}: {}", done.out);
            }
        }
    }
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
