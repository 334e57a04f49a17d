//! Control groups with a limit of memory, for tests of what the kernel kills.

use clump_os::process;
use std::fs;
use std::path::{Path, PathBuf};

/// A group of this machine, removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    counter: &'static str,
}

impl MemoryGroup {
    /// Makes a group of so many MiB; says why not where that is impossible.
    pub fn make(limit_mib: u64) -> Option<Self> {
        let tried = [
            ("/sys/fs/cgroup", "memory.max", "memory.events"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"),
        ]
        .map(|(root, limit, counter)| {
            let name = format!("clump-test-{:016x}", process::random().unwrap_or(0));
            let path = Path::new(root).join(name);
            fs::create_dir(&path).map_err(|e| format!("{root}: {e}"))?;
            let group = Self { path, counter };
            // Under version 1 the root is a plain folder, in which anything can be made.
            if !group.path.join(counter).is_file() {
                return Err(format!("{root}: no {counter} in a new group"));
            }
            fs::write(group.path.join(limit), (limit_mib << 20).to_string())
                .map_err(|e| format!("{root}: no {limit}: {e}"))?;
            // Without swap, where that is limited by itself.
            let _ = fs::write(group.path.join("memory.swap.max"), "0");
            Ok::<_, String>(group)
        });
        let mut reasons = Vec::new();
        for one in tried {
            match one {
                Ok(group) => return Some(group),
                Err(why) => reasons.push(why),
            }
        }
        println!(
            "SKIPPED: no control group with a limit of memory can be made here ({}); run as root \
             with a writable /sys/fs/cgroup whose memory controller is on",
            reasons.join("; ")
        );
        None
    }

    /// Returns the command of a shell that goes into the group.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.path.display())
    }

    /// Returns the number of processes that the kernel has killed in it.
    pub fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.path.join(self.counter)).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        text.lines().find_map(count).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Nothing is left in it: the job that ran there has been waited for.
        let _ = fs::remove_dir(&self.path);
    }
}
