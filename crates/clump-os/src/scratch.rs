//! Temporary folders: removed when their owner ends, however it ends.
//!
//! The name of each marks it as one, and the owner holds a lock on it (flock(2)), which the kernel
//! releases with the process. So a folder that a killed process left is recognized by its missing
//! lock, and removed when the next folder is made beside it. Signals to end wait until the owner
//! polls for them ([`Scratch::interrupted`]); programs that it starts receive them by
//! [`crate::bound_child`].

use crate::console;
use crate::error::{OsError, Result};
use crate::process;
use crate::signal::{self, Signals};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Prefix of all names: then come the purpose, 16 hexadecimal digits, and the suffix.
const PREFIX: &str = "clump-";
const SUFFIX: &str = ".tmp";
const DIGITS: usize = 16;
/// Names tried before giving up.
const TRIES: usize = 16;

/// A folder that no other user may read.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The folder, locked.
    _lock: OwnedFd,
    signals: Signals,
}

impl Scratch {
    /// Makes a folder in `base`, and removes those there that killed processes of this user have
    /// left. From now on signals to end this thread's process wait; threads that run already must
    /// have blocked them.
    ///
    /// # Errors
    /// No folder can be made there.
    pub fn new(base: &Path, purpose: &str) -> Result<Self> {
        let mut ends = signal::ENDS.to_vec();
        // As under nohup.
        ends.retain(|&signal| !signal::is_ignored(signal));
        let signals = Signals::block(&ends)?;
        sweep(base);
        let mut failed = Errno::EXIST;
        for _ in 0..TRIES {
            let digits = process::random()?;
            let path = base.join(format!("{PREFIX}{purpose}-{digits:016x}{SUFFIX}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(OsError::of(format!("making {}", path.display()), &e)),
            }
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock, signals }),
                // Another process that sweeps has locked it, and takes it for abandoned.
                Ok(None) => {}
                Err(e) => failed = e,
            }
        }
        Err(OsError::new(format!("making a folder in {}", base.display()), failed))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the signal that requests the end of this process, if one came. It stays pending.
    pub fn interrupted(&self) -> Option<u8> {
        self.signals.pending()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            console::err(&format!("clump: {} is left behind: {error}", self.path.display()));
        }
        // The owner has seen it: it must not arrive again when signals are unblocked.
        while self.signals.next().is_some() {}
    }
}

/// Removes the folders in `base` whose owners have ended.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        let path = entry.path();
        if let Ok(Some(lock)) = lock(&path)
            && rustix::fs::fstat(&lock)
                .is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
        {
            // A folder that cannot be removed stays for the next sweep.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Returns true if a folder of this name is one of these.
fn is_ours(name: &str) -> bool {
    let inside = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    let Some((purpose, digits)) = inside.and_then(|inside| inside.rsplit_once('-')) else {
        return false;
    };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    !purpose.is_empty() && digits.len() == DIGITS && digits.bytes().all(is_digit)
}

/// Locks the folder at `path`; returns `None` when another process has it, or it went in between.
fn lock(path: &Path) -> std::result::Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e),
    };
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(e) => return Err(e),
    }
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let here = rustix::fs::lstat(path).map(place);
    let is_it = here.is_ok_and(|here| rustix::fs::fstat(&folder).map(place) == Ok(here));
    Ok(is_it.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test.
    fn base(of: &str) -> PathBuf {
        let name = format!("scratch-test-{of}-{:016x}", process::random().unwrap());
        let base = std::env::temp_dir().join(name);
        fs::create_dir(&base).unwrap();
        base
    }

    fn inside(base: &Path) -> usize {
        fs::read_dir(base).unwrap().count()
    }

    #[test]
    fn it_goes_with_its_owner_whatever_is_in_it() {
        let base = base("owner");
        let one = Scratch::new(&base, "one").unwrap();
        let two = Scratch::new(&base, "two").unwrap();
        assert_ne!(one.path(), two.path());
        fs::create_dir(one.path().join("deep")).unwrap();
        fs::write(one.path().join("deep").join("file"), "text").unwrap();
        assert!(is_ours(one.path().file_name().unwrap().to_str().unwrap()));
        assert_eq!(inside(&base), 2, "folders of live owners stay");
        drop(one);
        assert_eq!(inside(&base), 1);
        let panicked = std::panic::catch_unwind(|| {
            let _two = two;
            panic!("as any program may");
        });
        assert!(panicked.is_err());
        assert_eq!(inside(&base), 0);
        fs::remove_dir(&base).unwrap();
        assert!(Scratch::new(&base, "gone").is_err());
    }

    #[test]
    fn what_is_left_goes_and_what_is_not_ours_stays() {
        let base = base("left");
        let digits = "0123456789abcdef";
        let left = [format!("clump-demo-{digits}.tmp"), format!("clump-lab-compare-{digits}.tmp")];
        let others = [
            format!("clump-demo-{digits}"),
            format!("clump-demo-{digits}0.tmp"),
            "clump-demo-0123456789ABCDEF.tmp".to_owned(),
            format!("clump-{digits}.tmp"),
            format!("mine-demo-{digits}.tmp"),
        ];
        for name in left.iter().chain(&others) {
            fs::create_dir(base.join(name)).unwrap();
            fs::write(base.join(name).join("file"), "").unwrap();
        }
        // Names as ours, and no folders.
        fs::write(base.join(format!("clump-file-{digits}.tmp")), "").unwrap();
        let link = base.join(format!("clump-link-{digits}.tmp"));
        std::os::unix::fs::symlink(base.join(&others[0]), link).unwrap();
        let held = lock(&base.join(&left[0])).unwrap().unwrap();
        let scratch = Scratch::new(&base, "test").unwrap();
        assert_eq!(inside(&base), left.len() + others.len() + 2, "one went, one came");
        assert!(base.join(&left[0]).exists() && !base.join(&left[1]).exists());
        drop(held);
        drop(Scratch::new(&base, "test").unwrap());
        assert!(!base.join(&left[0]).exists());
        assert!(others.iter().all(|name| base.join(name).join("file").exists()));
        drop(scratch);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_signal_waits_until_it_is_read() {
        let base = base("signal");
        let scratch = Scratch::new(&base, "test").unwrap();
        assert_eq!(scratch.interrupted(), None);
        signal::to_this_thread(signal::TERMINATE).unwrap();
        for _ in 0..2 {
            assert_eq!(scratch.interrupted(), Some(signal::TERMINATE));
        }
        drop(scratch);
        assert_eq!(inside(&base), 0);
        fs::remove_dir(&base).unwrap();
    }
}
