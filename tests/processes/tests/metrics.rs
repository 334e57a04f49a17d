//! Metrics of a running job, as a collector gets them, beside `clump stats`, which reads the job's
//! memory itself.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, Running, signals};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Starts two ranks on two nodes that talk, with metrics at a port and the next one; returns it.
fn talking(folder: &Folder) -> (Running, u16) {
    let talk = format!("talk 0 --ready {}", folder.path().display());
    for _ in 0..50 {
        let found = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = found.local_addr().unwrap().port().min(u16::MAX - 1);
        // Both are free now; others may be faster.
        let Ok(next) = TcpListener::bind(("127.0.0.1", port + 1)) else { continue };
        drop((found, next));
        let job = Job::of(&format!("-n 2 --nodes 2 --metrics {port}"), &talk).start();
        job.await_ready(folder.path(), 0..2);
        return (job, port);
    }
    panic!("no two free ports");
}

/// Returns the answer to a request, head and body.
fn ask(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

/// Returns the samples of a text by name and labels, after a check of its form.
fn samples(text: &str) -> HashMap<String, f64> {
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.ends_with('\n') && lines.last() == Some(&"# EOF"), "{text}");
    let (mut samples, mut family) = (HashMap::new(), "");
    for line in &lines[..lines.len() - 1] {
        if let Some(rest) = line.strip_prefix("# ") {
            let (what, rest) = rest.split_once(' ').unwrap();
            let (name, said) = rest.split_once(' ').unwrap();
            if what == "TYPE" {
                assert_eq!(said, "counter");
                family = name;
            }
            assert!(["TYPE", "UNIT", "HELP"].contains(&what) && name == family, "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                name.starts_with(&format!("{family}_total{{")) && name.ends_with('}'),
                "{line}"
            );
            let known = samples.insert(name.to_owned(), value.parse().unwrap());
            assert_eq!(known, None, "{name} comes once");
        }
    }
    samples
}

#[test]
fn a_collector_gets_the_counters_of_each_node() {
    let folder = Folder::new();
    let (job, port) = talking(&folder);
    let told = || {
        let json = Job::command(&format!("stats --json --pid {}", job.launcher())).finish().json();
        let of = |rank: usize, name: &str| json["counters"][rank][name].as_f64().unwrap_or(0.0);
        [0, 1].map(|rank| [of(rank, "net.packets.sent"), of(rank, "net.request.medium.sent_bytes")])
    };
    let before = told();
    let answers = [ask(port, "/metrics"), ask(port + 1, "/metrics")];
    let after = told();
    for (rank, (head, body)) in answers.iter().enumerate() {
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("openmetrics-text"), "{head}");
        let samples = samples(body);
        let families = ["clump_net_packets_sent", "clump_net_request_medium_sent_bytes"];
        for (number, family) in families.iter().enumerate() {
            let name = format!("{family}_total{{rank=\"{rank}\",node=\"{rank}\"}}");
            let value = samples.get(&name).copied().unwrap_or(0.0);
            let known = before[rank][number]..=after[rank][number];
            assert!(known.contains(&value), "{name} is {value}, not of {known:?}");
        }
        assert!(samples.keys().all(|name| name.contains(&format!("node=\"{rank}\""))), "{body}");
    }
    assert!(before[0][0] > 0.0, "they talk");
    assert!(ask(port, "/").0.starts_with("HTTP/1.1 404"));
    let taken = Job::of(&format!("-n 1 --metrics {port}"), "barrier 1").finish();
    taken.expect(2, &["cannot offer metrics at 127.0.0.1", "in use"]);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}
