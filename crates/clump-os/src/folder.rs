//! Files of fixed names in a folder that others may write to as well: links that they planted are
//! not followed.
//!
//! The folder is opened once and every file in it by that descriptor, so that exchanging the
//! folder, or one above it, leads nowhere else. A file is written only if it is a plain file of
//! this user with one name. Otherwise a symbolic link, a second hard link, a pipe or another user's
//! file would redirect the data.

use crate::error::{OsError, Result};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Reason why a file is not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotWritten {
    /// The kernel refused.
    #[error("{0}")]
    Os(#[from] OsError),
    /// The name belongs to something that is no plain file of this user.
    #[error("{} is {what}: remove it, or name another folder", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// The kind of thing found.
        what: &'static str,
    },
}

impl Folder {
    /// Opens a folder. The path may be a link: the caller chose it.
    ///
    /// # Errors
    /// There is none, or it may not be searched.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| OsError::new(format!("opening the folder {}", path.display()), e))?;
        Ok(Self { fd, path: path.into() })
    }

    /// Opens the file `name` in it to write, empty: a new one, or one of this user that is there
    /// already.
    ///
    /// # Errors
    /// Something else has the name, or the kernel refuses.
    pub fn write(&self, name: &str) -> std::result::Result<File, NotWritten> {
        debug_assert!(!name.contains('/'), "a name, not a path");
        let path = self.path.join(name);
        let strange = |what| NotWritten::Strange { path: path.clone(), what };
        // Not truncated before its owner is known; a pipe without a reader fails instead of
        // blocking.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(
            &self.fd,
            name,
            flags | OFlags::NONBLOCK | OFlags::NOCTTY,
            Mode::from_raw_mode(0o666),
        );
        let file = match opened {
            Ok(file) => file,
            Err(Errno::LOOP) => return Err(strange("a symbolic link, which may lead anywhere")),
            Err(Errno::NXIO) => return Err(strange("a pipe or a socket")),
            Err(e) => return Err(OsError::new(format!("writing {}", path.display()), e).into()),
        };
        let failed = |e| OsError::new(format!("looking at {}", path.display()), e);
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(strange("no plain file"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(strange("a file of another user"));
        }
        if stat.st_nlink > 1 {
            return Err(strange("a file that has another name as well"));
        }
        let emptying = |e| OsError::new(format!("emptying {}", path.display()), e);
        rustix::fs::ftruncate(&file, 0).map_err(emptying)?;
        let plain = rustix::fs::fcntl_getfl(&file).map_err(failed)?.difference(OFlags::NONBLOCK);
        rustix::fs::fcntl_setfl(&file, plain).map_err(failed)?;
        Ok(File::from(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn only_plain_files_of_this_user_are_written() {
        let name = format!("clump-folder-test-{:016x}", crate::process::random().unwrap());
        let base = std::env::temp_dir().join(name);
        fs::create_dir(&base).unwrap();
        let mine = base.join("mine");
        fs::write(&mine, "precious").unwrap();
        let inside = base.join("inside");
        fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink(&mine, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(base.join("new"), inside.join("dangling")).unwrap();
        fs::hard_link(&mine, inside.join("hard")).unwrap();
        fs::create_dir(inside.join("deep")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("pipe"), Mode::from_raw_mode(0o600))
            .unwrap();
        fs::write(inside.join("old"), "longer than what comes").unwrap();
        let folder = Folder::open(&inside).unwrap();
        for (name, what) in [
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("hard", "another name"),
            ("pipe", "pipe"),
            ("deep", "deep"),
        ] {
            let told = folder.write(name).unwrap_err().to_string();
            assert!(told.contains(what) && told.contains(inside.to_str().unwrap()), "{told}");
        }
        assert_eq!(fs::read_to_string(&mine).unwrap(), "precious");
        assert!(!base.join("new").exists());
        // The folder may go elsewhere meanwhile, and another come in its place.
        fs::rename(&inside, base.join("moved")).unwrap();
        std::os::unix::fs::symlink(&base, &inside).unwrap();
        for name in ["old", "new"] {
            folder.write(name).unwrap().write_all(b"text").unwrap();
            assert_eq!(fs::read_to_string(base.join("moved").join(name)).unwrap(), "text");
        }
        assert!(!base.join("new").exists());
        fs::remove_dir_all(&base).unwrap();
    }
}
