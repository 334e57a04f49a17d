//! The first word of an agent: which clump it is, and on which machine.
//!
//! It goes before everything else, the key of the job included, so that nothing secret reaches a
//! program that is no agent of this build. Its form outlives versions: a mark, a length, a JSON
//! object of which unknown members are ignored.

use clump_interface::Services;
use clump_os::{process, procfs};
use clump_shm::geometry::{self, Geometry};
use clump_shm::rank_map::RankMap;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::io::Read;

/// The mark, which no login prints.
const MARK: &[u8] = b"\0\x1bclump agent\r\n\0";
/// Longest hello. A length beyond is none.
const MAX_BYTES: usize = 64 << 10;
/// Longest text before it: what a login may print.
const MAX_PREFACE: usize = 64 << 10;
/// Version of the frames between launcher and agent.
const PROTOCOL: u32 = 1;

/// Facts about an agent and its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Version of clump.
    pub version: String,
    /// Version of the frames of launcher and agent.
    pub protocol: u32,
    /// Architecture of the machine.
    pub architecture: String,
    /// Bytes of a page of memory.
    pub page_bytes: u64,
    /// Fingerprint of the layout of a node's memory, and of what packets look like.
    pub layout: u64,
    /// Fingerprint of the services of network interfaces.
    pub services: u64,
    /// Identity of the running kernel: agents with the same one share processors.
    pub kernel: String,
    /// Name of the machine.
    pub host: String,
    /// The agent's process.
    pub pid: u32,
}

impl Hello {
    /// Returns the hello of this process.
    pub(crate) fn own() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL,
            architecture: std::env::consts::ARCH.into(),
            page_bytes: process::page_bytes(),
            layout: layout(),
            services: Services::default().fingerprint(),
            kernel: procfs::boot_id(),
            host: process::host_name(),
            pid: process::own_pid(),
        }
    }

    /// Returns its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // The type has string keys only: serialization cannot fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        debug_assert!(body.len() <= MAX_BYTES, "names are short");
        let mut bytes = MARK.to_vec();
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads the hello of an agent of this machine, which has no login, and no byte behind it.
    ///
    /// # Errors
    /// Fails if the stream cannot be read, or holds no hello.
    pub(crate) fn read(stream: &mut impl Read) -> std::io::Result<Self> {
        let mut head = [0; MARK.len() + 4];
        stream.read_exact(&mut head)?;
        let mut reader = HelloReader::default();
        let mut length = [0; 4];
        length.copy_from_slice(&head[MARK.len()..]);
        let mut body = vec![0; (u32::from_le_bytes(length) as usize).min(MAX_BYTES)];
        stream.read_exact(&mut body)?;
        reader.handle_bytes(&head);
        match reader.handle_bytes(&body) {
            Heard::Hello(hello, _) => Ok(*hello),
            _ => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }

    /// Describes the first difference that keeps an agent with this hello from a job of a launcher
    /// with `ours`; `machine` is the agent's.
    pub(crate) fn difference(&self, ours: &Self, machine: &str) -> Option<String> {
        let differs = |what: &str, theirs: &str, ours: &str, remedy: &str| {
            let mut text = String::new();
            let _ = write!(text, "{machine} has {what} {theirs}, this machine {ours}: {remedy}");
            Some(text)
        };
        let number = |number: u64| format!("{number:x}");
        let same = "install the same build on both";
        if self.version != ours.version {
            return differs("clump", &self.version, &ours.version, same);
        }
        if self.architecture != ours.architecture {
            let remedy = "a job has machines of one architecture";
            return differs("the architecture", &self.architecture, &ours.architecture, remedy);
        }
        if self.protocol != ours.protocol {
            let (theirs, ours) = (self.protocol.to_string(), ours.protocol.to_string());
            return differs("a clump of control protocol", &theirs, &ours, same);
        }
        if self.page_bytes != ours.page_bytes {
            let (theirs, ours) = (self.page_bytes.to_string(), ours.page_bytes.to_string());
            let remedy = "a job has machines with one page size (getconf PAGESIZE)";
            return differs("pages of", &theirs, &ours, remedy);
        }
        if self.layout != ours.layout {
            let (theirs, ours) = (number(self.layout), number(ours.layout));
            return differs("a clump with memory layout", &theirs, &ours, same);
        }
        if self.services != ours.services {
            let (theirs, ours) = (number(self.services), number(ours.services));
            return differs("a clump with interface services", &theirs, &ours, same);
        }
        None
    }
}

/// Returns a fingerprint of what nodes must agree on to reach each other's memory.
fn layout() -> u64 {
    let first = (0..=geometry::MAX_NODES as u32).map(|node| node * 2).collect();
    let geometry = RankMap::from_first(first).and_then(|map| Geometry::new(&map, 1, 1));
    let of = |geometry: Geometry| {
        let places = [geometry.segments(1), geometry.region(1), geometry.endpoint(1, 1)];
        [geometry.total_bytes(), geometry.max_medium() as u64].into_iter().chain(places)
    };
    let wire = [u64::from(clump_wire::VERSION), clump_wire::HEADER_BYTES as u64];
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    let numbers = geometry.into_iter().flat_map(of).chain(wire);
    numbers.fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Finds the hello at the beginning of an agent's stream, behind what a login prints.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    bytes: Vec<u8>,
}

/// State of a stream before its hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// More bytes are needed.
    Nothing,
    /// The hello, and the bytes behind it.
    Hello(Box<Hello>, Vec<u8>),
    /// Something else; no hello will come.
    Other,
}

impl HelloReader {
    /// Takes the next bytes.
    pub(crate) fn handle_bytes(&mut self, piece: &[u8]) -> Heard {
        self.bytes.extend_from_slice(piece);
        let mark = self.bytes.windows(MARK.len()).position(|window| window == MARK);
        let Some(mark) = mark else {
            let far = self.bytes.len() > MAX_PREFACE;
            return if far { Heard::Other } else { Heard::Nothing };
        };
        let rest = &self.bytes[mark + MARK.len()..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Heard::Nothing };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_BYTES {
            return Heard::Other;
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { return Heard::Nothing };
        match serde_json::from_slice(body) {
            Ok(hello) => Heard::Hello(Box::new(hello), rest.to_vec()),
            Err(_) => Heard::Other,
        }
    }

    /// Returns what was said instead of a hello.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_found_behind_what_a_login_prints_however_it_is_cut() {
        let hello = Hello { host: "h\u{e9}".into(), pid: 7, ..Hello::own() };
        for preface in ["", "Welcome!\nYou have mail.\n"] {
            let mut bytes = preface.as_bytes().to_vec();
            bytes.extend(hello.encode());
            bytes.extend(b"rest");
            for size in [1, 3, 64, bytes.len()] {
                let mut reader = HelloReader::default();
                let mut behind: Option<Vec<u8>> = None;
                for piece in bytes.chunks(size) {
                    if let Some(behind) = &mut behind {
                        behind.extend_from_slice(piece);
                        continue;
                    }
                    match reader.handle_bytes(piece) {
                        Heard::Hello(heard, rest) => {
                            assert_eq!(*heard, hello);
                            behind = Some(rest);
                        }
                        heard => assert_eq!(heard, Heard::Nothing),
                    }
                }
                assert_eq!(behind.unwrap(), b"rest");
            }
        }
    }

    #[test]
    fn nonsense_is_no_hello_and_takes_no_memory() {
        let mut long = MARK.to_vec();
        long.extend([255; 4]);
        let mut torn = MARK.to_vec();
        torn.extend([1, 0, 0, 0, b'{']);
        for bytes in [long, torn, vec![b'x'; MAX_PREFACE + 1]] {
            assert_eq!(HelloReader::default().handle_bytes(&bytes), Heard::Other);
        }
        let mut reader = HelloReader::default();
        assert_eq!(reader.handle_bytes(b"This account is closed.\n"), Heard::Nothing);
        assert_eq!(reader.said(), "This account is closed.\n");
    }

    #[test]
    fn a_difference_names_both_sides() {
        let ours = Hello::own();
        assert_eq!(ours.difference(&ours, "b"), None);
        let elsewhere = Hello { host: "other".into(), pid: 1, kernel: "k".into(), ..ours.clone() };
        assert_eq!(elsewhere.difference(&ours, "b"), None);
        let others = [
            Hello { version: "0.0.9".into(), ..ours.clone() },
            Hello { protocol: 99, ..ours.clone() },
            Hello { architecture: "riscv64".into(), ..ours.clone() },
            Hello { page_bytes: 65536, ..ours.clone() },
            Hello { layout: 1, ..ours.clone() },
            Hello { services: 1, ..ours.clone() },
        ];
        let said: Vec<String> =
            others.iter().map(|other| other.difference(&ours, "b").unwrap()).collect();
        for (text, theirs) in said.iter().zip(["0.0.9", "99", "riscv64", "65536", " 1,", " 1,"]) {
            assert!(text.starts_with("b has ") && text.contains("this machine"), "{text}");
            assert!(text.contains(theirs) && text.contains(": "), "{text}");
        }
    }

    #[test]
    fn a_hello_of_another_version_is_understood() {
        let mut bytes = MARK.to_vec();
        let body = br#"{"version":"9.0","news":[1,2]}"#;
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        let Heard::Hello(hello, _) = HelloReader::default().handle_bytes(&bytes) else { panic!() };
        assert!(hello.difference(&Hello::own(), "b").unwrap().contains("b has clump 9.0"));
    }
}
