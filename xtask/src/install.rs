//! `cargo xtask install --prefix DIR`: installs libclump, its headers, and the files by which C
//! builds find them.
//!
//! The installation can be moved as a whole: each file finds the others relative to itself.

mod finders;

use crate::command::{self, cargo};
use crate::host;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time for building with all optimizations.
const BUILD: Duration = Duration::from_secs(1800);
const QUICK: Duration = Duration::from_secs(120);

/// Our symbols; all others become local in the static library.
const OURS: &[&str] = &["clump_*", "AM_*", "svm_*"];

/// The parameters of an installation.
#[derive(Debug)]
pub struct Installation<'a> {
    /// Root of the tree.
    pub root: &'a Path,
    /// Destination.
    pub prefix: PathBuf,
    /// The profile of the build.
    pub profile: &'a str,
}

/// Parses the options, and installs.
///
/// # Errors
/// Fails on a wrong option, or if the installation fails.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let (mut prefix, mut profile) = (None, "dist");
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().with_context(|| format!("`{option}` takes a value"))?;
        match option.as_str() {
            "--prefix" => prefix = Some(PathBuf::from(value)),
            "--profile" => profile = value,
            other => bail!("unknown option `{other}`; there are --prefix DIR and --profile NAME"),
        }
    }
    let prefix = prefix.context("say where to: --prefix DIR")?;
    fs::create_dir_all(&prefix).with_context(|| prefix.display().to_string())?;
    let prefix = prefix.canonicalize().with_context(|| prefix.display().to_string())?;
    Installation { root, prefix: prefix.clone(), profile }.install()?;
    println!("installed into {}; try {}/bin/clump-cc --help", prefix.display(), prefix.display());
    Ok(true)
}

impl Installation<'_> {
    /// Builds, and installs all files.
    ///
    /// # Errors
    /// Fails if the build does, if a file cannot be written, or if programs would not find the
    /// library in a folder of that name.
    pub fn install(&self) -> Result<()> {
        if let Some(why) = finders::refusal(&self.prefix) {
            bail!(why);
        }
        for (package, profile) in [("clump-capi", self.profile), ("clump-cli", "release")] {
            let args = ["build", "--profile", profile, "--package", package];
            let built = command::run(&mut cargo(self.root, &args), BUILD)?;
            if !built.success {
                bail!("building {package} failed: {}", built.why);
            }
        }
        let folder = if self.profile == "dev" { "debug" } else { self.profile };
        let from = host::target(self.root).join(folder);
        let (version, abi) = (self.version()?, self.abi()?);
        self.libraries(&from, &version, &abi)?;
        self.headers()?;
        let link = self.root.join("crates/clump-capi/link");
        for (from, to) in [("threads.ld", finders::SCRIPT), ("threads.args", finders::REPLACED)] {
            let from = link.join(from);
            let to = self.prefix.join("lib").join(to);
            fs::copy(&from, to).with_context(|| from.display().to_string())?;
        }
        for (name, text) in finders::pkg_config(&version) {
            self.write(&format!("lib/pkgconfig/{name}"), &text)?;
        }
        let cmake = finders::cmake(&version, &abi);
        self.write("lib/cmake/clump/clump-config.cmake", &cmake)?;
        let versions = finders::cmake_version(&version);
        self.write("lib/cmake/clump/clump-config-version.cmake", &versions)?;
        self.program("bin/clump-cc", &finders::wrapper("cc", "CLUMP_CC"))?;
        self.program("bin/clump-c++", &finders::wrapper("c++", "CLUMP_CXX"))?;
        launcher(&host::target(self.root).join("release/clump"), &self.prefix.join("bin/clump"))
    }

    fn libraries(&self, from: &Path, version: &str, abi: &str) -> Result<()> {
        let lib = self.prefix.join("lib");
        fs::create_dir_all(&lib)?;
        let names =
            [format!("libclump.so.{version}"), format!("libclump.so.{abi}"), "libclump.so".into()];
        for name in &names {
            fs::remove_file(lib.join(name)).ok();
        }
        fs::copy(from.join("libclump_capi.so"), lib.join(&names[0]))
            .context("the shared library")?;
        symlink(&names[0], lib.join(&names[1]))?;
        symlink(&names[1], lib.join(&names[2]))?;
        let archive = lib.join("libclump.a");
        let link = lib.join(format!("lib{}.a", finders::ARCHIVE));
        fs::remove_file(&archive).ok();
        fs::remove_file(&link).ok();
        symlink("libclump.a", link)?;
        match self.own_symbols(&from.join("libclump_capi.a"), &archive) {
            Ok(()) => Ok(()),
            Err(why) => {
                println!(
                    "SKIPPED hiding what is not ours in libclump.a: {why:#}; install binutils"
                );
                fs::copy(from.join("libclump_capi.a"), &archive).context("the static library")?;
                Ok(())
            }
        }
    }

    /// Links the whole archive into one object that exports our symbols only: a program may be
    /// linked with another library that was written in Rust.
    fn own_symbols(&self, from: &Path, to: &Path) -> Result<()> {
        let (whole, own) = (to.with_file_name("whole.o"), to.with_file_name("clump.o"));
        let mut link = Command::new("ld");
        link.args(["-r", "--whole-archive"]).arg(from).arg("-o").arg(&whole);
        let mut hide = Command::new("objcopy");
        hide.args(["--strip-debug", "--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
        hide.arg("--wildcard").args(OURS.iter().map(|name| format!("--keep-global-symbol={name}")));
        hide.arg(&whole).arg(&own);
        let mut archive = Command::new("ar");
        archive.arg("rcs").arg(to).arg(&own);
        let done = [link, hide, archive].iter_mut().try_for_each(|step| {
            let ended = command::run(step, QUICK)?;
            if ended.success { Ok(()) } else { bail!("{}: {}", command::shown(step), ended.why) }
        });
        fs::remove_file(whole).ok();
        fs::remove_file(own).ok();
        done
    }

    fn headers(&self) -> Result<()> {
        let from = self.root.join("crates/clump-capi/include");
        copy_headers(&from, &self.prefix.join("include"))
    }

    /// Returns the version of the tree.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub fn version(&self) -> Result<String> {
        let manifest = fs::read_to_string(self.root.join("Cargo.toml"))?;
        let manifest: toml::Table = toml::from_str(&manifest)?;
        let version = manifest.get("workspace").and_then(|w| w.get("package")?.get("version"));
        Ok(version.and_then(|v| v.as_str()).context("Cargo.toml names no version")?.to_owned())
    }

    fn abi(&self) -> Result<String> {
        let header = self.root.join("crates/clump-capi/include/clump/job.h");
        let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
        let abi = text.lines().find_map(|line| line.strip_prefix("#define CLUMP_ABI "));
        Ok(abi.context("clump/job.h defines no CLUMP_ABI")?.trim().to_owned())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.prefix.join(name);
        fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    fn program(&self, name: &str, text: &str) -> Result<()> {
        self.write(name, text)?;
        fs::set_permissions(self.prefix.join(name), fs::Permissions::from_mode(0o755))?;
        Ok(())
    }
}

/// Installs the launcher without line tables, which are most of it; they lie in `.debug` beside it,
/// where backtraces and debuggers look for them.
fn launcher(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a program lies in a folder")?;
    let tables = folder.join(".debug").join("clump.debug");
    fs::create_dir_all(folder.join(".debug"))?;
    fs::remove_file(to).ok();
    fs::remove_file(&tables).ok();
    let mut apart = Command::new("objcopy");
    apart.arg("--only-keep-debug").arg(from).arg(&tables);
    let mut strip = Command::new("objcopy");
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&tables);
    strip.arg("--strip-debug").arg(link).arg(from).arg(to);
    let done = [apart, strip].iter_mut().try_for_each(|step| {
        let ended = command::run(step, QUICK)?;
        if ended.success { Ok(()) } else { bail!("{}: {}", command::shown(step), ended.why) }
    });
    if let Err(why) = done {
        println!("SKIPPED taking line tables out of clump: {why:#}; install binutils");
        fs::remove_dir_all(folder.join(".debug")).ok();
        fs::copy(from, to).context("copying clump")?;
    }
    Ok(())
}

fn copy_headers(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_headers(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::launcher;
    use std::process::Command;

    #[test]
    fn the_launcher_is_installed_without_its_line_tables() {
        let folder = std::env::temp_dir().join(format!("clump-install-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // This program has line tables, too.
        let (from, to) = (std::env::current_exe().unwrap(), folder.join("clump"));
        for _ in 0..2 {
            launcher(&from, &to).unwrap();
        }
        let bytes = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
        let tables = folder.join(".debug/clump.debug");
        match Command::new("objcopy").arg("--version").output() {
            Err(why) => println!("SKIPPED: no objcopy ({why}); install binutils"),
            Ok(_) => {
                assert!(bytes(&to) < bytes(&from) / 4 * 3, "{} of {}", bytes(&to), bytes(&from));
                assert!(bytes(&tables) > bytes(&from) / 4);
            }
        }
        let help = Command::new(&to).arg("--help").output().unwrap();
        assert!(help.status.success(), "it still runs");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
