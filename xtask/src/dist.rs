//! `cargo xtask dist --out DIR`: packages for machines without a Rust toolchain. A tarball whose
//! launcher is linked statically, and a Debian package; both hold libclump, its headers, man pages
//! and completions for shells.

mod deb;

use crate::command::{self, cargo};
use crate::host;
use crate::install::Installation;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time for building with all optimizations.
const BUILD: Duration = Duration::from_secs(2400);
/// Documents of each package, and what they are called there.
const DOCUMENTS: [(&str, &str); 5] = [
    ("LICENSE", "copyright"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("docs/packages.md", "packages.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
];

/// The packages that were made.
#[derive(Debug)]
pub struct Packages {
    /// The tarball.
    pub tarball: PathBuf,
    /// The Debian package, or the reason why there is none.
    pub debian: std::result::Result<PathBuf, String>,
}

/// Parses the options, and makes the packages.
///
/// # Errors
/// Fails on a wrong option, or if something cannot be built.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let (mut out, mut profile) = (host::target(root).join("packages"), "dist");
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().with_context(|| format!("`{option}` takes a value"))?;
        match option.as_str() {
            "--out" => out = PathBuf::from(value),
            "--profile" => profile = value,
            other => bail!("unknown option `{other}`; there are --out DIR and --profile NAME"),
        }
    }
    let made = make(root, &out, profile)?;
    println!("made {}", made.tarball.display());
    match made.debian {
        Ok(package) => println!("made {}", package.display()),
        Err(why) => println!("SKIPPED the Debian package: {why}"),
    }
    Ok(true)
}

/// Builds all files, and makes both packages in `out`.
///
/// # Errors
/// Fails if something cannot be built or written.
pub fn make(root: &Path, out: &Path, profile: &str) -> Result<Packages> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize().with_context(|| out.display().to_string())?;
    let stage = out.join("stage");
    fs::remove_dir_all(&stage).ok();
    let prefix = stage.join("usr");
    fs::create_dir_all(&prefix)?;
    let installation = Installation { root, prefix: prefix.clone(), profile };
    installation.install()?;
    // Debuggers find them no more, and they are larger than all else together.
    fs::remove_dir_all(prefix.join("bin/.debug")).ok();
    stripped(&prefix.join("lib/libclump.so"))?;
    share(root, &prefix.join("share"))?;
    let version = installation.version()?;
    let time = time_of_tree(root)?;
    let debian = deb::make(&stage, &out, &version, time)?;
    let tarball = tarball(root, &stage, &out, &version, time)?;
    fs::remove_dir_all(&stage)?;
    Ok(Packages { tarball, debian })
}

/// Writes man pages, completions and documents.
fn share(root: &Path, share: &Path) -> Result<()> {
    let args = ["run", "--package", "clump-cli", "--example", "pages", "--"];
    command::make(cargo(root, &args).arg(share), BUILD, "the man pages")?;
    let documents = share.join("doc/clump");
    fs::create_dir_all(&documents)?;
    for (from, to) in DOCUMENTS {
        fs::copy(root.join(from), documents.join(to)).with_context(|| from.to_owned())?;
    }
    Ok(())
}

/// Makes the tarball from the folder `usr` of the stage, with a launcher that needs no library.
fn tarball(root: &Path, stage: &Path, out: &Path, version: &str, time: u64) -> Result<PathBuf> {
    let architecture = std::env::consts::ARCH;
    let name = format!("clump-{version}-{architecture}-linux");
    let launcher = stage.join("usr/bin/clump");
    let linked = static_launcher(root)?;
    fs::remove_file(&launcher).ok();
    fs::copy(&linked, &launcher).with_context(|| linked.display().to_string())?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    stripped(&launcher)?;
    fs::rename(stage.join("usr"), stage.join(&name))?;
    let file = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg("-czf").arg(&file).arg("-C").arg(stage).arg(&name);
    command::make(&mut tar, BUILD, "the tarball")?;
    Ok(file)
}

/// Takes line tables out of a file.
fn stripped(file: &Path) -> Result<()> {
    if host::program("strip").is_none() {
        let name = file.display();
        println!("SKIPPED taking line tables out of {name}: there is no strip; install binutils");
        return Ok(());
    }
    command::make(Command::new("strip").arg("--strip-debug").arg(file), BUILD, "strip")
}

/// Builds the launcher with the C library inside.
fn static_launcher(root: &Path) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = ["build", "--release", "--package", "clump-cli", "--target", &target];
    let mut build = cargo(root, &args);
    build.env("RUSTFLAGS", "-Ctarget-feature=+crt-static");
    command::make(&mut build, BUILD, "the static launcher")?;
    Ok(host::target(root).join(target).join("release/clump"))
}

/// Returns the time that all files of the packages have: the last change of the tree, so that one
/// tree gives one package.
fn time_of_tree(root: &Path) -> Result<u64> {
    let mut log = Command::new("git");
    log.args(["log", "-1", "--format=%ct"]).current_dir(root);
    let time = match host::program("git") {
        Some(_) => command::run_quiet(&mut log, BUILD)?.stdout,
        None => String::new(),
    };
    Ok(time.trim().parse().unwrap_or(0))
}
