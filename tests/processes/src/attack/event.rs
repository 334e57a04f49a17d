//! Events during a job.

use super::place::AttackPlace;
use super::supervisor::pause;
use anyhow::{Context, Result, bail};
use clump_os::clock;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A single event.
#[derive(Debug)]
pub struct Event {
    /// Its time.
    pub when: When,
    /// Its action.
    pub what: What,
}

/// A moment.
#[derive(Debug)]
pub enum When {
    /// So long after the start.
    After(Duration),
    /// All of these files exist.
    Ready(Vec<PathBuf>),
}

/// An action.
#[derive(Debug)]
pub enum What {
    /// The launcher receives a signal.
    Signal(&'static str),
    /// The launcher receives several signals, each with a pause behind it.
    Signals(Vec<(&'static str, Duration)>),
    /// The other sides of all streams are closed.
    HangUp,
    /// Paths between two nodes take packets of so many bytes: from either end, one after the
    /// other. Then a file is made.
    Narrow {
        /// The node of each end, and the bytes.
        steps: Vec<(usize, u32)>,
        /// The file.
        then: PathBuf,
    },
}

impl Event {
    /// Formats it in words.
    pub fn shown(&self) -> String {
        let what = match &self.what {
            What::Signal(name) => format!("SIG{name}"),
            What::Signals(steps) => {
                let step = |(name, pause): &(&str, Duration)| match pause.as_millis() {
                    0 => format!("SIG{name}"),
                    ms => format!("SIG{name}, {ms} ms"),
                };
                steps.iter().map(step).collect::<Vec<_>>().join(", ")
            }
            What::HangUp => "hang-up".to_owned(),
            What::Narrow { steps, .. } => {
                let step = |(node, bytes): &(usize, u32)| format!("{bytes} by node {node}");
                let steps: Vec<_> = steps.iter().map(step).collect();
                format!("packets of {}", steps.join(", "))
            }
        };
        match self.when {
            When::After(time) => format!("{what} after {} ms", time.as_millis()),
            When::Ready(_) => format!("{what} when ready"),
        }
    }

    /// Returns true if its time has come.
    pub fn is_due(&self, since: Duration) -> bool {
        match &self.when {
            When::After(time) => since >= *time,
            When::Ready(files) => files.iter().all(|file| file.exists()),
        }
    }
}

/// Sends a signal; without effect if the process is gone.
pub fn send(pid: u32, name: &str) {
    let signal = match name {
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "KILL" => Signal::KILL,
        "TSTP" => Signal::TSTP,
        "TTIN" => Signal::TTIN,
        "TTOU" => Signal::TTOU,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "QUIT" => Signal::QUIT,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "ALRM" => Signal::ALARM,
        "XCPU" => Signal::XCPU,
        "WINCH" => Signal::WINCH,
        _ => Signal::TERM,
    };
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends several signals, each with a pause behind it.
pub fn send_all(pid: u32, steps: &[(&'static str, Duration)]) {
    for (name, time) in steps {
        send(pid, name);
        let start = clock::instant();
        while start.elapsed() < *time {
            pause();
        }
    }
}

/// Changes paths between two nodes, whose agents are these processes.
///
/// # Errors
/// Fails if a path cannot be changed.
pub fn narrow(place: &AttackPlace, agents: &[u32], steps: &[(usize, u32)]) -> Result<()> {
    for (node, bytes) in steps {
        let Some(agent) = agents.get(*node) else { bail!("node {node} has no agent") };
        let mut cable = Command::new(place.program("cable"));
        let words = [agent.to_string(), (1 - node).to_string(), "0".to_owned()];
        cable.args(words).args(["shorten", &bytes.to_string()]);
        let ended = cable.output().context("starting `cable`")?;
        if !ended.status.success() {
            bail!("{cable:?}: {}", ended.status);
        }
    }
    Ok(())
}
