//! Jobs on more machines than the launcher starts agents on by itself: relays start the others.

use clump_os::procfs;
use clump_process_tests::far::{FakeShell, agents_on};
use clump_process_tests::{Folder, Job, Running, signals, until};

/// Seven machines of which the launcher starts two: relays on `a` and `d`, and behind `d` one on
/// `f`, which starts `g`.
const HOSTS: &str = "--hosts a:1,b:1,c:1,d:1,e:1,f:1,g:1";

fn by_relays(job: Job) -> Job {
    job.with(|command| {
        command.env("CLUMP_START_FAN_OUT", "2");
    })
}

/// Returns true if `pid` runs on the machine of that name.
fn is_on(pid: u32, machine: &str) -> bool {
    procfs::variable(pid, "MACHINE").is_some_and(|name| name == machine)
}

/// Returns the relay on `machine`, or the client that stands for it there.
fn relay_on(job: &Running, machine: &str, client: bool) -> Option<u32> {
    let is_it = |pid: &u32| {
        let line = procfs::command_line(*pid).to_string_lossy().into_owned();
        line.ends_with(" agent --relay")
            && line.starts_with("sh -c ") == client
            && is_on(*pid, machine)
    };
    job.processes().into_iter().map(|process| process.pid).find(is_it)
}

#[test]
fn machines_start_the_agents_of_others() {
    let far = FakeShell::new();
    let shown = by_relays(far.job(&format!("{HOSTS} --dry-run"), "barrier 1")).finish();
    shown.expect_clean();
    let on: Vec<&str> =
        shown.out.lines().map(|l| l.split_once(", on ").map_or("", |l| l.1)).collect();
    assert_eq!(on, ["", "a", "a", "", "d", "d", "f"], "{}", shown.out);
    assert_eq!(shown.out.matches(" agent --relay").count(), 3, "{}", shown.out);
    by_relays(far.job(HOSTS, "barrier 20")).finish().expect_clean();
    by_relays(far.job(&HOSTS.replace(":1", ":2"), "talk 3")).finish().expect_clean();
    let job = by_relays(far.job_of(HOSTS, &["sh", "-c", "echo $CLUMP_RANK $MACHINE"])).finish();
    job.expect_clean();
    let mut lines: Vec<&str> = job.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 a", "1 b", "2 c", "3 d", "4 e", "5 f", "6 g"]);
}

#[test]
fn input_and_output_pass_relays_whole() {
    let far = FakeShell::new();
    let (file, copy) = (far.folder().join("input"), far.folder().join("copy"));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let script = format!(
        "if [ $CLUMP_RANK = 0 ]; then cat > {}; fi; [ $CLUMP_RANK != 6 ] || seq 200000",
        copy.display()
    );
    let job = by_relays(far.job_of(HOSTS, &["sh", "-c", &script]));
    let ended = job
        .with(|command| {
            command.stdin(std::fs::File::open(&file).unwrap());
        })
        .finish();
    ended.expect_clean();
    assert!(std::fs::read(&copy).unwrap() == bytes, "rank 0 has read all of it");
    assert!((1..=200_000).map(|n| n.to_string()).eq(ended.out.lines().map(str::to_owned)));
}

#[test]
fn however_a_job_with_relays_ends_nothing_is_left_on_any_machine() {
    for (victim, code, parts) in [
        ("interrupt", 130, &["interrupted (SIGINT)"][..]),
        ("rank", 137, &["rank 6 of `prog` was killed by signal 9", "node 6 (g)"]),
        ("agent", 125, &["node 6 was lost", "(g)"]),
        ("client", 125, &["node 6 was lost", "(g)"]),
        ("relay", 125, &["was lost"]),
        ("client of the relay", 125, &["was lost"]),
        ("launcher", -9, &[]),
    ] {
        let far = FakeShell::new();
        let folder = Folder::new();
        let args = format!("forever 0 --together --deaf --ready {}", folder.path().display());
        let job = by_relays(far.job(HOSTS, &args)).start();
        job.await_ready(folder.path(), 0..1);
        let agent = until("the agent", || agents_on(&job, "g").first().copied());
        let relay = |client| until("the relay", || relay_on(&job, "d", client));
        let pid = match victim {
            "rank" => until("rank 6", || {
                let of = |p: &procfs::Process| {
                    let rank = procfs::variable(p.pid, "CLUMP_RANK");
                    p.parent == agent && rank.is_some_and(|rank| rank == "6")
                };
                job.processes().iter().find(|p| of(p)).map(|p| p.pid)
            }),
            "agent" => agent,
            "client" => until("the client", || {
                let of = |p: &procfs::Process| is_on(p.pid, "g") && is_on(p.parent, "f");
                job.processes().iter().find(|p| of(p)).map(|p| p.pid)
            }),
            "relay" => relay(false),
            "client of the relay" => relay(true),
            _ => job.launcher(),
        };
        job.signal(pid, if victim == "interrupt" { signals::INTERRUPT } else { signals::KILL });
        job.finish().expect(code, parts);
    }
}

#[test]
fn a_machine_that_a_relay_does_not_reach_is_named_with_the_relay() {
    let refused = |machine: &str| {
        FakeShell::with_script(&format!(
            "[ $machine = {machine} ] && {{ echo 'ssh: connect to host {machine} port 22: \
             Connection refused' >&2; exit 255; }}"
        ))
    };
    let ended = by_relays(refused("f").job(HOSTS, "barrier 1")).finish();
    ended.expect(125, &["machine f cannot be reached", "from machine d", "ssh -p PORT"]);
    let ended = by_relays(refused("g").job(HOSTS, "barrier 1")).finish();
    ended.expect(125, &["machine g cannot be reached", "from machine f", "ssh -p PORT"]);
    let ended = by_relays(refused("d").job(HOSTS, "barrier 1")).finish();
    ended.expect(125, &["machine d cannot be reached", "Connection refused", "ssh -p PORT"]);
    let other =
        FakeShell::with_script("[ $machine = d ] && { echo This account is closed.; exit 1; }");
    let ended = by_relays(other.job(HOSTS, "barrier 1")).finish();
    ended.expect(125, &["no agent came to life on machine d", "This account is closed."]);
}

#[test]
fn a_copied_program_passes_relays_and_goes_with_the_job() {
    let folder = Folder::new();
    let far = FakeShell::with_script(&format!("export TMPDIR={}", folder.path().display()));
    let job = by_relays(far.job(&format!("{HOSTS} --stage"), "barrier 3"));
    job.finish().expect_clean();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folders are gone");
}
