//! The computation of a sweep in virtual time: recorded in runs at no setting, before all others.

use crate::sweep::{RunEnd, SweepJournal};
use crate::sweep_job::SweepJob;
use crate::virtual_sweep::RECORDED;
use anyhow::{Context, Result, bail, ensure};
use clump_os::console;
use std::path::{Path, PathBuf};

/// Message for a user who has interrupted a sweep.
pub(super) const INTERRUPTED: &str = "sweep: interrupted; the same command goes on with it";

/// Returns the cost of computation for the runs of a sweep, as an option of `clump run`; records it
/// where there are no runs yet. Empty where time is the machine's; `None` if the user interrupts.
///
/// # Errors
/// The program does not end cleanly, or the recording of earlier runs is gone.
pub(super) fn ready(file: &Path, journal: &SweepJournal, limit_s: u64) -> Result<Option<String>> {
    let Some(time) = &journal.plan.virtual_time else { return Ok(Some(String::new())) };
    if time.cpu != RECORDED {
        return Ok(Some(time.cpu.clone()));
    }
    let folder = recording_beside(file);
    let replayed = format!("replay:{}", folder.display());
    if folder.is_dir() {
        return Ok(Some(replayed));
    }
    ensure!(
        journal.is_empty(),
        "the runs of the journal replay {}, which is gone; name another journal",
        folder.display()
    );
    // Runs that do not end leave a part of a recording.
    let part = folder.with_extension("part");
    if part.is_dir() {
        std::fs::remove_dir_all(&part).with_context(|| format!("{}", part.display()))?;
    }
    let cpu = format!("learn:{}", part.display());
    let command = &journal.plan.command;
    let job = SweepJob {
        command,
        limit_s,
        virtual_time: Some((&time.machine.name, &cpu)),
        ..SweepJob::default()
    };
    for run in 1..=time.learn {
        console::err(&format!("sweep: run {run} of {} whose computation is recorded", time.learn));
        match job.run()? {
            None => {
                console::err(INTERRUPTED);
                return Ok(None);
            }
            Some(RunEnd::Took(_)) => {}
            Some(RunEnd::Failed(code)) => bail!(
                "it ended with code {code}; try `clump run --virtual {} {}`",
                time.machine.name,
                command.join(" ")
            ),
            Some(RunEnd::DidNotFinish(s)) => bail!("it took more than {s:.0} s (--limit)"),
        }
    }
    std::fs::rename(&part, &folder).with_context(|| format!("{}", folder.display()))?;
    Ok(Some(replayed))
}

/// Returns the folder of the recording of a sweep.
fn recording_beside(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".cpu");
    name.into()
}
