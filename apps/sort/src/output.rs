//! Output that never looks complete before it is: files without names, or with names that start
//! with a dot and end in `.partial`, are renamed when every rank has finished.

use anyhow::{Context, Result, bail};
use clump_os::file::{DiskFile, sync_dir};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file that marks an output as complete.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Formats a path for messages.
pub fn shown(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// Returns the name of the output file of `rank`.
pub fn part_name(rank: usize) -> String {
    format!("part-{rank:05}")
}

pub(crate) fn partial_name(name: &str) -> String {
    format!(".{name}.partial")
}

/// A file that has no final name yet; dropping it leaves nothing.
#[derive(Debug)]
pub struct Pending {
    file: Arc<DiskFile>,
    folder: PathBuf,
    name: String,
    /// True if the partial name exists: only if the file system has no unnamed files.
    named: bool,
}

impl Pending {
    /// Creates a file that is to be called `name` in `folder`.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create(folder: &Path, name: &str, direct: bool) -> Result<Self> {
        let partial = folder.join(partial_name(name));
        let (file, named) = match DiskFile::unnamed(folder, direct)? {
            Some(file) => (file, false),
            None => {
                // Removes a file left by a killed run, if any.
                let _ = std::fs::remove_file(&partial);
                (DiskFile::create(&partial, direct)?, true)
            }
        };
        Ok(Self { file: Arc::new(file), folder: folder.into(), name: name.into(), named })
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<DiskFile> {
        &self.file
    }

    /// Gives the file its name, in place of an older file of that name.
    ///
    /// # Errors
    /// Fails if the file cannot be linked or renamed.
    pub fn publish(mut self) -> Result<()> {
        let partial = self.folder.join(partial_name(&self.name));
        if !self.named {
            let _ = std::fs::remove_file(&partial);
            self.file.link(&partial)?;
            self.named = true;
        }
        let target = self.folder.join(&self.name);
        std::fs::rename(&partial, &target).with_context(|| format!("naming {}", shown(&target)))?;
        self.named = false;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.named {
            let _ = std::fs::remove_file(self.folder.join(partial_name(&self.name)));
        }
    }
}

/// Creates a scratch file in `folder` that no other process can open and that disappears with the
/// process.
///
/// # Errors
/// Fails if the file cannot be created or unlinked.
pub fn scratch_file(folder: &Path, rank: usize, direct: bool) -> Result<Arc<DiskFile>> {
    if let Some(file) = DiskFile::unnamed(folder, direct)? {
        return Ok(Arc::new(file));
    }
    let path = folder.join(partial_name(&format!("runs-{rank:05}")));
    let _ = std::fs::remove_file(&path);
    let file = DiskFile::create(&path, direct)?;
    std::fs::remove_file(&path).with_context(|| format!("hiding {}", shown(&path)))?;
    Ok(Arc::new(file))
}

/// Writes a small file atomically.
///
/// # Errors
/// Fails if the file cannot be written, synced or renamed.
pub fn publish_bytes(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (partial, target) = (folder.join(partial_name(name)), folder.join(name));
    let write = || -> std::io::Result<()> {
        // Removes a file left by a killed run, or planted by an attacker: the target of a link is
        // not written.
        let _ = std::fs::remove_file(&partial);
        let mut file = std::fs::File::create_new(&partial)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, &target)
    };
    write().with_context(|| format!("writing {}", shown(&target)))?;
    Ok(sync_dir(folder)?)
}

/// Prepares the output folder: refuses to replace an output unless `force`, and removes files that
/// a killed run has left. The output of an earlier sort stays until [`retire`].
///
/// # Errors
/// Fails if the folder cannot be made, or if it holds an output and `force` is false.
pub fn prepare(folder: &Path, force: bool) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        bail!("the output {} is a file: name a folder, new or empty", shown(folder));
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("the output folder {} cannot be made", shown(folder)))?;
    keep_older(folder, force)?;
    sweep(folder)
}

/// Refuses to replace an output unless `force`.
///
/// # Errors
/// Fails if the folder cannot be read, or if it holds an output and `force` is false.
pub(crate) fn keep_older(folder: &Path, force: bool) -> Result<()> {
    for name in names(folder)? {
        if (name == MANIFEST || is_part(&name)) && !force {
            bail!(
                "{} already holds a sorted output ({name}): choose another --output or give --force",
                shown(folder)
            );
        }
    }
    Ok(())
}

/// Removes files that a killed run has left in `folder`.
///
/// # Errors
/// Fails if the folder cannot be read or a file cannot be removed.
pub fn sweep(folder: &Path) -> Result<()> {
    for name in names(folder)? {
        let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(".partial"));
        if inner.is_some_and(|n| is_part(n) || n == MANIFEST || is_scratch(n)) {
            std::fs::remove_file(folder.join(&name))
                .with_context(|| format!("removing {name}, which a killed sort has left"))?;
        }
    }
    Ok(())
}

/// Removes an older output, manifest first: from here on nothing looks complete.
///
/// # Errors
/// Fails if the folder cannot be read or a file cannot be removed.
pub fn retire(folder: &Path) -> Result<()> {
    let remove = |name: &str| match std::fs::remove_file(folder.join(name)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing the older {name}"))
        }
        _ => Ok(()),
    };
    remove(MANIFEST)?;
    for name in names(folder)?.iter().filter(|name| is_part(name)) {
        remove(name)?;
    }
    Ok(())
}

/// Folders that do not exist before a sort. Rank 0 makes them, and may be killed at any moment:
/// the process that started the ranks removes empty ones after them.
#[derive(Debug)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Returns the missing ones of `folders` and of the folders above them.
    pub fn of<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let all = folders.into_iter().flat_map(|one| one.ancestors().take_while(missing));
        Self(all.map(Path::to_path_buf).collect())
    }

    /// Removes those that exist and are empty, innermost first.
    pub fn remove_empty(mut self) {
        self.0.sort_by_key(|folder| std::cmp::Reverse(folder.as_os_str().len()));
        for folder in &self.0 {
            // A folder that is not empty, or was never made, stays as it is.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn is_part(name: &str) -> bool {
    name.strip_prefix("part-")
        .is_some_and(|n| n.len() >= 5 && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns true if a partial name is that of runs or of a stream's copy.
fn is_scratch(name: &str) -> bool {
    name.starts_with("runs-") || name.starts_with("stream-")
}

/// Returns the names in `folder` that are text; a sort makes no others.
fn names(folder: &Path) -> Result<Vec<String>> {
    let list = || -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string()));
        Ok(entries.collect::<std::io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    };
    list().with_context(|| format!("the folder {} cannot be listed", shown(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_file_shows_only_when_published() {
        let dir = crate::test_dir("output");
        drop(Pending::create(&dir, &part_name(3), true).unwrap());
        assert_eq!(names(&dir).unwrap(), [""; 0]);
        let pending = Pending::create(&dir, &part_name(3), true).unwrap();
        assert!(!names(&dir).unwrap().iter().any(|n| is_part(n)));
        pending.publish().unwrap();
        assert_eq!(names(&dir).unwrap(), ["part-00003"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn links_that_others_planted_are_not_followed() {
        let dir = crate::test_dir("output-planted");
        std::fs::write(dir.join("mine"), b"precious").unwrap();
        for name in ["small", "part-00000"] {
            std::os::unix::fs::symlink(dir.join("mine"), dir.join(partial_name(name))).unwrap();
            std::os::unix::fs::symlink(dir.join("mine"), dir.join(name)).unwrap();
        }
        publish_bytes(&dir, "small", b"written").unwrap();
        Pending::create(&dir, "part-00000", false).unwrap().publish().unwrap();
        assert_eq!(std::fs::read(dir.join("small")).unwrap(), b"written");
        assert_eq!(std::fs::read(dir.join("part-00000")).unwrap(), b"");
        assert_eq!(std::fs::read(dir.join("mine")).unwrap(), b"precious");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn folders_that_a_sort_made_and_left_empty_go_and_no_others() {
        let dir = crate::test_dir("output-folders");
        std::fs::create_dir(dir.join("old")).unwrap();
        let [old, deep, full, never] = ["old", "new/deep", "full", "never"].map(|n| dir.join(n));
        let made = NewFolders::of([&old, &deep, &full, &never].map(PathBuf::as_path));
        for folder in [&deep, &full] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(full.join("part-00000"), b"sorted").unwrap();
        made.remove_empty();
        let mut left = names(&dir).unwrap();
        left.sort();
        assert_eq!(left, ["full", "old"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_older_output_is_kept_unless_forced() {
        let dir = crate::test_dir("output-old");
        std::fs::write(dir.join("part-00000"), b"old").unwrap();
        std::fs::write(dir.join("notes"), b"mine").unwrap();
        std::fs::write(dir.join(".part-00001.partial"), b"killed").unwrap();
        std::fs::write(dir.join(".stream-00000.partial"), b"killed").unwrap();
        let told = prepare(&dir, false).unwrap_err().to_string();
        assert!(told.contains("--force"), "{told}");
        prepare(&dir, true).unwrap();
        let mut left = names(&dir).unwrap();
        left.sort();
        assert_eq!(left, ["notes", "part-00000"], "killed leftovers go, nothing else");
        retire(&dir).unwrap();
        assert_eq!(names(&dir).unwrap(), ["notes"]);
        assert!(prepare(&dir.join("notes"), true).unwrap_err().to_string().contains("is a file"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
