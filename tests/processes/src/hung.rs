//! Description of a job that does not end: what it has written, and where its threads wait.

use clump_os::procfs::{self, Process};
use std::fmt::Write;

/// Returns a line for each thread of `processes`: its name, its state, the kernel function in which
/// it waits and its processor time, in ticks.
pub fn threads(processes: &[Process]) -> String {
    let mut report = String::new();
    for process in processes {
        let line = procfs::command_line(process.pid);
        let _ = writeln!(report, "process {} `{}`", process.pid, line.to_string_lossy());
        for (thread, name) in procfs::threads(process.pid) {
            let read = |file: &str| {
                let path = format!("/proc/{}/task/{thread}/{file}", process.pid);
                std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
            };
            let stat = read("stat");
            // The fields after the name, which may contain spaces; the first is the state.
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
            let field = |n: usize| fields.get(n).copied().unwrap_or("?");
            let (state, user, system) = (field(1), field(12), field(13));
            let (waits, call) = (read("wchan"), read("syscall"));
            let _ = writeln!(
                report,
                "  {name}: {state}, {waits}, {user}+{system} ticks, call {}",
                call.trim()
            );
        }
    }
    report
}
