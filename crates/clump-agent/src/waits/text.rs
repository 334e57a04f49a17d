//! Waits of ranks, as text.

use super::{CollectiveState, JobWaits, LockState, RankThread, RankWaits};
use crate::report::rank_list;
use std::collections::BTreeMap;

/// Most lines of a part that has one for each of many.
const MAX_LINES: usize = 24;

/// Formats what the ranks of a job wait for; with all threads, or without.
pub fn lines(job: &JobWaits, with_threads: bool) -> Vec<String> {
    let mut lines = activities(job);
    part(&mut lines, "waited for:", awaited(job));
    part(&mut lines, "collectives:", job.collectives.iter().map(|one| collective(job, one)));
    part(&mut lines, "locks:", job.locks.iter().map(lock));
    part(&mut lines, "circles:", job.circles.iter().map(|ranks| circle(ranks)));
    part(&mut lines, "messages:", job.ranks.iter().filter_map(unhandled));
    if with_threads {
        lines.push("threads:".into());
        lines.extend(threads(job));
    }
    lines
}

/// Appends a part with a title, if it has lines; cut when it gets long.
fn part(lines: &mut Vec<String>, title: &str, of: impl IntoIterator<Item = String>) {
    let of: Vec<String> = of.into_iter().collect();
    let more = of.len().saturating_sub(MAX_LINES);
    if !of.is_empty() {
        lines.push(title.into());
    }
    lines.extend(of.into_iter().take(MAX_LINES).map(|line| format!("  {line}")));
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
}

/// Formats ranks as they follow a verb, with the noun.
fn ranks(list: &[u32]) -> String {
    let list: Vec<usize> = list.iter().map(|&rank| rank as usize).collect();
    let noun = if list.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", rank_list(&list))
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// Formats the activities, those of equal ranks in one line.
fn activities(job: &JobWaits) -> Vec<String> {
    let mut groups: Vec<(&str, u64, Vec<u32>)> = Vec::new();
    for rank in &job.ranks {
        match groups.iter_mut().find(|(what, ..)| *what == rank.what) {
            Some((_, longest, list)) => {
                *longest = (*longest).max(rank.for_ms);
                list.push(rank.rank);
            }
            None => groups.push((&rank.what, rank.for_ms, vec![rank.rank])),
        }
    }
    let since = |ms: u64| match ms {
        0 => String::new(),
        ms => format!(" (since {})", seconds(ms)),
    };
    let all =
        groups.iter().map(|(what, ms, list)| format!("{}: {what}{}", ranks(list), since(*ms)));
    let mut lines = Vec::new();
    part(&mut lines, "where:", all);
    lines
}

fn awaited(job: &JobWaits) -> Vec<String> {
    let what: BTreeMap<u32, &RankWaits> = job.ranks.iter().map(|rank| (rank.rank, rank)).collect();
    let line = |(rank, by): (u32, Vec<u32>)| {
        let doing =
            what.get(&rank).map_or("on a machine that is not seen from here", |it| &it.what);
        format!("rank {rank} by {}; it is: {doing}", ranks(&by))
    };
    let mut awaited: Vec<(u32, Vec<u32>)> = job.awaited().into_iter().collect();
    awaited.sort_by_key(|(_, by)| std::cmp::Reverse(by.len()));
    awaited.into_iter().map(line).collect()
}

fn collective(job: &JobWaits, state: &CollectiveState) -> String {
    let CollectiveState { call, at, awaited } = state;
    let team = if call.team == 0 { String::new() } else { format!(" of team {:x}", call.team) };
    let name = if call.barrier { "barrier" } else { "collective" };
    let head = format!("{name} {}{team}: {} there", call.number, are(at));
    let last =
        |rank: u32| job.ranks.iter().find(|one| one.rank == rank).map(|one| one.last_barrier);
    match awaited[..] {
        [] => head,
        [rank] if call.barrier => {
            let last = last(rank).unwrap_or(0);
            format!("{head}, {} not (it was last at barrier {last})", are(awaited))
        }
        _ => format!("{head}, {} not", are(awaited)),
    }
}

fn are(list: &[u32]) -> String {
    format!("{} {}", ranks(list), if list.len() == 1 { "is" } else { "are" })
}

fn lock(state: &LockState) -> String {
    let LockState { lock, holder, waiting } = state;
    let verb = if waiting.len() == 1 { "waits" } else { "wait" };
    let waiting = match &waiting[..] {
        [] => String::new(),
        _ => format!(", {} {verb}", ranks(waiting)),
    };
    match holder {
        Some(rank) => format!("{lock}: rank {rank} holds it{waiting}"),
        None => format!("{lock}: its holder is not known here{waiting}"),
    }
}

fn circle(list: &[u32]) -> String {
    let list: Vec<String> = list.iter().map(u32::to_string).collect();
    format!("ranks {} wait for each other", list.join(" -> "))
}

fn unhandled(rank: &RankWaits) -> Option<String> {
    let count = rank.unhandled;
    let (is, noun) = if count == 1 { ("is", "message") } else { ("are", "messages") };
    (count > 0).then(|| format!("rank {}: {count} {noun} to it {is} not handled", rank.rank))
}

fn threads(job: &JobWaits) -> Vec<String> {
    let mut lines = Vec::new();
    for rank in &job.ranks {
        if rank.pid == 0 {
            lines.push(format!("  rank {} (node {}): {}", rank.rank, rank.node, rank.what));
            continue;
        }
        lines.push(format!("  rank {} (node {}, process {}):", rank.rank, rank.node, rank.pid));
        for thread in &rank.threads {
            let waits = rank.waits.iter().filter(|wait| wait.thread == thread.thread);
            lines.push(format!("    {}", self::thread(thread)));
            lines.extend(
                waits.map(|wait| format!("        {} (since {})", wait.what, seconds(wait.for_ms))),
            );
            lines.extend(thread.stack.iter().map(|frame| format!("        {frame}")));
        }
    }
    lines
}

fn thread(thread: &RankThread) -> String {
    let RankThread { thread, name, state, kernel, call, .. } = thread;
    let place = match (call, kernel) {
        (Some(call), Some(kernel)) => format!(" in {call}, at {kernel}"),
        (Some(call), None) => format!(" in {call}"),
        (None, Some(kernel)) => format!(" at {kernel}"),
        (None, None) => String::new(),
    };
    format!("{thread} {name}: {}{place}", state_name(*state))
}

/// Returns the state of a thread in a word, as ps(1) has it.
fn state_name(state: char) -> &'static str {
    match state {
        'R' => "runs",
        'S' => "sleeps",
        'D' => "waits for a device",
        'T' => "is stopped",
        't' => "is traced",
        'Z' | 'X' => "has ended",
        'I' => "is idle",
        _ => "is in an unknown state",
    }
}
