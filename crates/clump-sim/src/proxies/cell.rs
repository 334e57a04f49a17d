//! Results of one setting.

use super::setting::Setting;
use super::tally::Tally;
use crate::kernel::Time;
use clump_trace::{Monitor, Stage};

/// Time that messages spent in one stage.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StageTime {
    /// Name of the stage.
    pub stage: &'static str,
    /// Mean, in us.
    pub mean_us: f64,
    /// The mean over the minimum: the cost of contention.
    pub ratio: f64,
}

/// Times that each limit was reached, and maxima of what was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Bounds {
    /// Messages for which a rank found no room: its lane to the proxy was full, or its credit with
    /// the other endpoint used up.
    pub ranks_refused: u64,
    /// Messages that a proxy left with their rank, because the channel was full.
    pub channel_full: u64,
    /// Messages that a proxy kept, because the lane of their endpoint was full.
    pub endpoint_full: u64,
    /// Maximum bytes that a stack kept for its peers.
    pub stack_bytes: usize,
    /// Maximum number of messages that a proxy kept for its endpoints.
    pub held: usize,
}

/// Everything measured for one setting.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProxyCell {
    /// The setting.
    pub setting: Setting,
    /// Duration, in ms of virtual time.
    pub elapsed_ms: f64,
    /// Messages between nodes.
    pub messages: u64,
    /// Mean time from the hand-over to the handler, in us.
    pub message_us: f64,
    /// Time by stage, as the monitors of all proxies report it.
    pub stages: Vec<StageTime>,
    /// Time average, per proxy, of messages taken and not yet sent, as the monitors report it.
    pub queue: f64,
    /// Longest queue of any proxy.
    pub queue_max: u64,
    /// Mean share of time in which a proxy was busy.
    pub utilisation: f64,
    /// Busiest proxy of a node over the node's mean, by messages taken; of the worst node.
    pub imbalance: f64,
    /// Time that programs took over their time without any delay.
    pub slowdown: f64,
    /// Little's law of each monitor's queue: minimum and maximum of all proxies. 1 is right.
    pub little: [f64; 2],
    /// Little's law of messages between hand-over and handler: 1 is right.
    pub little_end_to_end: f64,
    /// Times that each limit was reached.
    pub bounds: Bounds,
}

/// Raw results of a run.
pub(super) struct ProxyRun<'a> {
    pub(super) elapsed: Time,
    pub(super) monitors: &'a [Monitor],
    pub(super) tally: &'a Tally,
    /// Time taken and time computed of each rank that worked.
    pub(super) programs: &'a [(Time, Time)],
    pub(super) bounds: Bounds,
}

impl ProxyCell {
    pub(super) fn of(setting: &Setting, run: &ProxyRun<'_>) -> Self {
        let ProxyRun { elapsed, monitors, tally, programs, bounds } = *run;
        let all = monitors.len() as f64;
        let mean = |what: fn(&Monitor) -> f64| monitors.iter().map(what).sum::<f64>() / all;
        let little = monitors.iter().filter_map(|monitor| monitor.little);
        let (least, most) =
            little.fold((f64::MAX, 0.0), |(a, b), one| (f64::min(a, one), f64::max(b, one)));
        let imbalance = monitors.chunk_by(|a, b| a.node == b.node).map(|node| {
            let taken = node.iter().map(|one| one.taken);
            let (sum, most) = taken.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
            most as f64 * node.len() as f64 / sum.max(1) as f64
        });
        let handled = tally.handled.max(1) as f64;
        let message_ns = tally.end_to_end as f64 / handled;
        let rate = handled / elapsed as f64;
        let under_way = tally.under_way_time as f64 / elapsed as f64;
        let slowdowns = programs.iter().map(|(took, thought)| *took as f64 / *thought as f64);
        Self {
            setting: setting.clone(),
            elapsed_ms: elapsed as f64 / 1e6,
            messages: tally.handled,
            message_us: message_ns / 1e3,
            stages: Stage::ALL.into_iter().filter_map(|stage| stage_of(monitors, stage)).collect(),
            queue: mean(|monitor| monitor.queue_mean),
            queue_max: monitors.iter().map(|monitor| monitor.queue_max).max().unwrap_or(0),
            utilisation: mean(|monitor| monitor.utilisation),
            imbalance: imbalance.fold(0.0, f64::max),
            slowdown: slowdowns.sum::<f64>() / programs.len().max(1) as f64,
            little: [least, most],
            little_end_to_end: under_way / (rate * message_ns),
            bounds,
        }
    }

    /// Returns the mean of a stage, in us; 0 when nothing was timed.
    pub fn stage_us(&self, name: &str) -> f64 {
        self.stages.iter().find(|stage| stage.stage == name).map_or(0.0, |stage| stage.mean_us)
    }

    /// Returns true if all of Little's laws hold to within a tenth, where enough was timed.
    pub fn obeys_little(&self) -> bool {
        let near = |ratio: f64| (0.9..=1.1).contains(&ratio);
        let [least, most] = self.little;
        (least > most || (near(least) && near(most))) && near(self.little_end_to_end)
    }
}

fn stage_of(monitors: &[Monitor], stage: Stage) -> Option<StageTime> {
    let times = monitors.iter().flat_map(|monitor| &monitor.stages);
    let (mut timed, mut sum, mut least) = (0, 0.0, f64::MAX);
    for one in times.filter(|times| times.stage == stage) {
        timed += one.timed;
        sum += one.mean_us * one.timed as f64;
        least = least.min(one.min_us);
    }
    let mean_us = sum / timed as f64;
    (timed > 0).then(|| StageTime {
        stage: stage.name(),
        mean_us,
        ratio: mean_us / least.max(1e-3),
    })
}
