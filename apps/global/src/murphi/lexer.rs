//! Words of a model: keywords in any case, names, numbers, strings, signs.

use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Keywords; each `end` may name what it ends.
const KEYWORDS: &[&str] = &[
    "alias",
    "array",
    "assert",
    "begin",
    "boolean",
    "by",
    "case",
    "choose",
    "clear",
    "const",
    "do",
    "else",
    "elsif",
    "end",
    "endalias",
    "endchoose",
    "endexists",
    "endfor",
    "endforall",
    "endfunction",
    "endif",
    "endprocedure",
    "endrecord",
    "endrule",
    "endruleset",
    "endstartstate",
    "endswitch",
    "endwhile",
    "enum",
    "error",
    "exists",
    "false",
    "for",
    "forall",
    "function",
    "if",
    "invariant",
    "ismember",
    "isundefined",
    "multiset",
    "multisetadd",
    "multisetcount",
    "multisetremove",
    "multisetremovepred",
    "of",
    "procedure",
    "put",
    "record",
    "return",
    "rule",
    "ruleset",
    "scalarset",
    "startstate",
    "switch",
    "then",
    "to",
    "true",
    "type",
    "undefine",
    "undefined",
    "union",
    "var",
    "while",
    "real",
    "assume",
    "cover",
    "liveness",
    "traceuntil",
    "priority",
    "fairness",
    "import",
    "external",
    "externfun",
    "externproc",
];
/// Signs, longer ones first.
const SIGNS: &[&str] = &[
    "==>", ":=", "..", "->", "!=", "<=", ">=", "==", "&&", "||", "(", ")", "[", "]", "{", "}", ";",
    ":", ",", ".", "+", "-", "*", "/", "%", "<", ">", "=", "!", "&", "|", "?",
];
/// Bytes of a model.
pub const MAX_TEXT: usize = 8 << 20;

/// A word of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MurphiToken {
    /// A keyword, in small letters.
    Keyword(&'static str),
    /// A name.
    Name(String),
    /// A number.
    Number(i64),
    /// A string, without its quotes.
    Text(String),
    /// A sign.
    Sign(&'static str),
    /// The end of the model.
    End,
}

impl MurphiToken {
    /// Returns the word as messages quote it.
    pub fn show(&self) -> String {
        match self {
            Self::Keyword(word) | Self::Sign(word) => format!("`{word}`"),
            Self::Name(name) => format!("`{name}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(_) => "a string".into(),
            Self::End => "the end of the model".into(),
        }
    }
}

/// Text that is being split into words.
struct TextCursor<'a> {
    rest: &'a str,
    at: SourcePosition,
}

impl TextCursor<'_> {
    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        for c in passed.chars() {
            self.at.column += 1;
            if c == '\n' {
                self.at = SourcePosition { line: self.at.line + 1, column: 1 };
            }
        }
        self.rest = rest;
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Checked<()> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if self.rest.starts_with("--") || self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(Diagnostic::new(self.at, "this comment has no end: add `*/`"));
                };
                self.skip(end + 2);
            } else if self.rest.starts_with('#') {
                let what = "lines for C's preprocessor are not part of the language: write the \
                            text itself here";
                return Err(Diagnostic::new(self.at, what));
            } else {
                return Ok(());
            }
        }
    }

    fn number(&mut self) -> Checked<MurphiToken> {
        let digits = prefix(self.rest, |c| c.is_ascii_digit());
        let after = self.rest.get(digits.len()..).unwrap_or("");
        let real =
            after.strip_prefix('.').is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        if real {
            return Err(Diagnostic::new(
                self.at,
                "real numbers are not supported: scale to integers",
            ));
        }
        match digits.parse::<i64>() {
            Ok(number) if number <= i64::from(i32::MAX) * 1024 => {
                self.skip(digits.len());
                Ok(MurphiToken::Number(number))
            }
            _ => Err(Diagnostic::new(self.at, format!("the number {digits} is too large"))),
        }
    }

    fn text(&mut self) -> Checked<MurphiToken> {
        let inside = self.rest.get(1..).unwrap_or("");
        match inside.find(['"', '\n']) {
            Some(end) if inside[end..].starts_with('"') => {
                let text = inside[..end].to_owned();
                self.skip(end + 2);
                Ok(MurphiToken::Text(text))
            }
            _ => Err(Diagnostic::new(self.at, "this string has no end in its line")),
        }
    }

    fn next(&mut self) -> Checked<(MurphiToken, SourcePosition)> {
        self.skip_blank()?;
        let at = self.at;
        let Some(first) = self.rest.chars().next() else { return Ok((MurphiToken::End, at)) };
        let token = if first.is_ascii_digit() {
            self.number()?
        } else if first == '"' {
            self.text()?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let word = prefix(self.rest, |c| c.is_ascii_alphanumeric() || c == '_').to_owned();
            self.skip(word.len());
            let small = word.to_ascii_lowercase();
            match KEYWORDS.iter().find(|keyword| **keyword == small) {
                Some(keyword) => MurphiToken::Keyword(keyword),
                None => MurphiToken::Name(word),
            }
        } else if let Some(sign) = SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            self.skip(sign.len());
            MurphiToken::Sign(sign)
        } else {
            let what = format!("the character {first:?} has no meaning here");
            return Err(Diagnostic::new(at, what));
        };
        Ok((token, at))
    }
}

/// Returns the longest beginning whose characters all pass.
fn prefix(text: &str, passes: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !passes(c)).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Splits a model into words. The last one is [`MurphiToken::End`].
///
/// # Errors
/// Fails at characters without meaning, comments and strings without end, and numbers that are too
/// large.
pub fn tokens(text: &str) -> Checked<Vec<(MurphiToken, SourcePosition)>> {
    let mut cursor = TextCursor { rest: text, at: SourcePosition { line: 1, column: 1 } };
    if text.len() > MAX_TEXT {
        return Err(Diagnostic::new(cursor.at, "the model is longer than 8 MiB"));
    }
    let mut all = Vec::new();
    loop {
        let (token, at) = cursor.next()?;
        let last = token == MurphiToken::End;
        all.push((token, at));
        if last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MurphiToken, tokens};

    #[test]
    fn words_have_places_and_keywords_any_case() {
        let found = tokens("-- one\n/* two */ RuleSet x := 12 ==> \"t\"").unwrap();
        let places: Vec<_> = found.iter().map(|(_, at)| (at.line, at.column)).collect();
        assert_eq!(places[..2], [(2, 11), (2, 19)]);
        assert_eq!(found[0].0, MurphiToken::Keyword("ruleset"));
        assert_eq!(found[2].0, MurphiToken::Sign(":="));
        assert_eq!(found[5].0, MurphiToken::Text("t".into()));
    }

    #[test]
    fn what_is_not_the_language_is_named() {
        for (text, part) in [
            ("#include <a>", "preprocessor"),
            ("x := 1.5", "real numbers"),
            ("/* a", "no end"),
            ("\"a\n\"", "no end in its line"),
            ("a $ b", "'$'"),
            ("99999999999999999999", "too large"),
        ] {
            assert!(tokens(text).unwrap_err().what.contains(part), "{text}");
        }
    }
}
