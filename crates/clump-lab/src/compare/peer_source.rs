//! Programs in C of peers, which are compiled before they play.

use super::process;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program in C that is compiled before it plays.
#[derive(Debug, Clone, Copy)]
pub struct PeerSource {
    /// Name of the file.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Options of the linker.
    pub libraries: &'static [&'static str],
}

impl PeerSource {
    /// Compiles it into `folder`. Returns the program, whose name has this suffix.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or the compiler reports an error.
    pub fn compile(&self, compiler: &Path, folder: &Path, suffix: &str) -> Result<PathBuf> {
        let file = folder.join(self.file);
        let program = file.with_extension(suffix);
        std::fs::write(&file, self.text).with_context(|| format!("writing {}", file.display()))?;
        // Temporary files of the compiler are to be removed with the folder, too.
        let mut command = Command::new(compiler);
        command.env("TMPDIR", folder).arg("-O2").arg("-o").arg(&program).arg(&file);
        command.args(self.libraries);
        let compiled = process::run(&mut command);
        compiled.with_context(|| format!("compiling with {}", compiler.display()))?;
        Ok(program)
    }
}
