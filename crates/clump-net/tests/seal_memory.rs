//! Keys in use are absent from the memory that a core dump would show.
//!
//! The test searches its own memory as the kernel would dump it: every readable mapping whose flags
//! in smaps lack `dd` (do not dump), more than any `coredump_filter` takes. It looks for the key of
//! the job, for what HKDF extracts from it, and for all eleven round keys of each path, since each
//! gives its path's key away. It does not find itself: the file of vectors has keys as text, here
//! they are kept inverted, and memory is read into a buffer that is no part of the search.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_net::seal::{JOB_KEY_BYTES, JobKey, Opener, Sealer};
use clump_os::secret::Secret;
use clump_wire::Security;
use std::fs::File;
use std::os::unix::fs::FileExt;

#[path = "seal_vectors/mod.rs"]
mod vectors;

/// A byte string to search for.
struct Needle {
    name: String,
    inverted: Vec<u8>,
}

impl Needle {
    fn new(name: String, hex: &str) -> Self {
        let mut inverted = vec![0; hex.len() / 2];
        let digits: String = hex.chars().map(inverted_digit).collect();
        vectors::unhex(&digits, &mut inverted);
        Self { name, inverted }
    }

    fn starts(&self, memory: &[u8]) -> bool {
        memory.len() >= self.inverted.len()
            && self.inverted.iter().zip(memory).all(|(inverted, byte)| !inverted == *byte)
    }
}

fn inverted_digit(digit: char) -> char {
    char::from_digit(15 - digit.to_digit(16).unwrap(), 16).unwrap()
}

struct Area {
    start: u64,
    end: u64,
    name: String,
    dumped: bool,
}

/// Lists the mappings of this process that can be read.
fn areas() -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let area = areas.last_mut().unwrap();
            let flags: Vec<_> = flags.split_ascii_whitespace().collect();
            area.dumped = !flags.contains(&"dd");
            if !flags.contains(&"rd") {
                areas.pop();
            }
        } else if let Some((range, rest)) = line.split_once(' ')
            && let Some((start, end)) = range.split_once('-')
        {
            let address = |hex| u64::from_str_radix(hex, 16).unwrap();
            let (start, end) = (address(start), address(end));
            areas.push(Area { start, end, name: rest.to_owned(), dumped: true });
        }
    }
    areas
}

const CHUNK: usize = 1 << 20;
/// Overlap of a chunk with the one before, so that nothing is missed between them.
const OVERLAP: usize = 32;

/// Returns the names of the needles found in memory that is dumped, or in memory that is not, once
/// for each time.
fn found(needles: &[Needle], dumped: bool) -> Vec<String> {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut chunk = Secret::<[u8; CHUNK]>::zeroed().unwrap();
    let own = chunk.as_ptr().addr() as u64;
    let own = own..own + CHUNK as u64;
    let mut found = Vec::new();
    let mut searched = 0;
    for area in areas().iter().filter(|area| area.dumped == dumped) {
        let mut at = area.start;
        while at < area.end {
            // Secrets lie in one area: the bytes before the buffer are searched, then those behind
            // it.
            at = if own.contains(&at) { own.end } else { at };
            let end = if at < own.start { area.end.min(own.start) } else { area.end };
            let bytes = CHUNK.min(end.saturating_sub(at) as usize);
            let Ok(read) = memory.read_at(&mut chunk[..bytes], at) else {
                // The kernel's own pages at the end of the address space cannot be read this way.
                assert!(area.name.contains("[v"), "cannot read {}", area.name);
                break;
            };
            searched += read;
            let (fresh, all) = (if read == CHUNK { read - OVERLAP } else { read }, &chunk[..read]);
            search(all, fresh, needles, |name| {
                found.push(format!("{name} in {} from {:#x}", area.name, area.start));
            });
            at += fresh.max(1) as u64;
        }
    }
    assert!(searched > 0 || !dumped);
    found
}

/// Reports the needles that start in the first `fresh` bytes.
fn search(memory: &[u8], fresh: usize, needles: &[Needle], mut hit: impl FnMut(&str)) {
    let mut by_first = [const { Vec::new() }; 256];
    needles.iter().for_each(|needle| by_first[usize::from(!needle.inverted[0])].push(needle));
    for (at, &byte) in memory[..fresh].iter().enumerate() {
        let here = by_first[usize::from(byte)].iter().filter(|needle| needle.starts(&memory[at..]));
        here.for_each(|needle| hit(&needle.name));
    }
}

/// Runs `work` so deep in the stack that searching afterwards does not overwrite the bytes it left
/// there.
#[inline(never)]
fn far_below<R>(work: impl FnOnce() -> R) -> R {
    std::hint::black_box(&mut [0_u8; 128 << 10]);
    work()
}

/// Uses the paths in both directions, as a rank does; every third packet is damaged on its way.
fn traffic(paths: &[(Sealer, Opener)]) {
    for (sealer, opener) in paths {
        for number in 0..50_u8 {
            let mut packet = vec![number; 16 + 31 * usize::from(number)];
            let (body, tag) = packet.split_last_chunk_mut::<16>().unwrap();
            sealer.seal(number.into(), b"head", body, tag);
            packet[0] ^= u8::from(number % 3 == 0);
            let opened = opener.open(number.into(), b"head", &mut packet);
            assert_eq!(opened.is_some(), number % 3 != 0);
        }
    }
}

fn needles(known: &vectors::Job<'_>) -> Vec<Needle> {
    let mut needles = vec![
        Needle::new("the job's key".into(), known.key),
        Needle::new("the extracted key".into(), known.extracted),
    ];
    for path in &known.paths {
        for (round, key) in path.round_keys.iter().enumerate() {
            needles.push(Needle::new(format!("round key {round} of {:?}", path.ends), key));
        }
    }
    needles
}

#[test]
fn keys_in_use_are_in_no_memory_that_is_dumped() {
    let nothing = Vec::<String>::new();
    let count = |hits: &[String], name: &str| hits.iter().filter(|h| h.starts_with(name)).count();
    for known in vectors::jobs() {
        let needles = needles(&known);
        assert_eq!(found(&needles, false), nothing, "before there is any key");

        // As a rank: the key as it comes with the boot message, then paths, then packets.
        let mut boot = Secret::<[u8; JOB_KEY_BYTES]>::zeroed().unwrap();
        vectors::unhex(known.key, &mut *boot);
        assert_eq!(count(&found(&needles, false), "the job's key"), 1, "the search finds");
        let job = far_below(|| JobKey::new(&mut boot).unwrap());
        assert_eq!(found(&needles, false), nothing, "the key itself is forgotten");
        assert_eq!(found(&needles, true), nothing, "nothing stayed of taking it");
        let path = |(from, epoch, to)| {
            let sealer = job.sealer(Security::Aead, from, epoch, to).unwrap();
            (sealer, job.opener(Security::Aead, from, epoch, to).unwrap())
        };
        let ends = known.paths.iter().map(|path| path.ends);
        let paths: Vec<_> = far_below(|| ends.map(path).collect());
        assert_eq!(found(&needles, true), nothing, "nothing stayed of deriving");
        far_below(|| traffic(&paths));
        assert_eq!(found(&needles, true), nothing, "nothing stayed of packets");

        // Processors without AES instructions keep round keys in another form.
        #[cfg(target_arch = "x86_64")]
        let plain_form = std::is_x86_feature_detected!("aes");
        #[cfg(not(target_arch = "x86_64"))]
        let plain_form = false;
        let hidden = found(&needles, false);
        for path in known.paths.iter().filter(|_| plain_form) {
            for round in 0..11 {
                let name = format!("round key {round} of {:?}", path.ends);
                assert_eq!(count(&hidden, &name), 2, "sealer and opener: {hidden:?}");
            }
        }
        drop(paths);
        assert_eq!(found(&needles, false), nothing, "wiped");

        let mut careless = vec![0; JOB_KEY_BYTES];
        vectors::unhex(known.key, &mut careless);
        assert_eq!(count(&found(&needles, true), "the job's key"), 1, "the search finds");
        clump_os::secret::wipe(&mut careless);
    }
}
