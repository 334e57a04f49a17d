//! The file of a rank's recorded computation, where time is virtual.

use crate::Result;
use clump_am::{ErrorKind, RankContext};
use clump_os::console;
use std::fs;
use std::io;

/// Reads the recording that this rank's computation is charged by, or that is made better, if there
/// is one.
pub(crate) fn begin(context: &RankContext) -> Result<()> {
    let before = context.actor().and_then(|actor| Some((actor, actor.recorded_before()?)));
    let Some((actor, (path, must_exist))) = before else { return Ok(()) };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => return Ok(()),
        Err(error) => {
            console::err(&format!("clump: the recording {}: {error}", path.display()));
            Vec::new()
        }
    };
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    if !actor.take_recording(&words.collect::<Vec<_>>()) {
        let why = "a rank's recording cannot be read; record with as many ranks first";
        return Err(clump_am::Error::from(ErrorKind::NotInVirtualTime(why)).into());
    }
    Ok(())
}

/// Writes what was recorded, after this rank has left.
pub(crate) fn end(context: &RankContext) {
    let Some((path, words)) = context.actor().and_then(|actor| actor.take_recorded()) else {
        return;
    };
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    // A recording of before stays until this one is whole.
    let whole = path.with_extension("new");
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&whole, bytes));
    if let Err(error) = written.and_then(|()| fs::rename(&whole, &path)) {
        let path = path.display();
        console::err(&format!("clump: the recording {path} is lost: {error}"));
    }
}
