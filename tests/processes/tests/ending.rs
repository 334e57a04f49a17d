//! Jobs that are told to end, and the deaths of their watchers.

use clump_os::procfs::Process;
use clump_process_tests::{Folder, Job, Running, program, signals, until};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// Starts a job of which rank 0 computes for ever, ignoring signals, and the others wait for it in
/// a barrier.
fn stuck(folder: &Folder, deaf: &str) -> Running {
    let args = format!("forever 0 --together {deaf} --ready {}", folder.path().display());
    let job = Job::of("-n 4", &args).start();
    job.await_ready(folder.path(), 0..1);
    job
}

#[test]
fn one_interrupt_ends_the_job() {
    for (signal, code, name) in [
        (signals::INTERRUPT, 130, "SIGINT"),
        (signals::TERMINATE, 143, "SIGTERM"),
        (signals::HANGUP, 129, "SIGHUP"),
        (signals::QUIT, 131, "SIGQUIT"),
    ] {
        let folder = Folder::new();
        let job = stuck(&folder, "");
        job.signal(job.launcher(), signal);
        let ended = job.finish();
        ended
            .expect(code, &["interrupted", name, "0 of them had to be killed"])
            .expect_rank_0_computing();
    }
}

#[test]
fn a_failure_that_nothing_asked_for_is_one_line_at_the_end() {
    for (options, failing) in [("-n 2", 1), ("-n 3 --nodes 2", 2), ("-n 1", 0)] {
        let args = ["unasked".into(), failing.to_string().into()];
        let ended = Job::of_program(options, program("pending"), args).finish();
        assert_eq!(ended.code, 0, "{options}: {}", ended.err);
        let line = format!("clump: rank {failing} ended with an error that it never asked for: ");
        let lines: Vec<&str> = ended.err.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with(&line), "{options}: {}", ended.err);
        assert!(lines[0].contains("this call fails on purpose"), "{options}: {}", ended.err);
    }
}

#[test]
fn who_does_not_hear_an_interrupt_is_killed() {
    let folder = Folder::new();
    let job = stuck(&folder, "--deaf");
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &["interrupted (SIGINT)", "4 of them had to be killed"]);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let folder = Folder::new();
    let job = stuck(&folder, "--deaf");
    job.signal(job.launcher(), signals::INTERRUPT);
    job.signal(job.launcher(), signals::TERMINATE);
    let ended = job.finish();
    // The two may arrive in either order.
    assert!([130, 143].contains(&ended.code), "{}", ended.err);
    ended.expect(ended.code, &["interrupted", "had to be killed"]);
}

#[test]
fn the_agent_is_killed() {
    let folder = Folder::new();
    let job = stuck(&folder, "--deaf");
    job.signal(job.agent(), signals::KILL);
    job.finish()
        .expect(125, &["the agent of node 0", "was killed by signal 9", "4 ranks of `prog`"]);
}

#[test]
fn the_agent_is_asked_to_end() {
    let folder = Folder::new();
    let job = stuck(&folder, "");
    job.signal(job.agent(), signals::TERMINATE);
    job.finish().expect(143, &["interrupted (SIGTERM)"]);
}

#[test]
fn the_launcher_is_killed() {
    let folder = Folder::new();
    let job = stuck(&folder, "--deaf");
    job.signal(job.launcher(), signals::KILL);
    job.finish().expect(-9, &["the launcher of `prog` is gone", "4 ranks"]);
}

#[test]
fn descendants_end_with_the_agent_and_with_the_launcher() {
    for agent in [true, false] {
        let job = Job::of("-n 2", "children --stay").start();
        job.await_named("sleep", 6);
        let pid = if agent { job.agent() } else { job.launcher() };
        job.signal(pid, signals::KILL);
        job.finish();
    }
}

#[test]
fn a_stopped_rank_does_not_keep_an_interrupt_from_ending_the_job() {
    let folder = Folder::new();
    let job = stuck(&folder, "");
    job.signal(job.rank(2), signals::STOP);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &["interrupted (SIGINT)"]);
}

/// Starts two ranks that write to both of their streams for ever; these are one pipe, which is
/// full. Rank 1 does not write.
fn unread() -> (Running, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let script = "[ $CLUMP_RANK = 1 ] && exec sleep 9999; yes & exec yes >&2";
    let job = Job::of_program("-n 2", "sh", ["-c", script].map(Into::into)).with(|command| {
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
    });
    let job = job.start();
    job.await_named("yes", 2);
    until("those who write to wait", || {
        let writers = job.processes().into_iter().filter(|p| p.name == "yes");
        writers.into_iter().all(|p| p.state == 'S').then_some(())
    });
    (job, reader)
}

#[test]
fn a_signal_is_heard_though_nobody_reads() {
    for signal in [signals::INTERRUPT, signals::TERMINATE] {
        let (job, _reader) = unread();
        job.signal(job.launcher(), signal);
        assert_eq!(job.finish().code, 128 + i32::from(signal));
    }
}

#[test]
fn a_death_is_reported_to_whoever_reads_later() {
    let (job, mut reader) = unread();
    job.signal(job.rank(1), signals::KILL);
    until("the others to be killed", || {
        (!job.processes().iter().any(|p| p.name == "yes")).then_some(())
    });
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    assert_eq!(job.finish().code, 137);
    let said = String::from_utf8(read.join().unwrap().unwrap()).unwrap();
    let report = said.trim_start_matches("y\n");
    assert!(report.starts_with("clump: rank 1 of `sh` was killed by signal 9"), "{report}");
}

#[test]
fn a_lost_launcher_is_missed_though_nobody_reads() {
    let (job, _reader) = unread();
    job.signal(job.launcher(), signals::KILL);
    assert_eq!(job.finish().code, -i32::from(signals::KILL));
}

#[test]
fn what_a_caller_ignores_for_good_ends_nothing() {
    let clump = clump_process_tests::program("clump-under-test");
    // As nohup does it. $PPID is the agent: it would die, and its ranks with it, if it had not
    // ignored the signal.
    let rank = "kill -HUP $$ $PPID; grep SigIgn /proc/$PPID/status";
    let line = format!("trap '' HUP; exec {} run -n 2 sh -c '{rank}'", clump.display());
    let ended = Job::any("sh").with_args(&["-c", &line]).finish();
    ended.expect_clean();
    let masks = ended.out.lines().filter_map(|line| line.strip_prefix("SigIgn:"));
    let masks: Vec<u64> = masks.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap()).collect();
    let hangup = 1_u64 << (signals::HANGUP - 1);
    assert!(masks.len() == 2 && masks.iter().all(|mask| mask & hangup != 0), "{}", ended.out);
}

#[test]
fn signals_whose_meaning_is_the_programs_reach_every_rank() {
    let user_2 = 12;
    for options in ["-n 3", "-n 3 --nodes 2"] {
        for (signal, name) in [(signals::USER_1, "USR1"), (user_2, "USR2"), (24, "XCPU")] {
            let folder = Folder::new();
            let script = format!(
                "trap 'echo got {name}; exit 0' {name}; : > $0/ready-$CLUMP_RANK; while :; do sleep 0.01; done"
            );
            let words = ["-c".into(), script.into(), folder.path().into()];
            let job = Job::of_program(options, "sh", words).start();
            job.await_ready(folder.path(), 0..3);
            job.signal(job.launcher(), signal);
            let ended = job.finish();
            ended.expect(0, &[]);
            assert_eq!(ended.out, format!("got {name}\n").repeat(3), "{options}: {}", ended.err);
        }
    }
}

#[test]
fn agents_outlive_signals_that_are_sent_to_all_processes_of_a_job() {
    let folder = Folder::new();
    let until_file = folder.path().join("end");
    let args =
        format!("talk 0 --ready {} --until {}", folder.path().display(), until_file.display());
    let job = Job::of("-n 4 --nodes 2", &args).start();
    job.await_ready(folder.path(), 0..4);
    job.agents(2).into_iter().for_each(|agent| job.signal(agent, signals::USER_1));
    std::fs::write(until_file, "").unwrap();
    job.finish().expect_clean();
}

#[test]
fn ctrl_z_stops_ranks_and_launcher_until_they_are_continued() {
    for options in ["-n 4", "-n 4 --nodes 2"] {
        let folder = Folder::new();
        let until_file = folder.path().join("end");
        let args =
            format!("talk 0 --ready {} --until {}", folder.path().display(), until_file.display());
        let job = Job::of(options, &args).start();
        job.await_ready(folder.path(), 0..4);
        let all = || job.ranks().into_iter().map(|(_, pid)| pid).chain([job.launcher()]);
        let is_stopped = |pid| Process::read(pid).is_some_and(|process| process.state == 'T');
        for _ in 0..2 {
            job.signal(job.launcher(), signals::TERMINAL_STOP);
            until("all to be stopped", || {
                (all().count() == 5 && all().all(is_stopped)).then_some(())
            });
            job.signal(job.launcher(), signals::CONTINUE);
            until("all to go on", || (!all().any(is_stopped)).then_some(()));
        }
        std::fs::write(until_file, "").unwrap();
        job.finish().expect_clean();
    }
}

#[test]
fn a_suspended_job_that_is_told_to_end_leaves_nothing() {
    for (signal, code) in [(signals::TERMINATE, 143), (signals::KILL, -9)] {
        let folder = Folder::new();
        let job = stuck(&folder, "");
        job.signal(job.launcher(), signals::TERMINAL_STOP);
        until("the launcher to be stopped", || {
            Process::read(job.launcher()).filter(|launcher| launcher.state == 'T')
        });
        job.signal(job.launcher(), signal);
        job.signal(job.launcher(), signals::CONTINUE);
        assert_eq!(job.finish().code, code);
    }
}

/// Runs a copy of `sleep` under a name that is no text, also where the kernel cuts it, and one
/// that looks like the end of a name in `/proc`.
#[test]
fn processes_are_ended_and_named_whatever_bytes_their_names_are() {
    let names: [&[u8]; 3] =
        ["berechnungs-gr\u{f6}\u{df}e".as_bytes(), b"gr\xf6\xdfe", b"a) S 1\n(\x1b[2J"];
    let folder = Folder::new();
    for (name, shown) in
        names.into_iter().zip(["berechnungs-gr", r"gr\xf6\xdfe", r"a) S 1\x0a(\x1b["])
    {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy("/bin/sleep", &path).unwrap();
        let script = "setsid \"$0\" 9999 & while ! cmp -s /proc/$!/exe \"$0\"; do :; done";
        for options in ["-n 1", "-n 2 --nodes 2"] {
            let words = ["-c".into(), script.into(), path.clone().into_os_string()];
            let ended = Job::of_program(options, "sh", words).finish();
            ended.expect(0, &["left running", shown]);
            assert!(ended.err.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", ended.err);
        }
    }
}
