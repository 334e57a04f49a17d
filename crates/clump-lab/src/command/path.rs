//! `clump lab path`: options, the relay, the command that runs on the path.

use crate::compare::process::Guard;
use crate::launch::{self, JobShape};
use crate::path::amount::{self, QueueLength};
use crate::path::pump::{self, RelayPlan, RunningPath};
use crate::path::relay::{PathShape, bytes_in};
use crate::path::workload::{self, PathWorkload};
use crate::path::{CommandPath, PathRound, RelayReport};
use crate::progress::JobProgress;
use crate::wrong_command::WrongCommand;
use anyhow::{Context, Result};
use clap::ValueEnum;
use clump_os::bound_child::BoundChild;
use clump_os::netns::MAX_COUNT;
use clump_os::signal::{self, Signals};
use clump_os::{console, text_file};
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// Variable that hands the namespaces over to jobs.
const VARIABLE: &str = "CLUMP_NETNS";
/// Shortest queue unless one is named, as the time that its bytes take.
const MIN_QUEUE_NS: u64 = 1_000_000;
/// Shortest time of a stream unless one is named, and round trips that it has at least.
const MIN_SPAN_NS: u64 = 3_000_000_000;
const SPAN_TRIPS: u64 = 100;
/// Time that a job of the comparison has beyond its stream.
const BESIDE: Duration = Duration::from_secs(30);
/// Jobs of a round of the comparison.
const JOBS: usize = 6;

/// Options of `clump lab path`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Nodes of jobs that COMMAND starts (`clump run -n 2 --nodes 2 ...`, `clump app`, `clump lab`) are in network\n\
    namespaces of their own, and a relay moves packets of IP between them. It takes no root where user namespaces\n\
    and /dev/net/tun are allowed (`clump doctor`). Times are in ns, us, ms, s; rates in kbit, mbit, gbit a second;\n\
    sizes in B, KiB, MiB; shares in % or ppm.\n\n\
    Examples:\n  \
    clump lab path --rtt 2ms --rate 1gbit -- clump run -n 2 --nodes 2 ./program\n  \
    clump lab path --rtt 50ms --rate 100mbit --queue 5ms --loss 0.1% -- clump app sort -n 2 --nodes 2 --keys 1000000\n  \
    clump lab path --rtt 5ms --rate 1gbit --compare"
)]
pub struct PathArgs {
    /// Round trip of the path without a queue
    #[arg(long, value_name = "TIME", value_parser = amount::time, default_value = "0")]
    pub rtt: u64,
    /// Bits of IP packets per second to each node [default: what the relay carries]
    #[arg(long, value_name = "RATE", value_parser = amount::rate)]
    pub rate: Option<u64>,
    /// Longest queue to each node, as a time at the rate or a size [default: the round trip, at
    /// least 1ms]
    #[arg(long, value_name = "TIME|SIZE", value_parser = amount::queue, requires = "rate")]
    pub queue: Option<QueueLength>,
    /// Longest random delay of a packet; packets keep their order
    #[arg(long, value_name = "TIME", value_parser = amount::time, default_value = "0")]
    pub jitter: u64,
    /// Packets that are lost
    #[arg(long, value_name = "SHARE", value_parser = amount::share, default_value = "0")]
    pub loss: u32,
    /// Packets that come a quarter of a round trip late, at least 50us: others overtake them
    #[arg(long, value_name = "SHARE", value_parser = amount::share, default_value = "0")]
    pub reorder: u32,
    /// Pauses in which nothing arrives, as 10ms/1s: their length, and the time from one to the next
    #[arg(long, value_name = "LENGTH/EVERY", value_parser = amount::pause)]
    pub pause: Option<(u64, u64)>,
    /// Longest packet of IP, bytes
    #[arg(long, value_name = "BYTES", default_value = "1500",
          value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Nodes that the path joins
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_COUNT)))]
    pub nodes: u32,
    /// Chooses the packets that are lost or late
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measure clump (--security crc) and TCP on the path, in turn, instead of running a command
    #[arg(long, conflicts_with = "command")]
    pub compare: bool,
    /// With --compare: rounds; figures are medians over them
    #[arg(long, default_value = "3", requires = "compare",
          value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// With --compare: time of each stream [default: 100 round trips, at least 3s]
    #[arg(long, value_name = "TIME", value_parser = amount::time, requires = "compare")]
    pub span: Option<u64>,
    /// One JSON object instead of text: the comparison, or the path and the relay's counts behind
    /// the output of the command
    #[arg(long)]
    pub json: bool,
    /// The plan of the process that is the path.
    #[arg(long, hide = true)]
    pub relay: Option<RelayPlan>,
    /// Workload of the ranks of a job.
    #[arg(long, hide = true, value_enum)]
    pub workload: Option<PathWorkload>,
    /// The command, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["compare", "relay", "workload"])]
    pub command: Vec<OsString>,
}

impl PathArgs {
    fn plan(&self) -> RelayPlan {
        let queue_bytes = match (self.queue, self.rate) {
            (Some(QueueLength::Bytes(bytes)), _) => bytes,
            (Some(QueueLength::Time(ns)), Some(rate)) => bytes_in(ns, rate),
            (None, Some(rate)) => bytes_in(self.rtt.max(MIN_QUEUE_NS), rate),
            (_, None) => 0,
        };
        let shape = PathShape {
            rtt_ns: self.rtt,
            rate: self.rate,
            queue_bytes,
            jitter_ns: self.jitter,
            loss_ppm: self.loss,
            reorder_ppm: self.reorder,
            pause: self.pause,
            mtu: self.mtu,
        };
        RelayPlan { shape, nodes: self.nodes, seed: self.seed }
    }

    fn span_ns(&self) -> u64 {
        self.span.unwrap_or_else(|| MIN_SPAN_NS.max(SPAN_TRIPS.saturating_mul(self.rtt)))
    }
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if this machine allows no path, or if a job of the comparison fails.
pub fn run(args: &PathArgs) -> Result<u8> {
    if let Some(plan) = &args.relay {
        return pump::run(plan).map(|()| 0);
    }
    if let Some(workload) = args.workload {
        if let Some(said) = workload::play(workload, args.span_ns())? {
            console::out(&format!("{said}\n"))?;
        }
        return Ok(0);
    }
    let plan = args.plan();
    let mut relay = Command::new(launch::own_program()?);
    relay.args(["lab", "path", "--relay"]).arg(serde_json::to_string(&plan)?);
    // Left pending: the user ends the command, which ends the relay and what runs on the path.
    let _signals = Signals::block(&signal::ENDS)?;
    let mut path = RunningPath::start(&mut relay)?;
    path.leave_processor()?;
    if args.compare {
        return compare(args, &plan, &mut path);
    }
    let code = on_path(args, &mut path)?;
    let (counts, real_time) = (path.counts()?, path.entry().real_time);
    if args.json {
        let format = console::JSON_FORMAT;
        let printed = CommandPath { format, code, shape: plan.shape, real_time, counts };
        console::out(&format!("{}\n", serde_json::to_string(&printed)?))?;
    } else {
        let counts = counts.describe(real_time);
        console::err(&format!("path: {}: {counts}", plan.shape.describe()));
    }
    Ok(code)
}

/// Runs the user's command on the path. Returns its exit code.
fn on_path(args: &PathArgs, path: &mut RunningPath) -> Result<u8> {
    let (program, words) = args.command.split_first().context("a command")?;
    let mut command = Command::new(program);
    command.args(words).env(VARIABLE, &path.entry().namespaces);
    let shown = || program.to_string_lossy().into_owned();
    let mut child = BoundChild::start(&mut command)
        .map_err(|e| WrongCommand::new(format!("`{}` cannot be started: {e}", shown())))?;
    let status =
        child.wait_while(|| path.is_there() && signal::pending(&signal::ENDS).is_none())?;
    match status {
        Some(status) => Ok(launch::code_of(status)),
        None if path.is_there() => {
            let code = signal::pending(&signal::ENDS).map_or(1, |signal| 128 + signal);
            Ok(code)
        }
        None => {
            drop(child);
            anyhow::bail!("the relay of the path ended before `{}`, which was stopped", shown())
        }
    }
}

fn compare(args: &PathArgs, plan: &RelayPlan, path: &mut RunningPath) -> Result<u8> {
    let mut progress = JobProgress::new("path", args.rounds * JOBS);
    let mut round = || -> Result<PathRound> {
        Ok(PathRound {
            small: job(args, path, &mut progress, PathWorkload::Small)?,
            tcp: job(args, path, &mut progress, PathWorkload::Tcp)?,
            large: job(args, path, &mut progress, PathWorkload::Large)?,
            gets: job(args, path, &mut progress, PathWorkload::Gets)?,
            trip_ns: job(args, path, &mut progress, PathWorkload::Trips)?,
            tcp_trip_ns: job(args, path, &mut progress, PathWorkload::TcpTrips)?,
        })
    };
    let watch = LineWatch::begin();
    let rounds = (0..args.rounds).map(|_| round()).collect::<Result<Vec<_>>>()?;
    let control = text_file::read("/proc/sys/net/ipv4/tcp_congestion_control".as_ref(), 1 << 10);
    let report = RelayReport {
        shape: plan.shape,
        span_ns: args.span_ns(),
        tcp_control: control.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned()),
        rounds,
        real_time: path.entry().real_time,
        counts: path.counts()?,
    };
    crate::render::show(&report.report()?.watched(watch), args.json)?;
    Ok(0)
}

/// Runs a job on the path for the output of its rank 0.
fn job<T: DeserializeOwned>(
    args: &PathArgs,
    path: &RunningPath,
    progress: &mut JobProgress,
    workload: PathWorkload,
) -> Result<T> {
    let shape = JobShape { ranks: 2, nodes: 2, security: Security::Crc, netns: false };
    let value = workload.to_possible_value().context("every workload has a name")?;
    progress.next(value.get_name());
    let mut command = launch::job(shape, 0)?;
    let span = format!("{}ns", args.span_ns());
    command.args(words(value.get_name(), &span)).env(VARIABLE, &path.entry().namespaces);
    let limit = BESIDE + Duration::from_nanos(args.span_ns());
    let what = || format!("a job on the path ({})", value.get_name());
    let text = Guard::start(&mut command).and_then(|job| job.finish(limit)).with_context(what)?;
    serde_json::from_str(&text).with_context(what)
}

/// Returns the command line of the ranks.
fn words<'a>(workload: &'a str, span: &'a str) -> [&'a str; 7] {
    ["lab", "path", "--compare", "--workload", workload, "--span", span]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{
        Command as Of,
        tests::{parse, try_parse},
    };

    fn args(words: &[&str]) -> PathArgs {
        let Of::Path(args) = parse(&[&["lab", "path"], words].concat()) else { panic!("another") };
        *args
    }

    #[test]
    fn ranks_know_the_command_line_that_starts_them() {
        for workload in PathWorkload::value_variants() {
            let value = workload.to_possible_value().unwrap();
            let args = args(&words(value.get_name(), "5000000000ns")[2..]);
            assert_eq!((args.workload, args.span_ns()), (Some(*workload), 5_000_000_000));
        }
    }

    /// The name is one of the table of settings; another one would be ignored silently.
    #[test]
    fn the_setting_exists() {
        assert!(clump_boot::config::TEXT_KEYS.iter().any(|key| key.variable == VARIABLE));
    }

    #[test]
    fn a_queue_is_as_long_as_the_path_unless_one_is_named() {
        let queue =
            |words: &[&str]| args(&[words, &["--", "true"]].concat()).plan().shape.queue_bytes;
        assert_eq!(queue(&["--rtt", "2ms", "--rate", "1gbit"]), 250_000);
        assert_eq!(queue(&["--rate", "1gbit"]), 125_000);
        assert_eq!(queue(&["--rate", "1gbit", "--queue", "5ms"]), 625_000);
        assert_eq!(queue(&["--rate", "1gbit", "--queue", "64KiB"]), 65_536);
        assert_eq!(queue(&["--rtt", "2ms"]), 0);
    }

    #[test]
    fn a_stream_has_many_round_trips() {
        assert_eq!(args(&["--compare"]).span_ns(), MIN_SPAN_NS);
        assert_eq!(args(&["--rtt", "50ms", "--compare"]).span_ns(), 5_000_000_000);
    }

    #[test]
    fn a_path_is_for_a_command_or_a_comparison() {
        for wrong in [&[][..], &["--compare", "--", "true"], &["--queue", "5ms", "--", "true"]] {
            assert!(try_parse(&[&["lab", "path"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
