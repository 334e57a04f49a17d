//! Files that go to a machine before its agent can start: clump itself and the program. They go
//! through the stream on which the agent will be heard, to a shell that puts them into a private
//! folder, starts the agent there, and removes the folder behind it.

use crate::keeper::{AGENT_COMMAND, STAGED};
use crate::program_file;
use crate::spec::JobSpec;
use anyhow::Context;
use clump_os::printable::printable;
use clump_os::shell_text::quoted;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;

/// Name of the program in that folder, beside `clump`.
pub(crate) const PROGRAM: &str = "program";

/// Words of the shell about a folder in which it cannot start programs.
pub(super) const NOEXEC: &str = "runs no programs (noexec)";
/// Variable with the folder for temporary files.
const TEMPORARY: &str = "TMPDIR";

/// The files, and their lengths.
#[derive(Debug)]
pub(super) struct StagedFiles {
    clump: (PathBuf, u64),
    program: (PathBuf, u64),
    /// The folder for temporary files on all machines, if the user names one; else each machine's.
    temporary: Option<OsString>,
}

impl StagedFiles {
    /// Finds the files of a job.
    ///
    /// # Errors
    /// Fails if the program is no file that can be read.
    pub(super) fn find(spec: &JobSpec) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("this program is not found (--stage)")?;
        let named = || format!("`{}` cannot be copied (--stage)", printable(&spec.program));
        let program = program_file::find(spec).with_context(named)?;
        let length = |path: PathBuf| -> anyhow::Result<(PathBuf, u64)> {
            let data = std::fs::metadata(&path).with_context(named)?;
            anyhow::ensure!(data.is_file(), "{}: it is no file", named());
            Ok((path, data.len()))
        };
        let named = spec.variables.iter().rev().find(|(name, _)| name == TEMPORARY);
        let temporary = named.map(|(_, folder)| folder.clone());
        Ok(Self { clump: length(own)?, program: length(program)?, temporary })
    }

    /// Opens them, in the order in which the shell expects them.
    ///
    /// # Errors
    /// Fails if one cannot be read.
    pub(super) fn open(&self) -> anyhow::Result<Vec<File>> {
        let open = |(path, _): &(PathBuf, u64)| {
            File::open(path).with_context(|| format!("{} (--stage)", path.display()))
        };
        [&self.clump, &self.program].map(open).into_iter().collect()
    }

    /// Returns the command that takes them and starts the agent, with these `options` and a space
    /// before them, for any login shell.
    pub(super) fn command(&self, options: &str) -> OsString {
        let mut command = OsString::from("sh -c ");
        command.push(quoted(self.script(options)));
        command
    }

    /// Returns the text that `sh` runs there. The folder's name may have any bytes in it, and is
    /// expanded where it is used, inside quotes.
    fn script(&self, options: &str) -> OsString {
        let ((_, clump), (_, program)) = (&self.clump, &self.program);
        let mut script = OsString::from("t=");
        match &self.temporary {
            Some(folder) => script.push(quoted(folder)),
            None => script.push(format!("${{{TEMPORARY}:-/tmp}}")),
        }
        script.push(format!(
            "; d=$(mktemp -d -- \"$t/clump.XXXXXXXXXX\") || exit 1; trap {} EXIT; \
             head -c {clump} > \"$d/clump\" && head -c {program} > \"$d/{PROGRAM}\" && \
             chmod 700 -- \"$d/clump\" \"$d/{PROGRAM}\" || exit 1; \
             [ -x \"$d/clump\" ] || {{ printf \"%s {NOEXEC}\" \"$t\" >&2; exit 126; }}; \
             \"$d/clump\" {AGENT_COMMAND}{options} {STAGED}",
            quoted_text("rm -rf -- \"$d\"")
        ));
        script
    }
}

/// Quotes a text of this file.
fn quoted_text(text: &str) -> String {
    quoted(OsStr::new(text)).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_copied_is_named() {
        let mut spec = JobSpec::new("/no/such/program", Vec::new(), 1);
        for missing in ["/no/such/program", "no-such-program-anywhere", "/"] {
            spec.program = missing.into();
            let why = StagedFiles::find(&spec).unwrap_err().to_string();
            assert!(why.contains(missing) && why.contains("--stage"), "{why}");
        }
    }
}
