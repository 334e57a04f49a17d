//! Rust source split into code and comments, accurately enough for house rules: strings are
//! blanked, so that a word in a message is not taken for code. Not a parser; rules that need types
//! belong to clippy.

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Line by line.
    pub lines: Vec<Line>,
}

/// One line of a file, in three layers of equal length.
#[derive(Debug, Default, Clone)]
pub struct Line {
    /// Code, with comments and the contents of strings replaced by spaces.
    pub code: String,
    /// Comments, with everything else replaced by spaces.
    pub comment: String,
    /// Contents of strings with their quotes, with everything else replaced by spaces.
    pub text: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the type it belongs to.
    pub name: String,
    /// The line of `fn`, counted from 0.
    pub line: usize,
    /// The line of its closing brace.
    pub last: usize,
    /// Lines of code in the body, without blank lines and lines that only hold comments.
    pub body_lines: usize,
}

/// A block of methods of a type's own.
#[derive(Debug, PartialEq, Eq)]
pub struct InherentImpl {
    /// The type, without its module and its parameters.
    pub type_name: String,
    /// The line of `impl`, counted from 0.
    pub first: usize,
    /// The line of its closing brace.
    pub last: usize,
}

/// The layer of a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Text,
}

impl Source {
    /// Splits `text`.
    pub fn parse(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = vec![Part::Code; chars.len()];
        let mut at = 0;
        while at < chars.len() {
            let (end, part) = token(&chars, at);
            parts[at..end].fill(part);
            at = end;
        }
        let mut lines = vec![Line::default()];
        for (&c, &part) in chars.iter().zip(&parts) {
            if c == '\n' {
                lines.push(Line::default());
            } else if let Some(line) = lines.last_mut() {
                line.code.push(if part == Part::Code { c } else { ' ' });
                line.comment.push(if part == Part::Comment { c } else { ' ' });
                line.text.push(if part == Part::Text { c } else { ' ' });
            }
        }
        Self { lines }
    }

    /// Returns every function that has a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            for (column, word) in words(&line.code) {
                let name = (word == "fn").then(|| next_word(&line.code, column + 2)).flatten();
                let Some(name) = name else { continue };
                let Some((open, close)) = self.block_after(number, column) else { continue };
                let body = self.lines.get(open + 1..close).unwrap_or_default();
                let body_lines = body.iter().filter(|l| !l.code.trim().is_empty()).count();
                found.push(Function {
                    name: name.to_owned(),
                    line: number,
                    last: close,
                    body_lines,
                });
            }
        }
        found
    }

    /// Returns every block of methods that implements no trait.
    pub fn inherent_impls(&self) -> Vec<InherentImpl> {
        let mut found = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            let Some(rest) = line.code.trim_start().strip_prefix("impl") else { continue };
            if !rest.starts_with([' ', '<']) {
                continue;
            }
            let Some((open, close)) = self.block_after(number, 0) else { continue };
            let lines = self.lines.get(number..=open).unwrap_or_default();
            let head: String = lines.iter().map(|line| format!("{} ", line.code)).collect();
            let head = head.split('{').next().unwrap_or_default();
            if let Some(type_name) = implemented(head) {
                found.push(InherentImpl { type_name, first: number, last: close });
            }
        }
        found
    }

    /// Returns for each line true if it is inside an item marked `#[cfg(test)]`.
    pub fn test_lines(&self) -> Vec<bool> {
        let mut test = vec![false; self.lines.len()];
        for (number, line) in self.lines.iter().enumerate() {
            let Some(column) = line.code.find("#[cfg(test)]") else { continue };
            if let Some((_, close)) = self.block_after(number, column + "#[cfg(test)]".len()) {
                test[number..=close].fill(true);
            }
        }
        test
    }

    /// Returns names declared by `keyword`, with their lines.
    pub fn declared(&self, keywords: &[&str]) -> Vec<(usize, &str)> {
        let mut names = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            for (column, word) in words(&line.code) {
                if keywords.contains(&word)
                    && let Some(name) = next_word(&line.code, column + word.len())
                {
                    names.push((number, name));
                }
            }
        }
        names
    }

    /// Returns first and last line of the `{}` block that starts after a place, unless a `;` ends
    /// the item first.
    fn block_after(&self, line: usize, column: usize) -> Option<(usize, usize)> {
        let (mut brackets, mut braces, mut open) = (0_i32, 0_i32, None);
        for (number, text) in self.lines.iter().enumerate().skip(line) {
            let skip = if number == line { column } else { 0 };
            for c in text.code.chars().skip(skip) {
                match c {
                    '(' | '[' if open.is_none() => brackets += 1,
                    ')' | ']' if open.is_none() => brackets -= 1,
                    ';' if open.is_none() && brackets == 0 => return None,
                    '{' => {
                        braces += 1;
                        open = open.or(Some(number));
                    }
                    '}' => braces -= 1,
                    _ => {}
                }
                if let Some(open) = open
                    && braces == 0
                {
                    return Some((open, number));
                }
            }
        }
        None
    }
}

/// Returns the type of the head of an `impl` block, unless it implements a trait.
fn implemented(head: &str) -> Option<String> {
    let mut rest = head.trim_start().strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|&(_, c)| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = rest.get(end.0 + 1..)?;
    }
    if words(rest).any(|(_, word)| word == "for") {
        return None;
    }
    let path = rest.split(['<', ' ']).find(|word| !word.is_empty())?;
    path.rsplit("::").next().map(str::to_owned)
}

/// Returns the end of the token that starts at `at`, and its layer. Code advances one character at
/// a time.
fn token(chars: &[char], at: usize) -> (usize, Part) {
    let next = |n: usize| chars.get(at + n).copied();
    match chars[at] {
        '/' if next(1) == Some('/') => (line_end(chars, at), Part::Comment),
        '/' if next(1) == Some('*') => (block_comment_end(chars, at), Part::Comment),
        '"' => (string_end(chars, at + 1), Part::Text),
        'r' if !joined(chars, at) => match raw_string_end(chars, at + 1) {
            Some(end) => (end, Part::Text),
            None => (at + 1, Part::Code),
        },
        '\'' if next(1) == Some('\\') => (char_end(chars, at + 3), Part::Text),
        '\'' if next(2) == Some('\'') => (at + 3, Part::Text),
        _ => (at + 1, Part::Code),
    }
}

/// Returns true if the character before `at` belongs to the same word; `b` and `c` may stand
/// before a raw string.
fn joined(chars: &[char], at: usize) -> bool {
    let word = |i: usize| chars.get(i).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    match at.checked_sub(1) {
        None => false,
        Some(before) if matches!(chars[before], 'b' | 'c') => {
            before.checked_sub(1).is_some_and(word)
        }
        Some(before) => word(before),
    }
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |n| at + n)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    let open = at + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut i = open + 1;
    while i < chars.len() {
        let closes = chars[i] == '"' && chars[i + 1..].iter().take(hashes).all(|&c| c == '#');
        if closes && chars.len() > i + hashes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

/// Returns the end of a character literal whose escape began two characters before `at`.
fn char_end(chars: &[char], at: usize) -> usize {
    let rest = chars.get(at..).unwrap_or_default();
    rest.iter().position(|&c| c == '\'').map_or(chars.len(), |n| at + n + 1)
}

/// Returns words of `code` with their offsets (in bytes).
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

/// Returns the word after `from`, if only blanks are between.
fn next_word(code: &str, from: usize) -> Option<&str> {
    let rest = code.get(from..)?;
    let (at, word) = words(rest).next()?;
    rest[..at].trim().is_empty().then_some(word).filter(|_| at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let text = "let a = \"fn x() {\"; // fn y() {\nlet b = r#\"\"}\"#; /* { /* } */ */ let c;";
        let source = Source::parse(text);
        assert_eq!(
            source.lines[0].code.split_whitespace().collect::<Vec<_>>(),
            ["let", "a", "=", ";"]
        );
        assert!(source.lines[0].comment.contains("fn y() {"));
        assert!(!source.lines[1].code.contains('}') && source.lines[1].code.contains("let c;"));
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = Source::parse("fn a<'x>(v: &'x str) { '{' ; '\\'' ; '\\u{7b}' ; b'}' }");
        let code = &source.lines[0].code;
        assert_eq!(code.matches('{').count(), 1, "{code}");
        assert_eq!(code.matches('}').count(), 1, "{code}");
        assert!(code.contains("<'x>"));
    }

    #[test]
    fn a_word_that_ends_in_r_starts_no_raw_string() {
        let source = Source::parse("var\"x\"; br\"y\"; r\"z\"; for_r#\"");
        assert!(source.lines[0].code.starts_with("var"));
        assert!(!source.lines[0].code.contains('y') && !source.lines[0].code.contains('z'));
    }

    #[test]
    fn body_lines_leave_out_blanks_and_comments() {
        let text = "fn a(x: [u8; 4]) -> u8\nwhere\n    u8: Copy,\n{\n    // why\n\n    let y = 1;\n    y\n}\nfn b();";
        let found = Source::parse(text).functions();
        assert_eq!(found, [Function { name: "a".into(), line: 0, last: 8, body_lines: 2 }]);
    }

    #[test]
    fn nested_functions_are_found_too() {
        let text = "impl T {\n fn a() {\n  fn b() {\n   1;\n  }\n }\n}";
        let names: Vec<_> = Source::parse(text).functions().into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn own_methods_are_told_from_those_of_traits() {
        let text = "impl<U: A<B>> a::T<U>\nwhere\n    U: Copy,\n{\n}\nimpl A for T {\n}\nimplied!();\nimpl T {}";
        let found = Source::parse(text).inherent_impls();
        let block = |first, last| InherentImpl { type_name: "T".into(), first, last };
        assert_eq!(found, [block(0, 4), block(8, 8)]);
    }

    #[test]
    fn test_modules_are_known_and_out_of_line_ones_are_no_block() {
        let inline =
            Source::parse("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}");
        assert_eq!(inline.test_lines(), [false, true, true, true, true, false]);
        let elsewhere = Source::parse("#[cfg(test)]\nmod tests;\nfn a() {\n}");
        assert_eq!(elsewhere.test_lines(), [false; 4]);
    }

    #[test]
    fn declared_names_come_with_their_lines() {
        let source = Source::parse("pub mod a;\nstruct Bc<T>(T);\n// struct No;\nenum D {}");
        let names = source.declared(&["mod", "struct", "enum"]);
        assert_eq!(names, [(0, "a"), (1, "Bc"), (3, "D")]);
    }
}
