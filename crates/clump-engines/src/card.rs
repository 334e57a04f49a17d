//! Cards: a rank's words about itself to the others, through the engine.

use clump_os::{namespace, process, procfs};
use serde::{Deserialize, Serialize};

/// Longest card, as text of the engine's store: MPICH's takes 1,024 bytes.
const MAX_BYTES: usize = 1000;

/// A rank's card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Identity of its machine: ranks with the same one see each other's processes and sockets.
    pub machine: String,
    /// The name of that machine, for reports.
    pub host: String,
    /// The name under which its agent is to listen, for the case that it starts one.
    pub listener: String,
}

impl Card {
    /// Returns the card of this process, whose agent is to listen under that name.
    pub fn own(listener: &str) -> Self {
        let spaces = ["net", "pid"].map(|kind| namespace::identity(kind).to_string());
        let machine = [procfs::boot_id(), spaces.join("/")].join("/");
        let host: String = process::host_name().chars().take(64).collect();
        Self { machine, host, listener: listener.into() }
    }

    /// Returns it as the text of a store: hexadecimal digits, which every engine carries.
    pub fn to_text(&self) -> String {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        debug_assert!(text.len() <= MAX_BYTES, "a store takes it");
        text
    }

    /// Reads such a text.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn of_text(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES || !text.len().is_multiple_of(2) {
            return Err(format!("a card of {} bytes", text.len()));
        }
        let pairs = text.as_bytes().chunks_exact(2);
        let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        let bytes = bytes.ok_or("a card of other digits")?;
        serde_json::from_slice(&bytes).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_card_passes_through_a_store() {
        let card = Card::own("clump-0123456789abcdef0123456789abcdef");
        assert_eq!(Card::of_text(&card.to_text()), Ok(card.clone()));
        assert!(!card.machine.is_empty() && card.machine.len() > 36, "{}", card.machine);
        assert_eq!(Card::own("x").machine, card.machine, "a machine is itself");
    }

    proptest! {
        #[test]
        fn other_texts_are_refused(text in "[ -~]{0,60}") {
            prop_assert!(Card::of_text(&text).is_err());
        }
    }
}
