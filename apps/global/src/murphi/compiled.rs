//! A model compiled to machine code, by the machine's C compiler.

use crate::murphi::c_code::{CodeEntry, FAILED, FUNCTION, MAX_PACKED, c_text};
use crate::murphi::packing::StatePacking;
use crate::murphi::tree::CheckedModel;
use anyhow::{Context, Result, bail};
use clump_os::bound_child::BoundChild;
use clump_os::clock;
use clump_os::loaded_code::LoadedCode;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the compiler.
const COMPILER: &str = "cc";
/// Time that it has, in ns.
const MAX_TIME_NS: u64 = 300_000_000_000;

/// A folder for a library, which is removed with its owner.
#[derive(Debug)]
pub struct LibraryFolder {
    /// Process and time of its making, which its name has.
    number: [u64; 2],
}

impl LibraryFolder {
    /// Makes a folder that no other user may write.
    ///
    /// # Errors
    /// Fails if none can be made.
    pub fn new() -> Result<Self> {
        let number = [u64::from(std::process::id()), clock::now_ns()];
        let path = folder_of(number);
        let shown = path.display();
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("making {shown}"))?;
        Ok(Self { number })
    }

    /// Returns the number that other ranks find the library by.
    pub fn number(&self) -> [u64; 2] {
        self.number
    }

    /// Returns the library in the folder with a number.
    pub fn library(number: [u64; 2]) -> PathBuf {
        folder_of(number).join("model.so")
    }

    /// Compiles a model.
    ///
    /// # Errors
    /// Fails if there is no compiler, or if it fails or takes too long.
    pub fn compile(&self, model: &CheckedModel, packing: &StatePacking) -> Result<()> {
        let source = folder_of(self.number).join("model.c");
        fs::write(&source, c_text(model, packing)).context("writing the model as C")?;
        let mut command = Command::new(COMPILER);
        command.args(["-O2", "-fwrapv", "-fno-strict-aliasing", "-w", "-shared", "-fPIC", "-o"]);
        command.arg(Self::library(self.number)).arg(&source);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = clock::now_ns();
        let started = BoundChild::start(&mut command);
        let mut child = started.with_context(|| format!("{COMPILER} cannot be started"))?;
        match child.wait_while(|| clock::now_ns() - began < MAX_TIME_NS)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("{COMPILER} does not compile the model: {status}"),
            None => bail!("{COMPILER} takes more than {} s", MAX_TIME_NS / 1_000_000_000),
        }
    }
}

impl Drop for LibraryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(folder_of(self.number));
    }
}

fn folder_of([process, time]: [u64; 2]) -> PathBuf {
    std::env::temp_dir().join(format!("clump-murphi-{process}-{time}"))
}

/// A model as machine code.
#[derive(Debug, Clone)]
pub struct CompiledModel {
    code: LoadedCode,
    no_words: Vec<u64>,
    /// True if it packs states.
    pub packs: bool,
}

impl CompiledModel {
    /// Loads a library.
    ///
    /// # Errors
    /// Fails if it cannot be loaded.
    pub fn load(library: &Path, model: &CheckedModel, packing: &StatePacking) -> Result<Self> {
        let code = LoadedCode::open(library, FUNCTION)?;
        Ok(Self { code, no_words: vec![0; packing.words()], packs: model.cells <= MAX_PACKED })
    }

    /// Runs a start state, a rule or an invariant on a state; parameters are in the frame behind
    /// it. Returns `None` if the model does something wrong, and leaves a part of the state changed
    /// then.
    pub fn run(
        &mut self,
        model: &CheckedModel,
        entry: CodeEntry,
        cells: &mut [i64],
    ) -> Option<bool> {
        let result = self.code.run(cells, &mut self.no_words, entry.number(model));
        result.ok().filter(|result| *result != FAILED).map(|result| result != 0)
    }

    /// Packs or unpacks a state.
    pub fn pack(
        &self,
        model: &CheckedModel,
        entry: CodeEntry,
        cells: &mut [i64],
        words: &mut [u64],
    ) {
        debug_assert!(self.packs, "a small state");
        let done = self.code.run(cells, words, entry.number(model));
        debug_assert!(done.is_ok_and(|it| it != FAILED), "states can be packed");
    }
}
