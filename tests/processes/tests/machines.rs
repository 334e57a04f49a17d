//! Jobs on several machines, by a program that stands for `ssh`.

use clump_process_tests::far::{FakeShell, agents_on};
use clump_process_tests::{Folder, Job, MARK, signals, until};
use std::time::Duration;

/// Longest time until a job that cannot begin has ended.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_barrier_over_two_machines_that_share_neither_folder_nor_environment() {
    let far = FakeShell::new();
    far.job("--hosts a:2,b:2 -n 4", "barrier 20").finish().expect_clean();
    far.job("--hosts a:2,b:2", "talk 3").finish().expect_clean();
    far.job("--hosts b:3", "talk 3").finish().expect_clean();
}

#[test]
fn ranks_get_chosen_variables_all_of_clumps_and_the_folder_of_the_launcher() {
    let far = FakeShell::new();
    let folder = Folder::new();
    let script =
        "echo $CLUMP_RANK $CLUMP_NODE $MACHINE [$GIVEN] [$COPIED] [$OTHER] [$CLUMP_LANES] $(pwd)";
    let job = far.job_of("--hosts a:1,b:1 --env GIVEN=x=y --env COPIED", &["sh", "-c", script]);
    let ended = job
        .with(|command| {
            command.current_dir(folder.path()).env("COPIED", "c").env("OTHER", "o");
            command.env("CLUMP_LANES", "7");
        })
        .finish();
    ended.expect_clean();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let path = folder.path().display();
    assert_eq!(
        lines,
        [format!("0 0 a [x=y] [c] [] [7] {path}"), format!("1 1 b [x=y] [c] [] [7] {path}"),]
    );
}

#[test]
fn settings_of_the_launcher_hold_on_all_machines() {
    let far = FakeShell::new();
    let file = far.folder().join("settings.toml");
    std::fs::write(&file, "lab = 'spin=4321ns'\n").unwrap();
    let options = "--hosts a:1,b:1 --json --lab yield=55us";
    let job = far.job_of(options, &["sh", "-c", "echo [$CLUMP_LAB]"]);
    let ended = job
        .with(|command| {
            command.env("CLUMP_CONFIG", &file);
        })
        .finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.json()["config"]["spin_ns"], "4321");
    assert_eq!(ended.json()["config"]["yield_ns"], "55000");
    let given = ended.out.matches("[spin=4321ns,yield=55000ns]").count();
    assert_eq!(given, 2, "{}", ended.out);
}

#[test]
fn the_outcome_names_machines_as_their_user_does() {
    let far = FakeShell::new();
    let ended = far.job("--hosts a:2,b:2 --json", "barrier 1").finish();
    assert_eq!(ended.json()["hosts"], serde_json::json!(["a", "b"]));
    far.job("--hosts a:2,b:2", "exit 3 3").finish().expect(3, &["rank 3", "node 1 (b)"]);
    far.job("--hosts b:2", "die 6 1").finish().expect(134, &["rank 1", "node 0 (b)"]);
}

#[test]
fn a_hostfile_is_read_and_commands_are_shown_without_a_start() {
    let far = FakeShell::new();
    let file = far.folder().join("hosts");
    std::fs::write(&file, "# two\na slots=3\nb:3\n").unwrap();
    let options = format!("--hostfile {} -n 4 --dry-run", file.display());
    let ended = far.job(&options, "barrier 1").finish();
    ended.expect_clean();
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.out);
    assert!(lines[0].contains("fake-ssh a '") && lines[0].ends_with("# ranks 0 to 2"), "{lines:?}");
    assert!(lines[1].contains("fake-ssh b '") && lines[1].ends_with("# ranks 3 to 3"), "{lines:?}");
    std::fs::write(&file, "a slots=3\nb slot=1\n").unwrap();
    far.job(&options, "barrier 1").finish().expect(2, &["line 2", "`slot=`"]);
    Job::of("--hosts a:2 -n 3", "barrier 1").finish().expect(2, &["2 slots", "--hosts a:3"]);
    Job::of("--ssh x -n 3", "barrier 1").finish().expect(2, &["--hosts"]);
    Job::of("--env NOT_THERE", "barrier 1").finish().expect(2, &["NOT_THERE"]);
}

/// A job whose ranks are on machines `a` and `b`: rank 0 computes for ever.
fn stuck(far: &FakeShell, folder: &Folder) -> clump_process_tests::Running {
    let args = format!("forever 0 --together --deaf --ready {}", folder.path().display());
    let job = far.job("--hosts a:2,b:2", &args).start();
    job.await_ready(folder.path(), 0..1);
    job
}

#[test]
fn however_a_job_ends_nothing_is_left_on_any_machine() {
    for (victim, code, parts) in [
        ("interrupt", 130, &["interrupted (SIGINT)"][..]),
        ("rank", 137, &["rank 2 of `prog` was killed by signal 9", "node 1 (b)"]),
        ("agent", 125, &["node 1 was lost", "(b)", "ranks 2, 3 of `prog` were lost"]),
        ("client", 125, &["node 1 was lost", "the connection to b was killed by signal 9 SIGKILL"]),
        ("launcher", -9, &[]),
    ] {
        let far = FakeShell::new();
        let folder = Folder::new();
        let job = stuck(&far, &folder);
        let agent = until("the agent", || agents_on(&job, "b").first().copied());
        let pid = match victim {
            "rank" => until("rank 2", || {
                let of = |p: &clump_os::procfs::Process| {
                    let rank = clump_os::procfs::variable(p.pid, "CLUMP_RANK");
                    p.parent == agent && rank.is_some_and(|rank| rank == "2")
                };
                job.processes().iter().find(|p| of(p)).map(|p| p.pid)
            }),
            "agent" => agent,
            "client" => until("the client", || {
                let of = |p: &clump_os::procfs::Process| {
                    let machine = clump_os::procfs::variable(p.pid, "MACHINE");
                    p.parent == job.launcher() && machine.is_some_and(|name| name == "b")
                };
                job.processes().iter().find(|p| of(p)).map(|p| p.pid)
            }),
            _ => job.launcher(),
        };
        job.signal(pid, if victim == "interrupt" { signals::INTERRUPT } else { signals::KILL });
        job.finish().expect(code, parts);
    }
}

#[test]
fn a_machine_without_an_agent_ends_the_job_with_its_name_and_a_remedy() {
    for (script, code, parts) in [
        (
            "[ $machine = b ] && { echo 'ssh: connect to host b port 22: Connection refused' >&2; exit 255; }",
            125,
            &["machine b cannot be reached", "Connection refused", "ssh -p PORT"][..],
        ),
        (
            "[ $machine = b ] && { echo 'b: Permission denied (publickey,password).' >&2; exit 255; }",
            125,
            &["machine b cannot be reached", "ssh-copy-id b"],
        ),
        (
            "[ $machine = b ] && { echo 'Host key verification failed.' >&2; exit 255; }",
            125,
            &["machine b", "log in once by `ssh b`"],
        ),
        (
            "[ $machine = b ] && exec sh -c '/no/such/clump agent'",
            127,
            &["machine b has no clump at", "not found", "--agent PATH"],
        ),
        (
            "[ $machine = b ] && { echo This account is closed.; exit 1; }",
            125,
            &["no agent came to life on machine b", "This account is closed."],
        ),
        ("[ $machine = b ] && exec yes", 125, &["machine b is no agent of clump"]),
        ("[ $machine = b ] && exec cat", 125, &["machine b gave no sign of an agent within 1 s"]),
        (
            "[ $machine = b ] && exec sleep 9999",
            125,
            &["machine b gave no sign of an agent within 1 s", "CLUMP_START_TIMEOUT_MS"],
        ),
        (
            "[ $machine = b ] && kill -9 $$",
            125,
            &["no agent came to life on machine b", "code 137"],
        ),
    ] {
        let far = FakeShell::with_script(script);
        let job = far.job("--hosts a:2,b:2", "barrier 1");
        let ended = job
            .with(|command| {
                command.env("CLUMP_START_TIMEOUT_MS", "1000");
            })
            .finish();
        ended.expect(code, parts);
        assert!(ended.gone < SOON, "{script}: {:?}", ended.gone);
    }
}

#[test]
fn a_login_that_prints_text_does_no_harm() {
    let far = FakeShell::with_script("echo Welcome to $machine; echo You have mail. >&2");
    let ended = far.job("--hosts a:2,b:2", "barrier 3").finish();
    ended.expect_clean();
    assert!(!ended.out.contains("Welcome"), "{}", ended.out);
}

#[test]
fn an_interrupt_while_machines_do_not_answer_ends_everything_at_once() {
    let far = FakeShell::with_script("[ $machine = b ] && exec sleep 9999");
    let job = far.job("--hosts a:2,b:2", "barrier 1").start();
    job.await_named("sleep", 1);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &["interrupted (SIGINT)"]);
}

#[test]
fn rank_0_reads_the_input_of_the_launcher_from_a_pipe_and_from_a_file() {
    let far = FakeShell::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7) as u8).collect();
    let sum = |all: &[u8]| all.iter().fold(0_u64, |sum, &byte| sum * 31 % 65_521 + u64::from(byte));
    let (file, copy) = (far.folder().join("input"), far.folder().join("copy"));
    std::fs::write(&file, &bytes).unwrap();
    let script = format!("if [ $CLUMP_RANK = 0 ]; then cat > {}; else cat; fi", copy.display());
    let words = ["sh", "-c", &script];
    for piped in [false, true] {
        let job = far.job_of("--hosts a:1,b:1", &words);
        let job = job.with(|command| {
            let input = std::fs::File::open(&file).unwrap();
            let mut cat = std::process::Command::new("cat");
            let cat = cat.stdin(input.try_clone().unwrap()).stdout(std::process::Stdio::piped());
            if piped {
                command.stdin(cat.spawn().unwrap().stdout.take().unwrap());
            } else {
                command.stdin(input);
            }
        });
        let ended = job.finish();
        ended.expect_clean();
        assert_eq!(ended.out, "", "only rank 0 reads");
        let got = std::fs::read(&copy).unwrap();
        assert_eq!((got.len(), sum(&got)), (bytes.len(), sum(&bytes)), "piped: {piped}");
        std::fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn input_that_rank_0_does_not_read_is_left_and_delays_nothing() {
    let far = FakeShell::new();
    let file = far.folder().join("input");
    std::fs::write(&file, vec![b'x'; 3_000_000]).unwrap();
    let clump = clump_process_tests::program("clump-under-test");
    let shell = far.folder().join("fake-ssh");
    let line = format!(
        "{{ {} run --ssh {} --hosts a:2,b:1 true; wc -c; }} < {}",
        clump.display(),
        shell.display(),
        file.display()
    );
    let ended = Job::any("sh").with_args(&["-c", &line]).finish();
    let left: usize = ended.out.trim().parse().unwrap();
    assert_eq!(left, 3_000_000, "{}", ended.err);
}

#[test]
fn a_loop_over_the_lines_of_its_input_starts_a_job_for_each() {
    let far = FakeShell::new();
    let file = far.folder().join("list");
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let clump = clump_process_tests::program("clump-under-test").display().to_string();
    let shell = far.folder().join("fake-ssh").display().to_string();
    let list = file.display();
    let job = |words: &str| format!("{clump} run --ssh {shell} --hosts a:1,b:1 {words}");
    let each =
        format!("while read x; do {}; done", job("sh -c \"[ $CLUMP_RANK = 1 ] || echo $x\""));
    let each = each.replace("$CLUMP_RANK", "\\$CLUMP_RANK");
    for line in [format!("{each} < {list}"), format!("cat {list} | {each}")] {
        let ended = Job::any("sh").with_args(&["-c", &line]).finish();
        assert_eq!(ended.out, "one\ntwo\nthree\n", "{line}: {}", ended.err);
    }
    // A rank that takes a part leaves the rest.
    let takes = job("sh -c \"[ \\$CLUMP_RANK = 1 ] || { read x; echo got \\$x; }\"");
    for line in
        [format!("{{ {takes}; cat; }} < {list}"), format!("cat {list} | {{ {takes}; cat; }}")]
    {
        let ended = Job::any("sh").with_args(&["-c", &line]).finish();
        assert_eq!(ended.out, "got one\ntwo\nthree\n", "{line}: {}", ended.err);
    }
}

/// Bytes that a shell takes for more than themselves, in a folder's name. The clean-up of a name
/// cut at its blank would remove its neighbour `keep`.
const HARD_NAMES: [&[u8]; 9] = [
    b"keep me",
    b"keep\nme",
    b"keep; rm -rf keep",
    b"$(rm -rf keep)",
    b"`rm -rf keep`",
    b"it's \"quoted\"",
    b"*",
    b"-rf",
    b"keep\xff me",
];

#[test]
fn staging_creates_and_removes_its_own_folder_whatever_the_folder_for_temporary_files_is_called() {
    use std::os::unix::ffi::OsStrExt;
    let script = format!(
        "cd $(dirname \"$0\")/far; \
         exec env -i PATH=/usr/bin:/bin {MARK}=\"${MARK}\" MACHINE=\"$machine\" \
         TMPDIR=\"$(cat name)\" sh -c \"$command\""
    );
    let far = FakeShell::with_script(&script);
    let folder = far.folder().join("far");
    std::fs::create_dir_all(folder.join("keep")).unwrap();
    std::fs::write(folder.join("keep/me"), "precious").unwrap();
    for (at, name) in HARD_NAMES.iter().enumerate() {
        let name = std::ffi::OsStr::from_bytes(name);
        let own = folder.join(name);
        std::fs::create_dir(&own).unwrap();
        // From the root, and from where the shell is.
        let named = if at % 2 == 0 { own.clone() } else { name.into() };
        std::fs::write(folder.join("name"), named.as_os_str().as_bytes()).unwrap();
        // As the machine has it, or as the user names it for all.
        let job = far.job_of("--hosts b:1 --stage", &["true"]);
        let ended = job.finish();
        ended.expect_clean();
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0, "{name:?}");
        std::fs::write(folder.join("name"), "/no/such/folder").unwrap();
        let mut given = std::ffi::OsString::from("TMPDIR=");
        given.push(&own);
        let job = far.command("run --hosts b:1 --stage").with(|command| {
            command.arg("--env").arg(given).arg("true");
        });
        job.finish().expect_clean();
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0, "{name:?}");
        std::fs::remove_dir(&own).unwrap();
        assert_eq!(std::fs::read(folder.join("keep/me")).unwrap(), b"precious", "{name:?}");
    }
    let ended = far.job_of("--hosts b:1 --stage", &["true"]).finish();
    ended.expect(125, &["machine b", "mktemp", "--env TMPDIR=DIR"]);
}

#[test]
fn a_folder_for_temporary_files_that_runs_no_programs_is_named() {
    let script = "mkdir -p $0.tmp; exec unshare --user --map-root-user --mount sh -c \
         'mount -t tmpfs -o noexec none \"$1\" && TMPDIR=\"$1\" exec sh -c \"$2\"' sh $0.tmp \"$command\"";
    let far = FakeShell::with_script(script);
    let tried = Job::any("unshare").with_args(&["--user", "--map-root-user", "--mount", "true"]);
    let tried = tried.finish();
    if tried.code != 0 {
        println!("SKIPPED: no mount namespace without privileges here: {}", tried.err);
        return;
    }
    let ended = far.job_of("--hosts b:1 --stage", &["true"]).finish();
    ended.expect(126, &["machine b starts no programs", "runs no programs (noexec)", "TMPDIR=DIR"]);
    assert!(!ended.err.contains("ssh-copy-id"), "{}", ended.err);
}

#[test]
fn an_agent_that_dies_before_it_has_a_job_is_noticed_at_once_and_named() {
    let far =
        FakeShell::with_script("[ $machine = a ] && while [ ! -e $0.go ]; do sleep 0.01; done");
    let job = far.job("--hosts a:2,b:2", "barrier 1").start();
    let agent = until("the agent", || agents_on(&job, "b").first().copied());
    let client = until("the client", || {
        let is_it = |p: &clump_os::procfs::Process| {
            let machine = clump_os::procfs::variable(p.pid, "MACHINE");
            p.parent == job.launcher() && machine.is_some_and(|name| name == "b")
        };
        job.processes().iter().find(|p| is_it(p)).map(|p| p.pid)
    });
    until("its hello", || {
        let io = std::fs::read_to_string(format!("/proc/{agent}/io")).unwrap();
        (!io.contains("wchar: 0\n")).then_some(())
    });
    job.signal(agent, signals::KILL);
    until("its client to be gone", || {
        clump_os::procfs::Process::read(client).is_none().then_some(())
    });
    std::fs::write(far.folder().join("fake-ssh.go"), "").unwrap();
    let ended = job.finish();
    ended.expect(125, &["b", "signal 9"]);
    assert!(!ended.err.contains("hangs"), "{}", ended.err);
    assert!(ended.took < Duration::from_secs(7), "{:?}", ended.took);
}

#[test]
fn ctrl_z_holds_a_job_over_machines_for_as_long_as_the_user_likes() {
    let far = FakeShell::new();
    let folder = Folder::new();
    let end = folder.path().join("end");
    let args = format!("talk 0 --ready {} --until {}", folder.path().display(), end.display());
    let job = far.job("--hosts a:2,b:2", &args).with(|command| {
        command.env("CLUMP_NODE_TIMEOUT_MS", "300");
    });
    let job = job.start();
    job.await_ready(folder.path(), 0..4);
    let start = clump_os::clock::instant();
    job.signal(job.launcher(), signals::TERMINAL_STOP);
    let is_stopped = |p: &clump_os::procfs::Process| p.state == 'T';
    let stopped = || job.processes().into_iter().filter(is_stopped).count();
    until("ranks and launcher to be stopped", || (stopped() == 5).then_some(()));
    // Agents that miss their launcher end their ranks after 15 timeouts.
    until("20 timeouts", || (start.elapsed() > Duration::from_secs(6)).then_some(()));
    assert_eq!(stopped(), 5);
    job.signal(job.launcher(), signals::CONTINUE);
    until("all to go on", || (stopped() == 0).then_some(()));
    std::fs::write(end, "").unwrap();
    job.finish().expect_clean();
}

#[test]
fn a_machine_whose_links_are_down_is_named_and_no_firewall() {
    let far = FakeShell::with_script(
        "[ $machine = b ] && exec unshare --user --map-root-user --net sh -c \
         'ip link set lo up; exec sh -c \"$1\"' sh \"$command\"",
    );
    let tried =
        Job::any("unshare").with_args(&["--user", "--map-root-user", "--net", "ip", "link"]);
    let tried = tried.finish();
    if tried.code != 0 {
        println!("SKIPPED: no network namespace without privileges here: {}", tried.err);
        return;
    }
    let ended = far.job("--hosts a:1,b:1", "barrier 1").finish();
    ended.expect(125, &["offers no address but those of loopback", "ip link set NAME up"]);
    assert!(!ended.err.contains("firewall"), "{}", ended.err);
}

#[test]
fn a_name_that_resolves_late_is_tried_again() {
    let why = "ssh: Could not resolve hostname b: Name or service not known";
    let far = FakeShell::with_script(&format!(
        "[ $machine = b ] && [ ! -e $0.2 ] && {{ [ -e $0.1 ] && : > $0.2; : > $0.1; echo '{why}' >&2; exit 255; }}"
    ));
    far.job("--hosts a:2,b:2", "barrier 3").finish().expect_clean();
    let never = FakeShell::with_script(&format!(
        "[ $machine = b ] && {{ echo x >> $0.tries; echo '{why}' >&2; exit 255; }}"
    ));
    let ended = never.job("--hosts a:2,b:2", "barrier 3").finish();
    ended.expect(125, &["machine b cannot be reached", "no machine has that name"]);
    let tries = std::fs::read_to_string(never.folder().join("fake-ssh.tries")).unwrap();
    assert_eq!(tries.lines().count(), 4);
}

#[test]
fn this_machine_takes_no_shell_by_whatever_name() {
    let far = FakeShell::with_script("[ $machine = b ] || exit 9");
    let own = clump_os::interface_address::all().into_iter().map(|one| one.address);
    let address = own.filter(|address| address.is_ipv4() && !address.is_loopback()).min();
    let Some(address) = address else {
        println!("SKIPPED: this machine has no address but loopback's");
        return;
    };
    far.job(&format!("--hosts {address}:2,b:2"), "barrier 3").finish().expect_clean();
}

#[test]
fn clump_is_found_by_the_link_that_called_it_where_its_own_path_is_not_there() {
    let clump = clump_process_tests::program("clump-under-test");
    let far = FakeShell::with_script(&format!(
        "command=$(printf %s \"$command\" | sed 's,{},/no/such/clump,')",
        clump.display()
    ));
    let link = far.folder().join("clump of today");
    std::os::unix::fs::symlink(&clump, &link).unwrap();
    let prog = clump_process_tests::program("prog").display().to_string();
    let shell = far.folder().join("fake-ssh").display().to_string();
    let words = ["run", "--ssh", &shell, "--hosts", "b:2", &prog, "barrier", "3"];
    Job::any(&link).with_args(&words).finish().expect_clean();
    Job::any(&clump).with_args(&words).finish().expect(127, &["machine b has no clump at"]);
}

#[test]
fn an_agent_of_another_version_gets_neither_key_nor_job() {
    let far = FakeShell::with_script(
        "[ $machine = b ] && { printf '\\000\\033clump agent\\r\\n\\000\\021\\000\\000\\000{\"version\":\"9.9\"}'; \
         cat > $0.got; exit 0; }",
    );
    let ended = far.job("--hosts a:2,b:2", "barrier 1").finish();
    ended.expect(125, &["b has clump 9.9, this machine 0.1.0", "install the same build"]);
    let got = far.folder().join("fake-ssh.got");
    assert_eq!(std::fs::read(got).unwrap_or_default(), b"", "nothing was sent to it");
}

#[test]
fn the_doctor_examines_machines_and_pairs() {
    let shell = FakeShell::with_script(
        "[ $machine = c ] && { echo 'ssh: connect to host c port 22: Connection refused' >&2; exit 255; }",
    );
    let well = shell.command("doctor --hosts a,b").finish();
    assert_eq!(well.code, 0, "{}{}", well.out, well.err);
    assert_eq!(well.out.matches(" cores, ").count(), 2, "each machine: {}", well.out);
    assert_eq!(well.out.matches("addresses: ").count(), 2, "{}", well.out);
    let pair = well.out.lines().find(|line| line.contains("a - b: round trip "));
    let pair = pair.unwrap_or_else(|| panic!("{}", well.out));
    let apart =
        pair.split_once(" MB/s, clocks ").and_then(|(_, rest)| rest.strip_suffix(" ms apart"));
    let apart: f64 = apart.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{pair}"));
    assert!(apart < 1000.0, "one clock: {pair}");
    assert!(well.err.contains("node 0 (a) reaches node 1 (b): "), "{}", well.err);
    assert!(well.out.ends_with("a job can run on all 2 machines\n"), "{}", well.out);
    let ill = shell.command("doctor --hosts a,c,b").finish();
    assert_eq!(ill.code, 1, "{}{}", ill.out, ill.err);
    assert!(ill.err.contains("machine c cannot be reached"), "{}", ill.err);
    assert!(ill.err.contains("no sshd listens there"), "the remedy: {}", ill.err);
    assert!(ill.out.contains("a - b: round trip "), "the others are examined: {}", ill.out);
    assert!(
        ill.out.ends_with("2 of 3 machines can run a job by themselves; see above\n"),
        "{}",
        ill.out
    );
}
