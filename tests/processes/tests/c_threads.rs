//! Programs for pthreads, unchanged, on threads of a process and on the ranks of a job: the same
//! results, whatever finds accesses to pages.

use clump_process_tests::c_programs::{Linked, Workshop, capi, workshop};
use clump_process_tests::{Folder, Job};
use clump_test_tier::pick;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ways to find accesses to pages, and steps of the protocol.
const SETTINGS: [(&str, &str); 8] = [
    ("CLUMP_LAB", "svm.faults=auto"),
    ("CLUMP_LAB", "svm.faults=scan-own"),
    ("CLUMP_LAB", "svm.faults=userfault"),
    ("CLUMP_LAB", "svm.faults=protect"),
    ("CLUMP_SVM", "base"),
    ("CLUMP_SVM", "rf"),
    ("CLUMP_LAB", "svm.consistency=plain"),
    ("CLUMP_LAB", "svm.diffs=runs"),
];

/// Compiles a program for the ranks of a job, as `clump-cc --clump-threads` does.
fn for_ranks(shop: &Workshop, source: &str, flags: &[&str]) -> PathBuf {
    let link = capi().join("link");
    let script = format!("-Wl,-T,{}", link.join("threads.ld").display());
    let options = format!("-Wl,@{}", link.join("threads.args").display());
    let own = ["-fPIC", "-no-pie", &script, &options, "-Wl,--no-as-needed"];
    let all: Vec<&str> = own.iter().chain(flags).copied().collect();
    shop.build_with(source, Linked::Shared, &all)
}

/// Compiles a program for threads of a process, without clump, and returns what it prints.
fn on_threads(shop: &Workshop, source: &str, flags: &[&str], args: &[&str]) -> String {
    let out = shop.folder().join("on-threads");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]).args(flags);
    compiler.arg("-I").arg(capi().join("include")).arg(capi().join(source));
    let built = compiler.arg("-o").arg(&out).args(["-lm", "-lpthread"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let done = Command::new(out).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn job(options: &str, program: &Path, args: &[&str]) -> Job {
    Job::of_program(options, program, args.iter().map(OsString::from))
}

/// Checks that a program prints on ranks what it prints on threads.
fn same_as_on_threads(source: &str, flags: &[&str], args: &[&str]) {
    let Some(shop) = workshop(source) else { return };
    let due = on_threads(&shop, source, flags, args);
    assert!(!due.is_empty(), "{source} prints its result");
    let program = for_ranks(&shop, source, flags);
    let jobs = ["-n 1", "-n 2 --nodes 2", "-n 4", "-n 4 --nodes 2"];
    let alone = Job::any(&program).with_args(args);
    for (options, job) in std::iter::once(("alone", alone))
        .chain(jobs.iter().map(|options| (*options, job(options, &program, args))))
    {
        let done = job.finish();
        done.expect_clean();
        assert_eq!(done.out, due, "{options}: {}", done.err);
    }
    for (variable, value) in SETTINGS {
        for _ in 0..pick(1, 5) {
            let job = job("-n 3 --nodes 2", &program, args);
            let done = job.with(|command| {
                command.env(variable, value);
            });
            let done = done.finish();
            if done.code != 0 && done.err.contains("userfaultfd") {
                println!(
                    "SKIPPED {value}: {}; a kernel that permits userfaultfd would run it",
                    done.err
                );
                break;
            }
            done.expect_clean();
            assert_eq!(done.out, due, "{variable}={value}: {}", done.err);
        }
    }
}

#[test]
fn a_program_with_a_queue_and_lists() {
    same_as_on_threads("examples/c/pthread_words.c", &[], &["4"]);
}

#[test]
fn all_functions_of_pthreads() {
    same_as_on_threads("tests/c/pthreads.c", &[], &["4"]);
    same_as_on_threads("tests/c/pthreads.c", &[], &["5", "exit"]);
}

#[test]
fn memory_of_threads() {
    let folder = Folder::new();
    let path = folder.path().join("lines").display().to_string();
    same_as_on_threads("tests/c/pthread_memory.c", &[], &["4", &path]);
}

/// Checks that programs in the style of PARMACS run on pthreads, too, which are those of ranks.
#[test]
fn macros_over_pthreads() {
    let flags = ["-include", "clump/parmacs.h", "-DCLUMP_PARMACS_THREADS"];
    for (source, args) in [
        ("examples/c/parmacs_tasks.c", &["4"][..]),
        ("examples/c/parmacs_waves.c", &["4"]),
        ("examples/c/parmacs_lu.c", &["4", "128"]),
        ("examples/c/parmacs_fft.c", &["4", "10"]),
        ("examples/c/parmacs_ocean.c", &["4", "32", "8"]),
        ("examples/c/parmacs_water.c", &["4", "64", "2"]),
    ] {
        let Some(shop) = workshop(source) else { return };
        let linked: Vec<&str> = flags.iter().copied().chain(["-lm"]).collect();
        let due = on_threads(&shop, source, &flags, args);
        let program = for_ranks(&shop, source, &linked);
        let done = job("-n 4 --nodes 2", &program, args).finish();
        done.expect_clean();
        // Numbers behind the verdict differ by rounding.
        let verdict = |text: &str| {
            text.lines().last().and_then(|line| line.split(", ").next()).map(str::to_owned)
        };
        assert_eq!(verdict(&done.out), verdict(&due), "{}", done.err);
    }
}

#[test]
fn the_setting_says_how_much_is_shared() {
    let Some(shop) = workshop("levels of sharing") else { return };
    let program = for_ranks(&shop, "tests/c/pthread_sharing.c", &[]);
    for (share, says) in [
        ("heap", "heap shared, globals private, malloc private\n"),
        ("globals", "heap shared, globals shared, malloc private\n"),
        ("malloc", "heap shared, globals shared, malloc shared\n"),
    ] {
        for options in ["-n 2", "-n 2 --nodes 2"] {
            let job = job(options, &program, &[]);
            let done = job.with(|command| {
                command.env("CLUMP_SVM_SHARE", share);
            });
            let done = done.finish();
            done.expect_clean();
            assert_eq!(done.out, says, "{options}: {}", done.err);
        }
    }
}

/// Checks that the program's end is that of all ranks, on any of which it is caused.
#[test]
fn ends_of_programs() {
    let Some(shop) = workshop("ends of programs") else { return };
    let program = for_ranks(&shop, "tests/c/pthread_ends.c", &[]);
    for options in ["-n 1", "-n 2", "-n 3 --nodes 2"] {
        for (how, code) in [("w", 0), ("q", 0), ("wq", 0), ("q", 5), ("wq", 7)] {
            let done = job(options, &program, &[how, &code.to_string()]).finish();
            assert_eq!(done.code, code, "{options} {how}: {}", done.err);
            if code == 0 {
                done.expect_clean();
                assert!(done.out.ends_with("the end\n"), "{options} {how}: {}", done.out);
            }
        }
    }
}

/// Checks that an argument on the stack is one for threads of the same rank, and else an error.
#[test]
fn arguments_on_the_stack() {
    let Some(shop) = workshop("arguments on the stack") else { return };
    let program = for_ranks(&shop, "tests/c/pthread_ends.c", &[]);
    job("-n 1", &program, &["s", "0"]).finish().expect_clean();
    let done = job("-n 2", &program, &["s", "0"]).finish();
    let says = "its argument lies on the stack of the calling thread";
    assert!(done.code == 1 && done.err.contains(says), "{}", done.err);
}

/// Checks that programs whose globals cannot be shared say why, and do not run.
#[test]
fn programs_that_cannot_be_shared() {
    let Some(shop) = workshop("programs that cannot be shared") else { return };
    let link = capi().join("link");
    let script = format!("-Wl,-T,{}", link.join("threads.ld").display());
    let options = format!("-Wl,@{}", link.join("threads.args").display());
    let source = "tests/c/pthread_ends.c";
    let cases = [
        (vec!["-fno-pic", "-no-pie", &script, &options], "`stdout`, an object of a"),
        (vec!["-fPIC", "-no-pie", &options], "does not fit behind the program's"),
        (vec!["-fPIC", "-pie", &script, &options], "link it with `clump-cc"),
        (vec!["-fPIC", "-no-pie", &script, &options, "-Wl,-z,lazy"], "link it with -Wl,-z,now"),
    ];
    for (flags, says) in cases {
        let program = shop.build_with(source, Linked::Shared, &flags);
        let done = job("-n 2", &program, &["q", "0"]).finish();
        assert_ne!(done.code, 0, "{flags:?}: {}", done.out);
        assert!(
            done.err.contains(says) && !done.out.contains("the end"),
            "{flags:?}: {}",
            done.err
        );
    }
}

/// Returns names that `nm` lists as defined in a shared library; `None`, and a notice, without it.
fn defined_in(library: &Path) -> Option<Vec<String>> {
    let mut nm = Command::new("nm");
    let Ok(symbols) = nm.args(["-D", "--defined-only"]).arg(library).output() else {
        println!("SKIPPED functions that are replaced: no `nm` here; install binutils");
        return None;
    };
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    Some(names.map(|name| name.split('@').next().unwrap().to_owned()).collect())
}

/// Checks that the linker replaces what the library has, and nothing else, by all names that the C
/// library has for it.
#[test]
fn functions_that_are_replaced() {
    let Some(shop) = workshop("functions that are replaced") else { return };
    let arguments = std::fs::read_to_string(capi().join("link/threads.args")).unwrap();
    let replaced: Vec<&str> =
        arguments.lines().filter_map(|line| line.strip_prefix("--wrap=")).collect();
    let Some(there) = defined_in(&shop.folder().join("libclump.so")) else { return };
    let there: Vec<&str> = there.iter().filter_map(|name| name.strip_prefix("__wrap_")).collect();
    assert!(there.len() > 400, "{there:?}");
    let unused: Vec<_> = there.iter().filter(|name| !replaced.contains(name)).collect();
    assert!(unused.is_empty(), "{unused:?} are in the library, and not in link/threads.args");
    let lacking: Vec<_> = replaced.iter().filter(|name| !there.contains(name)).collect();
    assert!(lacking.is_empty(), "{lacking:?} are in link/threads.args, and not in the library");
    let mut compiler = Command::new("cc");
    let found = compiler.arg("-print-file-name=libc.so.6").output().unwrap().stdout;
    let Some(library) = defined_in(Path::new(String::from_utf8(found).unwrap().trim())) else {
        return;
    };
    for name in &replaced {
        for other in [
            format!("{name}64"),
            format!("{name}_unlocked"),
            format!("__{name}_chk"),
            format!("__{name}64_chk"),
            format!("__{name}_2"),
        ] {
            let known = replaced.contains(&other.as_str());
            assert!(known || !library.contains(&other), "{other} is another name of {name}");
        }
    }
}

/// Checks that calls that hand shared memory to the kernel do what they do with private memory,
/// also by the names of large files and of checked calls.
#[test]
fn calls_that_reach_the_kernel() {
    let folder = Folder::new();
    let path = folder.path().join("calls").display().to_string();
    let source = "tests/c/pthread_calls.c";
    same_as_on_threads(source, &[], &[&path]);
    let Some(shop) = workshop(source) else { return };
    let due = on_threads(&shop, source, &[], &[&path]);
    for flags in [&["-D_FILE_OFFSET_BITS=64"][..], &["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]] {
        let program = for_ranks(&shop, source, flags);
        let done = job("-n 2 --nodes 2", &program, &[&path]).finish();
        done.expect_clean();
        assert_eq!(done.out, due, "{flags:?}: {}", done.err);
    }
}

/// Checks that arguments and environment are those of `main` at all ranks, whatever a thread keeps
/// of them.
#[test]
fn arguments_and_environment() {
    let source = "tests/c/pthread_arguments.c";
    let Some(shop) = workshop(source) else { return };
    let program = for_ranks(&shop, source, &[]);
    for options in ["-n 1", "-n 2", "-n 12 --nodes 3"] {
        let job = job(options, &program, &["-n", "hey", "word", "one,two"]);
        let done = job.with(|command| {
            command.env("PTHREAD_ARGUMENTS", "a value");
        });
        let done = done.finish();
        done.expect_clean();
        let lines = (0..6).map(|thread| format!("{thread}: word hey a value one+two one\n"));
        let due: String = lines.chain(["listed 1\n".to_owned()]).collect();
        assert_eq!(done.out, due, "{options}: {}", done.err);
    }
}

/// Checks that threads of all ranks read and write what `main` maps, and that other mappings are
/// refused with a line each.
#[test]
fn mappings_of_threads() {
    let folder = Folder::new();
    let path = folder.path().join("mapped").display().to_string();
    let source = "tests/c/pthread_mappings.c";
    same_as_on_threads(source, &[], &[&path]);
    let Some(shop) = workshop(source) else { return };
    let done = job("-n 2 --nodes 2", &for_ranks(&shop, source, &[]), &[&path, "refused"]).finish();
    assert!(done.code == 0 && done.out == "refused\n", "{}", done.err);
    for says in
        ["mmap: stores of several ranks", "(MAP_FIXED)", "mprotect: ", "madvise: ", "sbrk: "]
    {
        assert!(done.err.contains(says), "{says}: {}", done.err);
    }
}

/// Checks waits with a time, and what a program asks of its threads.
#[test]
fn questions_about_threads() {
    let source = "tests/c/pthread_others.c";
    same_as_on_threads(source, &[], &[]);
    let Some(shop) = workshop(source) else { return };
    let done = job("-n 2 --nodes 2", &for_ranks(&shop, source, &[]), &["refused"]).finish();
    assert!(done.code == 0 && done.out == "refused\n", "{}", done.err);
    for name in ["pthread_kill", "pthread_cancel"] {
        let says = format!("clump: {name}: not supported for another thread");
        assert!(done.err.contains(&says), "{}", done.err);
    }
}

/// Checks that lines come in the order in which locks and joins put them.
#[test]
fn lines_that_threads_print() {
    same_as_on_threads("tests/c/pthread_printed.c", &[], &["4"]);
}

/// Checks that programs may hide their symbols, or be optimized as a whole.
#[test]
fn ways_to_link() {
    let source = "examples/c/pthread_words.c";
    let Some(shop) = workshop(source) else { return };
    let due = on_threads(&shop, source, &[], &["3"]);
    for flags in [
        &["-fvisibility=hidden"][..],
        &["-flto"],
        &["-flto", "-fvisibility=hidden"],
        &["-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        let program = for_ranks(&shop, source, flags);
        let done = job("-n 2", &program, &["3"]).finish();
        done.expect_clean();
        assert_eq!(done.out, due, "{flags:?}: {}", done.err);
    }
}
