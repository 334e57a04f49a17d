//! The report of a job's end: at most [`MAX_LINES`] lines, the answer in the first.

use crate::outcome::{DeathReport, JobEnd, JobOutcome, LossReport, RankActivity};
use clump_control::{DeathManner, NOTICE_NS, RanksLeft};
use clump_os::printable::{counted, printable, printable_lines};
use clump_os::{limit, signal};
use std::fmt::Write;

/// Most lines of a report.
pub const MAX_LINES: usize = 15;
/// Most lines about the activity of ranks.
const MAX_GROUPS: usize = 6;
/// Longest list of ranks in a line.
const MAX_LIST: usize = 48;

/// Returns how a job was interrupted.
fn interrupted(signal: u8, time_limit_ms: Option<u64>) -> String {
    debug_assert_ne!(signal, 0, "signals begin at 1");
    match time_limit_ms {
        Some(ms) => format!("was ended at its time limit of {} (--time-limit)", seconds(ms)),
        None => format!("was interrupted ({})", signal::name(signal)),
    }
}

/// Explains the end of a job of `program`; returns `None` when there is nothing to explain.
pub fn explain(program: &str, outcome: &JobOutcome) -> Option<String> {
    let program = &printable(program).to_string();
    let mut lines = match &outcome.ending {
        JobEnd::Clean => calm(outcome)?,
        JobEnd::Unread => return None,
        JobEnd::Unwritten { why } => vec![format!("{why}; the job has been ended")],
        JobEnd::Death(death) => of_death(program, death),
        JobEnd::NodeLost(loss) => of_loss(program, loss),
        JobEnd::Interrupted { signal, doing, killed } => {
            let ended = match outcome.ranks.len() {
                1 => "its rank has ended".to_owned(),
                ranks => format!("all {ranks} ranks have ended"),
            };
            let how = interrupted(*signal, outcome.time_limit_ms);
            let mut lines =
                vec![format!("`{program}` {how}; {ended}, {killed} of them had to be killed")];
            lines.extend(groups("were", doing));
            lines
        }
        JobEnd::TakenOver { signal, ranks, killed } => vec![
            format!(
                "`{program}` {}, and its agents did not end its {} in time",
                interrupted(*signal, outcome.time_limit_ms),
                counted(*ranks, "rank")
            ),
            format!("  {killed} processes were still there and have been killed"),
            "  next: look for processes in state D (waiting for a disk or a server), and for what \
             else keeps this machine busy"
                .to_owned(),
        ],
        JobEnd::AgentLost { pid, how, signal, out_of_memory, ranks, killed } => vec![
            format!(
                "the agent of node 0 (pid {pid}) {how}, and with it the {} of `{program}`",
                counted(*ranks, "rank")
            ),
            format!("  {killed} processes were still there and have been killed; nothing is left"),
            format!("  next: {}", remedy_of_agent(*signal, *out_of_memory)),
        ],
        JobEnd::Refused { why, .. } => vec![why.clone()],
    };
    if outcome.security.as_deref() == Some("crc") && lines.len() < MAX_LINES - 1 {
        lines.push("  packets between nodes were checked, not encrypted (--security crc)".into());
    }
    if !outcome.survivors.is_empty() {
        lines.truncate(MAX_LINES - 1);
        lines.push(format!("  could not be killed: {}", listed(&outcome.survivors)));
    }
    debug_assert!(lines.len() <= MAX_LINES);
    // Names of programs, of machines and of left processes are chosen by others.
    Some(format!("clump: {}\n", printable_lines(&lines.join("\n"))))
}

fn calm(outcome: &JobOutcome) -> Option<Vec<String>> {
    let left = &outcome.leftovers;
    let ended = || format!("ended what the ranks had left running: {}", listed(left));
    (!left.is_empty() || !outcome.survivors.is_empty()).then(|| vec![ended()])
}

fn of_death(program: &str, death: &DeathReport) -> Vec<String> {
    let how = crate::rank_state::cause_of(death.manner);
    let mut lines = vec![format!("rank {} of `{program}` {how}", death.rank)];
    let (seconds, last) = (seconds(death.at_ms), &death.last);
    lines.push(format!(
        "  where:  node {} ({}), pid {}, {seconds} after the start",
        death.node, death.host, death.pid
    ));
    if !last.what.is_empty() {
        lines.push(format!("  it was: {}", with_time(last)));
    }
    lines.extend(groups("others", &death.others));
    lines.push(match (death.continued, death.killed, death.returned) {
        (false, 0, 0) if death.others.is_empty() => "  it was the only rank".into(),
        (continued, killed, returned) => afterwards(continued, killed, returned),
    });
    lines.push(format!("  next:   {}", remedy(death)));
    lines.push(format!("  exit code {}", death.manner.exit_code()));
    lines
}

fn of_loss(program: &str, loss: &LossReport) -> Vec<String> {
    let LossReport { node, host, pid, how, .. } = loss;
    let lost: Vec<usize> = loss.ranks.iter().map(|&rank| rank as usize).collect();
    let ranks = match lost.len() {
        0 => "none of its ranks was running any more".into(),
        1 => format!("rank {} of `{program}` was lost with it", rank_list(&lost)),
        _ => format!("ranks {} of `{program}` were lost with it", rank_list(&lost)),
    };
    let mut lines = vec![format!("node {node} was lost: its agent {how}; {ranks}")];
    lines.push(format!(
        "  where:  node {node} ({host}), agent {pid}, {} after the start",
        seconds(loss.at_ms)
    ));
    lines.extend(groups("others", &loss.others));
    lines.push(afterwards(loss.continued, loss.killed, loss.returned));
    lines.push(
        "  next:   look whether that machine runs, is reachable, and has memory left (dmesg | grep -i oom)"
            .into(),
    );
    lines.push(format!("  exit code {}", DeathManner::NodeLost.exit_code()));
    lines
}

/// Returns a remedy for an agent that is gone, by the signal that killed it, if one did.
fn remedy_of_agent(signal: Option<u8>, is_oom: bool) -> &'static str {
    if is_oom {
        return "ranks and agent need less memory: fewer ranks, less in each, or a higher limit (cgroup memory.max)";
    }
    signal.and_then(limit::behind_signal).unwrap_or(
        "if nobody killed the agent, look whether the machine ran out of memory (dmesg | grep -i oom)",
    )
}

/// Describes what happened to the others.
fn afterwards(continued: bool, killed: u32, returned: u32) -> String {
    if continued && killed == 0 {
        return "  the others went on (--on-death continue)".into();
    }
    format!(
        "  then:   {returned} of the others ended with errors of their own, {killed} were killed"
    )
}

fn remedy(death: &DeathReport) -> String {
    let rank = death.rank;
    match death.manner {
        DeathManner::Signal(9) => format!(
            "somebody killed rank {rank} from outside: the kernel counted no kill for memory (if it counts none here: dmesg | grep -i oom)"
        ),
        DeathManner::OutOfMemory => format!(
            "node {} needs less: fewer ranks or less memory in each there, or a higher limit (cgroup memory.max)",
            death.node
        ),
        DeathManner::Signal(4 | 6 | 7 | 8 | 11) => format!(
            "a fault in the program: see what rank {rank} said last (--label); `ulimit -c unlimited` keeps a core"
        ),
        DeathManner::Signal(n) if limit::behind_signal(n).is_some() => {
            limit::behind_signal(n).unwrap_or_default().into()
        }
        DeathManner::Signal(_) => format!("somebody sent that signal to process {}", death.pid),
        DeathManner::Exit(_) => format!(
            "see what rank {rank} said on its error stream above; --label shows who said what"
        ),
        DeathManner::NoFinalize => {
            "a rank must finalize before it leaves: let main return, do not call exit() before"
                .into()
        }
        DeathManner::Replaced => {
            "a rank must finalize before it calls exec: drop the job before, or start the program as a child"
                .into()
        }
        DeathManner::NeverJoined => "either every rank joins the job (init) or none does".into(),
        DeathManner::Stopped => format!(
            "to go on, send SIGCONT to the stopped process (kill -CONT {}) before the others end",
            death.pid
        ),
        DeathManner::Lingered => "raise --linger if that computation is meant to take longer".into(),
        DeathManner::NodeLost => {
            "look whether that machine runs, is reachable, and has memory left (dmesg | grep -i oom)"
                .into()
        }
    }
}

/// Formats the activity of ranks, those with the same activity in one line; at most seven lines.
pub fn groups(title: &str, doing: &[RankActivity]) -> Vec<String> {
    let mut groups: Vec<(&str, u64, Vec<usize>)> = Vec::new();
    for one in doing {
        match groups.iter_mut().find(|(what, _, _)| *what == one.what) {
            Some((_, longest, ranks)) => {
                *longest = (*longest).max(one.for_ms);
                ranks.push(one.rank as usize);
            }
            None => groups.push((&one.what, one.for_ms, vec![one.rank as usize])),
        }
    }
    groups.sort_by_key(|(_, _, ranks)| std::cmp::Reverse(ranks.len()));
    let more = groups.split_off(groups.len().min(MAX_GROUPS));
    let mut lines: Vec<String> = Vec::new();
    for (what, for_ms, ranks) in &groups {
        let head = if lines.is_empty() { format!("{title}:") } else { String::new() };
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        let doing = RankActivity { rank: 0, what: (*what).into(), for_ms: *for_ms };
        lines.push(format!("  {head:<7} {word} {}: {}", rank_list(ranks), with_time(&doing)));
    }
    if !more.is_empty() {
        let ranks: usize = more.iter().map(|(_, _, ranks)| ranks.len()).sum();
        lines.push(format!("          and {ranks} more ranks in {} other places", more.len()));
    }
    lines
}

fn with_time(doing: &RankActivity) -> String {
    match doing.for_ms {
        0 => doing.what.clone(),
        ms => format!("{} (since {})", doing.what, seconds(ms)),
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "nothing".into(),
        [first] => first.clone(),
        [first, second] => format!("{first}, {second}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {} more", rest.len()),
    }
}

/// Formats ranks in ascending order as `0, 2-5, 9`, cut when it gets long.
pub fn rank_list(ranks: &[usize]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < ranks.len() {
        let mut end = at;
        while end + 1 < ranks.len() && ranks[end + 1] == ranks[end] + 1 {
            end += 1;
        }
        if out.len() > MAX_LIST {
            let _ = write!(out, ", ... ({} in all)", ranks.len());
            return out;
        }
        let comma = if out.is_empty() { "" } else { ", " };
        let _ = match end - at {
            0 => write!(out, "{comma}{}", ranks[at]),
            1 => write!(out, "{comma}{}, {}", ranks[at], ranks[end]),
            _ => write!(out, "{comma}{}-{}", ranks[at], ranks[end]),
        };
        at = end + 1;
    }
    out
}

/// Describes ranks that run on although all others have ended.
pub(crate) fn lingering(left: &RanksLeft) -> String {
    const S: u64 = 1_000_000_000;
    let which = rank_list(&left.ranks);
    let (is, are) = (format!("rank {which} is"), format!("ranks {which} are"));
    let who = if left.ranks.len() == 1 { is } else { are };
    let bound = match left.linger_ns {
        Some(ns) => format!("it ends {} s after the last clean end", ns / S),
        None => "`--linger SECONDS` bounds that".into(),
    };
    format!("{who} still running, all others ended {} s ago; {bound}", NOTICE_NS / S)
}

#[cfg(test)]
mod tests;
