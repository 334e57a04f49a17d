//! Text for people, in which nothing commands a terminal.

use std::borrow::Cow;

/// Returns the text with control characters written as escapes, line ends and tabs excepted: messages quote names
/// that users chose.
pub fn visible(text: &str) -> Cow<'_, str> {
    // Marks of direction (Unicode 15, bidirectional formatting) reorder what stands around them.
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let hidden = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || turns(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    debug_assert!(!shown.contains(hidden), "escapes hold no control characters");
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_is_escaped() {
        assert_eq!(visible("a\tb\n"), Cow::Borrowed("a\tb\n"));
        assert_eq!(visible("no `\u{1b}[31mred`\r\u{7}"), "no `\\u{1b}[31mred`\\r\\u{7}");
        assert_eq!(visible("caf\u{e9} \u{202e}x\u{9b}"), "caf\u{e9} \\u{202e}x\\u{9b}");
    }
}
