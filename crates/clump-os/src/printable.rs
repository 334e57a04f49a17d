//! Names and texts of others, safe to print: none of their escape sequences reaches a terminal.
//!
//! Process names, arguments, paths, host names and texts of peers are any bytes, and another user
//! may have chosen them. A terminal obeys control characters, and a reader is misled by characters
//! that turn the direction of text. Both are shown by their numbers, as are bytes that are not
//! text; everything else is shown as it is.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// Text of others that can be printed in one line. Made by [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(&'a [u8]);

/// Shows `text` without control characters and without bytes that are no text: they become `\x1b`
/// or `\u{202e}`.
pub fn printable<T: AsRef<OsStr> + ?Sized>(text: &T) -> Printable<'_> {
    Printable(text.as_ref().as_bytes())
}

/// Shows text of several lines as [`printable`] does; line ends stay.
pub fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| printable(line).to_string());
    lines.collect::<Vec<_>>().join("\n")
}

/// Shows a JSON text as [`printable`] does: characters that JSON allows and a terminal obeys become
/// JSON's `\u009b`.
pub fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_active(character) && !matches!(character, '\n' | '\t') {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns true if a character changes a terminal, or the order in which others are read.
fn is_active(character: char) -> bool {
    let turns = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_line = matches!(character, '\u{2028}' | '\u{2029}');
    character.is_control() || turns || ends_line
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    active if is_active(active) && active.is_ascii() => {
                        write!(f, "\\x{:02x}", u32::from(active))?;
                    }
                    active if is_active(active) => write!(f, "\\u{{{:x}}}", u32::from(active))?,
                    plain => f.write_char(plain)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Returns a number of things: "1 node", "2 nodes".
pub fn counted(number: impl Into<u128>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_and_what_acts_on_a_terminal_is_shown_by_number() {
        let shown = |bytes: &[u8]| printable(OsStr::from_bytes(bytes)).to_string();
        for plain in ["", "sleep 1000", "gr\u{f6}\u{df}e \u{65e5}\u{672c} a\\b"] {
            assert_eq!(shown(plain.as_bytes()), plain);
        }
        assert_eq!(shown(b"\x1b]0;mine\x07\x1b[2J"), r"\x1b]0;mine\x07\x1b[2J");
        assert_eq!(shown(b"a\nb\rc\td\x7f"), r"a\x0ab\x0dc\x09d\x7f");
        // The one-byte form of the same sequence, as a character and as a byte.
        assert_eq!(shown("\u{9b}2J".as_bytes()), r"\u{9b}2J");
        assert_eq!(shown(b"\x9b2J gr\xf6"), r"\x9b2J gr\xf6");
        assert_eq!(shown("\u{202e}txt\u{2066}".as_bytes()), r"\u{202e}txt\u{2066}");
        assert_eq!(printable_json("{\n\"\u{9b}a\u{7f}\"}"), "{\n\"\\u009ba\\u007f\"}");
        assert_eq!(printable_lines("one\n\x1btwo\n"), "one\n\\x1btwo\n");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([0_u32, 1, 2].map(|n| counted(n, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }

    #[test]
    fn no_byte_passes_that_a_terminal_obeys() {
        let all: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).flat_map(|b| [b, 0xc2, b])).collect();
        let shown = printable(OsStr::from_bytes(&all)).to_string();
        assert!(shown.chars().all(|c| !is_active(c)), "{shown}");
    }
}
