//! Files for bulk work: reads and writes past the page cache, unnamed files, room on a disk.
//!
//! `O_DIRECT` (open(2)) requires the address, the offset and the length of every transfer to be
//! multiples of the block size. [`BLOCK`] satisfies every common device, and [`crate::memory`]
//! starts on a page, so callers only keep their offsets and lengths in whole blocks. Where a file
//! system has no direct transfers, [`DiskFile`] falls back to buffered ones
//! ([`DiskFile::is_direct`]).

use crate::error::{OsError, Result};
use crate::map::Mapping;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Unit of direct transfers, in bytes: offsets and lengths are multiples of it.
pub const BLOCK: usize = 4096;

/// An open file that is read and written at offsets, directly where the file system can.
#[derive(Debug)]
pub struct DiskFile {
    fd: OwnedFd,
    direct: bool,
    name: String,
}

/// Checks that a file can be written before there is what to write: one that is there is opened
/// and left as it is, one that is not there is created and removed again.
///
/// # Errors
/// The file cannot be opened for writing, or cannot be created.
pub fn check_writable(path: &Path) -> std::io::Result<()> {
    use std::io::ErrorKind;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
        // The opening of a pipe would wait for its reader; that of a link would create its target.
        Ok(found) if !found.is_file() && !path.is_dir() => Ok(()),
        Ok(_) => std::fs::OpenOptions::new().write(true).open(path).map(drop),
    }
}

impl DiskFile {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// The file does not exist or may not be read.
    pub fn open(path: &Path, direct: bool) -> Result<Self> {
        Self::open_with(path, OFlags::RDONLY, direct)
    }

    /// Opens an existing file for reading and writing, through the page cache.
    ///
    /// # Errors
    /// The file does not exist or may not be written.
    pub fn open_existing(path: &Path) -> Result<Self> {
        Self::open_with(path, OFlags::RDWR, false)
    }

    /// Creates a file for reading and writing.
    ///
    /// # Errors
    /// The file exists (`EEXIST`), or cannot be created.
    pub fn create(path: &Path, direct: bool) -> Result<Self> {
        Self::open_with(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, direct)
    }

    /// Creates a file without a name in `dir`: it disappears with its descriptor unless
    /// [`Self::link`]ed. Returns `None` where the file system has no such files.
    ///
    /// # Errors
    /// The folder may not be written, or another refusal of the kernel.
    pub fn unnamed(dir: &Path, direct: bool) -> Result<Option<Self>> {
        match Self::open_with(dir, OFlags::RDWR | OFlags::TMPFILE, direct) {
            Ok(file) => Ok(Some(file)),
            // Kernels and file systems without O_TMPFILE return EISDIR (open(2)).
            Err(e) if matches!(e.errno, Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn open_with(path: &Path, flags: OFlags, direct: bool) -> Result<Self> {
        let name = path.display().to_string();
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        if direct {
            match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
                Ok(fd) => return Ok(Self { fd, direct: true, name }),
                // tmpfs and some network file systems refuse the flag with EINVAL.
                Err(Errno::INVAL) => {}
                Err(e) => return Err(OsError::new(format!("opening {name}"), e)),
            }
        }
        match rustix::fs::open(path, flags, mode) {
            // A refused O_DIRECT may have left the empty file behind.
            Err(Errno::EXIST)
                if direct && rustix::fs::lstat(path).is_ok_and(|s| s.st_size == 0) =>
            {
                let again = flags.difference(OFlags::EXCL) | OFlags::NOFOLLOW;
                let fd = rustix::fs::open(path, again, mode)
                    .map_err(|e| OsError::new(format!("opening {name}"), e))?;
                Ok(Self { fd, direct: false, name })
            }
            Ok(fd) => Ok(Self { fd, direct: false, name }),
            Err(e) => Err(OsError::new(format!("opening {name}"), e)),
        }
    }

    /// Returns true if transfers go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns the length in bytes; of a block device, its size.
    ///
    /// # Errors
    /// The kernel does not report the size.
    pub fn len(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| self.error("looking at", e))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            // The inode of a device has no size; its end has an offset.
            return rustix::fs::seek(&self.fd, SeekFrom::End(0))
                .map_err(|e| self.error("sizing", e));
        }
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Returns true if the file is empty.
    ///
    /// # Errors
    /// The kernel does not report the size.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `into` from `offset` on; returns how much there was before the end of the file.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.fd, &mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    // A direct read that stops inside a block has met the end of the file.
                    if self.direct && !done.is_multiple_of(BLOCK) {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("reading", e)),
            }
        }
        Ok(done)
    }

    /// Writes all of `from` at `offset`.
    ///
    /// # Errors
    /// Writing fails, most often because the disk is full ([`is_full`]).
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            match rustix::io::pwrite(&self.fd, &from[done..], offset + done as u64) {
                Ok(0) => return Err(self.error("writing", Errno::NOSPC)),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("writing", e)),
            }
        }
        Ok(())
    }

    /// Reserves disk room for `[offset, offset + bytes)` and extends the file to it, so that a full
    /// disk shows here. Without effect where the file system cannot promise room.
    ///
    /// # Errors
    /// The disk is full, or the file may not grow so long.
    pub fn reserve(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), offset, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(self.error(&format!("claiming {bytes} bytes of disk room for"), e)),
        }
    }

    /// Gives the disk room of `[offset, offset + bytes)` back: it reads as zeros, the length stays,
    /// and a mapping stays valid. Without effect where the file system cannot.
    ///
    /// # Errors
    /// Another refusal of the kernel.
    pub fn release(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.fd, flags, offset, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(self.error("giving back room of", e)),
        }
    }

    /// Sets the length to exactly `bytes`.
    ///
    /// # Errors
    /// The kernel refuses, for example because of a limit of file sizes.
    pub fn truncate(&self, bytes: u64) -> Result<()> {
        rustix::fs::ftruncate(&self.fd, bytes).map_err(|e| self.error("sizing", e))
    }

    /// Maps the first `bytes` bytes, which must be there: an access beyond the end of the file is
    /// a signal.
    ///
    /// # Errors
    /// Address space has run out, or the file may not be mapped.
    pub fn map(&self, bytes: usize) -> Result<Mapping> {
        Mapping::shared(&self.fd, 0, bytes)
    }

    /// Waits until contents and length are on the device.
    ///
    /// # Errors
    /// The device could not write them.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|e| self.error("syncing", e))
    }

    /// Gives an [`Self::unnamed`] file the name `path`, which must be free.
    ///
    /// # Errors
    /// The name is taken, or is on another file system.
    pub fn link(&self, path: &Path) -> Result<()> {
        // linkat(2): AT_EMPTY_PATH requires a capability, the magic link under /proc does not.
        let magic = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, magic, rustix::fs::CWD, path, AtFlags::SYMLINK_FOLLOW)
            .map_err(|e| OsError::new(format!("naming {}", path.display()), e))
    }

    fn error(&self, verb: &str, errno: Errno) -> OsError {
        OsError::new(format!("{verb} {}", self.name), errno)
    }
}

/// Returns true if `error` means that a disk, or this user's share of it, is full.
pub fn is_full(error: &OsError) -> bool {
    matches!(error.errno, Errno::NOSPC | Errno::DQUOT)
}

/// Returns true if two descriptors are of one file, pipe, terminal or device.
pub fn is_same(one: impl AsFd, other: impl AsFd) -> bool {
    let of = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino, stat.st_rdev);
    let stats = (rustix::fs::fstat(one).map(of), rustix::fs::fstat(other).map(of));
    matches!(stats, (Ok(one), Ok(other)) if one == other)
}

/// Makes the names in `dir` durable: after this a rename in it survives a power cut.
///
/// # Errors
/// The folder cannot be opened, or the device could not write it.
pub fn sync_dir(dir: &Path) -> Result<()> {
    let call = || format!("syncing the folder {}", dir.display());
    let fd =
        rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| OsError::new(call(), e))?;
    match rustix::fs::fsync(&fd) {
        // Some file systems cannot sync a folder and need not.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(e) => Err(OsError::new(call(), e)),
    }
}

/// Returns the bytes that this user may still write to the file system that holds `path`.
///
/// # Errors
/// The path does not exist, or may not be searched.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|e| OsError::new(format!("asking for the room on {}", path.display()), e))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns a number that is equal for two paths on the same file system.
///
/// # Errors
/// The path does not exist, or may not be searched.
pub fn device_of(path: &Path) -> Result<u64> {
    let stat = rustix::fs::stat(path)
        .map_err(|e| OsError::new(format!("looking at {}", path.display()), e))?;
    Ok(stat.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Aligned;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("clump-os-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn bytes_come_back_and_the_tail_is_cut() {
        let dir = scratch("rw");
        let path = dir.join("f");
        let file = DiskFile::create(&path, true).unwrap();
        let mut block = Aligned::new(2 * BLOCK).unwrap();
        for (i, b) in block.iter_mut().enumerate() {
            *b = (i % 251) as u8;
        }
        file.reserve(0, 2 * BLOCK as u64).unwrap();
        file.write_at(&block, 0).unwrap();
        file.truncate(BLOCK as u64 + 100).unwrap();
        file.sync().unwrap();
        let mut back = Aligned::new(2 * BLOCK).unwrap();
        let again = DiskFile::open(&path, true).unwrap();
        assert_eq!(again.read_at(&mut back, 0).unwrap(), BLOCK + 100);
        assert_eq!(back[..BLOCK + 100], block[..BLOCK + 100]);
        assert_eq!(again.len().unwrap(), BLOCK as u64 + 100);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_unnamed_file_leaves_nothing_until_linked() {
        let dir = scratch("tmp");
        if let Some(file) = DiskFile::unnamed(&dir, true).unwrap() {
            assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
            file.link(&dir.join("kept")).unwrap();
            assert!(dir.join("kept").exists());
            sync_dir(&dir).unwrap();
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn errors_name_the_file() {
        let missing = DiskFile::open(Path::new("/no/such/file"), true).unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"));
        assert!(!is_full(&missing));
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
    }
}
