//! One job of an attack: its command, its conditions, and the promises about its end.

use super::event::Event;
use super::place::Folder;
use super::stream::{Input, Output};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A job.
#[derive(Debug)]
pub struct Job {
    /// Its own folder.
    pub folder: Folder,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Variables on top of the usual ones.
    pub variables: Vec<(OsString, OsString)>,
    /// Conditions, as `hinder` takes them.
    pub conditions: Vec<String>,
    /// Number of processes that the group it runs in may have.
    pub group: Option<u64>,
    /// Memory in MiB that the group it runs in may have.
    pub memory_mib: Option<u64>,
    /// Its standard input.
    pub input: Input,
    /// Its standard output.
    pub output: Output,
    /// Its standard errors.
    pub errors: Output,
    /// Event during its run.
    pub event: Option<Event>,
    /// Promises about its end.
    pub promise: Promise,
}

impl Job {
    /// Creates a program with arguments and ordinary streams, of which only exit code 0 is
    /// promised.
    pub fn new(folder: Folder, command: Vec<OsString>) -> Self {
        Self {
            folder,
            command,
            variables: Vec::new(),
            conditions: Vec::new(),
            group: None,
            memory_mib: None,
            input: Input::Null,
            output: Output::Pipe,
            errors: Output::Pipe,
            event: None,
            promise: Promise::exactly(&[0]),
        }
    }

    /// Adds a condition: an option of `hinder` and its value.
    pub fn condition(&mut self, option: &str, value: &str) {
        self.conditions.extend([option.to_owned(), value.to_owned()]);
    }

    /// Formats the job in one line.
    pub fn shown(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.variables {
            let own = Path::new(value).strip_prefix(self.folder.work());
            let value = own.map_or(value.as_os_str(), Path::as_os_str);
            let _ = write!(line, "{}={} ", escaped(name), escaped(value));
        }
        for word in &self.conditions {
            let _ = write!(line, "{word} ");
        }
        if let Some(most) = self.group {
            let _ = write!(line, "[{most} processes] ");
        }
        if let Some(most) = self.memory_mib {
            let _ = write!(line, "[{most} MiB] ");
        }
        for word in &self.command {
            let own = Path::new(word).strip_prefix(self.folder.work());
            // Programs of this build are shown by their names.
            let program = Path::new(word).file_name().filter(|_| word.as_bytes().starts_with(b"/"));
            let device = ["/dev/", "/proc/", "/sys/"].map(str::as_bytes);
            let is_device = device.iter().any(|place| word.as_bytes().starts_with(place));
            let shown = match own {
                Ok(own) => escaped(own.as_os_str()),
                Err(_) if is_device => escaped(word),
                Err(_) => escaped(program.unwrap_or(word)),
            };
            let _ = write!(line, "{} ", if shown.is_empty() { "." } else { &shown });
        }
        line.truncate(line.trim_end().len());
        if self.input != Input::Null {
            let _ = write!(line, " <{:?}", self.input);
        }
        for (stream, output) in [(">", self.output), ("2>", self.errors)] {
            if output != Output::Pipe {
                let _ = write!(line, " {stream}{output:?}");
            }
        }
        if let Some(event) = &self.event {
            let _ = write!(line, " [{}]", event.shown());
        }
        line
    }
}

/// Escapes a word to be readable.
fn escaped(word: &std::ffi::OsStr) -> String {
    word.as_bytes().escape_ascii().to_string()
}

/// Promises about a job's end, besides that it comes, in plain words, and that nothing is left.
#[derive(Debug, Clone)]
pub struct Promise {
    /// Its exit codes, negative for a signal.
    pub codes: Vec<i32>,
    /// True if codes that report a refusal by clump or a rank are accepted too.
    pub may_refuse: bool,
    /// True if it may fail without a message (its output has no reader).
    pub may_be_silent: bool,
    /// Words of which a failed end prints one, if its output can be read.
    pub words: Vec<String>,
    /// Files that must not exist after a failed end.
    pub absent: Vec<PathBuf>,
    /// Files and folders that must exist after any end.
    pub kept: Vec<PathBuf>,
    /// Files that must not exist after any end.
    pub never: Vec<PathBuf>,
    /// Folders that must be empty after any end.
    pub empty: Vec<PathBuf>,
    /// Words that standard error must show after any end.
    pub said: Vec<String>,
    /// A command of `clump` that must succeed after a successful end.
    pub check: Option<Vec<OsString>>,
}

impl Promise {
    /// Promises one of these exit codes.
    pub fn exactly(codes: &[i32]) -> Self {
        Self {
            codes: codes.to_vec(),
            may_refuse: false,
            may_be_silent: false,
            words: Vec::new(),
            absent: Vec::new(),
            kept: Vec::new(),
            never: Vec::new(),
            empty: Vec::new(),
            said: Vec::new(),
            check: None,
        }
    }

    /// Promises this exit code, or that of a refusal.
    pub fn or_refusal(code: i32) -> Self {
        Self { may_refuse: true, ..Self::exactly(&[code]) }
    }
}
