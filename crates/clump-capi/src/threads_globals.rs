//! The global variables of a program for pthreads, as it hands them to all ranks.

use clump::svm::ProgramGlobals;
use clump_boot::SvmShare;
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::executable::Executable;
use clump_os::map::PAGE;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// The program's variables, and those of their pages that are not zero, as they were before the
/// heap was opened.
#[derive(Debug)]
pub(crate) struct SavedGlobals {
    program: Executable,
    pages: Vec<(usize, Box<[u8]>)>,
}

fn wrong(what: impl Into<String>) -> Fault {
    Fault::new(S::CLUMP_ERR_ARGUMENT, what)
}

/// Checks that threads of a program can run on other ranks, with so much shared.
fn check(program: &Executable, share: SvmShare) -> Result<()> {
    if program.moved != 0 {
        let what = "the program's addresses differ from rank to rank: link it with `clump-cc \
                    --clump-threads`, which makes it no position-independent executable";
        return Err(wrong(what));
    }
    if share >= SvmShare::Globals {
        if let Some(name) = program.copied.first() {
            return Err(wrong(format!(
                "`{name}`, an object of a library, lies among the program's globals, which are \
                 shared: compile all of the program with -fPIC, as `clump-cc --clump-threads` does"
            )));
        }
        if !program.bound_early {
            let what = "functions of libraries are found when they are first called, by words \
                        among the program's globals, which are shared: link it with -Wl,-z,now";
            return Err(wrong(what));
        }
    }
    Ok(())
}

impl SavedGlobals {
    /// Saves the variables of this program.
    ///
    /// # Errors
    /// Fails if they cannot be shared, as they were compiled or linked.
    pub(crate) fn of_this_process(share: SvmShare) -> Result<Self> {
        let program = Executable::of_this_process();
        check(&program, share)?;
        let mut pages = Vec::new();
        if share >= SvmShare::Globals {
            for address in program.globals.clone().step_by(PAGE) {
                let mut page = vec![0; PAGE].into_boxed_slice();
                let from = with_exposed_provenance::<u8>(address);
                // SAFETY: a page of the program's variables, which no other thread uses before
                // `main`.
                unsafe { from.copy_to_nonoverlapping(page.as_mut_ptr(), PAGE) };
                if page.iter().any(|&byte| byte != 0) {
                    pages.push((address, page));
                }
            }
        }
        Ok(Self { program, pages })
    }

    /// Returns the first address of the variables, and the one behind them.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.program.globals.start, self.program.globals.end)
    }

    /// Describes them for the heap, which begins with them.
    pub(crate) fn place(&self) -> Option<ProgramGlobals> {
        let (first, last) = self.range();
        // SAFETY: the program's variables, whose contents have been saved; only this thread runs
        // until they are there again.
        unsafe { ProgramGlobals::new(first, last - first) }
    }

    /// Returns a number that differs, most likely, if words among the variables point to different
    /// places of libraries; and the name of the first such word.
    pub(crate) fn pointers(&self) -> (u64, Option<&str>) {
        let word = |address: usize| {
            // SAFETY: a word of the program that the dynamic linker has set.
            unsafe { with_exposed_provenance::<u64>(address).read_unaligned() }
        };
        let pointers = &self.program.pointers;
        let mix = |sum: u64, value: u64| (sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9);
        let sum = pointers.iter().fold(0, |sum, (address, _)| mix(sum, word(*address)));
        (sum, pointers.first().map(|(_, name)| name.as_str()))
    }

    /// Puts the contents back, which are now those of all ranks.
    pub(crate) fn restore(&self) {
        for (address, page) in &self.pages {
            let to = with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: pages of the heap in place of those that were saved; other ranks wait.
            unsafe { page.as_ptr().copy_to_nonoverlapping(to, page.len()) };
        }
    }
}
