//! Jobs over several virtual nodes: they run, die and end as jobs on one node do.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::cables::stuck;
use clump_process_tests::{Folder, Job, program, signals, until};
use std::ffi::OsString;

fn shell(options: &str, script: &str) -> Job {
    Job::of_program(options, "sh", ["-c", script].map(OsString::from))
}

#[test]
fn ranks_are_told_their_nodes() {
    let script = "echo $CLUMP_RANK of $CLUMP_NRANKS on $CLUMP_NODE of $CLUMP_NNODES";
    for (options, nodes) in [
        ("-n 5 --nodes 2", vec![0, 0, 0, 1, 1]),
        ("-n 4 --nodes 4", vec![0, 1, 2, 3]),
        ("-n 2", vec![0, 0]),
    ] {
        let ended = shell(options, script).finish();
        ended.expect_clean();
        let mut lines: Vec<&str> = ended.out.lines().collect();
        lines.sort_unstable();
        let (ranks, most) = (nodes.len(), nodes.last().unwrap() + 1);
        let line = |(rank, node): (usize, &i32)| format!("{rank} of {ranks} on {node} of {most}");
        let expected: Vec<String> = nodes.iter().enumerate().map(line).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn barriers_and_messages_over_nodes() {
    for options in ["-n 2 --nodes 2", "-n 5 --nodes 2 --security crc", "-n 4 --nodes 4"] {
        Job::of(options, "barrier 50").finish().expect_clean();
        Job::of(options, "talk 10").finish().expect_clean();
    }
}

#[test]
fn ranks_of_a_hundred_nodes_meet() {
    Job::of("-n 100 --nodes 100", "barrier 3").finish().expect_clean();
    let ended = Job::of("-n 4097 --nodes 4097", "barrier 1").finish();
    assert!(ended.code == 2 && ended.err.contains("4097 is not in 1..=4096"), "{}", ended.err);
}

#[test]
fn a_peer_that_is_idle_takes_little_memory() {
    /// KiB a peer, with the fixed costs of a rank that communicates in it.
    const MOST: u64 = 24;
    let words = format!("others --most {MOST} --limit 60");
    let words = words.split(' ').map(OsString::from);
    let ended = Job::of_program("-n 32 --nodes 8", program("footprint"), words).finish();
    ended.expect_clean();
    let most = ended.out.lines().find_map(|line| line.strip_prefix("28 peers: "));
    let most = most.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    assert!(most.is_some_and(|bytes| bytes <= MOST << 10), "{}", ended.out);
}

#[test]
fn a_job_on_one_node_opens_no_network_socket() {
    let folder = Folder::new();
    for (nodes, expected) in [(1, false), (2, true)] {
        let args = format!("forever 0 --together --ready {}", folder.path().display());
        let job = Job::of(&format!("-n 2 --nodes {nodes}"), &args).start();
        job.await_ready(folder.path(), 0..1);
        std::fs::remove_file(folder.path().join("ready-0")).unwrap();
        for pid in [job.rank(1), job.agents(nodes)[0]] {
            assert_eq!(has_udp(pid), expected, "{nodes} nodes");
        }
        job.signal(job.launcher(), signals::INTERRUPT);
        job.finish().expect(130, &["interrupted (SIGINT)"]);
    }
}

/// Returns true if a process has a UDP socket of its network namespace open.
fn has_udp(pid: u32) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/udp")).unwrap();
    // proc(5): the tenth field of a line is the inode.
    let inodes: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = descriptors.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.map(|t| t.to_string_lossy().into_owned()).any(|target| {
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(&inode))
    })
}

#[test]
fn everything_written_on_all_nodes_before_a_death_is_delivered() {
    let ended = Job::of("-n 4 --nodes 2", "flood 20000 --die").finish();
    ended.expect(139, &["rank 3 of `prog` was killed by signal 11", "node 1"]);
    let last = ended.out.lines().filter(|line| line.starts_with("rank 3 ")).count();
    assert_eq!(last, 20_000);
}

#[test]
fn a_flood_that_nobody_reads_does_not_delay_the_news_of_a_death() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let script = "if [ $CLUMP_RANK = 3 ]; then sleep 0.2; kill -9 $$; fi; yes";
    let job = shell("-n 4 --nodes 2 --json", script).with(|command| {
        command.stdout(writer);
    });
    let job = job.start();
    until("the ranks to be gone", || {
        (!job.processes().iter().any(|p| p.name == "yes" || p.name == "sh")).then_some(())
    });
    job.signal(job.launcher(), signals::INTERRUPT);
    assert_ne!(job.finish().code, 0);
}

#[test]
fn only_rank_zero_reads_the_input() {
    let job = shell("-n 4 --nodes 2", "cat").with(|command| {
        command.stdin(std::fs::File::open("/proc/self/status").unwrap());
    });
    let ended = job.finish();
    ended.expect_clean();
    assert_eq!(ended.out.matches("Name:").count(), 1, "{}", ended.out);
}

#[test]
fn the_outcome_names_nodes_and_protection() {
    for security in ["aead", "crc"] {
        let options = format!("-n 3 --nodes 3 --json --security {security}");
        let ended = shell(&options, "exit $CLUMP_RANK").finish();
        let json = ended.json();
        assert_eq!(
            (&json["security"], json["hosts"].as_array().unwrap().len()),
            (&security.into(), 3)
        );
        assert_eq!(json["ranks"].as_array().unwrap().len(), 3);
        assert_eq!(ended.err.contains("--security crc"), security == "crc", "{}", ended.err);
    }
}

#[test]
fn a_program_that_does_not_exist_is_said_once() {
    let ended = Job::of_program("-n 4 --nodes 4", "no-such-program", []).finish();
    ended.expect(127, &["no program `no-such-program` in PATH"]);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
}

#[test]
fn the_death_of_a_rank_is_known_on_all_nodes() {
    for (nodes, rank, node) in [(2, 2, 1), (2, 1, 0), (4, 3, 3)] {
        let ended = Job::of(&format!("-n 4 --nodes {nodes}"), &format!("die 9 {rank}")).finish();
        let how = format!("rank {rank} of `prog` was killed by signal 9");
        ended.expect(137, &[&how, &format!("node {node} ("), "others:"]);
        let errors = ended.err.lines().filter(|line| line.starts_with("prog:"));
        let named = errors.filter(|line| line.contains(&format!("rank {rank} was killed"))).count();
        assert_eq!(named, 3, "every survivor gets an error that names the dead\n{}", ended.err);
    }
}

#[test]
fn a_rank_of_another_node_leaves_as_it_should_not() {
    Job::of("-n 4 --nodes 2", "exit 7 3")
        .finish()
        .expect(7, &["rank 3 of `prog` exited with code 7"]);
    Job::of("-n 4 --nodes 2", "leave 2").finish().expect(1, &["rank 2 of `prog` left without"]);
    Job::of("-n 4 --nodes 2", "absent 3").finish().expect(1, &["rank 3 of `prog` ended without"]);
    let stopped =
        shell("-n 4 --nodes 2", "if [ $CLUMP_RANK = 3 ]; then kill -STOP $$; fi").finish();
    stopped.expect(137, &["rank 3 of `sh` is stopped (SIGSTOP) while all others have ended"]);
}

#[test]
fn a_stopped_rank_is_ended_when_others_can_only_wait_for_it() {
    for (options, rank) in [("-n 2 --nodes 2", 1), ("-n 4 --nodes 2 --on-death continue", 0)] {
        let ended = Job::of(options, &format!("stop-self {rank} --requests 100")).finish();
        let who = format!("rank {rank} of `prog` is stopped (SIGSTOP) while all others have ended");
        ended.expect(137, &[&who, "leaving, for ranks of other nodes"]);
        assert!(!ended.err.contains("had to be killed"), "{}", ended.err);
    }
}

#[test]
fn survivors_on_all_nodes_go_on_if_told_so() {
    let folder = Folder::new();
    let args = format!("forever 0 --ready {}", folder.path().display());
    let job = Job::of("-n 4 --nodes 2 --on-death continue", &args).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.rank(0), signals::KILL);
    job.finish().expect(137, &["rank 0 of `prog` was killed", "--on-death continue"]);
}

#[test]
fn one_interrupt_ends_all_nodes() {
    for (deaf, killed) in
        [("", "0 of them had to be killed"), ("--deaf", "4 of them had to be killed")]
    {
        let folder = Folder::new();
        let job = stuck(&folder, "", deaf);
        job.signal(job.launcher(), signals::INTERRUPT);
        let ended = job.finish();
        ended.expect(130, &["interrupted (SIGINT)", killed]).expect_rank_0_computing();
    }
}

#[test]
fn an_agent_that_is_asked_to_end_ends_the_job() {
    let folder = Folder::new();
    let job = stuck(&folder, "", "");
    job.signal(job.agents(2)[1], signals::TERMINATE);
    job.finish().expect(143, &["interrupted (SIGTERM)"]);
}

#[test]
fn with_an_agent_its_node_is_lost() {
    for node in [0, 1] {
        let folder = Folder::new();
        let job = stuck(&folder, "", "--deaf");
        job.signal(job.agents(2)[node], signals::KILL);
        let lost = format!("node {node} was lost: its agent was killed by signal 9");
        let ranks = format!("ranks {}, {} of `prog` were lost", 2 * node, 2 * node + 1);
        job.finish().expect(125, &[&lost, &ranks, "where:", "others:"]);
    }
}

#[test]
fn a_stopped_agent_is_noticed_and_named() {
    for node in [0, 1] {
        let folder = Folder::new();
        let job = stuck(&folder, "", "--deaf");
        job.signal(job.agents(2)[node], signals::STOP);
        let other = 1 - node;
        let lost =
            format!("node {node} was lost: its agent was not heard by node {other} any more");
        job.finish().expect(125, &[&lost, "stopped, or cut off"]);
    }
}

#[test]
fn who_goes_on_without_a_lost_node_is_not_ended() {
    for signal in [signals::KILL, signals::STOP] {
        let folder = Folder::new();
        let (path, flag) = (folder.path().display(), folder.path().join("go"));
        let script = format!(
            "touch {path}/ready-$CLUMP_RANK; setsid sleep 9999 & \
             while ! [ -e {path}/go ]; do sleep 0.01; done; echo $CLUMP_RANK goes on; kill $!"
        );
        let job = shell("-n 6 --nodes 3 --on-death continue", &script).start();
        job.await_ready(folder.path(), 0..6);
        let agents = job.agents(3);
        job.signal(agents[1], signal);
        until("the lost node to be cleared", || {
            let of =
                |rank: u32| job.processes().iter().any(|p| variable(p.pid, "CLUMP_RANK", rank));
            (!of(2) && !of(3)).then_some(())
        });
        std::fs::write(flag, "").unwrap();
        let ended = job.finish();
        ended.expect(125, &["node 1 was lost", "the others went on (--on-death continue)"]);
        assert_eq!(ended.out.matches("goes on").count(), 4, "{}", ended.out);
    }
}

/// Returns true if a process was started with this variable.
fn variable(pid: u32, name: &str, value: u32) -> bool {
    clump_os::procfs::variable(pid, name).is_some_and(|is| is == *value.to_string())
}

#[test]
fn the_launcher_is_killed() {
    let folder = Folder::new();
    let job = stuck(&folder, "", "--deaf");
    job.signal(job.launcher(), signals::KILL);
    let ended = job.finish();
    assert_eq!(ended.code, -9);
    for node in [0, 1] {
        let said = format!("its 2 ranks on node {node} have been ended");
        assert!(ended.err.contains(&said), "{}", ended.err);
    }
}

#[test]
fn whatever_ranks_started_ends_with_the_job() {
    Job::of("-n 4 --nodes 2", "children").finish().expect(0, &["left running", "sleep"]);
    for victim in ["launcher", "agent", "rank"] {
        let job = Job::of("-n 4 --nodes 2", "children --stay").start();
        job.await_named("sleep", 12);
        let pid = match victim {
            "launcher" => job.launcher(),
            "agent" => job.agents(2)[1],
            _ => job.rank(3),
        };
        job.signal(pid, signals::KILL);
        job.finish();
    }
}

#[test]
fn addresses_by_which_nodes_reach_each_other_are_said_to_a_user_who_asks() {
    for proxies in ["", "--ni proxy:1 "] {
        let ended = Job::of(&format!("-v -n 3 --nodes 3 {proxies}"), "barrier 1").finish();
        assert_eq!(ended.code, 0, "{}", ended.err);
        for (here, there) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let is_said = |line: &&str| {
                line.starts_with(&format!("clump: node {here} ("))
                    && line.contains(&format!(") reaches node {there} ("))
                    && line.ends_with("): 127.0.0.1 -> 127.0.0.1")
            };
            assert_eq!(ended.err.lines().filter(is_said).count(), 1, "{}", ended.err);
        }
    }
    let quiet = Job::of("-n 3 --nodes 3", "barrier 1").finish();
    assert!(!quiet.err.contains("reaches"), "{}", quiet.err);
}

#[test]
fn the_counters_of_all_nodes_are_shown_whichever_process_is_asked_for() {
    let folder = Folder::new();
    let talk = format!("talk 0 --ready {}", folder.path().display());
    let job = Job::of("-n 5 --nodes 3", &talk).start();
    job.await_ready(folder.path(), 0..5);
    let all_sent = || {
        let json = Job::command(&format!("stats --json --pid {}", job.launcher())).finish().json();
        let sent = |rank: &serde_json::Value| rank["net.packets.sent"].as_u64() > Some(0);
        json["counters"].as_array().unwrap().iter().all(sent).then_some(())
    };
    until("packets of all ranks", all_sent);
    for pid in [job.launcher(), job.agents(3)[1], job.rank(4)] {
        let seen = Job::command(&format!("stats --pid {pid}")).finish();
        seen.expect_clean();
        assert!(seen.out.contains("5 ranks on 3 nodes"), "{}", seen.out);
        let json = Job::command(&format!("stats --json --pid {pid}")).finish().json();
        let counters = json["counters"].as_array().unwrap();
        assert_eq!((counters.len(), &json["nodes"]), (5, &3.into()));
        assert!(counters.iter().all(|rank| rank["net.packets.sent"].as_u64() > Some(0)), "{json}");
        let doing = json["doing"].as_array().unwrap().iter();
        assert!(doing.map(|rank| rank["rank"].as_u64().unwrap()).eq(0..5), "{json}");
    }
    let list = Job::command("stats").finish();
    assert!(list.out.contains(&format!("{} ", job.agents(3)[0])), "{}", list.out);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}
