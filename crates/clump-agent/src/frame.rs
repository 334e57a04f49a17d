//! The protocol of launcher and agent: a stream of frames, `length (4) kind (1) body`.
//!
//! Output is carried raw, everything else as JSON: that is sent once per job, or once per rank.
//!
//! Before the first frame the launcher sends the key of the job, if there is one ([`write_key`]).
//! It is read straight into memory that no dump holds, and never becomes part of a frame.
//!
//! An agent sends only as much output as it has credit for ([`Frame::OutputCredit`]), so that no
//! other frame ever waits behind output that is not read.

use crate::outcome::{JobOutcome, NodeOutcome};
use crate::spec::{AddressTable, AgentOffer, BoundAddresses, JobSpec, NodePlan};
use clump_control::{AgentCommand, Event};
use clump_os::secret::Secret;
use std::io::{Read, Write};
use std::sync::Arc;

/// Longest body. A peer that announces more is not a clump agent.
const MAX_COUNT: usize = 64 << 20;
const HEAD: usize = 5;

/// An output stream of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// To the agent: run this part of it.
    Start(Box<(JobSpec, NodePlan)>),
    /// To an agent that decides by itself: end the job; ranks get this signal first.
    Interrupt(u8),
    /// To an agent that decides by itself: end the job at once.
    Kill,
    /// To the agent: send the ranks this signal, whose meaning is theirs.
    Signal(u8),
    /// To the agent: stop the ranks, and expect nothing of the launcher until [`Frame::Resume`].
    Suspend,
    /// To the launcher: the ranks of the node have been stopped.
    Suspended,
    /// To the agent: continue the ranks.
    Resume,
    /// To the launcher: a rank wrote something.
    Output(u32, Stream, Vec<u8>),
    /// To the launcher: a text that the user should read now.
    Notice(String),
    /// To the launcher: the addresses by which a node reaches others, for a user who asked.
    Routes(String),
    /// To the launcher, from an agent that decides by itself: the job is over.
    Finished(Box<JobOutcome>),
    /// To the agent: so many bytes of output have been consumed.
    OutputCredit(u32),
    /// To a process that becomes no agent: create so many network namespaces, joined by so many
    /// links each, and pass them back.
    Wire(u32, u32),
    /// To the agent: standard input for rank 0; none: its end.
    Input(Vec<u8>),
    /// To the launcher: rank 0 has taken so many bytes of input.
    InputRoom(u32),
    /// Either way, between machines: nothing but a sign of life.
    Alive,
    /// To the launcher: the addresses of an agent.
    Offered(Box<AgentOffer>),
    /// To the agent: the addresses of all agents, by node; find out which reach each other.
    Probe(Vec<AgentOffer>),
    /// To the launcher: all nodes have been reached, and the sockets of this one are bound.
    Bound(Box<BoundAddresses>),
    /// To the agent: the sockets of all nodes are bound to these addresses; start the ranks.
    Go(Box<AddressTable>),
    /// To the launcher, which decides: an event.
    Event(Event),
    /// To the agent: a command.
    Order(AgentCommand),
    /// To the launcher: the reason why the node cannot start its ranks, and the exit code.
    Refused(String, u8),
    /// To the launcher: the node is done, and this is its part of the outcome.
    Part(Box<NodeOutcome>),
}

/// An error: bytes that are no frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("launcher and agent do not understand each other: {0}; are they from one build of clump?")]
pub struct Garbled(String);

impl Frame {
    /// Appends the frame to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Start(spec) => json(out, 1, spec),
            Frame::Interrupt(signal) => raw(out, 2, &[&[*signal]]),
            Frame::Kill => raw(out, 3, &[]),
            Frame::Output(rank, stream, bytes) => append_output(out, *rank, *stream, bytes),
            Frame::Notice(text) => raw(out, 5, &[text.as_bytes()]),
            Frame::Finished(outcome) => json(out, 6, outcome),
            Frame::OutputCredit(bytes) => raw(out, 8, &[&bytes.to_le_bytes()]),
            Frame::Wire(count, cables) => {
                raw(out, 7, &[&count.to_le_bytes(), &cables.to_le_bytes()]);
            }
            Frame::Bound(bound) => json(out, 9, bound),
            Frame::Go(table) => json(out, 10, table),
            Frame::Event(event) => json(out, 11, event),
            Frame::Order(order) => json(out, 12, order),
            Frame::Refused(why, code) => raw(out, 13, &[&[*code], why.as_bytes()]),
            Frame::Part(part) => json(out, 14, part),
            Frame::Offered(offer) => json(out, 15, offer),
            Frame::Probe(offers) => json(out, 16, offers),
            Frame::Input(bytes) => raw(out, 17, &[bytes]),
            Frame::InputRoom(bytes) => raw(out, 18, &[&bytes.to_le_bytes()]),
            Frame::Alive => raw(out, 19, &[]),
            Frame::Routes(text) => raw(out, 20, &[text.as_bytes()]),
            Frame::Signal(signal) => raw(out, 21, &[&[*signal]]),
            Frame::Suspend => raw(out, 22, &[]),
            Frame::Suspended => raw(out, 23, &[]),
            Frame::Resume => raw(out, 24, &[]),
        }
    }

    /// Returns the frame's bytes, which streams to several agents can share.
    pub fn encode(&self) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes.into()
    }

    fn decode(kind: u8, body: &[u8]) -> Result<Self, Garbled> {
        let bad = |what: &str| Garbled(format!("frame of kind {kind}: {what}"));
        let text = |e: serde_json::Error| bad(&e.to_string());
        Ok(match (kind, body) {
            (1, _) => Frame::Start(serde_json::from_slice(body).map_err(text)?),
            (2, [signal]) => Frame::Interrupt(*signal),
            (3, []) => Frame::Kill,
            (4, [a, b, c, d, stream, bytes @ ..]) => {
                let stream = if *stream == 0 { Stream::Output } else { Stream::Errors };
                Frame::Output(u32::from_le_bytes([*a, *b, *c, *d]), stream, bytes.to_vec())
            }
            (5, _) => Frame::Notice(String::from_utf8_lossy(body).into_owned()),
            (20, _) => Frame::Routes(String::from_utf8_lossy(body).into_owned()),
            (6, _) => Frame::Finished(serde_json::from_slice(body).map_err(text)?),
            (7, &[a, b, c, d, e, f, g, h]) => {
                Frame::Wire(u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
            }
            (8, &[a, b, c, d]) => Frame::OutputCredit(u32::from_le_bytes([a, b, c, d])),
            (9, _) => Frame::Bound(serde_json::from_slice(body).map_err(text)?),
            (10, _) => Frame::Go(serde_json::from_slice(body).map_err(text)?),
            (11, _) => Frame::Event(serde_json::from_slice(body).map_err(text)?),
            (12, _) => Frame::Order(serde_json::from_slice(body).map_err(text)?),
            (13, [code, why @ ..]) => {
                Frame::Refused(String::from_utf8_lossy(why).into_owned(), *code)
            }
            (14, _) => Frame::Part(serde_json::from_slice(body).map_err(text)?),
            (15, _) => Frame::Offered(serde_json::from_slice(body).map_err(text)?),
            (16, _) => Frame::Probe(serde_json::from_slice(body).map_err(text)?),
            (17, _) => Frame::Input(body.to_vec()),
            (18, &[a, b, c, d]) => Frame::InputRoom(u32::from_le_bytes([a, b, c, d])),
            (19, []) => Frame::Alive,
            (21, [signal]) => Frame::Signal(*signal),
            (22, []) => Frame::Suspend,
            (23, []) => Frame::Suspended,
            (24, []) => Frame::Resume,
            _ => return Err(bad("unknown, or of a wrong length")),
        })
    }
}

/// The key of a job.
pub type Key = Secret<[u8; KEY_BYTES]>;
const KEY_BYTES: usize = 32;

/// Sends the key of a job, or its absence, before all frames.
///
/// # Errors
/// Fails if the stream cannot be written.
pub fn write_key(stream: &mut impl Write, key: Option<&Key>) -> std::io::Result<()> {
    stream.write_all(&[u8::from(key.is_some())])?;
    key.map_or(Ok(()), |key| stream.write_all(&key[..]))
}

/// Reads the key that [`write_key`] sent.
///
/// # Errors
/// Fails if the stream cannot be read, or if no secret memory can be had.
pub fn read_key(stream: &mut impl Read) -> std::io::Result<Option<Key>> {
    let mut there = [0];
    stream.read_exact(&mut there)?;
    if there == [0] {
        return Ok(None);
    }
    let mut key = Key::zeroed().map_err(|e| e.io())?;
    stream.read_exact(&mut key[..])?;
    Ok(Some(key))
}

/// Appends a [`Frame::Output`] without copying the bytes twice.
pub fn append_output(out: &mut Vec<u8>, rank: u32, stream: Stream, bytes: &[u8]) {
    raw(out, 4, &[&rank.to_le_bytes(), &[u8::from(stream == Stream::Errors)], bytes]);
}

fn raw(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= MAX_COUNT, "callers frame pieces far smaller than that");
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    out.push(kind);
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn json(out: &mut Vec<u8>, kind: u8, value: &impl serde::Serialize) {
    // These types have string keys and no maps of foreign types: serialization cannot fail.
    let body = serde_json::to_vec(value).unwrap_or_default();
    raw(out, kind, &[&body]);
}

/// Reassembles frames from chunks of a stream.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    taken: usize,
}

impl Assembler {
    /// Takes a chunk.
    pub fn handle_bytes(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// Fails if the bytes are no frame; nothing after them can be understood.
    pub fn poll_frame(&mut self) -> Result<Option<Frame>, Garbled> {
        let rest = &self.bytes[self.taken..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [a, b, c, d, kind] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_COUNT {
            return Err(Garbled(format!("a frame of {length} bytes")));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::decode(kind, body)?;
        self.taken += HEAD + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::JobEnd;
    use crate::spec::BoundAddress;
    use clump_control::{DeathManner, FinalizedRanks, ProcessEnd, RankStatus};

    fn one_of_each() -> Vec<Frame> {
        let mut spec = JobSpec::new("prog", vec!["a b".into(), "\u{e9}".into()], 3);
        (spec.linger_ms, spec.security) = (Some(7), clump_wire::Security::Crc);
        let plan = NodePlan::new(&spec, 1, u64::MAX, 9);
        let address = "127.0.0.1:9".parse().unwrap();
        let at = BoundAddress { address, others: [Some(address), None, None], epoch: 5 };
        let offer = AgentOffer {
            host: "h".into(),
            program: "7f".into(),
            addresses: vec![address],
            left_out: 0,
            epoch: 3,
        };
        vec![
            Frame::Start(Box::new((spec, plan))),
            Frame::Interrupt(2),
            Frame::Kill,
            Frame::Signal(10),
            Frame::Suspend,
            Frame::Suspended,
            Frame::Resume,
            Frame::Output(77, Stream::Errors, vec![0, 255, 10]),
            Frame::Output(0, Stream::Output, vec![]),
            Frame::Notice("note".into()),
            Frame::Finished(Box::new(JobOutcome::without_ranks(3, JobEnd::Clean))),
            Frame::OutputCredit(70_000),
            Frame::Wire(8, 2),
            Frame::Bound(Box::new(BoundAddresses { interfaces: vec![at], ranks: vec![at, at] })),
            Frame::Go(Box::new(AddressTable { interfaces: vec![at], ranks: vec![] })),
            Frame::Event(Event::Ended {
                rank: 3,
                end: ProcessEnd::Signal(9),
                standing: RankStatus::Joined,
            }),
            Frame::Event(Event::Interrupted(15)),
            Frame::Order(AgentCommand::Mirror(vec![FinalizedRanks { ranks: 3..9, barrier: 12 }])),
            Frame::Order(AgentCommand::Declare(vec![1..2, 5..9], DeathManner::NodeLost)),
            Frame::Order(AgentCommand::Conclude),
            Frame::Refused("no program".into(), 127),
            Frame::Part(Box::default()),
            Frame::Offered(Box::new(offer.clone())),
            Frame::Probe(vec![offer]),
            Frame::Input(vec![1, 0, 255]),
            Frame::Input(vec![]),
            Frame::InputRoom(65_536),
            Frame::Alive,
        ]
    }

    #[test]
    fn frames_survive_any_cutting() {
        let frames = one_of_each();
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.append_to(&mut bytes);
        }
        for size in [1, 2, 3, 7, 64, bytes.len()] {
            let mut assembler = Assembler::default();
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                assembler.handle_bytes(piece);
                while let Some(frame) = assembler.poll_frame().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, frames);
        }
    }

    #[test]
    fn a_key_goes_before_all_frames() {
        let key = Key::random().unwrap();
        let mut bytes = Vec::new();
        write_key(&mut bytes, Some(&key)).unwrap();
        write_key(&mut bytes, None).unwrap();
        assert_eq!(bytes.len(), 1 + KEY_BYTES + 1);
        let mut stream = &bytes[..];
        assert_eq!(*read_key(&mut stream).unwrap().unwrap(), *key);
        assert!(read_key(&mut stream).unwrap().is_none());
        assert!(read_key(&mut stream).is_err());
        assert!(read_key(&mut &bytes[..9]).is_err());
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_gigabyte() {
        for bytes in [&[255, 255, 255, 255, 4][..], &[0, 0, 0, 0, 99], &[1, 0, 0, 0, 1, b'{']] {
            let mut assembler = Assembler::default();
            assembler.handle_bytes(bytes);
            assert!(assembler.poll_frame().is_err());
        }
    }
}
