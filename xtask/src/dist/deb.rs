//! The Debian package, by Debian's own `dpkg-deb`.

use crate::command;
use crate::host;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of each program.
const LIMIT: Duration = Duration::from_secs(600);
/// Files that say which version of the C library they need.
const LINKED: [&str; 2] = ["usr/bin/clump", "usr/lib/libclump.so"];

/// Makes the package from the folder `usr` of the stage; returns it, or the reason why there is
/// none.
///
/// # Errors
/// Fails if a file cannot be read or written, or if a program fails.
pub(super) fn make(
    stage: &Path,
    out: &Path,
    version: &str,
    time: u64,
) -> Result<std::result::Result<PathBuf, String>> {
    for program in ["dpkg-deb", "objdump", "gzip"] {
        if host::program(program).is_none() {
            return Ok(Err(format!("there is no {program} (Debian: dpkg, binutils, gzip)")));
        }
    }
    let tree = out.join("debian");
    fs::remove_dir_all(&tree).ok();
    fs::create_dir_all(tree.join("DEBIAN"))?;
    command::make(
        Command::new("cp").arg("-a").arg(stage.join("usr")).arg(&tree),
        LIMIT,
        "the copy",
    )?;
    let share = tree.join("usr/share");
    // Where zsh of Debian looks.
    fs::create_dir_all(share.join("zsh"))?;
    fs::rename(share.join("zsh/site-functions"), share.join("zsh/vendor-completions"))?;
    let mut pack = Command::new("sh");
    pack.args(["-c", "gzip -9n man/man1/*.1"]).current_dir(&share);
    command::make(&mut pack, LIMIT, "the man pages")?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = libc_version(&tree)?;
    let text = control(version, architecture, &libc, kibibytes(&tree)?);
    fs::write(tree.join("DEBIAN/control"), text)?;
    let file = out.join(format!("clump_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", time.to_string());
    build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&tree).arg(&file);
    command::make(&mut build, LIMIT, "dpkg-deb")?;
    fs::remove_dir_all(&tree)?;
    Ok(Ok(file))
}

/// Returns the file `control`.
fn control(version: &str, architecture: &str, libc: &str, size: u64) -> String {
    format!(
        "Package: clump
Version: {version}
Architecture: {architecture}
Maintainer: The authors of clump <clump@localhost>
Installed-Size: {size}
Depends: libc6 (>= {libc}), libgcc-s1
Suggests: gcc, pkg-config, openssh-client
Section: net
Priority: optional
Description: cluster communication runtime
 Active messages, one-sided operations, global memory and shared virtual
 memory for clusters of ordinary machines: the launcher, libclump and its
 headers.
"
    )
}

/// Returns the newest version of the C library that a file of the package asks for.
fn libc_version(tree: &Path) -> Result<String> {
    let mut newest = (0, 0);
    for file in LINKED {
        let mut dump = Command::new("objdump");
        let ended = command::run_quiet(dump.arg("-T").arg(tree.join(file)), LIMIT)?;
        if !ended.success {
            bail!("objdump {file}: {}", ended.why);
        }
        newest = newest.max(newest_of(&ended.stdout));
    }
    if newest == (0, 0) {
        bail!("no file of the package is linked with the C library");
    }
    Ok(format!("{}.{}", newest.0, newest.1))
}

/// Returns the highest `GLIBC_X.Y` of a table of symbols.
fn newest_of(symbols: &str) -> (u32, u32) {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut numbers = rest[..end].split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max().unwrap_or_default()
}

/// Returns the size of all files of a folder.
fn kibibytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        sum += match entry.file_type()?.is_dir() {
            true => kibibytes(&entry.path())?,
            false => entry.metadata()?.len().div_ceil(1024),
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        let table = "w D *UND* (GLIBC_2.2.5) x\n DF *UND* (GLIBC_2.34) y\n(GLIBC_2.4) z\n";
        assert_eq!(newest_of(table), (2, 34));
        assert_eq!(newest_of("nothing"), (0, 0));
        let text = control("0.1.0", "amd64", "2.34", 7);
        assert!(text.contains("Depends: libc6 (>= 2.34), libgcc-s1\n"), "{text}");
        assert!(text.ends_with("headers.\n"), "the file ends with a line");
    }
}
