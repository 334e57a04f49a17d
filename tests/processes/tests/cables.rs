//! Nodes in network namespaces, joined by virtual cables that the kernel cuts, or on which it
//! loses packets.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_os::clock;
use clump_process_tests::cables::{Cable, are_here, resent, stuck};
use clump_process_tests::{Folder, Job, Running, program, signals, until};
use std::ffi::OsString;
use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

/// Loss rate far above the kernel's own: both ends of one cable lose 2 %.
const LOSS: &str = "20000";
/// Option for UDP: frames of the other drivers bypass the kernel's filters; wrappers around
/// drivers lose those.
const BY_IP: &str = "--driver udp";

#[test]
fn nodes_in_network_namespaces_of_their_own() {
    if !are_here() {
        return;
    }
    let namespace = "readlink /proc/self/ns/net";
    let script = ["-c", namespace].map(OsString::from);
    let ended = Job::of_program("-n 6 --nodes 3 --netns", "sh", script).finish();
    ended.expect_clean();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap().to_string_lossy().into_owned();
    let mut seen: Vec<&str> = ended.out.lines().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3, "{}", ended.out);
    assert!(!seen.contains(&own.as_str()), "the launcher's own");
    for nodes in [2, 3, 8] {
        Job::of(&format!("-n 8 --nodes {nodes} --netns"), "barrier 20").finish().expect_clean();
    }
    Job::of("-n 4 --nodes 2 --netns", "talk 5").finish().expect_clean();
    let ended = Job::of("-n 4 --nodes 4 --netns", "die 9 2").finish();
    ended.expect(137, &["rank 2 of `prog` was killed by signal 9", "node 2 ("]);
}

#[test]
fn nothing_is_left_of_namespaces_however_a_job_ends() {
    if !are_here() {
        return;
    }
    for victim in ["launcher", "agent", "nobody"] {
        let folder = Folder::new();
        let job = stuck(&folder, "--netns", "--deaf");
        let rank = job.rank(3);
        let inside = std::fs::read_link(format!("/proc/{rank}/ns/net")).unwrap();
        match victim {
            "launcher" => job.signal(job.launcher(), signals::KILL),
            "agent" => job.signal(job.agents(2)[0], signals::KILL),
            _ => job.signal(job.launcher(), signals::INTERRUPT),
        }
        job.finish();
        // The namespace is gone: no process is in it, no descriptor refers to it, and it never had
        // a name.
        let of = |p: &clump_os::procfs::Process| {
            std::fs::read_link(format!("/proc/{}/ns/net", p.pid)).ok()
        };
        let left = clump_os::procfs::processes().iter().any(|p| of(p).as_ref() == Some(&inside));
        assert!(!left, "{victim}");
    }
}

/// Starts a job of four ranks on two nodes that communicate until the file `folder/end` exists.
fn talking(folder: &Folder, options: &str) -> Running {
    let path = folder.path().display();
    let args = format!("talk 0 --ready {path} --until {path}/end");
    let job = Job::of(&format!("-n 4 --nodes 2 --netns --json {options}"), &args);
    let job = job.with(|command| {
        // Longer than any of these tests cuts a cable for.
        command.env("CLUMP_NODE_TIMEOUT_MS", "60000");
    });
    let job = job.start();
    job.await_ready(folder.path(), 0..4);
    job
}

/// Waits until so many units have been retransmitted.
fn await_resent(job: &Running, units: u64) {
    let before = resent(job.launcher());
    until("units to be sent again", || (resent(job.launcher()) >= before + units).then_some(()));
}

#[test]
fn what_the_kernel_drops_is_sent_again_once() {
    if !are_here() {
        return;
    }
    for security in ["aead", "crc"] {
        let folder = Folder::new();
        let job = talking(&folder, &format!("{BY_IP} --security {security}"));
        for cable in Cable::both(&job) {
            cable.does(&["lose", LOSS]);
        }
        await_resent(&job, 100);
        std::fs::write(folder.path().join("end"), "").unwrap();
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
}

#[test]
fn records_are_sorted_while_the_kernel_drops_packets() {
    if !are_here() {
        return;
    }
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, sorted, flag) = (path("records"), path("sorted"), path("go"));
    Job::command(&format!("app gensort 200000 {records}")).finish().expect_clean();
    let script = format!(
        "touch {}/ready-$CLUMP_RANK; while ! [ -e {flag} ]; do sleep 0.01; done; \
         exec {} app sort -n 4 -i {records} -o {sorted}",
        folder.path().display(),
        program("clump-under-test").display()
    );
    let script = ["-c", &script].map(OsString::from);
    let options = format!("-n 4 --nodes 2 --netns --json {BY_IP}");
    let job = Job::of_program(&options, "sh", script).start();
    job.await_ready(folder.path(), 0..4);
    for cable in Cable::both(&job) {
        cable.does(&["lose", LOSS]);
    }
    std::fs::write(flag, "").unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let counters = ended.json()["counters"].clone();
    let again = counters.as_array().unwrap().iter().map(|rank| &rank["net.units.resent"]);
    assert!(again.filter_map(serde_json::Value::as_u64).sum::<u64>() > 0, "{counters}");
    let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
    check.expect_clean();
    assert!(check.out.contains("SUCCESS"), "{}", check.out);
}

#[test]
fn what_no_driver_carries_is_sent_again_once() {
    if !are_here() {
        return;
    }
    let mut drivers = vec![("packet", "aead"), ("packet", "crc")];
    match clump_os::xdp::probe() {
        Ok(()) => drivers.extend([("xdp", "aead"), ("xdp", "crc")]),
        Err(e) => println!("skipped: the driver xdp: {e} (run as root)"),
    }
    for (driver, security) in drivers {
        let options =
            format!("-n 4 --nodes 2 --netns --json --driver {driver} --security {security}");
        let job = Job::of(&options, "talk 200").with(|command| {
            let faults = "loss=2%,duplicate=2%,corrupt=5000ppm,reorder=2%";
            command.env("CLUMP_NET_FAULTS", faults);
        });
        let ended = job.finish();
        assert_eq!((ended.code, ended.driver()), (0, driver.to_owned()), "{}", ended.err);
    }
}

#[test]
fn auto_takes_frames_where_there_are_cables() {
    if !are_here() {
        return;
    }
    for (options, driver) in [("-n 4", "packet"), ("-n 4 --driver udp", "udp"), ("-n 20", "packet")]
    {
        let ended = Job::of(&format!("{options} --nodes 2 --netns --json"), "talk 5").finish();
        assert_eq!((ended.code, ended.driver()), (0, driver.to_owned()), "{}", ended.err);
    }
}

#[test]
fn a_cable_that_is_cut_for_a_while_costs_nothing_but_time() {
    if !are_here() {
        return;
    }
    for driver in ["udp", "packet"] {
        cut_for_a_while(driver);
    }
}

fn cut_for_a_while(driver: &str) {
    let folder = Folder::new();
    let job = talking(&folder, &format!("--driver {driver}"));
    for _ in 0..3 {
        let [cable, _] = Cable::both(&job);
        cable.does(&["cut"]);
        // Retransmissions now cannot arrive.
        await_resent(&job, 3);
        cable.does(&["mend", "0"]);
    }
    std::fs::write(folder.path().join("end"), "").unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
}

#[test]
fn a_hardware_address_that_changes_stops_nobody() {
    if !are_here() {
        return;
    }
    for driver in ["packet", "udp"] {
        let folder = Folder::new();
        let job = talking(&folder, &format!("--driver {driver}"));
        let [here, there] = Cable::both(&job);
        for (end, last) in [(&here, "1"), (&there, "2"), (&there, "3")] {
            end.does(&["readdress", last]);
            let sent = messages(&job);
            until("messages to go on", || (messages(&job) > sent + 1000).then_some(()));
        }
        std::fs::write(folder.path().join("end"), "").unwrap();
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{driver}: {}", ended.err);
    }
}

/// Returns the number of short requests that the ranks of a job have handled from other nodes.
fn messages(job: &Running) -> u64 {
    let read = Job::command(&format!("stats --json --pid {}", job.launcher())).finish();
    let ranks = read.json()["counters"].clone();
    let of = |rank: &serde_json::Value| rank["net.request.short.received"].as_u64().unwrap_or(0);
    ranks.as_array().unwrap().iter().map(of).sum()
}

#[test]
fn a_cable_that_is_cut_loses_a_node() {
    if !are_here() {
        return;
    }
    for deaf in ["", "--deaf"] {
        let folder = Folder::new();
        let job = stuck(&folder, "--netns", deaf);
        let [_, cable] = Cable::both(&job);
        let start = clock::instant();
        cable.does(&["cut"]);
        let ended = job.finish();
        let lost =
            "node 1 was lost: its agent was not heard by node 0 any more: stopped, or cut off";
        ended.expect(125, &[lost, "ranks 2, 3 of `prog` were lost", "in barrier"]);
        // The node timeout, the survivors' grace period, and a busy machine.
        let took = start.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}\n{}", ended.err);
    }
}

#[test]
fn a_path_that_gets_narrower_is_told_of_and_stops_nobody() {
    if !are_here() {
        return;
    }
    for options in
        ["--driver udp", "--driver udp --security crc", "--driver packet", "--ni proxy:1"]
    {
        narrowed(options);
    }
}

#[test]
fn records_are_sorted_over_a_path_that_has_become_narrower() {
    if !are_here() {
        return;
    }
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, sorted, fifo) = (path("records"), path("sorted"), path("fifo"));
    Job::command(&format!("app gensort 100000 {records}")).finish().expect_clean();
    Job::any("mkfifo").with_args(&[&fifo]).finish().expect_clean();
    for (options, bulk) in
        [("--driver udp", "datagram"), ("--driver packet", "datagram"), ("--driver udp", "stream")]
    {
        let words =
            format!("app sort -n 4 --nodes 2 --netns {options} --force -i {fifo} -o {sorted}");
        let job = Job::command(&words).with(|command| {
            command.env("CLUMP_NET_BULK", bulk);
        });
        let job = job.start();
        // Opened when rank 0 begins to read: all ranks have joined, and their stacks know the path.
        let mut input = File::options().write(true).open(&fifo).unwrap();
        narrow_silently(&job);
        std::io::copy(&mut File::open(&records).unwrap(), &mut input).unwrap();
        drop(input);
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{options} {bulk}: {}", ended.err);
        let notices = ended.err.matches("loses IP packets of more than 1260 bytes").count();
        // TCP may find the length by itself, and datagrams then be short.
        let least = usize::from(bulk == "datagram");
        assert!((least..=2).contains(&notices), "{options} {bulk}: {}", ended.err);
        let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
        check.expect_clean();
        assert!(check.out.contains("SUCCESS"), "{}", check.out);
    }
}

/// Has the cable take IP packets of 1280 bytes only. The end of node 1 alone is changed: packets
/// that arrive there are dropped silently, packets that leave there are refused.
fn narrow_silently(job: &Running) {
    let [other, end] = Cable::both(job);
    // Losing nothing, it hands packets over one by one: virtual cables let runs of joined packets
    // pass whatever their length.
    other.does(&["lose", "0"]);
    end.does(&["shorten", "1280"]);
}

/// Runs a job whose messages of 4 kB continue on a path that becomes narrower.
fn narrowed(options: &str) {
    let folder = Folder::new();
    let errors = folder.path().join("errors");
    let path = folder.path().display();
    let args = format!("talk 0 --ready {path} --until {path}/end");
    let job = Job::of(&format!("-n 4 --nodes 2 --netns {options}"), &args).with(|command| {
        command.stderr(Stdio::from(File::create(&errors).unwrap()));
    });
    let job = job.start();
    job.await_ready(folder.path(), 0..4);
    narrow_silently(&job);
    let said = || std::fs::read_to_string(&errors).unwrap();
    for node in [0, 1] {
        let notice = format!("the path to node {node} loses IP packets of more than 1260 bytes");
        until(&format!("the notice about node {node} with {options}"), || {
            said().contains(&notice).then_some(())
        });
    }
    std::fs::write(folder.path().join("end"), "").unwrap();
    assert_eq!(job.finish().code, 0, "{options}: {}", said());
    assert_eq!(said().matches("loses IP packets").count(), 2, "once each: {}", said());
    assert!(!said().contains("firewall"), "{}", said());
}
