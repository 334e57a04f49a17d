//! Longest time without packets when one of two cables is cut while a job of two ranks sorts.
//!
//! It is measured from outside: packets that the kernel has received on a node's cables, polled
//! while the ranks exchange their records.

use crate::cables::Cable;
use crate::{Finished, Folder, Job, TIME_LIMIT, program, until};
use clump_os::clock;
use std::ffi::OsString;
use std::time::Duration;

/// Ranks 0 and 1 prefer the second cable.
const PREFERRED: usize = 1;

/// The results of a sort.
#[derive(Debug)]
pub struct Seen {
    /// The longest time in which no packet arrived at one of the nodes by any cable, from shortly
    /// before the cut until nearly all records had arrived.
    pub longest: Duration,
    /// The end of the job.
    pub ended: Finished,
}

/// Returns the packets and bytes that the cables of a process's network namespace have received.
fn received(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    let cables = text.lines().filter_map(|line| line.trim().strip_prefix("to-"));
    let numbers = cables.filter_map(|line| {
        let mut words = line.split_once(':')?.1.split_whitespace();
        let bytes: u64 = words.next()?.parse().ok()?;
        Some((words.next()?.parse::<u64>().ok()?, bytes))
    });
    numbers.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// Sorts so many records on two ranks of two nodes with two cables, and cuts the cable that they
/// use when an eighth has crossed, if asked to. `options` are for `clump run`.
///
/// # Panics
/// Panics if the records cannot be made, or if the sort makes no progress.
pub fn sort(records: u64, options: &str, cut: bool) -> Seen {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (from, sorted) = (path("records"), path("sorted"));
    Job::command(&format!("app gensort {records} {from}")).finish().expect_clean();
    let words = ["app", "sort", "-n", "2", "-i", &from, "-o", &sorted].map(OsString::from);
    let options = format!("-n 2 --nodes 2 --netns --cables 2 --json {options}");
    let job = Job::of_program(&options, program("clump-under-test"), words).start();
    // A quarter of all records lies here and belongs to the other node; another quarter goes the
    // other way.
    let crossing = records * 100 / 4;
    // Read anew each time: at first a process is among them that makes the cables, and ends.
    let agent = until("an eighth to cross", || {
        job.agents(2).into_iter().find(|&agent| received(agent).1 > crossing / 8)
    });
    let start = clock::instant();
    let (mut last, mut packets, mut longest) = (start, received(agent).0, Duration::ZERO);
    let cutter = cut.then(|| {
        let [end, _] = Cable::both_of(&job, PREFERRED);
        std::thread::spawn(move || end.does(&["cut"]))
    });
    loop {
        let (now_packets, bytes) = received(agent);
        let now = clock::instant();
        if now_packets != packets {
            longest = longest.max(now - last);
            (last, packets) = (now, now_packets);
        }
        // Later packets are of another phase; a process that is gone has none.
        if bytes > crossing * 15 / 16 || bytes == 0 {
            break;
        }
        assert!(now - last < TIME_LIMIT, "nothing came for {TIME_LIMIT:?}");
        clock::pass(Duration::from_micros(200));
    }
    if let Some(cutter) = cutter {
        cutter.join().expect("cutting the cable");
    }
    let ended = job.finish();
    check(&ended, &sorted, &from);
    Seen { longest, ended }
}

/// Checks that the output is sorted and complete.
fn check(ended: &Finished, sorted: &str, from: &str) {
    assert_eq!(ended.code, 0, "{}", ended.err);
    let check = Job::command(&format!("app valsort {sorted} --input {from}")).finish();
    check.expect_clean();
    assert!(check.out.contains("SUCCESS"), "{}", check.out);
}

/// Returns the sum of a counter over all ranks of a job that has ended.
///
/// # Panics
/// Panics if the job was not asked for JSON.
pub fn counted(ended: &Finished, counter: &str) -> u64 {
    let all = ended.json();
    let list = |what: &str| all[what].as_array().expect("a list").clone();
    let interfaces = list("interfaces").into_iter().map(|interface| interface["network"].clone());
    let of = |counters: serde_json::Value| counters[counter].as_u64().unwrap_or(0);
    list("counters").into_iter().chain(interfaces).map(of).sum()
}
