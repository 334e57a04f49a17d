//! Reader of `known.txt`. Keys stay hexadecimal text here: the test of memory looks for their
//! bytes.

#![allow(dead_code, reason = "each test uses a part of it")]

/// A job, its paths, their packets.
pub struct Job<'a> {
    pub key: &'a str,
    pub tag: &'a str,
    /// The key that HKDF extracts from the job's key.
    pub extracted: &'a str,
    pub paths: Vec<Path<'a>>,
}

pub struct Path<'a> {
    /// Source, its epoch, target.
    pub ends: (u32, u32, u32),
    /// The key of the path and the ten that AES makes from it.
    pub round_keys: Vec<&'a str>,
    pub packets: Vec<Packet<'a>>,
}

pub struct Packet<'a> {
    pub number: u64,
    pub head_bytes: usize,
    pub body_bytes: usize,
    pub tag: &'a str,
    pub crc: &'a str,
    pub sealed: Sealed<'a>,
}

/// The sealed body, or for a long one its hash.
pub enum Sealed<'a> {
    Bytes(&'a str),
    Sha256(&'a str),
}

pub fn jobs() -> Vec<Job<'static>> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for line in include_str!("known.txt").lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["job", key, "tag", tag] => {
                jobs.push(Job { key, tag, extracted: "", paths: Vec::new() });
            }
            ["extract", extracted] => jobs.last_mut().unwrap().extracted = extracted,
            ["path", from, epoch, to, "rounds", ref round_keys @ ..] => {
                let ends = (number(from), number(epoch), number(to));
                let round_keys = round_keys.to_vec();
                let path = Path { ends, round_keys, packets: Vec::new() };
                jobs.last_mut().unwrap().paths.push(path);
            }
            ["packet", count, head, body, "tag", tag, "crc", crc, form, sealed] => {
                let sealed = match form {
                    "sealed" => Sealed::Bytes(sealed.trim_matches('-')),
                    "sha256" => Sealed::Sha256(sealed),
                    _ => panic!("no form of a sealed body: {form}"),
                };
                let (head_bytes, body_bytes) = (number(head), number(body));
                let packet =
                    Packet { number: number(count), head_bytes, body_bytes, tag, crc, sealed };
                jobs.last_mut().unwrap().paths.last_mut().unwrap().packets.push(packet);
            }
            _ => panic!("not understood: {line}"),
        }
    }
    jobs
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(word: &str) -> T {
    word.parse().unwrap()
}

/// Writes the bytes that `hex` stands for straight to their place.
pub fn unhex(hex: &str, to: &mut [u8]) {
    assert_eq!(hex.len(), 2 * to.len());
    for (pair, byte) in hex.as_bytes().chunks(2).zip(to) {
        let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
