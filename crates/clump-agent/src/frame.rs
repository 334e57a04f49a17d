//! What launcher and agent say to each other: a stream of frames, `length (4) kind (1) body`.
//!
//! Output is carried raw, everything else as JSON: it is said once per job.

use crate::outcome::JobOutcome;
use crate::spec::JobSpec;

/// Longest body. Whoever announces more is not a clump agent.
const MOST: usize = 64 << 20;
const HEAD: usize = 5;

/// Which stream of a rank.
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
    /// To the agent: run this.
    Start(Box<JobSpec>),
    /// To the agent: end the job; ranks get this signal first.
    Interrupt(u8),
    /// To the agent: end the job at once.
    Kill,
    /// To the launcher: a rank wrote something.
    Wrote(u32, Stream, Vec<u8>),
    /// To the launcher: something the user should read now.
    Notice(String),
    /// To the launcher: it is over.
    Finished(Box<JobOutcome>),
}

/// Bytes that are no frames.
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
            Frame::Wrote(rank, stream, bytes) => append_output(out, *rank, *stream, bytes),
            Frame::Notice(text) => raw(out, 5, &[text.as_bytes()]),
            Frame::Finished(outcome) => json(out, 6, outcome),
        }
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
                Frame::Wrote(u32::from_le_bytes([*a, *b, *c, *d]), stream, bytes.to_vec())
            }
            (5, _) => Frame::Notice(String::from_utf8_lossy(body).into_owned()),
            (6, _) => Frame::Finished(serde_json::from_slice(body).map_err(text)?),
            _ => return Err(bad("unknown, or of a wrong length")),
        })
    }
}

/// Appends a [`Frame::Wrote`] without copying the bytes twice.
pub fn append_output(out: &mut Vec<u8>, rank: u32, stream: Stream, bytes: &[u8]) {
    raw(out, 4, &[&rank.to_le_bytes(), &[u8::from(stream == Stream::Errors)], bytes]);
}

fn raw(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= MOST, "callers frame pieces far smaller than that");
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    out.push(kind);
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn json(out: &mut Vec<u8>, kind: u8, value: &impl serde::Serialize) {
    // These types have string keys and no maps of foreign types: writing them cannot fail.
    let body = serde_json::to_vec(value).unwrap_or_default();
    raw(out, kind, &[&body]);
}

/// Puts frames together from pieces of a stream.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    taken: usize,
}

impl Assembler {
    /// Takes a piece.
    pub fn handle_bytes(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Gives the next complete frame.
    ///
    /// # Errors
    /// When what came is no frame; nothing after it can be understood.
    pub fn poll_frame(&mut self) -> Result<Option<Frame>, Garbled> {
        let rest = &self.bytes[self.taken..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [a, b, c, d, kind] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MOST {
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
    use crate::outcome::Ending;

    #[test]
    fn frames_survive_any_cutting() {
        let mut spec = JobSpec::new("prog", vec!["a b".into(), "\u{e9}".into()], 3);
        spec.linger_ms = Some(7);
        let frames = [
            Frame::Start(Box::new(spec)),
            Frame::Interrupt(2),
            Frame::Kill,
            Frame::Wrote(77, Stream::Errors, vec![0, 255, 10]),
            Frame::Wrote(0, Stream::Output, vec![]),
            Frame::Notice("note".into()),
            Frame::Finished(Box::new(JobOutcome::without_ranks(3, Ending::Clean))),
        ];
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
    fn nonsense_is_an_error_and_not_a_gigabyte() {
        for bytes in [&[255, 255, 255, 255, 4][..], &[0, 0, 0, 0, 99], &[1, 0, 0, 0, 1, b'{']] {
            let mut assembler = Assembler::default();
            assembler.handle_bytes(bytes);
            assert!(assembler.poll_frame().is_err());
        }
    }
}
