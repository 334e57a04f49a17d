//! Memory that this process may still use: the machine's, and that of the groups (cgroups) that it
//! is in.

/// Returns the bytes of memory that this process may still use before the machine, or a limit of
/// its memory group, ends some process; `None` if neither is known.
pub fn memory_bytes() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| in_meminfo(&text));
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let least = groups.lines().filter_map(group_of).filter_map(|group| group.left(read)).min();
    [machine, least].into_iter().flatten().min()
}

fn in_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib = line.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    Some(kib * 1024)
}

/// A group of processes whose memory is limited, and the names of its files (cgroups(7)).
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup<'a> {
    root: &'static str,
    path: &'a str,
    limit: &'static str,
    used: &'static str,
    /// Beginning of the names, in its statistics, of pages of the group and those inside it.
    total: &'static str,
}

/// Returns the group of a line of `/proc/PID/cgroup`, if it may limit memory.
fn group_of(line: &str) -> Option<MemoryGroup<'_>> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let unified = controllers.is_empty();
    if unified {
        let (root, limit, used) = ("/sys/fs/cgroup", "memory.max", "memory.current");
        return Some(MemoryGroup { root, path, limit, used, total: "" });
    }
    let (root, limit) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
    let memory = controllers.split(',').any(|controller| controller == "memory");
    let (used, total) = ("memory.usage_in_bytes", "total_");
    memory.then_some(MemoryGroup { root, path, limit, used, total })
}

impl MemoryGroup<'_> {
    /// Returns the bytes that this group and those around it have left.
    fn left(&self, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let Self { root, limit, used, total, .. } = self;
        let number = |folder: &str, file: &str| {
            read(&format!("{root}{folder}/{file}"))?.trim().parse::<u64>().ok()
        };
        // Pages of files are given back when memory is short.
        let files = |folder: &str| {
            let statistics = read(&format!("{root}{folder}/memory.stat")).unwrap_or_default();
            let pages = |line: &str| {
                let (name, bytes) = line.split_once(' ')?;
                let name = name.strip_prefix(total)?;
                let file = matches!(name, "inactive_file" | "active_file");
                bytes.trim().parse::<u64>().ok().filter(|_| file)
            };
            statistics.lines().filter_map(pages).sum::<u64>()
        };
        // In a container the path may be that of the machine, and the root the group itself.
        let mut folder = self.path.trim_end_matches('/');
        let mut least = None;
        loop {
            if let (Some(limit), Some(used)) = (number(folder, limit), number(folder, used)) {
                let left = limit.saturating_sub(used.saturating_sub(files(folder)));
                least = Some(least.map_or(left, |least: u64| least.min(left)));
            }
            let Some(end) = folder.rfind('/') else { break };
            folder = folder.get(..end).unwrap_or_default();
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_left() {
        assert!(memory_bytes().unwrap() > 1 << 20);
        assert_eq!(in_meminfo("MemTotal: 7 kB\nMemAvailable:    3 kB\n"), Some(3072));
        assert_eq!(in_meminfo("MemTotal: 7 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "5\n"),
            ("/sys/fs/cgroup/a/memory.max", "100\n"),
            ("/sys/fs/cgroup/a/memory.current", "40\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 9\nactive_file 3\ninactive_file 4\nfile 7\n"),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "10\n"),
            ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "17\n"),
            ("/sys/fs/cgroup/memory/x/memory.stat", "inactive_file 9\ntotal_inactive_file 8\n"),
        ];
        let read = |path: &str| {
            files.iter().find(|(file, _)| *file == path).map(|(_, text)| (*text).to_owned())
        };
        let left = |line: &str| group_of(line).and_then(|group| group.left(read));
        assert_eq!(left("0::/a/b"), Some(67));
        assert_eq!(left("0::/"), None);
        assert_eq!(left("4:memory:/x"), Some(1));
        assert_eq!(left("3:cpu,memory:/x/y"), Some(1));
        assert_eq!(left("2:cpu:/x"), None);
    }
}
