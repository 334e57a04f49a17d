//! Words in a shell's notation: the one place that quotes for shells, whether of this machine or of
//! another, and for commands that a user copies.
//!
//! Login shells differ. Single quotes mean the same in `sh`, `csh`, `zsh` and `fish`, except that
//! `fish` lets a backslash quote in them; so backslashes stand outside, where all four agree.

use crate::printable::printable;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Returns `word` such that a shell reads exactly its bytes, as one word that is no assignment,
/// pattern, variable or comment. A leading dash stays: what is called needs a `--` before it.
pub fn quoted(word: impl AsRef<OsStr>) -> OsString {
    let bytes = word.as_ref().as_bytes();
    if !bytes.is_empty() && bytes.iter().copied().all(is_plain) {
        return OsStr::from_bytes(bytes).to_owned();
    }
    let mut quoted = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => quoted.extend([b'\'', b'\\', byte, b'\'']),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

/// Returns words as a user types them into a shell of this machine: what a terminal obeys, and
/// bytes that are no text, stand in `$'...'`, which `bash`, `zsh` and `ksh` understand.
pub fn typed<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let all: Vec<String> = words.into_iter().map(|word| typed_word(word.as_ref())).collect();
    all.join(" ")
}

fn typed_word(word: &OsStr) -> String {
    let quoted = quoted(word);
    match quoted.to_str() {
        Some(text) if printable(text).to_string() == text => text.to_owned(),
        _ => {
            let mut text = "$'".to_owned();
            for &byte in word.as_bytes() {
                // Writing to a string cannot fail.
                let _ = match byte {
                    b'\'' | b'\\' => write!(text, "\\{}", char::from(byte)),
                    b' '..=b'~' => write!(text, "{}", char::from(byte)),
                    byte => write!(text, "\\{byte:03o}"),
                };
            }
            text + "'"
        }
    }
}

/// Returns true for bytes that no shell takes for more than themselves, wherever they stand.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-+:@,".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const HARD: [&[u8]; 19] = [
        b"",
        b" ",
        b"keep me",
        b"it's",
        b"\"",
        b"a;b",
        b"*",
        b"$(touch x)",
        b"`x`",
        b"${HOME}",
        b"two\nlines\n",
        b"-rf",
        b"~",
        b"#",
        b"back\\slash\\",
        b"A=b",
        b"\xff\xfe\x01\x1b[2J",
        b"gr\xc3\xb6\xc3\x9fe",
        b"!x{a,b}?[c]<>&|()",
    ];

    /// Returns the words that a shell reads in `text`, each with a zero byte behind it.
    fn read_by(shell: &str, text: OsString) -> Option<Vec<u8>> {
        let mut script = OsString::from("printf '%s\\0' ");
        script.push(text);
        let done = Command::new(shell).arg("-c").arg(script).output().ok()?;
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{shell}, {}: {said}", done.status);
        Some(done.stdout)
    }

    #[test]
    fn shells_read_the_bytes_that_were_quoted() {
        let words: Vec<&OsStr> = HARD.into_iter().map(OsStr::from_bytes).collect();
        let expected: Vec<u8> = HARD.into_iter().flat_map(|word| [word, b"\0"].concat()).collect();
        let all: Vec<OsString> = words.iter().map(quoted).collect();
        let text = all.join(OsStr::new(" "));
        assert_eq!(read_by("sh", text.clone()), Some(expected.clone()));
        for shell in ["bash", "zsh", "fish", "ksh"] {
            if let Some(read) = read_by(shell, text.clone()) {
                assert_eq!(read, expected, "{shell}");
            }
        }
        // A shell that starts another, as a remote shell does.
        let mut twice = OsString::from("sh -c ");
        let mut script = OsString::from("printf '%s\\0' ");
        script.push(&text);
        twice.push(quoted(script));
        let done = Command::new("sh").arg("-c").arg(twice).output().unwrap();
        assert_eq!(done.stdout, expected);
        let shown = typed(&words);
        assert_eq!(printable(&shown).to_string(), shown);
        if let Some(read) = read_by("bash", shown.into()) {
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn words_that_need_nothing_stay_as_they_are() {
        for plain in ["/usr/bin/clump-1.0_x", "me@b.example.org", "0-3,5", "[fd00::1]"] {
            let is_same = !plain.contains('[');
            assert_eq!(quoted(plain) == plain, is_same, "{plain}");
        }
        assert_eq!(typed(["ssh", "-o", "A=b", "it's"]), r"ssh -o 'A=b' 'it'\''s'");
    }
}
