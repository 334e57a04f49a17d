//! Writer of the encoding of protocol buffers: fields of messages, by number.

/// A message that is being encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoMessage(Vec<u8>);

/// Kinds of fields on the wire.
#[derive(Debug, Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl ProtoMessage {
    /// Creates a message without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all fields, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the encoded fields.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a field of an integer type that is not `sint`.
    pub fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, WireType::Varint);
        self.varint(value);
        self
    }

    /// Adds a field of type `fixed64`.
    pub fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, WireType::Fixed64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a field of a string.
    pub fn text(&mut self, field: u32, value: &str) -> &mut Self {
        self.block(field, value.as_bytes())
    }

    /// Adds a field that is a message.
    pub fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.block(field, &value.0)
    }

    fn block(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, WireType::Bytes);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn key(&mut self, field: u32, kind: WireType) {
        debug_assert!(field > 0, "fields are numbered from 1");
        self.varint(u64::from(field) << 3 | kind as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_documentation_of_the_format_shows() {
        // Its examples: 150 in field 1, "testing" in field 2, a message with 150 in field 3.
        let mut inner = ProtoMessage::new();
        inner.number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let mut outer = ProtoMessage::new();
        outer.text(2, "testing");
        assert_eq!(outer.bytes(), b"\x12\x07testing");
        outer.clear();
        outer.message(3, &inner);
        assert_eq!(outer.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        outer.clear();
        outer.fixed(16, 1).number(1, u64::MAX);
        let mut expected = vec![0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0, 0x08];
        expected.extend([0xff; 9]);
        expected.push(1);
        assert_eq!(outer.bytes(), expected);
    }
}
