//! Tests that the supervisor and the judge find defects, and that drawing depends on the seed
//! alone.

use clump_process_tests::attack::class::CLASSES;
use clump_process_tests::attack::event::{Event, What, When};
use clump_process_tests::attack::job::{Job, Promise};
use clump_process_tests::attack::place::AttackPlace;
use clump_process_tests::attack::remains;
use clump_process_tests::attack::stream::Output;
use clump_process_tests::attack::supervisor::{Deadlines, Supervisor};
use clump_process_tests::attack::variables::{KNOWN, mistyped};
use clump_process_tests::attack::verdict::{Verdict, judge};
use clump_test_tier::Sampler;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

/// Returns a place whose `hinder` is a shell, and whose `clump` does nothing, successfully.
fn place(name: &str) -> AttackPlace {
    let base = std::env::temp_dir().join(format!("clump-attack-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    std::fs::create_dir_all(&base).unwrap();
    // In the folder of jobs, so that it is removed with it.
    let place = AttackPlace::at(base.clone(), base.clone()).unwrap();
    symlink("/bin/sh", base.join("hinder")).unwrap();
    symlink("/bin/true", base.join("clump-under-test")).unwrap();
    place
}

/// Returns a job that is a script.
fn script(place: &AttackPlace, text: &str) -> Job {
    Job::new(place.folder().unwrap(), ["-c", text].map(Into::into).to_vec())
}

fn run(place: &AttackPlace, job: &Job, end: Duration) -> Verdict {
    let deadlines = Deadlines { end, remains: Duration::from_millis(50) };
    let supervisor = Supervisor { place, deadlines, adopts: false };
    judge(job, &supervisor.run(job).unwrap())
}

fn broken(place: &AttackPlace, job: &Job) -> String {
    match run(place, job, Deadlines::default().end) {
        Verdict::Broken(broken) => broken.join("; "),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_end_as_promised_is_kept() {
    let place = place("kept");
    let good = script(&place, "echo fine");
    assert_eq!(broken(&place, &good), "Kept");
    let mut unhappy = script(&place, "echo 'rank 1 is gone' >&2; exit 7");
    unhappy.promise = Promise::exactly(&[7]);
    unhappy.promise.words.push("rank 1".to_owned());
    assert_eq!(broken(&place, &unhappy), "Kept");
    let mut refused = script(&place, "echo 'too few files' >&2; exit 125");
    refused.promise = Promise::or_refusal(0);
    assert_eq!(broken(&place, &refused), "Kept");
    let impossible = script(&place, "echo 'hinder: not here' >&2; exit 99");
    assert!(broken(&place, &impossible).starts_with("Impossible"));
}

#[test]
fn wrong_ends_are_found() {
    let place = place("ends");
    for (text, found) in [
        ("exit 3", "ended with 3, promised is 0; ended with Some(3) without a word"),
        ("echo no >&2; exit 4", "ended with 4, promised is 0"),
        ("kill -9 $$", "ended with -9"),
        ("echo \"thread 'main' panicked at x\" >&2; exit 101", "shows a panic"),
        ("echo 'set RUST_BACKTRACE=1' >&2; exit 0", "shows a hint"),
        ("printf 'no \\033[31mred' >&2; exit 0", "shows an escape byte"),
        (": > \"$TMPDIR/file\"", "left [\""),
    ] {
        let said = broken(&place, &script(&place, text));
        assert!(said.contains(found), "{text}: {said}");
    }
    // A refusal is no abort, and prints one of its words.
    for (text, found) in [
        ("echo aborted >&2; exit 134", "ended with 134, promised is 0 or a refusal"),
        ("exit 1", "without a word"),
        ("echo no >&2; exit 1", "says none of [\"files\"]"),
    ] {
        let mut job = script(&place, text);
        job.promise = Promise::or_refusal(0);
        job.promise.words.push("files".to_owned());
        let said = broken(&place, &job);
        assert!(said.contains(found), "{text}: {said}");
    }
    let mut complete = script(&place, ": > manifest; echo no >&2; exit 1");
    complete.promise = Promise::exactly(&[1]);
    complete.promise.absent.push(complete.folder.work().join("manifest"));
    assert!(broken(&place, &complete).contains("looks complete"));
}

#[test]
fn a_job_without_end_is_found_and_killed() {
    let place = place("endless");
    let job = script(&place, "sleep 600; :");
    let Verdict::Broken(broken) = run(&place, &job, Duration::from_millis(200)) else {
        panic!("kept");
    };
    assert!(broken[0].contains("had not ended in time") && broken[0].contains("sleep 600"));
    assert!(remains::processes(&job.folder).is_empty());
}

#[test]
fn a_process_that_stays_is_found_and_killed() {
    let place = place("stays");
    for text in ["setsid sleep 600 &", "env -i setsid sleep 600 >&- 2>&- &"] {
        let job = script(&place, text);
        let said = broken(&place, &job);
        assert!(said.contains("left processes") && said.contains("sleep 600"), "{text}: {said}");
        assert!(remains::processes(&job.folder).is_empty());
    }
}

#[test]
fn streams_are_what_they_are_called() {
    let place = place("streams");
    for (output, text, found) in [
        (Output::Full, "echo lost || exit 5", "ended with 5"),
        (Output::PipeClosed, "trap '' PIPE; echo lost || exit 5", "ended with 5"),
        (Output::ReadOnly, "echo lost || exit 5", "ended with 5"),
        (Output::TerminalGone, "echo lost || exit 5", "ended with 5"),
        (Output::SocketClosed, "trap '' PIPE; echo lost || exit 5", "ended with 5"),
        (Output::Null, "echo taken", "Kept"),
        (Output::File, "echo 'panicked at' ", "shows a panic"),
        (Output::Fifo, "echo 'panicked at' ", "shows a panic"),
        (Output::Socket, "echo 'panicked at' ", "shows a panic"),
        (Output::Terminal, "test -t 1 && echo 'panicked at'", "shows a panic"),
    ] {
        let mut job = script(&place, text);
        job.output = output;
        let said = broken(&place, &job);
        assert!(said.contains(found), "{output:?}: {said}");
    }
    // No process reads, so that it waits, until it is asked to end.
    for output in [Output::PipeUnread, Output::TerminalUnread, Output::SocketUnread] {
        let mut job = script(&place, ": > started; exec cat /dev/zero");
        job.output = output;
        let ready = When::Ready(vec![job.folder.work().join("started")]);
        job.event = Some(Event { when: ready, what: What::Signal("TERM") });
        job.promise = Promise::exactly(&[-15]);
        job.promise.may_be_silent = true;
        assert_eq!(broken(&place, &job), "Kept", "{output:?}");
    }
}

#[test]
fn a_seed_determines_the_job() {
    let place = place("draw");
    let shown = |class: &clump_process_tests::attack::class::Class, seed| {
        (class.draw)(&mut Sampler::new(seed), &place).unwrap().shown()
    };
    for class in CLASSES {
        let jobs: Vec<String> = (0..20).map(|seed| shown(class, seed)).collect();
        assert_eq!(jobs, (0..20).map(|seed| shown(class, seed)).collect::<Vec<_>>());
        let different: std::collections::BTreeSet<_> = jobs.iter().collect();
        assert!(different.len() > 10, "{}: {different:?}", class.name);
        let own = PathBuf::from("job-0");
        assert!(jobs.iter().all(|job| !job.contains(&*own.to_string_lossy())), "{jobs:?}");
    }
}

#[test]
fn a_mistyped_name_is_never_a_known_one() {
    let mut sampler = Sampler::new(3);
    for known in KNOWN.iter().cycle().take(2000) {
        let name = mistyped(&mut sampler, known);
        assert!(name.starts_with("CLUMP_") && !KNOWN.contains(&name.as_str()), "{name}");
    }
}
