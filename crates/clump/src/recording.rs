//! The file of a rank's recorded computation, where time is virtual.

use crate::Result;
use clump_am::{ErrorKind, RankContext};
use clump_shm::virtual_time::Recording;

/// Reads the recording that this rank's computation is charged by, if there is one.
pub(crate) fn begin(context: &RankContext) -> Result<()> {
    let Some((actor, path)) = context.actor().and_then(|actor| Some((actor, actor.replays()?)))
    else {
        return Ok(());
    };
    let words = std::fs::read(path).ok().map(|bytes| {
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>()
    });
    let Some(recording) = words.and_then(|words| Recording::from_words(&words)) else {
        let why = "a rank's recording cannot be read; record with as many ranks first";
        return Err(clump_am::Error::from(ErrorKind::NotInVirtualTime(why)).into());
    };
    actor.replay(recording);
    Ok(())
}

/// Writes what was recorded, after this rank has left.
pub(crate) fn end(context: &RankContext) {
    let Some((path, words)) = context.actor().and_then(|actor| actor.recorded()) else { return };
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(error) = folder.and_then(|()| std::fs::write(&path, bytes)) {
        let path = path.display();
        clump_os::console::err(&format!("clump: the recording {path} is lost: {error}"));
    }
}
