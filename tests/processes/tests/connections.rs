//! Connections in whole jobs, and between them: served, and ended when one side is killed.

use clump_process_tests::{Folder, Job, Running, program, signals, until};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;

fn conn(options: &str, what: &str, folder: &Folder) -> Job {
    let folder = folder.path().as_os_str().to_owned();
    Job::of_program(options, program("conn"), [OsString::from(what), folder])
        .with(|command| _ = command.env("CLUMP_CONN_SILENCE_MS", "1000"))
}

/// Starts a server, and returns it once clients can connect.
fn served(folder: &Folder) -> Running {
    let server = conn("-n 1", "serve", folder).start();
    until("the token", || folder.path().join("token").exists().then_some(()));
    server
}

#[test]
fn a_service_counts_for_clients_of_other_jobs_also_over_a_bad_network() {
    for faults in ["", "loss=3%"] {
        let folder = Folder::new();
        let file = folder.path().join("token");
        let service = |options: &str, words: &[&str]| {
            let words = words.iter().map(OsString::from);
            let job = Job::of_program(options, program("service"), words);
            job.with(|command| _ = command.env("CLUMP_NET_FAULTS", faults))
        };
        let path = file.display().to_string();
        // Plants a file of another process, which could read what is written there.
        let planted = folder.path().join("token.part");
        std::fs::write(&planted, "").unwrap();
        let server = service("-n 2 --nodes 2", &["serve", &path, "2"]).start();
        until("the token", || file.exists().then_some(()));
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&planted).unwrap(), b"");
        for options in ["-n 2", "-n 2 --nodes 2"] {
            let ended = service(options, &["ask", &path, "one", "two", "three"]).finish();
            ended.expect_clean();
            assert!(ended.out.contains("so far"), "{}", ended.out);
        }
        let ended = server.finish();
        ended.expect_clean();
        assert!(ended.out.contains("11 words were counted"), "{}", ended.out);
    }
}

#[test]
fn a_server_outlives_clients_that_are_killed() {
    let folder = Folder::new();
    let server = served(&folder);
    for what in ["wait", "flood"] {
        let client = conn("-n 1", what, &folder).start();
        client.await_ready(folder.path(), 0..1);
        std::fs::remove_file(folder.path().join("ready-0")).unwrap();
        client.signal(client.rank(0), signals::KILL);
        client.finish().expect(137, &["was killed by signal 9"]);
    }
    conn("-n 1", "stop", &folder).finish().expect_clean();
    let ended = server.finish();
    ended.expect_clean();
    let told = ended.out.matches("a client is gone").count();
    assert_eq!((told, ended.out.matches("nothing was heard").count()), (2, 2), "{}", ended.out);
}

#[test]
fn clients_outlive_a_server_that_is_killed_or_stopped() {
    for (what, signal) in
        [("wait", signals::KILL), ("flood", signals::KILL), ("wait", signals::STOP)]
    {
        let folder = Folder::new();
        let server = served(&folder);
        let client = conn("-n 1", what, &folder).start();
        client.await_ready(folder.path(), 0..1);
        let rank = server.rank(0);
        server.signal(rank, signal);
        let ended = client.finish();
        ended.expect_clean();
        assert!(ended.out.contains("the server is gone"), "{}", ended.out);
        assert!(ended.out.contains("nobody else is there: true"), "{}", ended.out);
        server.signal(rank, signals::KILL);
        server.finish().expect(137, &["was killed by signal 9"]);
    }
}

#[test]
fn a_rank_that_is_killed_ends_its_connections_within_the_job() {
    for (options, node) in [("-n 3", "0"), ("-n 3 --nodes 3", "1")] {
        let options = format!("{options} --on-death continue");
        let job = Job::of_program(&options, program("conn"), ["widow", node].map(OsString::from));
        let ended = job.finish();
        ended.expect(137, &["rank 1 of `conn` was killed by signal 9"]);
        let told = ended.out.matches("its rank died").count();
        assert_eq!(told, 2, "{}\n{}", ended.out, ended.err);
    }
}
