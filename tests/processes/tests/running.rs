//! Jobs that succeed, and command lines that are wrong.

use clump_os::claim::CpuClaim;
use clump_process_tests::{Folder, Job, signals, until};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

fn shell(options: &str, script: &str) -> Job {
    Job::of_program(options, "sh", ["-c", script].map(OsString::from))
}

#[test]
fn barriers_and_messages_at_several_sizes() {
    for ranks in [1, 2, 3, 5] {
        Job::of(&format!("-n {ranks}"), "barrier 100").finish().expect_clean();
        Job::of(&format!("-n {ranks} --bind cores"), "talk 20").finish().expect_clean();
    }
}

#[test]
fn a_program_by_itself_is_a_job_of_one_rank() {
    let alone = std::process::Command::new(clump_process_tests::program("prog"))
        .args(["barrier", "3"])
        .status()
        .unwrap();
    assert!(alone.success());
}

#[test]
fn a_job_that_does_not_end_can_be_described() {
    let folder = Folder::new();
    let args = format!("forever 0 --ready {}", folder.path().display());
    let job = Job::of("-n 2", &args).start();
    job.await_ready(folder.path(), 0..1);
    let told = job.describe();
    for part in [" agent --control ", "prog forever 0", "  prog: ", "errors:"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    job.signal(job.launcher(), signals::TERMINATE);
    let _ = job.finish();
}

#[test]
fn a_rank_may_be_a_child_but_not_two() {
    Job::of("-n 2", "child").finish().expect_clean();
    let ended = Job::of("-n 2", "twice").finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let refused =
        ended.err.lines().filter(|line| line.contains("another process has joined as that rank"));
    assert_eq!(refused.count(), 2, "{}", ended.err);
}

#[test]
fn lines_are_labelled_and_whole() {
    let ended = Job::of("-n 4 --label", "flood 2000").finish();
    ended.expect_clean();
    let mut next = [0; 4];
    for line in ended.out.lines() {
        let (label, rest) = line.split_once(' ').unwrap();
        let rank: usize = label.trim_matches(['[', ']']).parse().unwrap();
        let expected = format!("rank {rank} line {} of 2000", next[rank]);
        assert!(rest.starts_with(&expected), "`{line}` is not `{expected}`");
        next[rank] += 1;
    }
    assert_eq!(next, [2000; 4]);
}

#[test]
fn everything_written_before_a_death_is_delivered() {
    let ended = Job::of("-n 3", "flood 20000 --die").finish();
    ended.expect(139, &["rank 2 of `prog` was killed by signal 11"]);
    let last = ended.out.lines().filter(|line| line.starts_with("rank 2 ")).count();
    assert_eq!(last, 20_000);
}

#[test]
fn output_goes_to_files_byte_for_byte() {
    let folder = Folder::new();
    let path = folder.path().join("logs");
    let ended = shell(
        &format!("-n 3 --output {}", path.display()),
        "printf \"out $CLUMP_RANK\\nno end\"; printf \"err $CLUMP_RANK\" >&2",
    )
    .finish();
    ended.expect_clean();
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    for rank in 0..3 {
        let read =
            |kind| std::fs::read_to_string(path.join(format!("rank-{rank}.{kind}"))).unwrap();
        assert_eq!(read("out"), format!("out {rank}\nno end"));
        assert_eq!(read("err"), format!("err {rank}"));
    }
}

#[test]
fn only_rank_zero_reads_the_input() {
    let job = shell("-n 3", "cat").with(|command| {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        command.stdin(Stdio::from(file));
    });
    let ended = job.finish();
    ended.expect_clean();
    assert_eq!(ended.out.matches("Name:").count(), 1, "{}", ended.out);
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let script = format!(
        "{} run -n 2 yes | head -n 1",
        clump_process_tests::program("clump-under-test").display()
    );
    let job = Job::any("sh").with_args(&["-c", &script]);
    let ended = job.finish();
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("y\n", ""));
}

#[test]
fn nobody_reads_and_an_interrupt_still_ends_the_job() {
    // No process reads this pipe, but it stays open.
    let (_reader, writer) = std::io::pipe().unwrap();
    let job = Job::of_program("-n 2", "yes", []).with(|command| {
        command.stdout(writer);
    });
    let job = job.start();
    job.await_named("yes", 2);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &["interrupted (SIGINT)"]);
}

#[test]
fn a_flood_that_nobody_reads_does_not_delay_the_news_of_a_death() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let job = shell("-n 2 --json", "if [ $CLUMP_RANK = 0 ]; then yes; fi; kill -9 $$");
    let job = job.with(|command| {
        command.stdout(writer);
    });
    let job = job.start();
    // All ranks are killed although their output cannot be shown.
    clump_process_tests::until("the ranks to be gone", || {
        (!job.processes().iter().any(|p| p.name == "yes" || p.name == "sh")).then_some(())
    });
    job.signal(job.launcher(), signals::INTERRUPT);
    assert_ne!(job.finish().code, 0);
}

#[test]
fn output_that_cannot_be_written_is_a_failure_with_a_reason() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let parts = ["standard output cannot be written", "No space left on device"];
    // At the end, and in the middle of a job that would not end.
    for program in ["true", "echo", "yes"] {
        for options in ["-n 2 --json", "-n 2 --nodes 2 --json"] {
            let job = Job::of_program(options, program, ["x".into()]).with(|command| {
                command.stdout(full());
            });
            job.finish().expect(125, &parts);
        }
    }
    for words in ["doctor", "stats", "app", "--help", "demo --records 10"] {
        let job = Job::command(words).with(|command| {
            command.stdout(full());
        });
        job.finish().expect(125, &["writing standard output: No space left on device"]);
    }
    // The reason cannot be shown; the code tells that output was lost.
    let job = shell("-n 2", "echo x >&2").with(|command| {
        command.stderr(full());
    });
    assert_eq!(job.finish().code, 125);
}

#[test]
fn a_reader_that_has_gone_is_no_failure_to_speak_of() {
    for words in ["run -n 2 echo x", "doctor", "app", "--help", "demo --records 10"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Job::command(words).with(|command| {
            command.stdout(writer);
        });
        let ended = ended.finish();
        assert_eq!((ended.code, ended.err.as_str()), (141, ""), "{words}");
    }
}

#[test]
fn errors_come_after_the_output_in_one_pipe() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let job = shell("-n 1", "seq 20000; exit 3").with(|command| {
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
    });
    let job = job.start();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut reader, &mut said).unwrap();
    assert_eq!(job.finish().code, 3);
    let last = said.find("20000\n").unwrap();
    assert_eq!(said.find("clump: rank 0 of `sh` exited with code 3"), Some(last + 6));
}

#[test]
fn the_outcome_as_json() {
    let ended = Job::of("-n 3 --json", "exit 5 1").finish();
    let json = ended.json();
    assert_eq!(json["code"], 5);
    assert_eq!(json["ending"]["death"]["rank"], 1);
    assert_eq!(json["ranks"].as_array().unwrap().len(), 3);
    assert_eq!(json["ranks"][1]["end"]["exit"], 5);
    assert_eq!(json["config"]["lanes"], "1024");
    let ended = Job::of("-n 2 --json --stats", "talk 5").finish();
    assert_eq!(ended.code, 0);
    let json = ended.json();
    assert_eq!(json["ending"], "clean");
    assert!(json["summary"]["ranks"] == 2 && json["wall_ms"].as_f64().unwrap() > 0.0);
    assert!(ended.err.contains("communication summary: 2 ranks"), "{}", ended.err);
}

#[test]
fn programs_that_cannot_be_started() {
    let folder = Folder::new();
    let file = folder.path().join("text");
    std::fs::write(&file, "no program").unwrap();
    let of = |program: &str| Job::of_program("-n 3", program, []).finish();
    of("no-such-program")
        .expect(127, &["no program `no-such-program` in PATH", "./no-such-program"]);
    of("/nonexistent/x").expect(127, &["`/nonexistent/x` does not exist"]);
    let ended = of(file.to_str().unwrap());
    ended.expect(126, &["is not an executable file"]);
    assert_eq!(ended.err.lines().count(), 1, "said once, not three times: {}", ended.err);
}

#[test]
fn wrong_command_lines() {
    for (words, said) in [
        ("run", "PROGRAM"),
        ("run -n 0 true", "1..=1048576"),
        ("run -n 1048577 true", "1..=1048576"),
        ("run -n 1025 true", "1 to 1024 ranks, not 1025"),
        ("run -n many true", "many"),
        ("run --on-death maybe true", "continue"),
        ("run --linger -1 true", "linger"),
        ("run --bind sockets true", "cores"),
        ("run -n 2 --nodez 2 true", "unknown option `--nodez`; did you mean `--nodes`?"),
        ("run --rank 4 true", "unknown option `--rank`; did you mean `--ranks`?"),
        ("run -n 2 --node=2 true", "did you mean `--nodes`?"),
        ("run --frobnicate true", "unknown option `--frobnicate`; `clump run --help` lists them"),
        ("app gups --rank 4", "'--ranks'"),
        ("lab sweep --knob L=5 --out /nonexistent/x -- true", "`L=5` is no time"),
        ("lab sweep --knob L=+5us --with scope=x --out /nonexistent/x -- true", "scope"),
        ("lab sweep --knob Q=+5us --out /nonexistent/x -- true", "is no knob"),
        ("lab sweep --knob L=+5us --precision 101 --out /nonexistent/x -- true", "--precision"),
        ("lab study --out /nonexistent/x --only nothing", "no application nothing (--only)"),
        ("lab logp --scope both --svg /dev/null", "--svg draws one signature"),
        ("run -n 2 --nodes 3 true", "2 ranks do not fill 3 nodes"),
        ("run -n 2 --nodes 0 true", "1..=4096"),
        ("run -n 2 --addresses 203.0.113.9 true", "no address of this machine"),
        ("app sort -n 4 --nodes 9 -i in -o out", "4 ranks do not fill 9 nodes"),
        ("app sort -n 2 --addresses 203.0.113.9 -i in -o out", "no address of this machine"),
        ("app sort -n 2 --netns -i in -o out", "--netns joins 2 to 16 nodes, not 1"),
        ("lab loss --rounds 0", "1.."),
        ("lab urgent --rounds 0", "1.."),
        ("lab compare --rounds 0", "1.."),
        ("run -n 2 --netns true", "--netns joins 2 to 16 nodes, not 1"),
        ("run -n 17 --nodes 17 --netns true", "--netns joins 2 to 16 nodes, not 17"),
        ("run -n 2 --nodes 2 --security rot13 true", "aead"),
        ("nonsense", "nonsense"),
    ] {
        let ended = Job::command(words).finish();
        assert_eq!(ended.code, 2, "{words}: {}", ended.err);
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
    }
    let bad = Job::of("-n 2", "barrier 1").with(|command| {
        command.env("CLUMP_LANES", "lots");
    });
    let ended = bad.finish();
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("CLUMP_LANES is `lots`"), "{}", ended.err);
}

#[test]
fn a_running_job_shows_its_counters() {
    let folder = Folder::new();
    let job = Job::of("-n 3", &format!("talk 0 --ready {}", folder.path().display())).start();
    job.await_ready(folder.path(), 0..3);
    for pid in [job.launcher(), job.agent(), job.rank(2)] {
        let seen = Job::command(&format!("stats --pid {pid}")).finish();
        seen.expect_clean();
        assert!(seen.out.contains("3 ranks"), "{}", seen.out);
    }
    let seen = Job::command(&format!("stats --json --pid {}", job.agent())).finish().json();
    assert_eq!(seen["counters"].as_array().unwrap().len(), 3);
    let list = Job::command("stats").finish();
    assert!(list.out.contains(&format!("{} ", job.agent())), "{}", list.out);
    let none = Job::command(&format!("stats --pid {}", std::process::id())).finish();
    none.expect(125, &["has no part in a clump job"]);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}

#[test]
fn arguments_with_escape_sequences_reach_no_terminal() {
    let odd = "\u{1b}]0;title\u{7}\u{1b}[2J\r\u{8}\u{7f}\u{9b}31m\tand\nmore";
    let folder = Folder::new();
    let ready = folder.path().join("ready-0");
    // The shell stays, and its arguments with it.
    let script = format!("touch {}; sleep 999; exit", ready.display());
    let args = ["-c", &script, odd, odd].map(OsString::from);
    let job = Job::of_program("-n 1", "sh", args).start();
    job.await_ready(folder.path(), 0..1);
    let agent = job.agent();
    for words in ["stats", "stats --json"] {
        for of in [String::new(), format!(" --pid {agent}")] {
            let seen = Job::command(&format!("{words}{of}")).finish();
            seen.expect_clean();
            let odd = seen.out.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(odd, None, "{words}{of}: {}", seen.out.escape_debug());
            // The arguments are shown, on one line.
            let line = seen.out.lines().find(|line| line.contains("title"));
            assert_eq!(
                line.is_some_and(|line| line.contains("more")),
                of.is_empty(),
                "{}",
                seen.out
            );
        }
    }
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}

/// Returns the CPU that a process is bound to, if any.
fn bound_to(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

#[test]
fn jobs_get_cores_of_their_own_and_a_killed_agent_keeps_none() {
    if clump_os::topology::usable_cores() < 2 {
        println!("SKIPPED: two jobs need two cores; allow more (taskset, cpuset)");
        return;
    }
    let start = || {
        let job = shell("-n 1 --bind cores", "exec sleep 999").start();
        job.await_named("sleep", 1);
        job
    };
    let (one, two) = (start(), start());
    // A job is not bound if jobs, of other tests too, hold the cores.
    let [first, second] = [&one, &two].map(|job| bound_to(job.rank(0)));
    assert!(first.is_none() || first != second, "both on CPU {first:?}");
    if let Some(cpu) = first {
        assert!(CpuClaim::take(cpu).unwrap().is_none(), "CPU {cpu} is claimed while the job runs");
    }
    one.signal(one.agent(), signals::KILL);
    one.finish();
    if let Some(cpu) = first {
        until("the core of a killed agent", || CpuClaim::take(cpu).unwrap());
    }
    two.signal(two.launcher(), signals::INTERRUPT);
    assert_eq!(two.finish().code, 130);
}

#[test]
fn the_report_says_where_ranks_ran_and_scripts_run_anywhere() {
    let of = |options: &str| {
        let ended = Job::of(&format!("--json {options}"), "barrier 1").finish();
        ended.json()["config"]["placement"].as_str().unwrap().to_owned()
    };
    assert_eq!(of(""), "none (one rank)");
    assert_eq!(of("--bind none"), "none (not asked for)");
    if clump_os::topology::usable_cores() < 2 {
        assert_eq!(of("-n 2"), "none (more ranks than cores)");
        return;
    }
    let said = of("-n 2");
    let taken = ["none (other jobs have the cores)", "none (the machine is busy)"];
    assert!(said.starts_with("spread ") || taken.contains(&said.as_str()), "{said}");
    let job = shell("-n 2", "exec sleep 999").start();
    job.await_named("sleep", 2);
    assert_eq!(bound_to(job.rank(0)), None, "a program that has not joined is not bound");
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish();
}

/// Returns a word that is no UTF-8: Latin-1.
fn latin(word: &[u8]) -> OsString {
    OsString::from_vec(word.to_vec())
}

#[test]
fn programs_arguments_folders_and_variables_of_any_bytes_pass_unchanged() {
    let folder = Folder::new();
    let inside = folder.path().join(latin(b"gr\xf6\xdfe (1)\nzwei"));
    std::fs::create_dir(&inside).unwrap();
    let script = inside.join(latin(b"l\xe4uft"));
    let text = b"#!/bin/sh\nprintf '%s|' \"$@\" \"$WORD\" \"$0\" > seen-$CLUMP_RANK\npwd >> seen-$CLUMP_RANK\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let words = [&b"\xe4 b"[..], b"", b"\xff\xfe\n", "\u{65e5}".as_bytes()].map(latin);
    let logs = inside.join(latin(b"\xe9crits"));
    for options in ["-n 2", "-n 2 --nodes 2"] {
        let job = Job::command(&format!("run {options} --output")).with(|command| {
            command.arg(&logs).arg(&script).args(&words);
            command.current_dir(&inside).env("WORD", latin(b"\xe8=\xe9"));
        });
        job.finish().expect_clean();
        for rank in 0..2 {
            let seen = std::fs::read(inside.join(format!("seen-{rank}"))).unwrap();
            let [a, b, c, d] = words.each_ref().map(|word| word.as_bytes());
            let pwd = [inside.as_os_str().as_bytes(), b"\n"].concat();
            let expected = [a, b, c, d, b"\xe8=\xe9", script.as_os_str().as_bytes(), &pwd];
            assert!(seen == expected.join(&b'|'), "{:?}", String::from_utf8_lossy(&seen));
            assert!(logs.join(format!("rank-{rank}.out")).exists());
        }
    }
    // A program that cannot be started is named without terminal control characters.
    let missing = Job::of_program("-n 1", latin(b"./\x1b[2J\xf6"), []).finish();
    missing.expect(127, &[r"`./\x1b[2J\xf6` does not exist"]);
}

#[test]
fn output_is_written_through_no_link_that_somebody_planted() {
    let folder = Folder::new();
    let (logs, mine) = (folder.path().join("logs"), folder.path().join("mine"));
    std::fs::create_dir(&logs).unwrap();
    std::fs::write(&mine, "precious").unwrap();
    std::os::unix::fs::symlink(&mine, logs.join("rank-1.err")).unwrap();
    let job = || shell(&format!("-n 2 --output {}", logs.display()), "echo out; echo err >&2");
    job().finish().expect(125, &["rank-1.err", "a symbolic link", "--output"]);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious");
    std::fs::remove_file(logs.join("rank-1.err")).unwrap();
    // Files of an earlier job are this user's, and are overwritten.
    for _ in 0..2 {
        job().finish().expect_clean();
        assert_eq!(std::fs::read_to_string(logs.join("rank-1.err")).unwrap(), "err\n");
    }
}

#[test]
fn addresses_where_no_single_machine_can_be_reached_are_refused() {
    for (addresses, why) in [
        ("224.0.0.1", "multicast"),
        ("127.0.0.1,239.1.2.3", "multicast"),
        ("ff02::1", "multicast"),
        ("::ffff:224.0.0.1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("127.255.255.255", "broadcast"),
        ("0.0.0.0", "no interface"),
        ("::", "no interface"),
        ("::ffff:0.0.0.0", "no interface"),
        ("192.0.2.1", "no address of this machine"),
        ("127.0.0.1,127.0.0.1", "twice"),
    ] {
        let ended = Job::of_program(&format!("-n 2 --nodes 2 --addresses {addresses}"), "true", []);
        let ended = ended.finish();
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(ended.err.contains(why) && ended.err.contains("--addresses"), "{}", ended.err);
    }
}
