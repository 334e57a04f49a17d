//! `clump lab verify`: options, jobs, verdict.

use super::calibrate::{figures, name, scopes};
use crate::calibrate::{NOTHING, PathFigures};
use crate::pair::Scope;
use crate::progress::JobProgress;
use crate::verify::{STILL_NS, VerifiedPath, VerifyPoint, check, pairs, points, report};
use anyhow::Result;
use clump_os::{clock, console};
use clump_trace::line_state::LineWatch;
use clump_wire::Security;

/// Options of `clump lab verify`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Each knob is turned alone, to several settings, and with each other one, and all parameters\n\
    are measured at each: the knobs' own must be what they are set to, the others must stay. Exit\n\
    code 1 with --assert when a cell fails.\n\n\
    Example, for CI on a machine with a core for each of two ranks:  clump lab verify --assert 1%"
)]
pub struct VerifyArgs {
    /// Path to verify [default: both]
    #[arg(long, value_enum)]
    pub scope: Option<Scope>,
    /// Protection of packets between nodes: aead or crc
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Settings of each knob alone
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub settings: u32,
    /// Settings of each pair of knobs
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub pairs: u32,
    /// Measure settings of which cells fail again, so many times in all; a cell that holds once
    /// holds: for machines that do other work
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub tries: u32,
    /// Fail unless each knob's parameter is so close to what it is set to, and the others stay
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub assert: Option<f64>,
    /// Movement of the other parameters that is none, in ns (G: of 4 KiB); more than 2 % of them
    /// counts only beyond it: for machines whose processors are shared
    #[arg(long, value_name = "NS", default_value_t = STILL_NS, value_parser = still)]
    pub still: f64,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Share by which a parameter may miss its setting, where none is asserted.
const SHARE: f64 = 0.05;

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage from 0 to 100, as in 1%".into()),
    }
}

fn still(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ns) if ns >= STILL_NS && ns.is_finite() => Ok(ns),
        _ => Err(format!("a time in ns, {STILL_NS} or more")),
    }
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run.
pub fn run(args: &VerifyArgs) -> Result<u8> {
    let share = args.assert.unwrap_or(SHARE);
    let watch = LineWatch::begin();
    let mut paths = Vec::new();
    for scope in scopes(args.scope) {
        let mut path = verified(args, scope, |base| {
            [points(base, args.settings), pairs(base, args.pairs)].concat()
        })?;
        for _ in 1..args.tries {
            let failing = path.failing();
            if failing.is_empty() {
                break;
            }
            path.merge(verified(args, scope, |_| failing)?);
        }
        paths.push(path);
    }
    crate::render::show(&report(&paths, share)?.watched(watch), args.json)?;
    let failures: usize = paths.iter().map(VerifiedPath::failures).sum();
    Ok(u8::from(args.assert.is_some() && failures > 0))
}

/// Measures a path as it is, and at the points that follow from that.
fn verified(
    args: &VerifyArgs,
    scope: Scope,
    wanted: impl FnOnce(&PathFigures) -> Vec<VerifyPoint>,
) -> Result<VerifiedPath> {
    let share = args.assert.unwrap_or(SHARE);
    let name = name(scope, args.security);
    let asked = clock::now_ns();
    let base = figures(scope, args.security, NOTHING)?;
    let wanted = wanted(&base);
    let (begun, count) = (clock::now_ns(), wanted.len());
    console::err(&estimate(&name, count, begun - asked));
    let mut progress = JobProgress::new("verify", count);
    let mut measured = Vec::new();
    for (at, point) in wanted.into_iter().enumerate() {
        let left_s =
            (clock::now_ns() - begun) / 1_000_000_000 * (count - at) as u64 / at.max(1) as u64;
        progress.next(&format!("{name}, {}, {left_s} s left", point.text));
        let figures = figures(scope, args.security, &point.text)?;
        let cells = check(&base, &point, &figures, (share, args.still));
        measured.push((point, cells));
    }
    Ok(VerifiedPath { name, base, points: measured })
}

/// Returns how long the measurement will take, by the time of the base.
fn estimate(name: &str, settings: usize, base_ns: u64) -> String {
    let all_s = (base_ns * settings as u64).div_ceil(1_000_000_000);
    format!("verify {name}: {settings} settings, some {all_s} s; slow settings take longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_says_at_its_start_how_long_it_takes() {
        let said = estimate("shm", 38, 3_500_000_000);
        assert_eq!(said, "verify shm: 38 settings, some 133 s; slow settings take longer");
    }

    #[test]
    fn percentages_are_read_or_refused() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("5"), Ok(0.05));
        for bad in ["", "%", "-1", "101", "nan", "one"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert_eq!(still("8000"), Ok(8000.0));
        for bad in ["", "49", "-1", "nan", "inf"] {
            assert!(still(bad).is_err(), "{bad}");
        }
    }
}
