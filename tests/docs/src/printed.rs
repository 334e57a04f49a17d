//! Command lines that pages print: lines of blocks, and spans of code that begin with `clump`.

use crate::page::{Block, FENCE, Page};

/// Command line of a page.
#[derive(Debug, Clone)]
pub struct Printed {
    /// Path of the page from the root of the tree.
    pub page: String,
    /// Line of the page, from 1.
    pub line: usize,
    /// Line of the block that it stands in; none for a span of code in a sentence.
    pub block: Option<usize>,
    /// Words as they stand there, with lines that are continued joined.
    pub text: String,
}

/// One program of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simple {
    /// Variables in front of it.
    pub variables: Vec<(String, String)>,
    /// Its name and its arguments.
    pub words: Vec<String>,
}

impl Printed {
    /// Returns where it stands.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// Returns its programs, without comments and without files of redirections.
    pub fn programs(&self) -> Vec<Simple> {
        programs(&self.text)
    }
}

/// Returns the command lines of the blocks of a page: lines behind `$ `, and all lines of a block
/// whose language is `sh`.
pub fn of_blocks(page: &Page) -> Vec<Printed> {
    page.blocks().iter().flat_map(|block| of_block(page, block)).collect()
}

fn of_block(page: &Page, block: &Block) -> Vec<Printed> {
    let mut all: Vec<Printed> = Vec::new();
    let mut continued = false;
    for (at, line) in block.lines.iter().enumerate() {
        let shell = block.language == "sh";
        let text = line.strip_prefix("$ ").or(shell.then_some(line.as_str()));
        match (text, all.last_mut()) {
            (_, Some(last)) if continued => {
                last.text.push(' ');
                last.text.push_str(line.trim().trim_end_matches('\\'));
            }
            (Some(text), _) if block.language.is_empty() || shell => all.push(Printed {
                page: page.path.clone(),
                line: block.line + 1 + at,
                block: Some(block.line),
                text: text.trim().trim_end_matches('\\').to_owned(),
            }),
            _ => continue,
        }
        continued = line.ends_with('\\');
    }
    all.retain(|printed| !printed.programs().is_empty());
    all
}

/// Returns the spans of code outside of blocks that begin with `clump `.
pub fn of_spans(page: &Page) -> Vec<Printed> {
    let (mut all, mut fenced, mut open) = (Vec::new(), false, None::<(usize, String)>);
    for (at, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with(FENCE) {
            (fenced, open) = (!fenced, None);
            continue;
        }
        if fenced || line.is_empty() {
            open = None;
            continue;
        }
        for (number, part) in line.split('`').enumerate() {
            match open.take() {
                Some((line, text)) if number == 0 => open = Some((line, format!("{text} {part}"))),
                Some((line, text)) => {
                    all.push(span(page, line, &text));
                }
                None if number > 0 => open = Some((at + 1, part.to_owned())),
                None => {}
            }
        }
        // A span that this line closes is open no more.
        let marks = line.matches('`').count();
        if marks % 2 == 0 && open.as_ref().is_some_and(|(line, _)| *line == at + 1) {
            open = None;
        }
    }
    all.retain(|printed| printed.text.starts_with("clump "));
    all
}

/// Returns a span with the first of several choices (`a|b`), and with what is optional (`[a]`).
fn span(page: &Page, line: usize, text: &str) -> Printed {
    let text = text.replace("\\|", "|");
    let first =
        |word: &str| word.split('|').find(|part| !part.is_empty()).unwrap_or(word).to_owned();
    let words = text.split_whitespace().map(|word| first(word.trim_matches(['[', ']'])));
    let text = words.collect::<Vec<_>>().join(" ");
    Printed { page: page.path.clone(), line, block: None, text }
}

/// Splits a line of a shell into its programs.
fn programs(text: &str) -> Vec<Simple> {
    let mut all = vec![Simple::default()];
    let mut redirected = false;
    for word in words(text) {
        match word.as_str() {
            "&&" | "||" | "|" | ";" | "&" => all.push(Simple::default()),
            ">" | ">>" | "<" | "2>" => redirected = true,
            _ if redirected => redirected = false,
            _ => {
                let Some(last) = all.last_mut() else { continue };
                match word.split_once('=') {
                    Some((name, value)) if last.words.is_empty() && is_variable(name) => {
                        last.variables.push((name.to_owned(), value.to_owned()));
                    }
                    _ => last.words.push(word),
                }
            }
        }
    }
    all.retain(|simple| !simple.words.is_empty());
    all
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Splits at blanks and operators, takes quotes away, and ends at a comment.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut substitutions = 0_usize;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if let Some(mark) = quote {
            match c == mark {
                true => quote = None,
                false => word.get_or_insert_default().push(c),
            }
            continue;
        }
        match c {
            '\'' | '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => break,
            '$' if rest.peek() == Some(&'(') => {
                substitutions += 1;
                rest.next();
                word.get_or_insert_default().push_str("$(");
            }
            ')' if substitutions > 0 => {
                substitutions -= 1;
                word.get_or_insert_default().push(c);
            }
            _ if substitutions > 0 => word.get_or_insert_default().push(c),
            ' ' | '\t' => all.extend(word.take()),
            '&' | '|' | ';' | '>' | '<' => {
                all.extend(word.take());
                let twice = rest.next_if_eq(&c).is_some();
                all.push(if twice { format!("{c}{c}") } else { c.to_string() });
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { path: "docs/page.md".into(), text: text.into() }
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let text = "A=1 clump run -n 4 'a b' > out; clump top | jq . && x $(a b)c # a note";
        let all = programs(text);
        let words: Vec<String> = all.iter().map(|simple| simple.words.join("+")).collect();
        assert_eq!(words, ["clump+run+-n+4+a b", "clump+top", "jq+.", "x+$(a b)c"]);
        assert_eq!(all[0].variables, [("A".to_owned(), "1".to_owned())]);
        assert!(programs("# only a note").is_empty());
    }

    #[test]
    fn commands_are_found_in_blocks_and_spans() {
        let text = "Use `clump\nstats --pid PID` or `cargo` or `x\\|y`.\n\n```sh\ncc a.c \\\n    -o a\n./a\n```\n\n\
                    ```\n$ clump demo\n1 record\n```\nAlso `clump top`.\n";
        let found: Vec<_> = of_blocks(&page(text))
            .into_iter()
            .chain(of_spans(&page(text)))
            .map(|printed| (printed.line, printed.text))
            .collect();
        let due = [
            (5, "cc a.c  -o a"),
            (7, "./a"),
            (11, "clump demo"),
            (1, "clump stats --pid PID"),
            (14, "clump top"),
        ];
        assert_eq!(found, due.map(|(line, text)| (line, text.to_owned())));
    }
}
