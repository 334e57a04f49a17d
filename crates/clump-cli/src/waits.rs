//! `clump stats --where`: what each rank of a running job waits for, and the stacks of its threads.

use crate::stacks::Debugger;
use clump_agent::waits::{self, JobWaits, RankWaits};
use clump_os::console::JSON_FORMAT;
use clump_os::printable::printable_json;
use clump_shm::node::NodeMemory;
use schemars::JsonSchema;
use serde::Serialize;

/// Waits of the ranks of a job as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitsOutput {
    /// Number of the format.
    format: u32,
    /// The job.
    job: String,
    /// Its nodes that are seen here.
    nodes: usize,
    /// Ranks, locks, collectives, and circles of ranks that wait for each other.
    #[serde(rename = "where")]
    waits: JobWaits,
    /// Reason why stacks are missing, if some are.
    stacks: Option<String>,
}

/// Returns what the ranks of a job wait for, as text or JSON; with the stacks of the threads of so
/// many ranks as a debugger shows them.
///
/// # Errors
/// Fails if it cannot be written as JSON.
pub(crate) fn shown(nodes: &[NodeMemory], stacks: u32, json: bool) -> anyhow::Result<String> {
    let mut job = JobWaits::observe(nodes, |_| None);
    let note = take_stacks(&mut job, stacks);
    let id = nodes.first().map_or(0, |node| node.job().id());
    if json {
        let output = WaitsOutput {
            format: JSON_FORMAT,
            job: format!("{id:016x}"),
            nodes: nodes.len(),
            waits: job,
            stacks: note,
        };
        return Ok(format!("{}\n", printable_json(&serde_json::to_string(&output)?)));
    }
    let all = nodes.first().map_or(0, |node| node.nnodes() as usize);
    let seen = if nodes.len() < all {
        format!(", on {} of {all} nodes: the others are on other machines", nodes.len())
    } else {
        String::new()
    };
    let mut lines = vec![format!("job {id:016x}: {} ranks{seen}", job.ranks.len())];
    lines.extend(waits::lines(&job, true));
    lines.extend(note.map(|note| format!("stacks: {note}")));
    Ok(lines.join("\n") + "\n")
}

/// Adds the stacks of up to `most` ranks: of those that others wait for first, since these block
/// the job. Returns a note for the user about missing stacks.
fn take_stacks(job: &mut JobWaits, most: u32) -> Option<String> {
    if most == 0 {
        return Some("none were requested (--stacks N)".into());
    }
    let Some(debugger) = Debugger::find() else {
        return Some("neither eu-stack (elfutils) nor gdb is installed".into());
    };
    let awaited = job.awaited();
    let mut order: Vec<usize> = (0..job.ranks.len()).filter(|&at| job.ranks[at].pid != 0).collect();
    let urgency = |rank: &RankWaits| (!rank.waits.is_empty(), !awaited.contains_key(&rank.rank));
    order.sort_by_key(|&at| urgency(&job.ranks[at]));
    let more = order.split_off(order.len().min(most as usize)).len();
    let mut failed = None;
    for at in order {
        let rank = &mut job.ranks[at];
        match debugger.stacks(rank.pid) {
            Ok(mut stacks) => {
                for thread in &mut rank.threads {
                    thread.stack = stacks.remove(&thread.thread).unwrap_or_default();
                }
            }
            Err(why) => failed = failed.or(Some(format!("of rank {}: {why}", rank.rank))),
        }
    }
    let left = (more > 0).then(|| format!("{more} ranks more have some (--stacks N)"));
    failed.or(left)
}
