//! The profile that every program leaves behind: its matrix against the counters of its ranks,
//! which are counted elsewhere.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, Running, program, signals, until};
use clump_trace::{Counter, Profile, Summary};

/// Messages and bytes that a rank's counters say it sent, by size.
fn counted(profile: &Profile, rank: usize) -> [u64; 6] {
    let of = |size: &str, what: &str| -> u64 {
        let names = ["shm.request", "shm.reply", "net.request", "net.reply"];
        let counter = |path| Counter::named(&format!("{path}.{size}.{what}")).unwrap();
        names.into_iter().map(|path| profile.counters[rank][counter(path)]).sum()
    };
    let both = ["short", "medium", "long"].map(|size| [of(size, "sent"), of(size, "sent_bytes")]);
    let [[a, b], [c, d], [e, f]] = both;
    [a, b, c, d, e, f]
}

/// Messages and bytes that the matrix says it sent.
fn told(profile: &Profile, rank: usize) -> [u64; 6] {
    let mut sums = [0; 6];
    for pair in profile.matrix.iter().flatten().filter(|pair| pair.from as usize == rank) {
        let cells = [pair.short, pair.medium, pair.long];
        sums.iter_mut().zip(cells.as_flattened()).for_each(|(sum, cell)| *sum += cell);
    }
    sums
}

fn profile_of(options: &str, program: &str, lanes: bool) -> Profile {
    let folder = Folder::new();
    let file = folder.path().join("profile.json");
    let job = Job::of(&format!("{options} --profile {}", file.display()), program);
    let job = job.with(|job| {
        if !lanes {
            job.env("CLUMP_LANES", "0");
        }
    });
    job.finish().expect_clean();
    let text = std::fs::read_to_string(&file).unwrap();
    let profile: Profile = serde_json::from_str(&text).unwrap();
    profile.checked().unwrap()
}

#[test]
fn the_distance_of_the_processors_is_in_the_profile_and_the_summary() {
    let processors = clump_os::topology::Topology::read().spread().len();
    let lines = || profile_of("-n 2", "talk 1", true).lines;
    let summary = || {
        let ended = Job::of("-n 2 --stats", "talk 1").finish();
        ended.expect_clean();
        ended.err.contains("round trip between the processors: ").then_some(())
    };
    // Other programs may leave no time for it.
    if processors > 1 {
        until("the distance in a profile", lines);
        until("the distance in a summary", summary);
    } else {
        assert_eq!((lines(), summary()), (None, None));
    }
    let plain = Job::of("-n 2 --json", "talk 1").finish().json();
    assert!(plain["profile"]["lines"].is_null(), "a job that is not measured loses no time for it");
}

#[test]
fn the_matrix_of_every_way_of_messages_adds_up_to_the_counters() {
    let ways = [
        ("-n 3", true),
        ("-n 3", false),
        ("-n 3 --nodes 2", true),
        ("-n 3 --nodes 2 --ni proxy:1", true),
        ("-n 3 --nodes 2 --emu o=+1us,L=+50us", true),
        ("-n 3 --emu o=+1us,L=+50us", false),
    ];
    for (way, lanes) in ways {
        let profile = profile_of(way, "talk 3", lanes);
        assert_eq!(profile.ranks(), 3);
        for rank in 0..3 {
            let counted = counted(&profile, rank);
            assert!(counted[0] > 0, "{way}: rank {rank} sent nothing");
            assert_eq!(told(&profile, rank), counted, "{way}, lanes {lanes}: rank {rank}");
        }
    }
}

#[test]
fn monitors_of_interfaces_and_stacks_are_in_the_profile() {
    let proxies = profile_of("-n 3 --nodes 2 --ni proxy:1", "talk 3", true);
    assert_eq!((proxies.interfaces.len(), proxies.stacks.len()), (2, 0));
    assert!(proxies.interfaces.iter().all(|one| one.carries && one.taken > 0), "{proxies:?}");
    let own = profile_of("-n 3 --nodes 2", "talk 3", true);
    assert_eq!(own.stacks.iter().map(|one| one.rank).collect::<Vec<_>>(), [0, 1, 2].map(Some));
    assert!(own.stacks.iter().all(|one| one.taken > 0), "{own:?}");
    let node = profile_of("-n 2", "talk 2", true);
    assert!(node.stacks.is_empty(), "one node has no network: {node:?}");
}

#[test]
fn answers_of_interfaces_are_in_the_matrix_and_are_reads() {
    for options in ["-n 2 --nodes 2", "-n 2 --nodes 2 --ni proxy:1"] {
        let folder = Folder::new();
        let file = folder.path().join("profile.json");
        let options = format!("{options} --profile {}", file.display());
        Job::of_program(&options, program("onesided"), ["deaf".into()]).finish().expect_clean();
        let text = std::fs::read_to_string(&file).unwrap();
        let profile = serde_json::from_str::<Profile>(&text).unwrap().checked().unwrap();
        let received = |size: &str| -> u64 {
            let named = |path| Counter::named(&format!("{path}.reply.{size}.received")).unwrap();
            let of = |counter| profile.counters[0][counter];
            of(named("net")) + of(named("shm"))
        };
        let answers = profile.matrix.iter().flatten().filter(|pair| pair.from >= 2 && pair.to == 0);
        let sums = answers.fold([0; 3], |[short, medium, bytes], pair| {
            [short + pair.short[0], medium + pair.medium[0], bytes + pair.medium[1]]
        });
        assert_eq!(sums[..2], [received("short"), received("medium")], "{options}");
        assert!(sums[2] >= 300_000, "{options}: the payload of the gets: {}", sums[2]);
        let Summary { read_percent, bulk_kb_s, .. } = profile.summary;
        assert!(read_percent > 50.0 && bulk_kb_s > 0.0, "{options}: {read_percent} %");
    }
}

#[test]
fn barriers_leave_the_times_between_them() {
    let profile = profile_of("-n 2", "barrier 10", true);
    for (counters, times) in profile.counters.iter().zip(&profile.intervals) {
        let barriers = counters[Counter::Barriers];
        assert!(barriers >= 10);
        assert_eq!(times.barriers.total(), barriers - 1);
    }
}

#[test]
fn a_profile_that_cannot_be_written_fails_the_job() {
    let job = Job::of("-n 1 --profile /nonexistent/p.json", "barrier 1");
    let ended = job.finish();
    assert!(ended.code != 0 && ended.err.contains("/nonexistent/p.json"), "{}", ended.err);
}

#[test]
fn views_of_a_killed_job_end() {
    for whole in [false, true] {
        let folder = Folder::new();
        let job = Job::of("-n 2", &format!("talk 0 --ready {}", folder.path().display())).start();
        job.await_ready(folder.path(), 0..2);
        // Of two views, neither may take the other for a part of the job.
        let view = || {
            let words = format!("top --pid {} --json --interval 0.02", job.launcher());
            Job::command(&words).start()
        };
        let views = [view(), view()];
        let shown = |view: &Running| view.so_far().lines().count() > 1;
        until("two views", || views.iter().all(shown).then_some(()));
        let killed = if whole { job.processes() } else { Vec::new() };
        for pid in killed.into_iter().map(|process| process.pid).chain([job.launcher()]) {
            // One may have ended with another.
            let _ = clump_os::process::signal(pid, clump_os::signal::KILL);
        }
        for view in views {
            view.finish().expect(0, &["the job has ended"]);
        }
        assert_eq!(job.finish().code, -9);
    }
}

#[test]
fn a_report_is_made_of_the_profile_of_any_program() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    Job::of(&format!("-n 2 --nodes 2 --profile {}", at("talk.json")), "talk 3")
        .finish()
        .expect_clean();
    let words = format!("lab report {} --html {} --csv {}", at("talk.json"), at("p.html"), at("c"));
    let made = Job::command(&words).finish();
    made.expect_clean();
    assert!(made.out.contains("messages per rank, most"), "{}", made.out);
    let page = std::fs::read_to_string(at("p.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("0 to 1: "), "{page}");
    let none = Job::command(&format!("lab report {}", at("c"))).finish();
    assert!(none.code != 0 && none.err.contains("no profile"), "{}", none.err);
}

#[test]
fn a_view_of_a_running_job_has_its_ranks() {
    let folder = Folder::new();
    let job = Job::of("-n 2", &format!("talk 0 --ready {}", folder.path().display())).start();
    job.await_ready(folder.path(), 0..2);
    let view = format!("top --pid {} --once --interval 0.05", job.launcher());
    let json = Job::command(&format!("{view} --json")).finish().json();
    assert_eq!(json["rates"]["ranks"].as_array().unwrap().len(), 2, "{json}");
    let text = Job::command(&view).finish();
    text.expect_clean();
    assert!(text.out.contains("sent/s") && text.out.contains("2 ranks"), "{}", text.out);
    let no_terminal = Job::command(&format!("top --pid {}", job.launcher())).finish();
    no_terminal.expect(125, &["--once prints one view"]);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}
