//! Writes the traces of a job that never ran, so that `clump lab trace` and `clump lab predict` can
//! be measured with long ones: `made_trace DIR EVENTS`.

use anyhow::{Context, Result};
use clump_lab::traces::made;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let folder = args.next().context("say where: made_trace DIR EVENTS")?;
    let events = args.next().context("say how many events")?;
    let events: u64 = events.to_string_lossy().parse()?;
    Ok(made::write(folder.as_ref(), events.div_ceil(made::ROUND))?)
}
