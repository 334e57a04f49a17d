//! Numbers of seven bits a byte, and the reader of what holds them.

/// Reason why bytes are no encoding of what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the value does.
    Truncated,
    /// A number is too large for what it counts or names.
    OutOfRange,
    /// Entries do not ascend, or a run is empty.
    Unordered,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Truncated => "the bytes end too early",
            Self::OutOfRange => "a number is out of range",
            Self::Unordered => "entries do not ascend",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Appends `value`, seven bits a byte, the lowest first.
pub fn push_u32(out: &mut Vec<u8>, value: u32) {
    let before = out.len();
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    debug_assert!(rest < 0x80, "the last byte has no mark");
    debug_assert!((1..=5).contains(&(out.len() - before)), "32 bits need five bytes at most");
}

/// Bytes that are being decoded.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// Returns a reader of `bytes` from their beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes a number that [`push_u32`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes end first, or the number needs more than 32 bits.
    pub fn take_u32(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0_u64;
        for (at, &byte) in self.bytes.iter().enumerate().take(5) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[at + 1..];
                debug_assert!(value < 1 << 35, "five bytes hold 35 bits");
                return u32::try_from(value).map_err(|_| DecodeError::OutOfRange);
            }
        }
        debug_assert!(value < 1 << 35, "five bytes hold 35 bits");
        Err(if self.bytes.len() < 5 { DecodeError::Truncated } else { DecodeError::OutOfRange })
    }

    /// Takes the number of a node, of which there are `nodes`.
    ///
    /// # Errors
    /// Fails if the bytes end first, or there is no such node.
    pub fn take_node(&mut self, nodes: usize) -> Result<u16, DecodeError> {
        debug_assert!(nodes <= 1 << 16, "nodes have 16 bits");
        let node = self.take_u32()?;
        if node as usize >= nodes {
            return Err(DecodeError::OutOfRange);
        }
        debug_assert!(node <= u32::from(u16::MAX), "nodes have 16 bits");
        Ok(node as u16)
    }

    /// Takes `len` bytes.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let before = self.bytes.len();
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            return Err(DecodeError::Truncated);
        };
        self.bytes = rest;
        debug_assert_eq!(taken.len() + self.bytes.len(), before, "bytes are conserved");
        debug_assert_eq!(taken.len(), len);
        Ok(taken)
    }
}
