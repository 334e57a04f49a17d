//! `clump doctor --hosts`: every machine by itself, then every pair, by jobs of this program on
//! them. So each is reached, and fails, as a user's job would.

use super::facts::{self, Facts};
use super::output::{HostsOutput, MachinesOutput};
use crate::job::launch_here;
use crate::machines::Machines;
use anyhow::{Context, Result};
use clump::Clump;
use clump_agent::spec::Machine;
use clump_agent::{Display, JobSpec};
use clump_os::printable::printable_json;
use clump_os::scratch::Scratch;
use clump_os::{available, clock, console, interface_address, process, topology};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Round trips that are timed, and those before.
const TRIPS: u32 = 200;
const WARM_UP: u32 = 20;
/// Bytes of a transfer, and transfers that are timed.
const BYTES: usize = 4 << 20;
const TRANSFERS: u32 = 8;
/// Difference of clocks that is worth a remark, in ms.
const CLOCKS_MS: f64 = 1000.0;
/// Most pairs that are examined one by one after all together have failed.
const MAX_PAIRS: usize = 64;

/// Examines the machines that the user names; the code is 0 if a job can run on all of them.
pub(super) fn examine(machines: &Machines, json: bool) -> Result<ExitCode> {
    let hosts = machines.read(true)?.context("no machine is named")?;
    let names: Vec<String> =
        hosts.filled(hosts.slots())?.into_iter().map(|machine| machine.name).collect();
    if json {
        let output = examined(&names, |some, _| collected(machines, some))?;
        console::out(&printable_json(&(serde_json::to_string_pretty(&output)? + "\n")))?;
        return Ok(if output.usable { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let output = examined(&names, |some, heading| {
        console::out(heading)?;
        let usable = job(machines, some, None)?;
        let names = some.iter().map(|&name| name.to_owned()).collect();
        Ok(MachinesOutput { names, usable, lines: Vec::new() })
    })?;
    let count = names.len();
    let good = output.machines.iter().filter(|of| of.usable).count();
    console::out(&match output.usable {
        true => format!("\na job can run on all {count} machines\n"),
        false => format!("\n{good} of {count} machines can run a job by themselves; see above\n"),
    })?;
    Ok(if output.usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Examines machines one by one, then all good ones together, and then each two of them if that has
/// failed. `run` runs a job on some, under a heading.
fn examined(
    names: &[String],
    mut run: impl FnMut(&[&str], &str) -> Result<MachinesOutput>,
) -> Result<HostsOutput> {
    let mut output = HostsOutput::new();
    for name in names {
        output.machines.push(run(&[name], &format!("{name}\n"))?);
    }
    let good: Vec<&str> =
        names.iter().zip(&output.machines).filter(|(_, of)| of.usable).map(|(n, _)| &**n).collect();
    output.usable = good.len() == names.len();
    if good.len() < 2 {
        return Ok(output);
    }
    let all = run(&good, "\npairs\n")?;
    let failed = !all.usable;
    output.usable &= all.usable;
    output.together.push(all);
    // The job has named one pair; others may fail too.
    let pairs = (0..good.len()).flat_map(|one| (one + 1..good.len()).map(move |two| (one, two)));
    for (one, two) in pairs.take(MAX_PAIRS).filter(|_| failed && good.len() > 2) {
        let two = [good[one], good[two]];
        output.together.push(run(&two, &format!("  {} and {} alone:\n", two[0], two[1]))?);
    }
    Ok(output)
}

/// Runs such a job, and returns the lines that its ranks have printed.
fn collected(machines: &Machines, names: &[&str]) -> Result<MachinesOutput> {
    let folder = Scratch::new(&std::env::temp_dir(), "doctor")?;
    let usable = job(machines, names, Some(folder.path()))?;
    let mut lines = Vec::new();
    for rank in 0..names.len() {
        let file = folder.path().join(format!("rank-{rank}.out"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        lines.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    let names = names.iter().map(|&name| name.to_owned()).collect();
    Ok(MachinesOutput { names, usable, lines })
}

/// Runs this program's part with one rank on each of these machines, which print, or write into
/// files of a folder; returns true if it went well.
fn job(machines: &Machines, names: &[&str], folder: Option<&Path>) -> Result<bool> {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let ranks = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let words = ["doctor", "--as-rank", &names.join(",")].map(OsString::from).to_vec();
    let program = machines.agent.clone().unwrap_or(program.into());
    let mut spec = JobSpec::new(program, words, ranks);
    machines.apply(&mut spec, true)?;
    spec.machines = names.iter().map(|name| Machine { name: (*name).into(), ranks: 1 }).collect();
    spec.nodes = ranks;
    spec.verbose = names.len() > 1;
    let display = Display { folder: folder.map(Path::to_owned), ..Display::default() };
    Ok(launch_here(spec, &display)?.is_clean())
}

/// Describes the machine of this rank, and what it lacks; or, where there are several, every pair.
pub(super) fn as_rank(names: &[String], lacks: fn(&Facts) -> String) -> Result<ExitCode> {
    let cl = clump::init()?;
    if cl.nranks() == 1 {
        console::out(&own_machine(lacks))?;
        return Ok(ExitCode::SUCCESS);
    }
    for one in 0..cl.nranks() {
        for two in one + 1..cl.nranks() {
            let text = pair(&cl, names, one, two)?;
            if cl.rank() == one {
                console::out(&text)?;
            }
            cl.barrier()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn own_machine(lacks: fn(&Facts) -> String) -> String {
    let found = facts::gather();
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let memory = available::memory_bytes()
        .map_or(String::new(), |free| format!(", {:.1} GiB of memory available", gib(free)));
    let mut text = format!(
        "  {} is {} ({}), {} cores{memory}, clump {}\n",
        process::host_name(),
        found.kernel.0,
        found.kernel.1,
        topology::usable_cores(),
        env!("CARGO_PKG_VERSION"),
    );
    let addresses: Vec<String> = interface_address::all()
        .iter()
        .filter(|one| !one.loopback && one.running)
        .map(|one| format!("{} ({}{})", one.address, one.interface, mtu_of(&one.interface)))
        .collect();
    let _ = writeln!(text, "  addresses: {}", addresses.join(", "));
    text.push_str(&lacks(&found));
    text
}

/// Returns the words for the longest packet of an interface.
fn mtu_of(interface: &str) -> String {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu"));
    text.map_or(String::new(), |mtu| format!(", MTU {}", mtu.trim()))
}

/// Measures the path between two ranks; all ranks call it.
fn pair(cl: &Clump, names: &[String], one: usize, two: usize) -> Result<String> {
    let own = cl.rank();
    let color = (own == one || own == two).then_some(1);
    let Some(team) = cl.split(color, own as u64)? else { return Ok(String::new()) };
    let trip = || {
        team.broadcast(0, &mut [0_u64])?;
        team.broadcast(1, &mut [0_u64])
    };
    (0..WARM_UP).try_for_each(|_| trip())?;
    let start = clock::now_ns();
    (0..TRIPS).try_for_each(|_| trip())?;
    let trip_us = (clock::now_ns() - start) as f64 / 1e3 / f64::from(TRIPS);
    // The other's clock is read in the middle of a round trip.
    let mut theirs = [0_u64];
    let before = clock::real_ns();
    team.broadcast(0, &mut [0_u64])?;
    theirs[0] = clock::real_ns();
    team.broadcast(1, &mut theirs)?;
    let middle = before.midpoint(clock::real_ns());
    let apart_ms = theirs[0].abs_diff(middle) as f64 / 1e6;
    let mut block = vec![0_u8; BYTES];
    team.broadcast(0, &mut block)?;
    let start = clock::now_ns();
    for _ in 0..TRANSFERS {
        team.broadcast(0, &mut block)?;
        team.broadcast(1, &mut [0_u64])?;
    }
    let seconds = (clock::now_ns() - start).max(1) as f64 / 1e9;
    let rate = f64::from(TRANSFERS) * BYTES as f64 / seconds / 1e6;
    let name = |rank: usize| names.get(rank).map_or("", String::as_str);
    let mut text = format!(
        "  {} - {}: round trip {trip_us:.0} us, {rate:.0} MB/s, clocks {apart_ms:.1} ms apart\n",
        name(one),
        name(two)
    );
    if apart_ms > CLOCKS_MS {
        text.push_str(
            "    remedy: times of files and logs will not agree; run chrony or ntpd on both\n",
        );
    }
    Ok(text)
}
