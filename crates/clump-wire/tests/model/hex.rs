//! Hexadecimal notation of bytes.

/// Returns the bytes of hexadecimal digits with white space anywhere between them.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    let digit = |c: char| c.to_digit(16).unwrap_or_else(|| panic!("no digit: {c}")) as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
