//! The file of a job's program on one machine, and its build id: the note that the linker puts into
//! an ELF file (elf(5), `NT_GNU_BUILD_ID`), by which two machines find out whether they have the
//! same build.

use crate::spec::JobSpec;
use anyhow::Context;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the headers of an ELF file and of one of its segments, for 64 bits.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// Most segments that are looked at, and longest segment of notes.
const MAX_SEGMENTS: u16 = 64;
const MAX_NOTES: u64 = 64 << 10;
/// Type of a segment of notes, and of the note.
const NOTES: u32 = 4;
const BUILD_ID: u32 = 3;

/// Returns the file of a job's program, as the kernel would find it.
///
/// # Errors
/// Fails if a name without a folder is not in `PATH`.
pub(crate) fn find(spec: &JobSpec) -> anyhow::Result<PathBuf> {
    let program = Path::new(spec.staged.as_ref().unwrap_or(&spec.program));
    if program.as_os_str().as_bytes().contains(&b'/') {
        let folder = spec.directory.as_ref().map(PathBuf::from).unwrap_or_default();
        return Ok(folder.join(program));
    }
    let path = clump_boot::config::inherited_variable("PATH".as_ref()).unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(program));
    all.find(|file| file.is_file()).context("there is no such program in PATH")
}

/// Returns the build id of a job's program, in hexadecimal digits; empty where it has none.
pub(crate) fn build_id(spec: &JobSpec) -> String {
    let file = find(spec).ok().and_then(|path| File::open(path).ok());
    let id = file.and_then(|file| read_id(&file)).unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_id(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    // 64 bits, little endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, bytes, count) = (word(&header, 32)?, half(&header, 54)?, half(&header, 56)?);
    if usize::from(bytes) != SEGMENT {
        return None;
    }
    (0..count.min(MAX_SEGMENTS)).find_map(|number| {
        let mut segment = [0; SEGMENT];
        let at = table.checked_add(u64::from(number) * SEGMENT as u64)?;
        file.read_exact_at(&mut segment, at).ok()?;
        let (offset, length) = (word(&segment, 8)?, word(&segment, 32)?);
        if long(&segment, 0)? != NOTES || length > MAX_NOTES {
            return None;
        }
        let mut notes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut notes, offset).ok()?;
        id_in(&notes)
    })
}

/// Finds the build id among notes: lengths of name and content, type, name, content, each padded to
/// four bytes.
fn id_in(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let (name, content) = (long(rest, 0)? as usize, long(rest, 4)? as usize);
        let kind = long(rest, 8)?;
        let body = rest.get(12..)?;
        let start = name.checked_next_multiple_of(4)?;
        let end = start.checked_add(content)?;
        if kind == BUILD_ID && body.get(..name)? == b"GNU\0" {
            return body.get(start..end).map(<[u8]>::to_vec);
        }
        rest = body.get(end.checked_next_multiple_of(4)?..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_kernel_does() {
        let mut spec = JobSpec::new("sh", Vec::new(), 1);
        assert!(find(&spec).unwrap().is_absolute());
        spec.program = "./x/y".into();
        spec.directory = Some("/folder".into());
        assert_eq!(find(&spec).unwrap(), Path::new("/folder/./x/y"));
        spec.program = "no-such-program-anywhere".into();
        assert!(find(&spec).is_err());
        assert_eq!(build_id(&spec), "");
    }

    #[test]
    fn a_build_id_is_found_among_other_notes_and_not_in_nonsense() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let mut note = (name.len() as u32).to_le_bytes().to_vec();
            note.extend((content.len() as u32).to_le_bytes());
            note.extend(kind.to_le_bytes());
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let all =
            [note(b"GNU\0", 1, &[9; 16]), note(b"x\0", 3, &[8; 5]), note(b"GNU\0", 3, &[7; 20])];
        let notes = all.concat();
        assert_eq!(id_in(&notes), Some(vec![7; 20]));
        for cut in 0..notes.len() {
            assert_eq!(id_in(&notes[..cut]), None, "cut at {cut}");
        }
        assert_eq!(id_in(&[255; 64]), None);
        // Scripts and files that only begin like a program have none.
        let own = File::open("/proc/self/cmdline").unwrap();
        assert_eq!(read_id(&own), None);
    }
}
