//! `machines up N FOLDER`, `machines down FOLDER`, `machines check FOLDER`: machines on this
//! machine, for people, and a sort on four of them.

use clump_os::clock;
use clump_process_tests::program;
use clump_process_tests::sshd_machines::{MachinePlan, Machines, obstacle, take_down};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Records of the sort.
const RECORDS: &str = "200000";

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["up", count, folder] => up(count, Path::new(folder)),
        ["down", folder] => take_down(Path::new(folder)).map(|n| format!("{n} machines ended")),
        ["check", folder] => check(Path::new(folder)),
        _ => Err("usage: machines up N FOLDER | down FOLDER | check FOLDER".into()),
    };
    match done {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("machines: {why}");
            ExitCode::FAILURE
        }
    }
}

fn up(count: &str, folder: &Path) -> Result<String, String> {
    if let Some(why) = obstacle() {
        return Err(why);
    }
    let count = count.parse().ok().filter(|n| (1..=64).contains(n));
    let count = count.ok_or("up to 64 machines can be set up")?;
    let plans = MachinePlan::alike(count);
    let machines = Machines::set_up(&plans, folder, false)?;
    let prefix: Vec<_> =
        machines.prefix().iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let hosts: Vec<String> = plans.iter().map(|plan| format!("{}:2", plan.name)).collect();
    let text = format!(
        "{count} machines are up; try:\n  {} {} run --hosts {} --ssh \"{}\" hostname",
        prefix.join(" "),
        program("clump-under-test").display(),
        hosts.join(","),
        machines.ssh()
    );
    machines.keep();
    Ok(text)
}

fn check(folder: &Path) -> Result<String, String> {
    if let Some(why) = obstacle() {
        return Ok(format!("SKIPPED: machines check: {why}"));
    }
    let start = clock::instant();
    let machines = Machines::set_up(&MachinePlan::alike(4), folder, true)?;
    let up = start.elapsed();
    let shared = machines.shared();
    let (input, output) = (shared.join("records"), shared.join("sorted"));
    let clump = program("clump-under-test").display().to_string();
    let place = |path: &Path| path.display().to_string();
    run(&[&clump, "app", "gensort", RECORDS, &place(&input)])?;
    let mut words: Vec<String> =
        machines.prefix().iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let ssh = machines.ssh();
    words.extend(
        [&clump, "app", "sort", "-n", "8", "--hosts", "m1:2,m2:2,m3:2,m4:2"].map(String::from),
    );
    words.extend(["--ssh", &ssh, "-i", &place(&input), "-o", &place(&output)].map(String::from));
    let start = clock::instant();
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let sorted = start.elapsed();
    run(&[&clump, "app", "valsort", &place(&output), "--input", &place(&input)])?;
    drop(machines);
    Ok(format!(
        "4 machines up in {:.1} s, {RECORDS} records sorted on 8 ranks over ssh in {:.1} s, verified, machines down",
        up.as_secs_f64(),
        sorted.as_secs_f64()
    ))
}

fn run(words: &[&str]) -> Result<(), String> {
    let done = Command::new(words[0]).args(&words[1..]).output().map_err(|e| e.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr)))
}
