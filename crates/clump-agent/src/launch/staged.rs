//! Files that go to a machine before its agent can start: clump itself and the program. They go
//! through the stream on which the agent will be heard, to a shell that puts them into a private
//! folder, starts the agent there, and removes the folder behind it.

use crate::keeper::{AGENT_COMMAND, STAGED};
use crate::program_file;
use crate::spec::JobSpec;
use anyhow::Context;
use clump_os::printable::printable;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

/// Name of the program in that folder, beside `clump`.
pub(crate) const PROGRAM: &str = "program";

/// The files, and their lengths.
#[derive(Debug)]
pub(super) struct StagedFiles {
    clump: (PathBuf, u64),
    program: (PathBuf, u64),
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
        Ok(Self { clump: length(own)?, program: length(program)? })
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
        let ((_, clump), (_, program)) = (&self.clump, &self.program);
        let script = format!(
            "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/clump.XXXXXXXXXX\") || exit 1; trap \"rm -rf $d\" EXIT; \
             head -c {clump} > \"$d/clump\" && head -c {program} > \"$d/{PROGRAM}\" && \
             chmod 700 \"$d/clump\" \"$d/{PROGRAM}\" && \"$d/clump\" {AGENT_COMMAND}{options} {STAGED}"
        );
        format!("sh -c '{script}'").into()
    }
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
