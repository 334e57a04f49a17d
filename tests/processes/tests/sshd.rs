//! Jobs on machines with an sshd each: namespaces of this machine.

use clump_os::procfs::{self, Process};
use clump_process_tests::sshd_machines::{MachinePlan, Machines};
use clump_process_tests::{Running, program, signals, until};
use std::time::Duration;

/// Longest time until a job that cannot begin has ended.
const SOON: Duration = Duration::from_secs(10);

/// Returns the words of a job of the test program on machines.
fn words<'a>(options: &[&'a str], prog: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--ssh", "{ssh}"], options, &[prog], args].concat()
}

#[test]
fn jobs_on_four_machines_that_ssh_reaches() {
    let Some(machines) = Machines::here(&MachinePlan::alike(4)) else { return };
    let prog = program("prog").display().to_string();
    let hosts = "m1:2,m2:2,m3:2,m4:2";
    machines.job(&words(&["--hosts", hosts], &prog, &["talk", "3"])).finish().expect_clean();
    let ended = machines.job(&words(&["--hosts", hosts], "hostname", &[])).finish();
    ended.expect_clean();
    for name in ["m1", "m2", "m3", "m4"] {
        assert_eq!(ended.out.lines().filter(|line| *line == name).count(), 2, "{}", ended.out);
    }
    // The first two start the agents of the others, by relays.
    let relayed = machines.job(&words(&["--hosts", hosts], &prog, &["talk", "3"]));
    let relayed = relayed.with(|command| {
        command.env("CLUMP_START_FAN_OUT", "2");
    });
    relayed.finish().expect_clean();
    // The machine where the job is started takes part without an sshd, and is told apart by name.
    for here in ["localhost", "head"] {
        let hosts = format!("{here}:2,m1:2,m2:1");
        machines.job(&words(&["--hosts", &hosts], &prog, &["talk", "3"])).finish().expect_clean();
        let ended = machines.job(&words(&["--hosts", &hosts], "hostname", &[])).finish();
        assert_eq!(ended.out.lines().filter(|line| *line == "head").count(), 2, "{}", ended.out);
    }
    let lost = machines.job(&words(&["--hosts", hosts], &prog, &["die", "11", "5"])).finish();
    lost.expect(139, &["rank 5 of `prog` was killed by signal 11", "node 2 (m3)"]);
    let lost = machines.job(&words(&["--hosts", "m1,m2"], &prog, &["exit", "1", "1"])).finish();
    lost.expect(1, &["rank 1 of `prog` exited with code 1", "node 1 (m2)"]);
}

/// Returns the process of a job that `is` what is looked for, once it exists.
fn process(job: &Running, what: &str, is: impl Fn(&Process, &str) -> bool) -> u32 {
    until(what, || {
        let line = |p: &Process| procfs::command_line(p.pid).to_string_lossy().into_owned();
        job.processes().iter().find(|p| is(p, &line(p))).map(|p| p.pid)
    })
}

fn is_rank(process: &Process, rank: u32) -> bool {
    let is = procfs::variable(process.pid, "CLUMP_RANK");
    process.name == "prog" && is.is_some_and(|is| is == *rank.to_string())
}

#[test]
fn however_a_job_over_ssh_ends_nothing_is_left_on_any_machine() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    let prog = program("prog").display().to_string();
    for (victim, code, parts) in [
        ("interrupt", 130, &["interrupted (SIGINT)"][..]),
        ("rank", 137, &["rank 2 of `prog` was killed by signal 9", "node 1 (m2)"]),
        ("agent", 125, &["node 1 was lost", "node 1 (m2)", "ranks 2, 3 of `prog` were lost"]),
        ("ssh", 125, &["node 1 was lost", "the connection to m2 was killed by signal 9"]),
        ("launcher", -9, &[]),
    ] {
        let ready = machines.shared().join(victim);
        std::fs::create_dir(&ready).unwrap();
        let ready_text = ready.display().to_string();
        let args = ["forever", "0", "--together", "--deaf", "--ready", &ready_text];
        let job = machines.job(&words(&["--hosts", "m1:2,m2:2"], &prog, &args)).start();
        job.await_ready(&ready, 0..1);
        let rank = process(&job, "rank 2", |p, _| is_rank(p, 2));
        let agent = Process::read(rank).map_or(0, |rank| rank.parent);
        let pid = match victim {
            "rank" => rank,
            "agent" => agent,
            "ssh" => process(&job, "ssh", |p, line| p.name == "ssh" && line.contains(" m2 ")),
            _ => job.launcher(),
        };
        job.signal(pid, if victim == "interrupt" { signals::INTERRUPT } else { signals::KILL });
        let ended = job.finish();
        ended.expect(code, parts);
    }
}

#[test]
fn what_ranks_have_started_elsewhere_ends_with_agent_rank_keeper_and_launcher() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    let prog = program("prog").display().to_string();
    for victim in ["agent", "rank", "keeper", "launcher"] {
        let args = ["children", "--stay"];
        let job = machines.job(&words(&["--hosts", "m1:1,m2:2"], &prog, &args)).start();
        job.await_named("sleep", 9);
        let rank = process(&job, "rank 2", |p, _| is_rank(p, 2));
        let agent = Process::read(rank).map_or(0, |rank| rank.parent);
        let pid = match victim {
            "rank" => rank,
            "agent" => agent,
            "keeper" => Process::read(agent).map_or(0, |agent| agent.parent),
            _ => job.launcher(),
        };
        job.signal(pid, signals::KILL);
        let ended = job.finish();
        match victim {
            "agent" => drop(ended.expect(125, &["node 1 was lost", "killed by signal 9"])),
            "keeper" => drop(ended.expect(125, &["node 1 was lost", "connection to m2"])),
            _ => {}
        }
    }
}

#[test]
fn machines_that_are_cut_off_are_named_and_end_their_ranks_by_themselves() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    let prog = program("prog").display().to_string();
    for (hosts, lost) in [
        ("m1:2,m2:2", &["node 1 was lost", "(m2)", "ranks 2, 3 of `prog` were lost"][..]),
        (
            "m2:2",
            &[
                "gave no sign of life over the connection to m2",
                "node 0 (m2)",
                "ranks 0, 1 of `prog`",
            ],
        ),
    ] {
        let ready = machines.shared().join(hosts.replace([':', ','], "-"));
        std::fs::create_dir(&ready).unwrap();
        let ready_text = ready.display().to_string();
        let args = ["forever", "0", "--together", "--deaf", "--ready", &ready_text];
        let job = machines.job(&words(&["--hosts", hosts], &prog, &args));
        let job = job.with(|command| {
            command.env("CLUMP_NODE_TIMEOUT_MS", "1000");
        });
        let job = job.start();
        job.await_ready(&ready, 0..1);
        machines.on("m2", &["ip", "link", "set", "eth0", "down"]).unwrap();
        // Ends when no process of the job is left, also behind the cut.
        job.finish().expect(125, lost);
        machines.on("m2", &["ip", "link", "set", "eth0", "up"]).unwrap();
    }
}

#[test]
fn programs_that_machines_do_not_have_are_copied_there_for_the_job() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    // In /tmp, whatever TMPDIR says: machines have their own.
    let folder = clump_process_tests::Folder::inside("/tmp".as_ref());
    let copy = folder.path().join("prog-of-this-machine");
    std::fs::copy(program("prog"), &copy).unwrap();
    let clump = folder.path().join("clump-of-this-machine");
    std::fs::copy(program("clump-under-test"), &clump).unwrap();
    let shared = machines.shared();
    let prog = copy.display().to_string();
    let gone = || {
        let listed = shared.join("listed");
        for name in ["m1", "m2"] {
            let line = format!("ls -d /tmp/clump.* > {} 2>/dev/null; true", listed.display());
            until("staged files to be gone", || {
                machines.on(name, &["sh", "-c", &line]).unwrap();
                std::fs::read(&listed).unwrap().is_empty().then_some(())
            });
        }
    };
    let all = words(&["--hosts", "m1:2,m2:2"], &prog, &["talk", "3"]);
    machines.job_of(&clump, &all).finish().expect(127, &["has no clump at"]);
    let staged = |args: &[&str]| {
        let job =
            machines.job_of(&clump, &words(&["--hosts", "m1:2,m2:2", "--stage"], &prog, args));
        job.with(|command| {
            command.current_dir("/");
        })
    };
    staged(&["talk", "3"]).finish().expect_clean();
    gone();
    staged(&["die", "9", "3"]).finish().expect(137, &["rank 3 of `prog-of-this-machine`"]);
    gone();
    for victim in ["launcher", "shell"] {
        let ready = shared.join(format!("staged-{victim}"));
        std::fs::create_dir(&ready).unwrap();
        let text = ready.display().to_string();
        let job = staged(&["forever", "0", "--together", "--ready", &text]).start();
        job.await_ready(&ready, 0..1);
        let shell = || process(&job, "shell", |p, line| p.name == "sh" && line.contains("mktemp"));
        job.signal(if victim == "shell" { shell() } else { job.launcher() }, signals::KILL);
        job.finish();
        gone();
    }
}

#[test]
fn programs_of_different_builds_are_told_of_in_one_line() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    // The same path under /tmp, which each machine has to itself: two different programs.
    for (machine, file) in [("m1", "/bin/true"), ("m2", "/bin/false")] {
        machines.on(machine, &["cp", file, "/tmp/program"]).unwrap();
    }
    let ended = machines.job(&words(&["--hosts", "m1,m2"], "/tmp/program", &[])).finish();
    let notice = ended.err.lines().find(|line| line.contains("is not the same on all machines"));
    let notice = notice.unwrap_or_else(|| panic!("{}", ended.err));
    assert!(notice.contains(" on m1, ") && notice.contains(" on m2;"), "{notice}");
}

#[test]
fn what_ssh_cannot_do_is_said_with_the_machine_and_a_remedy() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    let wrong_key = machines.shared().join("wrong");
    let key = wrong_key.display().to_string();
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
        .status()
        .unwrap();
    assert!(made.success());
    let changed = machines.shared().join("known");
    let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    let lines = [1, 2].map(|host| format!("[10.77.0.{host}]:2222 {public}"));
    std::fs::write(&changed, lines.concat()).unwrap();
    let no_known = "{ssh} -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null";
    let other_key = "{ssh} -o IdentitiesOnly=yes -o IdentityAgent=none -F none -p 2222 \
                     -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {shared}/wrong";
    for (hosts, ssh, code, parts) in [
        ("m1,m9", "{ssh}", 125, &["machine m9 cannot be reached", "no machine has that name"][..]),
        ("m1,m2", "{ssh} -p 2223", 125, &["cannot be reached", "Connection refused", "-p PORT"]),
        ("10.77.0.1,10.77.0.2", other_key, 125, &["cannot be reached", "ssh-copy-id"]),
        ("m1,m2", "{ssh} -o UserKnownHostsFile={shared}/known", 125, &["ssh-keygen -R m"]),
        ("m1,m2", no_known, 125, &["log in once by `ssh m"]),
        (
            "10.77.0.1,10.77.0.99",
            "{ssh} -F none -p 2222 -i {shared}/../key -o \
          UserKnownHostsFile={shared}/../known_hosts",
            125,
            &["machine 10.77.0.99 cannot be reached"],
        ),
    ] {
        let options = ["run", "--ssh", ssh, "--hosts", hosts, "true"];
        let ended = machines.job(&options).finish();
        ended.expect(code, parts);
        assert!(ended.gone < SOON, "{hosts} {ssh}: {:?}", ended.gone);
    }
    let ended =
        machines.job(&words(&["--hosts", "m1,m2", "--agent", "/no/clump"], "true", &[])).finish();
    ended.expect(127, &["has no clump at `/no/clump`", "--agent PATH"]);
    let ended = machines.job(&words(&["--hosts", "m1,m2"], "/no/program", &[])).finish();
    ended.expect(127, &["`/no/program` does not exist"]);
}

#[test]
fn settings_of_the_user_for_other_sessions_do_not_reach_the_agents() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    let own = std::fs::read_to_string(machines.shared().join("../ssh_config")).unwrap();
    let prog = program("prog").display().to_string();
    for setting in [
        "RemoteCommand echo mine",
        "RequestTTY force",
        "StdinNull yes",
        "ForkAfterAuthentication yes",
        "SessionType none",
    ] {
        std::fs::write(machines.shared().join("config"), format!("{setting}\n{own}")).unwrap();
        let options = ["run", "--ssh", "ssh -F {shared}/config", "--hosts", "m1:2,m2:2"];
        machines.job(&[&options[..], &[&prog, "talk", "3"]].concat()).finish().expect_clean();
    }
}

#[test]
fn a_machine_that_hangs_at_the_start_ends_the_job() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    machines.on("m2", &["ip", "link", "set", "eth0", "down"]).unwrap();
    let job = machines.job(&words(&["--hosts", "m1,m2"], "true", &[]));
    let job = job.with(|command| {
        command.env("CLUMP_START_TIMEOUT_MS", "2000");
    });
    let ended = job.finish();
    ended.expect(125, &["machine m2 gave no sign of an agent within 2 s"]);
    assert!(ended.gone < SOON, "{:?}", ended.gone);
}

#[test]
fn machines_with_different_addresses_find_those_that_reach_each_other() {
    let machine = |name: &str, mtu, interfaces: &[(usize, &[&str])]| MachinePlan {
        name: name.into(),
        interfaces: interfaces
            .iter()
            .map(|(bridge, all)| (*bridge, all.iter().map(|one| (*one).to_owned()).collect()))
            .collect(),
        mtu,
    };
    // The first three share a bridge of containers' kind, with one address on every machine; `m3`
    // is reached by IPv6 alone, `m4` has another network first, and shorter packets.
    let plans = [
        machine("m1", 1500, &[(0, &["10.77.0.1/24", "fd77:0::1/64"]), (1, &["10.77.1.1/24"])]),
        machine("m2", 1500, &[(0, &["10.77.0.2/24", "fd77:0::2/64"]), (2, &["172.17.0.1/16"])]),
        machine("m3", 1500, &[(0, &["fd77:0::3/64"]), (2, &["172.17.0.1/16"])]),
        machine("m4", 1400, &[(1, &["10.77.1.4/24"]), (0, &["10.77.0.4/24", "fd77:0::4/64"])]),
    ];
    let Some(machines) = Machines::here(&plans) else { return };
    let prog = program("prog").display().to_string();
    let hosts = "m1:2,m2:1,m3:2,m4:1";
    let ended = machines.job(&words(&["--hosts", hosts], &prog, &["talk", "5"])).finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    // Packets are shorter between the machine that takes no longer ones, and others, alone.
    let told = ended.err.lines().filter(|line| line.contains("loses IP packets"));
    let of_m4 = |line: &str| line.contains("rank 5") || line.contains("node 3");
    assert!(told.clone().all(of_m4), "{}", ended.err);
    let hosts = ["--hosts", "m2,m1,m3", "--ni", "proxy"];
    machines.job(&words(&hosts, &prog, &["talk", "5"])).finish().expect_clean();
    let limits = ["--hosts", "m1,m2", "--interface", "fd77::/16", "--port", "5000-5019", "--json"];
    let ended = machines.job(&words(&limits, &prog, &["talk", "5"])).finish();
    assert_eq!(ended.json()["config"]["addresses"], "fd77::1, fd77::2", "{}", ended.err);
    let few = ["--hosts", "m1,m2", "--port", "5000-5001"];
    machines
        .job(&words(&few, &prog, &["talk", "5"]))
        .finish()
        .expect(126, &["5000-5001 (--port)", " at each of its addresses"]);
    let none = ["--hosts", "m1,m3", "--interface", "10.77.0.0/16"];
    let ended = machines.job(&words(&none, &prog, &["talk", "5"])).finish();
    ended.expect(125, &["no interface or network 10.77.0.0/16", "fd77::3"]);
}

#[test]
fn a_firewall_is_named_before_any_rank_starts() {
    let Some(machines) = Machines::here(&MachinePlan::alike(3)) else { return };
    // TCP passes, for ssh; everything else to and from `m2` has no way back.
    let block = ["ip", "rule", "add", "ipproto", "udp", "prohibit"];
    machines.on("m2", &block).unwrap();
    let ended = machines.job(&words(&["--hosts", "m1,m2,m3"], "touch", &["{shared}/ran"])).finish();
    ended.expect(125, &["has no answer by UDP from m", "10.77.0.", "firewall"]);
    assert!(!machines.shared().join("ran").exists(), "no rank has started");
    assert!(ended.gone < SOON, "{:?}", ended.gone);
}

#[test]
fn workers_of_kubernetes_are_machines_in_both_notations() {
    let mut plans = MachinePlan::alike(2);
    for plan in &mut plans {
        plan.name = format!("{}-worker.job.default.svc", plan.name);
    }
    let Some(machines) = Machines::here(&plans) else { return };
    let prog = program("prog").display().to_string();
    let file = machines.shared().join("hostfile");
    for notation in [" slots=2", ":2"] {
        let lines = plans.iter().map(|plan| format!("{}{notation}\n", plan.name));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let options = ["--hostfile", "{shared}/hostfile", "--json"];
        let ended = machines.job(&words(&options, &prog, &["talk", "3"])).finish();
        assert_eq!(ended.code, 0, "{}", ended.err);
        let hosts = &ended.json()["hosts"];
        assert_eq!(hosts[1], "m2-worker.job.default.svc");
        assert_eq!(ended.json()["ranks"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn irregular_applications_find_the_same_on_machines() {
    let Some(machines) = Machines::here(&MachinePlan::alike(2)) else { return };
    for (app, what) in [
        ("barnes --bodies 300 --steps 2", "cells of the last tree"),
        ("pray --objects 60 --resolution 33x20 --cache 2", "colours"),
        ("murphi german", "rules fired"),
        ("murphi german --order asynchronous --compact --max-omission 1", "rules fired"),
    ] {
        let options: Vec<&str> = app.split(' ').collect();
        let report = |hosts: &str| {
            let job = ["app", options[0], "--ssh", "{ssh}", "--hosts", hosts, "--json"];
            let ended = machines.job(&[&job[..], &options[1..]].concat()).finish();
            ended.expect_clean();
            let report = ended.json();
            assert_eq!(report["verified"], true, "{app}: {}", ended.out);
            report["counts"][what].as_u64().unwrap_or_else(|| panic!("{what} is in {report}"))
        };
        // The second time on one machine alone.
        assert_eq!(report("m1:2,m2:2"), report("m1:3"), "{app}");
    }
}
