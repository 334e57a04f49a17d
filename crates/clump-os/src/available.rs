//! Memory that this process may still use: the machine's, and that of the groups (cgroups) that it
//! is in.

/// Longest line that is read; none of those that count is longer.
const LINE_BYTES: usize = 1024;

/// Calls a function with each line of a file, without its end.
type ReadLines<'a> = &'a dyn Fn(&str, &mut dyn FnMut(&str));

/// Returns the bytes of memory that this process may still use before the machine, or a limit of
/// its memory group, ends some process; `None` if neither is known. Allocates nothing: signal
/// handlers call it.
pub fn memory_bytes() -> Option<u64> {
    let mut least = in_meminfo(&read_lines);
    read_lines("/proc/self/cgroup", &mut |line| {
        let left = group_of(line).and_then(|group| group.left(&read_lines));
        least = [least, left].into_iter().flatten().min();
    });
    least
}

/// Reads a file line by line, as far as it can be read; longer lines than count are skipped.
fn read_lines(path: &str, each: &mut dyn FnMut(&str)) {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let mut bytes = [0_u8; LINE_BYTES];
    let (mut filled, mut skips) = (0, false);
    loop {
        let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) else {
            (filled, skips) = (0, true);
            continue;
        };
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *room)).unwrap_or(0);
        filled += read;
        let mut known = bytes.get(..filled).unwrap_or_default();
        // The last line may lack its end.
        while let Some(end) = known
            .iter()
            .position(|&byte| byte == b'\n')
            .or_else(|| (read == 0 && !known.is_empty()).then_some(known.len()))
        {
            let (line, rest) = known.split_at(end);
            if let Some(line) = std::str::from_utf8(line).ok().filter(|_| !skips) {
                each(line);
            }
            skips = false;
            known = rest.get(1..).unwrap_or_default();
        }
        if read == 0 {
            return;
        }
        let left = known.len();
        bytes.copy_within(filled - left..filled, 0);
        filled = left;
    }
}

fn in_meminfo(read: ReadLines<'_>) -> Option<u64> {
    let mut kib = None;
    read("/proc/meminfo", &mut |line| {
        kib = kib.or_else(|| {
            let rest = line.strip_prefix("MemAvailable:")?;
            rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
        });
    });
    kib?.checked_mul(1024)
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

/// A text of bounded length, built without allocation.
struct Path {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Path {
    /// Joins parts; `None` if that is too long.
    fn join(parts: [&str; 4]) -> Option<Self> {
        let mut path = Self { bytes: [0; LINE_BYTES], length: 0 };
        for part in parts {
            let end = path.length + part.len();
            path.bytes.get_mut(path.length..end)?.copy_from_slice(part.as_bytes());
            path.length = end;
        }
        Some(path)
    }

    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl MemoryGroup<'_> {
    /// Returns the bytes that this group and those around it have left.
    fn left(&self, read: ReadLines<'_>) -> Option<u64> {
        // In a container the path may be that of the machine, and the root the group itself.
        let mut folder = self.path.trim_end_matches('/');
        let mut least = None;
        loop {
            if let (Some(limit), Some(used)) =
                (self.number(read, folder, self.limit), self.number(read, folder, self.used))
            {
                // A group without a limit reports a number that no machine has.
                let files = if limit > 1 << 60 { 0 } else { self.file_pages(read, folder) };
                let left = limit.saturating_sub(used.saturating_sub(files));
                least = Some(least.map_or(left, |least: u64| least.min(left)));
            }
            let Some(end) = folder.rfind('/') else { break };
            folder = folder.get(..end).unwrap_or_default();
        }
        least
    }

    /// Returns the number that a file of the group in `folder` contains.
    fn number(&self, read: ReadLines<'_>, folder: &str, file: &str) -> Option<u64> {
        let path = Path::join([self.root, folder, "/", file])?;
        let mut number = None;
        read(path.text(), &mut |line| number = number.or_else(|| line.trim().parse().ok()));
        number
    }

    /// Returns the bytes of pages of files, which are given back when memory is short.
    fn file_pages(&self, read: ReadLines<'_>, folder: &str) -> u64 {
        let Some(path) = Path::join([self.root, folder, "/", "memory.stat"]) else { return 0 };
        let mut all = 0_u64;
        read(path.text(), &mut |line| {
            let pages = |line: &str| {
                let (name, bytes) = line.split_once(' ')?;
                let name = name.strip_prefix(self.total)?;
                let file = matches!(name, "inactive_file" | "active_file");
                bytes.trim().parse::<u64>().ok().filter(|_| file)
            };
            all = all.saturating_add(pages(line).unwrap_or(0));
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_left() {
        assert!(memory_bytes().unwrap() > 1 << 20);
        let of = |text: &'static str| {
            in_meminfo(&move |_: &str, each: &mut dyn FnMut(&str)| text.lines().for_each(each))
        };
        assert_eq!(of("MemTotal: 7 kB\nMemAvailable:    3 kB\n"), Some(3072));
        assert_eq!(of("MemTotal: 7 kB\n"), None);
    }

    #[test]
    fn files_are_read_by_lines_however_long_they_are() {
        let folder = crate::scratch::Scratch::new(&std::env::temp_dir(), "available").unwrap();
        let path = folder.path().join("lines");
        let long = "x".repeat(3 * LINE_BYTES);
        let many: Vec<String> = (0..2000).map(|line| format!("line {line}")).collect();
        let text = format!("{}\n{long}\n\nlast", many.join("\n"));
        std::fs::write(&path, text).unwrap();
        let mut seen = Vec::new();
        read_lines(path.to_str().unwrap(), &mut |line| seen.push(line.to_owned()));
        let expected = many.into_iter().chain(["".to_owned(), "last".to_owned()]);
        assert!(seen.into_iter().eq(expected));
        read_lines("/no/such/file", &mut |line| panic!("{line}"));
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
        let read = |path: &str, each: &mut dyn FnMut(&str)| {
            let text = files.iter().find(|(file, _)| *file == path).map_or("", |(_, text)| text);
            text.lines().for_each(each);
        };
        let left = |line: &str| group_of(line).and_then(|group| group.left(&read));
        assert_eq!(left("0::/a/b"), Some(67));
        assert_eq!(left("0::/"), None);
        assert_eq!(left("4:memory:/x"), Some(1));
        assert_eq!(left("3:cpu,memory:/x/y"), Some(1));
        assert_eq!(left("2:cpu:/x"), None);
    }
}
