//! The protocol of launcher and relay: a stream of frames, `length (4) kind (1) client (4) body`.
//!
//! A client is a process that a relay runs for the launcher: what reaches an agent on yet another
//! machine, or the agent of the relay's own. Its number is the launcher's. The streams of agents
//! pass through as they are.
//!
//! The launcher sends no more input for a client than the relay has taken ([`RelayFrame::Taken`])
//! and [`MAX_HELD`] bytes beyond, so that no client waits behind another that takes nothing.
//! Agents bound their output themselves ([`crate::frame::Frame::OutputCredit`]).

use clump_os::process::Exit;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read, Result};

/// Most bytes of input of a client that lie in a relay.
pub(crate) const MAX_HELD: u32 = 1 << 20;
/// Most bytes that a frame carries, of input or output.
pub(crate) const MAX_PIECE: usize = 64 << 10;
/// Longest body. A peer that announces more is no relay.
const MAX_BODY: usize = 1 << 20;
const HEAD: usize = 9;

/// One message about a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RelayFrame {
    /// To the relay: start it by these words; none: the agent of the relay's machine.
    Start(Vec<OsString>),
    /// To the relay: bytes for its standard input.
    Input(Vec<u8>),
    /// To the relay: the end of its standard input.
    EndOfInput,
    /// To the relay: kill it.
    Kill,
    /// To the launcher: it has taken so many bytes of its input.
    Taken(u32),
    /// To the launcher: bytes of its standard output.
    Output(Vec<u8>),
    /// To the launcher: the end of its standard output.
    EndOfOutput,
    /// To the launcher: bytes of its error stream.
    Errors(Vec<u8>),
    /// To the launcher: it has ended, and all that it said has been sent.
    Ended(Exit),
}

impl RelayFrame {
    /// Returns the bytes of the frame.
    pub(crate) fn encode(&self, client: u32) -> Vec<u8> {
        let (kind, body): (u8, &[u8]) = match self {
            // Words are bytes: serialization cannot fail.
            Self::Start(words) => (1, &serde_json::to_vec(words).unwrap_or_default()),
            Self::Input(bytes) => (2, bytes),
            Self::EndOfInput => (3, &[]),
            Self::Kill => (4, &[]),
            Self::Taken(bytes) => (5, &bytes.to_le_bytes()),
            Self::Output(bytes) => (6, bytes),
            Self::EndOfOutput => (7, &[]),
            Self::Errors(bytes) => (8, bytes),
            Self::Ended(Exit::Code(code)) => (9, &[0, *code]),
            Self::Ended(Exit::Signal(signal)) => (9, &[1, *signal]),
        };
        debug_assert!(body.len() <= MAX_BODY, "pieces and commands are short");
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
        [&length[..], &[kind], &client.to_le_bytes(), body].concat()
    }

    fn decode(kind: u8, body: Vec<u8>) -> Option<Self> {
        Some(match (kind, &body[..]) {
            (1, words) => Self::Start(serde_json::from_slice(words).ok()?),
            (2, _) => Self::Input(body),
            (3, []) => Self::EndOfInput,
            (4, []) => Self::Kill,
            (5, &[a, b, c, d]) => Self::Taken(u32::from_le_bytes([a, b, c, d])),
            (6, _) => Self::Output(body),
            (7, []) => Self::EndOfOutput,
            (8, _) => Self::Errors(body),
            (9, &[0, code]) => Self::Ended(Exit::Code(code)),
            (9, &[1, signal]) => Self::Ended(Exit::Signal(signal)),
            _ => return None,
        })
    }

    /// Reads the next frame, and the number of its client; none at the end of the stream.
    ///
    /// # Errors
    /// Fails if the stream cannot be read, or holds something else.
    pub(crate) fn read(stream: &mut impl Read) -> Result<Option<(u32, Self)>> {
        let mut head = [0; HEAD];
        if let Err(why) = stream.read_exact(&mut head) {
            return if why.kind() == ErrorKind::UnexpectedEof { Ok(None) } else { Err(why) };
        }
        let [a, b, c, d, kind, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let garbled = || Error::new(ErrorKind::InvalidData, "this is no relay of this build");
        if length > MAX_BODY {
            return Err(garbled());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let frame = Self::decode(kind, body).ok_or_else(garbled)?;
        Ok(Some((u32::from_le_bytes([e, f, g, h]), frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let all = [
            RelayFrame::Start(vec!["ssh".into(), "a b".into()]),
            RelayFrame::Start(Vec::new()),
            RelayFrame::Input(vec![0; MAX_PIECE]),
            RelayFrame::EndOfInput,
            RelayFrame::Kill,
            RelayFrame::Taken(77),
            RelayFrame::Output(vec![1, 2]),
            RelayFrame::EndOfOutput,
            RelayFrame::Errors(b"no".to_vec()),
            RelayFrame::Ended(Exit::Code(3)),
            RelayFrame::Ended(Exit::Signal(9)),
        ];
        let bytes: Vec<u8> = (5..).zip(&all).flat_map(|(n, frame)| frame.encode(n)).collect();
        let mut stream = &bytes[..];
        for (n, frame) in (5..).zip(all) {
            assert_eq!(RelayFrame::read(&mut stream).unwrap(), Some((n, frame)));
        }
        assert_eq!(RelayFrame::read(&mut stream).unwrap(), None);
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_gigabyte() {
        for bytes in [
            &[255, 255, 255, 255, 6, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 99, 0, 0, 0, 0],
            &[1, 0, 0, 0, 3, 0, 0, 0, 0, 7],
            &[2, 0, 0, 0, 9, 0, 0, 0, 0, 2, 0],
            &[1, 0, 0, 0, 1, 0, 0, 0, 0, b'{'],
            &[9, 0, 0, 0, 6, 0, 0, 0, 0, 1],
        ] {
            assert!(RelayFrame::read(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
