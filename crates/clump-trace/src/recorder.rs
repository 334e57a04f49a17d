//! The file into which a rank writes its events while it runs.
//!
//! The file is mapped: whatever ends the rank, what it wrote is there. It has room for a number of
//! events that is given; later ones are counted, not kept, so that a trace is the beginning of a
//! run without gaps. Any thread of the rank may write.

use crate::event::{EventKind, TraceEvent};
use crate::trace_file::{HEADER_WORDS, HeaderWord, TraceHeader, file_name};
use clump_os::error::{OsError, Result};
use clump_os::file::DiskFile;
use clump_os::map::{Mapping, PAGE};
use clump_os::sync::{AtomicU64, Ordering};
use clump_os::{clock, procfs};
use std::io::ErrorKind;
use std::path::Path;

/// Default capacity of a trace, in events: 32 MiB a rank.
pub const DEFAULT_EVENTS: u64 = 1 << 21;

/// A rank's trace that is being written.
#[derive(Debug)]
pub struct Recorder {
    file: DiskFile,
    memory: Mapping,
    start_ns: u64,
    capacity: u64,
}

impl Recorder {
    /// Creates the file of `rank` in `folder`, in place of an older one, with room for `capacity`
    /// events; the folder, too.
    ///
    /// # Errors
    /// The folder or the file cannot be created; the disk is full.
    pub fn create(
        folder: &Path,
        (rank, ranks, node): (u32, u32, u32),
        capacity: u64,
    ) -> Result<Self> {
        let capacity = capacity.max(1);
        let bytes = (HEADER_WORDS as u64 * 8 + capacity * 16).next_multiple_of(PAGE as u64);
        let path = folder.join(file_name(rank));
        let created = std::fs::create_dir_all(folder);
        created.map_err(|e| OsError::of(format!("creating {}", folder.display()), &e))?;
        if let Err(e) = std::fs::remove_file(&path)
            && e.kind() != ErrorKind::NotFound
        {
            return Err(OsError::of(format!("replacing {}", path.display()), &e));
        }
        let file = DiskFile::create(&path, false)?;
        // A full disk is an error here, not a signal at the first event without room.
        file.reserve(0, bytes)?;
        file.truncate(bytes)?;
        let memory = file.map(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let start_ns = clock::now_ns();
        let header = TraceHeader {
            rank,
            ranks,
            node,
            capacity,
            start_ns,
            real_ns: clock::real_ns(),
            clock: clock_of(&procfs::boot_id()),
            ..TraceHeader::default()
        };
        header.write(memory.words());
        let recorder = Self { file, memory, start_ns, capacity };
        debug_assert_eq!(recorder.claimed(), 0, "nothing has happened yet");
        Ok(recorder)
    }

    /// Begins the trace at the time `now_ns` of a virtual clock, on a virtual node; before the
    /// first event.
    pub fn begin_at(&mut self, now_ns: u64, node: u32) {
        debug_assert_eq!(self.claimed(), 0, "no event has been noted");
        self.start_ns = now_ns;
        let words = self.memory.words();
        words[HeaderWord::Node as usize].store(u64::from(node), Ordering::Release);
        words[HeaderWord::Start as usize].store(now_ns, Ordering::Release);
    }

    /// Records an event at the time `now_ns` of this machine's clock. `of`: the other rank,
    /// details, a value; [`TraceEvent`] defines them.
    pub fn note(&self, now_ns: u64, kind: EventKind, track: u8, of: (u32, u8, u32)) {
        let words = self.memory.words();
        let claimed = &words[HeaderWord::Claimed as usize];
        let at = claimed.fetch_add(1, Ordering::Relaxed);
        if at >= self.capacity {
            return;
        }
        let (peer, detail, value) = of;
        let at_ns = now_ns.saturating_sub(self.start_ns);
        let [first, second] = TraceEvent { at_ns, kind, track, detail, peer, value }.to_words();
        let slot = HEADER_WORDS + 2 * at as usize;
        // The first word marks the event as whole.
        words[slot + 1].store(second, Ordering::Relaxed);
        words[slot].store(first, Ordering::Release);
    }

    /// Notes that the rank has left the job, and gives back the disk room behind its last event:
    /// most processes end without dropping the recorder. Events may follow, of other threads.
    pub fn conclude(&self) {
        let end = clock::now_ns().saturating_sub(self.start_ns).max(1);
        self.memory.words()[HeaderWord::End as usize].store(end, Ordering::Release);
        let unused = self.used().next_multiple_of(PAGE as u64);
        let whole = self.memory.words().len() as u64 * 8;
        // A larger file is no mistake.
        let _ = self.file.release(unused, whole.saturating_sub(unused));
    }

    /// Returns the bytes of the header and of all events.
    fn used(&self) -> u64 {
        HEADER_WORDS as u64 * 8 + 16 * self.claimed().min(self.capacity)
    }

    fn claimed(&self) -> u64 {
        self.memory.words()[HeaderWord::Claimed as usize].load(Ordering::Relaxed)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A child by `fork` has a copy of this; the file is its parent's.
        if clump_os::forked::is_child() {
            return;
        }
        // A longer file is no mistake.
        let _ = self.file.truncate(self.used());
    }
}

/// Returns a number for the clock of a machine since it was started.
fn clock_of(boot_id: &str) -> u64 {
    // FNV-1a.
    boot_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl TraceHeader {
    /// Writes the header into an empty file's words.
    fn write(&self, words: &[AtomicU64]) {
        debug_assert!(words.len() >= HEADER_WORDS, "a file has a header");
        for (word, value) in words.iter().zip(self.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_reader::FileReader;
    use clump_os::scratch::Scratch;

    fn read(path: &Path) -> (Vec<TraceEvent>, TraceHeader, u64) {
        let mut file = FileReader::open(path).unwrap();
        let events = std::iter::from_fn(|| file.next_event().unwrap()).collect();
        (events, *file.reader().header(), file.reader().dropped())
    }

    #[test]
    fn what_is_noted_is_read_and_what_has_no_room_is_counted() {
        let folder = Scratch::new(&std::env::temp_dir(), "trace").unwrap();
        let recorder = Recorder::create(folder.path(), (3, 4, 1), 2).unwrap();
        let start = recorder.start_ns;
        for n in 0..3 {
            recorder.note(start + n, EventKind::Send, 1, (2, 4, n as u32));
        }
        let path = folder.path().join(file_name(3));
        let (running, header, _) = read(&path);
        assert_eq!((running.len(), header.end_ns), (2, 0));
        recorder.conclude();
        drop(recorder);
        let (events, header, dropped) = read(&path);
        assert_eq!((header.rank, header.ranks, header.node), (3, 4, 1));
        assert!(header.end_ns > 0 && dropped == 1);
        let sent: Vec<_> = events.iter().map(|e| (e.at_ns, e.peer, e.value)).collect();
        assert_eq!(sent, [(0, 2, 0), (1, 2, 1)]);
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(bytes, HEADER_WORDS as u64 * 8 + 2 * 16, "no more than was used");
        let large = Recorder::create(folder.path(), (3, 4, 1), 1 << 16).unwrap();
        large.note(start, EventKind::Send, 1, (2, 4, 7));
        let on_disk = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
        let reserved = on_disk();
        large.conclude();
        // Of 1 MiB, one page stays; a file system without holes reserves nothing either.
        assert!(on_disk() < 64 || reserved < 64, "{reserved} blocks, then {}", on_disk());
        large.note(start, EventKind::Send, 1, (2, 4, 8));
        assert_eq!(read(&path).0.len(), 2, "another thread may go on");
        drop(large);
        drop(Recorder::create(folder.path(), (3, 4, 1), 2).unwrap());
        assert!(read(&path).0.is_empty(), "an older trace is replaced");
        let nowhere = Recorder::create(&path, (0, 1, 0), 2).unwrap_err();
        assert!(nowhere.to_string().contains("creating"), "{nowhere}");
    }
}
