//! The end of a job as the user sees it: remaining output, report, exit code.

use super::{Launcher, OWN_FAILURE};
use crate::display::Display;
use crate::frame::Stream;
use crate::outcome::{Heartbeats, JobEnd, JobOutcome};
use crate::report;
use crate::spec::JobSpec;
use crate::waits::{self, JobWaits};
use clump_os::error::Errno;
use clump_os::printable::printable_lines;
use clump_os::{OsError, clock, signal};
use clump_trace::Monitor;
use std::path::Path;

/// Exit code when the output has no reader any more: 128 + SIGPIPE.
const UNREAD: u8 = 141;
/// Exit code when the job's time limit ended it, as timeout(1) has it.
const TIMED_OUT: u8 = 124;
/// Time that a rank of a job that hangs has waited at least.
const HANGS_MS: u64 = 1000;

impl Launcher {
    /// Shows the remaining output, and corrects the outcome by what only the launcher knows.
    pub(super) fn conclude(
        &mut self,
        outcome: &mut JobOutcome,
        spec: &JobSpec,
        display: &Display,
    ) -> anyhow::Result<()> {
        self.concluding = true;
        if let Some(why) = self.unwritten.as_ref().filter(|_| self.requests.signal().is_none()) {
            (outcome.code, outcome.ending) = unwritten(why);
        }
        self.printer.finish();
        let hidden = self.notices.hidden();
        if hidden > 0 {
            let text = format!("clump: {hidden} further notices were not shown\n");
            self.printer.say(Stream::Errors, &text);
        }
        let ended = matches!(outcome.ending, JobEnd::Interrupted { .. } | JobEnd::TakenOver { .. });
        if self.timed_out && ended {
            (outcome.code, outcome.time_limit_ms) = (TIMED_OUT, spec.time_limit_ms);
        }
        let said = display.brief && outcome.explains_itself();
        if let Some(text) = report::explain(&spec.program_name(), outcome).filter(|_| !said) {
            // The report comes last, where a user looks first.
            self.say_waits(outcome);
            self.printer.say(Stream::Errors, &text);
        }
        if let Some(report) = &outcome.virtual_time {
            self.printer.say(Stream::Errors, &format!("{}\n", report.line(outcome.wall_ms)));
        }
        if display.stats {
            self.sum_up(outcome);
        }
        if let Some(path) = &display.profile {
            self.save_profile(outcome, path);
        }
        if display.json {
            let text = clump_os::printable::printable_json(&serde_json::to_string(outcome)?);
            self.printer.say(Stream::Output, &format!("{text}\n"));
        }
        self.await_shown()?;
        self.say_failures(outcome);
        self.await_shown()
    }

    /// Shows what the ranks waited for when a time limit ended the job: its own, or that of a batch
    /// system or of timeout(1), which send SIGTERM. A job that did not hang is not explained.
    fn say_waits(&self, outcome: &JobOutcome) {
        let by_limit = match outcome.ending {
            JobEnd::Interrupted { signal, .. } => signal == signal::TERMINATE,
            _ => false,
        };
        let waits = outcome.waits.as_deref().filter(|_| by_limit);
        let hung = |waits: &&JobWaits| self.timed_out || waits.longest_ms() >= HANGS_MS;
        if let Some(waits) = waits.filter(hung) {
            let lines = waits::lines(waits, true).join("\n");
            self.printer.say(Stream::Errors, &format!("{}\n", printable_lines(&lines)));
        }
    }

    /// Writes the profile of the job into a file. A job whose profile is lost fails.
    fn save_profile(&mut self, outcome: &mut JobOutcome, path: &Path) {
        let written = match &outcome.profile {
            None => Err("no rank joined the job, so there is no profile".to_owned()),
            Some(profile) => serde_json::to_string(profile)
                .map_err(|e| e.to_string())
                .and_then(|text| std::fs::write(path, text + "\n").map_err(|e| e.to_string())),
        };
        if let Err(why) = written {
            let text = format!("clump: the profile {} was not written: {why}\n", path.display());
            self.printer.say(Stream::Errors, &text);
            outcome.code = if outcome.code == 0 { OWN_FAILURE } else { outcome.code };
        }
    }

    /// Shows how the ranks communicated.
    fn sum_up(&self, outcome: &JobOutcome) {
        let text = match &outcome.summary {
            Some(summary) => summary.to_string(),
            None => {
                "clump: no rank joined the job, so there is no communication to sum up\n".into()
            }
        };
        self.printer.say(Stream::Errors, &text);
        if let Some(profile) = &outcome.profile {
            self.printer.say(Stream::Errors, &profile.to_string());
        }
        if let Some(placement) = outcome.config.get("placement") {
            self.printer.say(Stream::Errors, &format!("placement: {placement}\n"));
        }
        if let Some(addresses) = outcome.config.get("addresses") {
            self.printer.say(Stream::Errors, &format!("addresses: {addresses}\n"));
        }
        if let Some(Heartbeats { sent_per_s, received_per_s }) = outcome.heartbeats {
            let text = format!(
                "heartbeats: {sent_per_s:.1} sent, {received_per_s:.1} received a second by an agent\n"
            );
            self.printer.say(Stream::Errors, &text);
        }
        for monitors in [&outcome.stacks, &outcome.interfaces] {
            if !monitors.is_empty() {
                let lines = Monitor::lines(monitors).join("\n");
                self.printer.say(Stream::Errors, &format!("\n{lines}\n"));
            }
        }
    }

    /// Waits until everything is shown. A reader may take its time, as with any program; after the
    /// user's signal a reader that does not read is not waited for.
    fn await_shown(&mut self) -> anyhow::Result<()> {
        let asked = self.requests.times();
        self.requests.handle_concluding(clock::now_ns());
        while !self.printer.is_empty() {
            if self.requests.is_late(clock::now_ns()) || self.requests.times() > asked {
                self.printer.give_up();
                break;
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Records output that was found lost only at the end as a failure of the job, if it had none.
    fn say_failures(&mut self, outcome: &mut JobOutcome) {
        let mut fail = |code| outcome.code = if outcome.code == 0 { code } else { outcome.code };
        if let Some(why) = self.printer.file_failure() {
            self.printer.say(Stream::Errors, &format!("clump: {why}\n"));
            fail(OWN_FAILURE);
        }
        // A closed standard error is no failure: its reader wants no more of it.
        let quiet = |why: &OsError| why.errno == Errno::PIPE;
        if let Some(why) = self.printer.failure(Stream::Errors).filter(|why| !quiet(why)) {
            debug_assert!(!why.call.is_empty());
            fail(OWN_FAILURE);
        }
        let Some(why) = self.printer.failure(Stream::Output) else { return };
        let told = matches!(outcome.ending, JobEnd::Unread | JobEnd::Unwritten { .. });
        fail(unwritten(&why).0);
        if !told && !quiet(&why) {
            self.printer.say(Stream::Errors, &format!("clump: {why}\n"));
        }
    }
}

/// Returns the code and the ending of a job whose output cannot be shown.
fn unwritten(why: &OsError) -> (u8, JobEnd) {
    match why.errno {
        Errno::PIPE => (UNREAD, JobEnd::Unread),
        _ => (OWN_FAILURE, JobEnd::Unwritten { why: why.to_string() }),
    }
}
