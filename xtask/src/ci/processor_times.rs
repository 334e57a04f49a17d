//! Processor time of this machine, and the part of it that this task's own programs had.

use anyhow::{Context, Result};

/// Clock ticks since the machine, or this process, was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// Of all processors, idle or not.
    all: u64,
    /// Of those, not idle.
    busy: u64,
    /// Of programs that this process has started and that have ended.
    own: u64,
}

impl ProcessorTimes {
    /// Reads the times.
    ///
    /// # Errors
    /// Fails if proc(5) is not there, or not as documented.
    pub fn now() -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| path.to_owned());
        let (machine, process) = (read("/proc/stat")?, read("/proc/self/stat")?);
        Self::parse(&machine, &process).context("proc(5) is not as it is documented")
    }

    fn parse(machine: &str, process: &str) -> Option<Self> {
        // cpu user nice system idle iowait irq softirq steal
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().flat_map(str::parse).take(8).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        // After the name in parentheses, state is field 3; cutime and cstime are 16 and 17.
        let (_, fields) = process.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let all: u64 = ticks.iter().sum();
        Some(Self { all, busy: all.checked_sub(idle)?, own: field(16)? + field(17)? })
    }

    /// Returns the share of all processors' time since `before` that other programs have had.
    pub fn share_of_others(&self, before: &Self) -> f64 {
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let others = since(self.busy, before.busy) - since(self.own, before.own);
        others.max(0.0) / since(self.all, before.all).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(user: u64, idle: u64, own: [u64; 2]) -> ProcessorTimes {
        let machine = format!("cpu  {user} 0 10 {idle} 5 0 0 1 7 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n");
        let process =
            format!("12 (a ) b) R 1 1 1 0 -1 0 0 0 0 0 90 80 {} {} 20 0 1 0", own[0], own[1]);
        ProcessorTimes::parse(&machine, &process).unwrap()
    }

    #[test]
    fn what_is_neither_idle_nor_own_is_of_others() {
        let before = times(100, 1000, [3, 4]);
        assert_eq!(before, ProcessorTimes { all: 1116, busy: 111, own: 7 });
        assert!(times(200, 1300, [63, 44]).share_of_others(&before).abs() < 1e-9);
        let busy = times(200, 1300, [33, 34]).share_of_others(&before);
        assert!((busy - 40.0 / 400.0).abs() < 1e-9, "{busy}");
        assert!(ProcessorTimes::parse("intr 5", "").is_none());
        assert!(ProcessorTimes::now().unwrap().all > 0);
    }
}
