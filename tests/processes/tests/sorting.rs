//! Sorts over several nodes: whatever the network does to messages, the output is right; and a
//! failure is reported once.

use clump_process_tests::{Folder, Job, Running, signals, until};
use clump_trace::{Counter, Profile};

/// Faults of the network between nodes.
const TROUBLED: [(&str, &str); 1] =
    [("CLUMP_NET_FAULTS", "loss=1%,duplicate=2%,reorder=20%,seed=7")];

/// A folder with records to sort.
struct Records(Folder);

impl Records {
    fn new(options: &str, records: u64) -> Self {
        let folder = Folder::new();
        let path = folder.path().join("records");
        Job::command(&format!("app gensort {options} {records} {}", path.display()))
            .finish()
            .expect_clean();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Creates `clump app sort` with `options`, into a folder called `sorted`.
    fn sort(&self, options: &str) -> Job {
        let (records, sorted) = (self.path("records"), self.path("sorted"));
        Job::command(&format!("app sort {options} --force -i {records} -o {sorted}"))
    }

    /// Checks the output with a program that shares no code with the sort.
    fn check(&self) {
        let (records, sorted) = (self.path("records"), self.path("sorted"));
        let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
        check.expect_clean();
        assert!(check.out.contains("SUCCESS"), "{}", check.out);
    }
}

#[test]
fn records_are_sorted_over_nodes() {
    let records = Records::new("--skew", 60_000);
    for options in
        ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 4 --nodes 4", "-n 5 --nodes 2 --two-pass"]
    {
        records.sort(options).finish().expect_clean();
        records.check();
    }
}

#[test]
fn records_are_sorted_over_a_network_that_loses_and_doubles() {
    let records = Records::new("", 100_000);
    for options in ["-n 4 --nodes 2", "-n 4 --nodes 4 --two-pass"] {
        let sort = records.sort(options).with(|command| {
            command.envs(TROUBLED);
        });
        sort.finish().expect_clean();
        records.check();
    }
}

/// Sorts over nodes with streams for bulk, and with these variables. Checks that streams were used
/// and that none broke; returns how many units ranks have retransmitted.
fn sort_over_streams(records: &Records, options: &str, more: &[(&str, &str)]) -> u64 {
    let clump = clump_process_tests::program("clump-under-test").display().to_string();
    let [from, to, profile] = ["records", "sorted", "profile.json"].map(|name| records.path(name));
    let sort = format!("{clump} app sort --force -i {from} -o {to}");
    let job = Job::command(&format!("run {options} --profile {profile} {sort}"));
    let sort = job.with(|command| {
        command.env("CLUMP_NET_BULK", "stream").envs(more.iter().copied());
    });
    sort.finish().expect_clean();
    records.check();
    let text = std::fs::read_to_string(&profile).unwrap();
    let told: Profile = serde_json::from_str(&text).unwrap();
    let sum = |counter| told.counters.iter().map(|rank| rank[counter]).sum::<u64>();
    let (sent, received) = (sum(Counter::NetRecordsSent), sum(Counter::NetRecordsReceived));
    // What proxies send and receive is no rank's.
    let by_ranks = !options.contains("proxy");
    assert!(received == sent && (sent > 0) == by_ranks, "{options}: {received} of {sent}");
    assert_eq!(sum(Counter::NetStreamsBroken), 0, "{options}");
    sum(Counter::NetUnitsResent)
}

#[test]
fn records_are_sorted_over_streams_for_bulk() {
    let records = Records::new("", 100_000);
    for options in
        ["-n 2 --nodes 2", "-n 4 --nodes 2 --security crc", "-n 4 --nodes 2 --ni proxy:1"]
    {
        sort_over_streams(&records, options, &[]);
    }
}

#[test]
fn records_are_sorted_over_streams_beside_datagrams_that_are_lost_and_doubled() {
    let records = Records::new("", 100_000);
    for options in ["-n 2 --nodes 2 --security crc", "-n 4 --nodes 2"] {
        let resent = sort_over_streams(&records, options, &TROUBLED);
        assert!(resent > 0, "{options}: nothing was lost");
    }
    sort_over_streams(&records, "-n 4 --nodes 2 --ni proxy:1", &TROUBLED);
}

#[test]
fn what_cannot_be_sorted_is_said_once() {
    let records = Records::new("", 100);
    // Every rank finds that out.
    let sort = records.sort("-n 4 --nodes 2 --memory 1K").finish();
    assert_eq!(sort.code, 1, "{}", sort.err);
    assert_eq!(sort.err.matches("give at least").count(), 1, "{}", sort.err);
    assert!(!sort.err.contains("exit code"), "clump has nothing to add: {}", sort.err);
}

#[test]
fn paths_that_cannot_be_used_are_named_before_ranks_start() {
    let records = Records::new("", 100);
    let [from, sorted, missing] = ["records", "sorted", "missing"].map(|name| records.path(name));
    let (below, folder) = (format!("{from}/below"), records.0.path().display().to_string());
    let cut = records.path("cut");
    std::fs::write(&cut, [0; 150]).unwrap();
    for (words, option, path, why) in [
        (format!("-i {missing} -o {sorted}"), "--input", &missing, "No such file"),
        (format!("-i {folder} -o {sorted}"), "--input", &folder, "is a folder"),
        (format!("-i {cut} -o {sorted}"), "--input", &cut, "50 more than whole records"),
        (format!("-i {from} {missing} -o {sorted}"), "--input", &missing, "No such file"),
        (format!("-i {from} -o {folder}"), "--input", &from, "is in the output folder"),
        (format!("-i {from} -o {from}"), "--output", &from, "is a file"),
        (format!("-i {from} -o {below}"), "--output", &below, "is a file"),
        (
            format!("-i {from} -o /proc/self/x"),
            "--output",
            &"/proc/self/x".into(),
            "cannot be made",
        ),
        (format!("-i {from} -o {sorted} --scratch {from}"), "--scratch", &from, "is a file"),
        (format!("-i {from} -o {sorted} --scratch {below}"), "--scratch", &below, "is a file"),
        (format!("--size ci --scratch {below}"), "--scratch", &below, "is a file"),
        (format!("--size ci -o {from}"), "--output", &from, "is a file"),
    ] {
        let ended = Job::command(&format!("app sort -n 2 --nodes 2 {words}")).finish();
        // A rank's refusal has code 1.
        ended.expect(2, &[option, path, why]);
        assert_eq!(ended.err.lines().count(), 1, "{words}: {}", ended.err);
        assert!(!records.0.path().join("sorted").exists(), "{words}: nothing was made");
    }
    assert_eq!(std::fs::read(&from).unwrap().len(), 100 * 100, "what is there stays");
    // Paths of other machines are theirs.
    let words = format!("app sort -n 1 --hosts elsewhere:1 --ssh false -i {missing} -o {sorted}");
    let ended = Job::command(&words).finish();
    assert!(ended.code == 125 && !ended.err.contains("--input"), "{}", ended.err);
    let words = "app sort -n 1 --hosts elsewhere:1 --ssh false --size ci";
    Job::command(words).finish().expect(2, &["several machines", "--output"]);
    let new = records.path("new/folders");
    let sort = format!("app sort -n 2 -i {from} -o {new} --scratch {sorted}");
    Job::command(&sort).finish().expect_clean();
    // Without --force an older output stays.
    Job::command(&sort).finish().expect(2, &["--output", &new, "--force"]);
}

#[test]
fn sizes_are_made_sorted_and_checked() {
    let folder = Folder::new();
    let inside = || std::fs::read_dir(folder.path()).unwrap().count();
    let run = |words: &str| {
        let job = Job::command(&format!("app sort -n 4 --nodes 2 --json {words}"));
        job.with(|command| {
            command.env("TMPDIR", folder.path());
        })
        .finish()
    };
    let ended = run("--size ci");
    ended.expect_clean();
    let report = ended.json();
    assert_eq!((&report["app"], &report["size"]), (&"sort".into(), &"ci".into()), "{report}");
    assert_eq!((&report["ranks"], &report["nodes"]), (&4.into(), &2.into()), "{report}");
    assert_eq!(report["verified"], true, "{report}");
    assert_eq!(report["counts"]["records"], 200_000, "{report}");
    assert_eq!(report["choices"]["passes"], "two", "more than its memory: {report}");
    assert_eq!(inside(), 0, "the temporary folder is gone");

    let sorted = folder.path().join("sorted").display().to_string();
    run(&format!("--size ci -o {sorted}")).expect_clean();
    let check = Job::command(&format!("app valsort {sorted} --records 200000")).finish();
    check.expect_clean();
    assert_eq!(inside(), 1, "only the output is left");
    let tight = run("--size ci --memory 4M");
    assert!(tight.code == 1 && tight.err.contains("give at least"), "{}", tight.err);
    for (words, why) in [
        (format!("--size ci -i {sorted}"), "cannot be used with"),
        ("--size huge".into(), "measure"),
        (format!("-o {sorted}"), "--input"),
    ] {
        let ended = run(&words);
        assert!(ended.code == 2 && ended.err.contains(why), "{words}: {}", ended.err);
    }
}

#[test]
fn a_rank_that_is_killed_while_it_sorts_is_named() {
    let records = Records::new("", 2_000_000);
    let sort = records.sort("-n 4 --nodes 2 --two-pass").start();
    // Made when the sort begins.
    until("the output's folder", || records.0.path().join("sorted").is_dir().then_some(()));
    killed(&records, sort);
}

#[test]
fn a_rank_that_is_killed_while_it_sorts_over_streams_is_named() {
    let records = Records::new("", 2_000_000);
    let sort = records.sort("-n 4 --nodes 2 --two-pass").with(|command| {
        // So many messages with so much work each take far longer than the kill.
        command.env("CLUMP_NET_BULK", "stream").env("CLUMP_EMU", "o=+5ms,scope=net");
    });
    let sort = sort.start();
    until("bulk by streams", || {
        let seen = Job::command(&format!("stats --json --pid {}", sort.launcher())).finish();
        // The job's memory is not there at once.
        let sent =
            (seen.code == 0).then(|| seen.json()["counters"][3]["net.records.sent"].as_u64());
        sent.flatten().filter(|&records| records > 0)
    });
    killed(&records, sort);
}

/// Kills rank 3 of a sort that has begun.
fn killed(records: &Records, sort: Running) {
    sort.signal(sort.rank(3), signals::KILL);
    sort.finish().expect(137, &["rank 3", "SIGKILL"]);
    // If the file system has no unnamed files something may be left, but no empty folder.
    let left = std::fs::read_dir(records.0.path().join("sorted"));
    let mut left = left.into_iter().flatten().map(|entry| entry.unwrap().file_name()).peekable();
    assert!(left.peek().is_some() || !records.0.path().join("sorted").exists());
    assert!(left.all(|name| name != "manifest.json"), "nothing looks complete");
}

#[test]
fn the_memory_cap_holds_over_nodes() {
    const CAP: u64 = 48 << 20;
    let records = Records::new("", 1_000_000);
    for options in ["-n 4 --nodes 2", "-n 4 --nodes 4"] {
        let sort = records.sort(&format!("{options} --memory 48M --json")).finish();
        sort.expect_clean();
        let peak = sort.json()["memory_peak"].as_u64().unwrap();
        assert!(peak <= CAP, "{options}: {peak} bytes of {CAP}");
        assert!(peak > CAP / 2, "{options}: the meter sees what is used: {peak}");
        records.check();
    }
    let tight = records.sort("-n 4 --nodes 2 --memory 12M").finish();
    assert!(tight.code != 0 && tight.err.contains("give at least"), "{}", tight.err);
}

#[test]
fn a_pipeline_of_generator_sort_and_check_holds_over_nodes() {
    let records = Records::new("", 30_000);
    let clump = clump_process_tests::program("clump-under-test").display().to_string();
    let (from, sorted) = (records.path("records"), records.path("sorted"));
    let line = format!(
        "{clump} app gensort 30000 - | {clump} app sort -n 4 --nodes 2 -i - -o {sorted} && \
         cat {sorted}/part-* | {clump} app valsort - --input {from}"
    );
    let all = Job::any("sh").with_args(&["-c", &line]).finish();
    all.expect_clean();
    assert!(all.out.contains("30000 records") && all.out.contains("SUCCESS"), "{}", all.out);
}

#[test]
fn a_fifo_that_nobody_writes_to_is_waited_for_in_words_and_ctrl_c_ends_it() {
    let folder = Folder::new();
    let (fifo, sorted) = (folder.path().join("fifo"), folder.path().join("sorted"));
    let made = Job::any("mkfifo").with_args(&[&fifo.display().to_string()]).finish();
    made.expect_clean();
    let words = format!("app sort -n 2 -i {} -o {}", fifo.display(), sorted.display());
    let sort = Job::command(&words).start();
    until("a rank to open the FIFO without a writer", || {
        let folders = sort.processes().into_iter().map(|p| format!("/proc/{}/fd", p.pid));
        let mut open = folders.flat_map(|fds| std::fs::read_dir(fds).into_iter().flatten());
        open.any(|fd| std::fs::read_link(fd.unwrap().path()).is_ok_and(|to| to == fifo))
            .then_some(())
    });
    // After it has waited for a second.
    let note = format!("the sort waits for what is written to {}, until", fifo.display());
    until("the note", || sort.describe().contains(&note).then_some(()));
    sort.signal(sort.launcher(), signals::INTERRUPT);
    let ended = sort.finish();
    assert_eq!(ended.code, 130);
    assert_eq!(ended.err.matches(&note).count(), 1, "once: {}", ended.err);
    assert!(ended.err.contains("Ctrl-C ends it"), "{}", ended.err);
    assert!(!sorted.exists(), "the folder that it made goes");
}
