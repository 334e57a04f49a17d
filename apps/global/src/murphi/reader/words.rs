//! The words of a model, one after the other, and the checker that what is read goes through.

use crate::murphi::checker::ModelChecker;
use crate::murphi::lexer::{MurphiToken, tokens};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Levels of nesting.
const MAX_DEPTH: u32 = 64;
/// Operators up to a `;`: trees of expressions are walked by recursion.
const MAX_OPERATORS: u32 = 500;

/// A model that is being read.
#[derive(Debug)]
pub struct ModelReader {
    words: Vec<(MurphiToken, SourcePosition)>,
    next: usize,
    depth: u32,
    operators: u32,
    /// Checker.
    pub checker: ModelChecker,
    /// Values of constants, instead of those in the text.
    pub constants: Vec<(String, i64)>,
}

impl ModelReader {
    /// Creates a reader of a text.
    ///
    /// # Errors
    /// Fails if the text has something that is no word.
    pub fn new(text: &str, constants: Vec<(String, i64)>) -> Checked<Self> {
        let words = tokens(text)?;
        let checker = ModelChecker::default();
        Ok(Self { words, next: 0, depth: 0, operators: 0, checker, constants })
    }

    /// Returns the next word.
    pub fn peek(&self) -> &MurphiToken {
        self.words.get(self.next).map_or(&MurphiToken::End, |(word, _)| word)
    }

    /// Returns the place of the next word.
    pub fn at(&self) -> SourcePosition {
        let last = self.words.len().saturating_sub(1);
        self.words.get(self.next.min(last)).map_or(SourcePosition::default(), |(_, at)| *at)
    }

    /// Goes on by a word, and returns it.
    pub fn take(&mut self) -> MurphiToken {
        let word = self.peek().clone();
        self.next += 1;
        word
    }

    /// Returns true if the next word is this keyword or sign.
    pub fn is(&self, word: &str) -> bool {
        matches!(self.peek(), MurphiToken::Keyword(it) | MurphiToken::Sign(it) if *it == word)
    }

    /// Returns true if the next two words are a name and this sign.
    pub fn is_name_before(&self, sign: &str) -> bool {
        let second = self.words.get(self.next + 1).map(|(word, _)| word);
        matches!(self.peek(), MurphiToken::Name(_))
            && matches!(second, Some(MurphiToken::Sign(it)) if *it == sign)
    }

    /// Skips a keyword or sign, if it is the next word.
    pub fn skip(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.next += usize::from(is);
        if is && word == ";" {
            self.operators = 0;
        }
        is
    }

    /// Skips a keyword or sign.
    ///
    /// # Errors
    /// Fails if the next word is another.
    pub fn need(&mut self, word: &str) -> Checked<()> {
        if self.skip(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// Skips `do`, or the `:` that may stand for it.
    ///
    /// # Errors
    /// Fails if the next word is another.
    pub fn need_do(&mut self) -> Checked<()> {
        if self.skip(":") { Ok(()) } else { self.need("do") }
    }

    /// Skips `end`, or `end` with what it ends.
    ///
    /// # Errors
    /// Fails if the next word is another.
    pub fn end(&mut self, of: &str) -> Checked<()> {
        if self.skip("end") || self.skip(&format!("end{of}")) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`end{of}`")))
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Fails if the next word is none.
    pub fn name(&mut self) -> Checked<(String, SourcePosition)> {
        let at = self.at();
        match self.peek() {
            MurphiToken::Name(name) => {
                let name = name.clone();
                self.next += 1;
                Ok((name, at))
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Reads a string, if it is the next word.
    pub fn text(&mut self) -> Option<String> {
        let MurphiToken::Text(text) = self.peek() else { return None };
        let text = text.clone();
        self.next += 1;
        Some(text)
    }

    /// Returns the error of a word that cannot stand here.
    pub fn unexpected(&self, needed: &str) -> Diagnostic {
        let found = self.peek().show();
        let what = match found.as_str() {
            "`==`" => "equality is written `=`".into(),
            "`&&`" => "conjunction is written `&`".into(),
            "`||`" => "disjunction is written `|`".into(),
            "`real`" => "real numbers are not supported: scale to integers".into(),
            "`assume`" | "`cover`" | "`liveness`" | "`priority`" | "`fairness`"
            | "`traceuntil`" | "`import`" | "`external`" | "`externfun`" | "`externproc`" => {
                format!("{found} is not supported")
            }
            _ => format!("{needed} is needed here, not {found}"),
        };
        Diagnostic::new(self.at(), what)
    }

    /// Skips an operator.
    ///
    /// # Errors
    /// Fails if the next word is another, or if there are too many.
    pub fn operator(&mut self, sign: &str) -> Checked<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let what = format!("more than {MAX_OPERATORS} operators up to a `;`: use a function");
            return Err(Diagnostic::new(self.at(), what));
        }
        self.need(sign)
    }

    /// Reads what is one level deeper.
    ///
    /// # Errors
    /// Fails as `read` does, or if there are too many levels.
    pub fn deeper<R>(&mut self, read: impl FnOnce(&mut Self) -> Checked<R>) -> Checked<R> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Diagnostic::new(
                self.at(),
                format!("more than {MAX_DEPTH} levels of nesting"),
            ));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }
}
