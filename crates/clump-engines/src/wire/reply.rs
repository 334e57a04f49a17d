//! An answer of an engine.

/// Longest answer. One that does not end by then is none.
pub const MAX_BYTES: usize = 64 << 10;
/// Most names of one answer.
const MAX_NAMES: usize = 256;

/// Bytes that are no answer, or one that refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No such protocol.
    #[error("it answers something that is no PMI: {0}")]
    Garbled(String),
    /// A refusal.
    #[error("it refuses `{asked}`: {why}")]
    Refused {
        /// The command.
        asked: &'static str,
        /// The code or message of the answer.
        why: String,
    },
    /// A key or value that the protocol cannot carry.
    #[error("it cannot be told {0} bytes of that kind")]
    Unspeakable(usize),
}

/// An answer: names and values, the first of which is the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    fields: Vec<(String, String)>,
}

impl Reply {
    /// Reads a line of the first version, without its end.
    ///
    /// # Errors
    /// It is none.
    pub fn of_line(line: &[u8]) -> Result<Self, WireError> {
        let text = text_of(line)?;
        let words = text.split(' ').filter(|word| !word.is_empty());
        Self::of_words(words.map(str::to_owned))
    }

    /// Reads a message of the second version, without its length.
    ///
    /// # Errors
    /// It is none.
    pub fn of_message(message: &[u8]) -> Result<Self, WireError> {
        let text = text_of(message)?;
        let (mut words, mut word) = (Vec::new(), String::new());
        let mut rest = text.chars().peekable();
        while let Some(one) = rest.next() {
            match one {
                ';' if rest.next_if_eq(&';').is_some() => word.push(';'),
                ';' => words.push(std::mem::take(&mut word)),
                other => word.push(other),
            }
        }
        words.push(word);
        Self::of_words(words.into_iter().filter(|word| !word.is_empty()))
    }

    fn of_words(words: impl Iterator<Item = String>) -> Result<Self, WireError> {
        let mut fields = Vec::new();
        for word in words {
            // Engines add remarks without a value, which say nothing.
            let (name, value) = word.split_once('=').unwrap_or((&word, ""));
            if fields.len() == MAX_NAMES {
                return Err(WireError::Garbled(format!("more than {MAX_NAMES} names")));
            }
            fields.push((name.to_owned(), value.to_owned()));
        }
        match fields.first() {
            Some((name, _)) if name == "cmd" => Ok(Self { fields }),
            _ => Err(WireError::Garbled("no command comes first".into())),
        }
    }

    /// Returns the command that it answers.
    pub fn command(&self) -> &str {
        debug_assert!(!self.fields.is_empty(), "a command comes first");
        self.fields.first().map_or("", |(_, value)| value)
    }

    /// Returns the value of `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, WireError> {
    debug_assert!(bytes.len() <= MAX_BYTES, "a longer one was refused");
    let text = std::str::from_utf8(bytes).ok();
    text.ok_or_else(|| WireError::Garbled("bytes that are no text".into()))
}
