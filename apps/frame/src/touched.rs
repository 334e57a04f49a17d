//! Memory that is there before it is used.

use anyhow::Result;
use clump_os::map::PAGE;
use clump_pgas::{Element, Layout, Pgas, Spread};

/// Spreads an array in blocks, and touches all pages of this rank's elements: phases are not to
/// wait for the kernel.
///
/// # Errors
/// Fails if memory has run out, or if a rank is lost.
pub fn spread_touched<T: Element + Default>(gas: &Pgas, count: usize) -> Result<Spread<T>> {
    let spread = gas.spread(count, Layout::Block)?;
    let (local, step) = (spread.local(), (PAGE / size_of::<T>()).max(1));
    (0..local.len()).step_by(step).try_for_each(|at| local.set(at, T::default()))?;
    Ok(spread)
}
