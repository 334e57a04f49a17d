//! Planted bugs that were caught in the sources as they are: verdicts by fingerprint.
//!
//! A verdict holds as long as nothing changes that its test could depend on: the bug, the test's
//! command, the compiler, and every file of the packages that the test's package is built from. A
//! test of whole jobs, or of these tasks, depends on the packages of all.

use super::mutant::{Mutant, words};
use crate::command::cargo;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Folders from which the programs are built that tests of whole jobs start.
const PROGRAMS: [&str; 4] = ["crates", "apps", "tests", "oracles"];
/// Further folders that tests of these tasks read.
const TASKS: [&str; 2] = ["xtask", "docs"];

/// Verdicts of earlier runs, in a file.
#[derive(Debug)]
pub struct Verdicts {
    path: PathBuf,
    sources: Sources,
    /// Fingerprints of caught bugs, by name.
    caught: Mutex<BTreeMap<String, u64>>,
}

impl Verdicts {
    /// Reads the verdicts in `path` on the bugs in `known`; a file that cannot be read holds none.
    ///
    /// # Errors
    /// Fails if the sources cannot be read.
    pub fn open(root: &Path, path: PathBuf, known: &BTreeSet<&str>) -> Result<Self> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut caught: BTreeMap<String, u64> = serde_json::from_str(&text).unwrap_or_default();
        caught.retain(|name, _| known.contains(name.as_str()));
        Ok(Self { sources: Sources::of(root)?, path, caught: Mutex::new(caught) })
    }

    /// Returns true if this bug was caught in sources that its test cannot tell from these.
    pub fn holds(&self, mutant: &Mutant) -> bool {
        let caught = self.caught.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        caught.get(&mutant.name) == Some(&self.sources.fingerprint(mutant))
    }

    /// Keeps the verdict that a bug was caught.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn keep(&self, mutant: &Mutant) -> Result<()> {
        let mut caught = self.caught.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        caught.insert(mutant.name.clone(), self.sources.fingerprint(mutant));
        let text = serde_json::to_string_pretty(&*caught)? + "\n";
        let fresh = self.path.with_extension("new");
        std::fs::write(&fresh, text).with_context(|| fresh.display().to_string())?;
        std::fs::rename(&fresh, &self.path).with_context(|| self.path.display().to_string())
    }
}

/// Fingerprints of a tree's packages.
#[derive(Debug)]
struct Sources {
    /// Compiler, packages from elsewhere, profiles and lints.
    shared: u64,
    whole: u64,
    /// By name: a package with all packages of the tree that it is built from.
    packages: BTreeMap<String, u64>,
}

impl Sources {
    /// # Errors
    /// Fails if a file cannot be read.
    fn of(root: &Path) -> Result<Self> {
        let mut whole = DefaultHasher::new();
        PROGRAMS.iter().try_for_each(|folder| hash_folder(&root.join(folder), &mut whole))?;
        let jobs = whole.finish();
        TASKS.iter().try_for_each(|folder| hash_folder(&root.join(folder), &mut whole))?;
        let packages = local_packages(root)?;
        let own: BTreeMap<&str, u64> = packages
            .iter()
            .map(|(name, package)| {
                let mut hasher = DefaultHasher::new();
                hash_folder(&package.folder, &mut hasher)?;
                Ok((name.as_str(), hasher.finish()))
            })
            .collect::<Result<_>>()?;
        let fingerprint = |name: &str, package: &LocalPackage| {
            if package.folder == root.join("tests/processes") {
                return jobs;
            } else if package.folder == root.join("xtask") {
                return whole.finish();
            }
            let mut hasher = DefaultHasher::new();
            closure(&packages, name).iter().for_each(|&name| own[name].hash(&mut hasher));
            hasher.finish()
        };
        let fingerprints = packages.iter();
        let packages = fingerprints.map(|(name, p)| (name.clone(), fingerprint(name, p))).collect();
        Ok(Self { shared: shared(root), whole: whole.finish(), packages })
    }

    fn fingerprint(&self, mutant: &Mutant) -> u64 {
        let words = words(&mutant.test);
        let package = words.iter().skip_while(|word| *word != "--package").nth(1);
        let sources = package.and_then(|name| self.packages.get(name)).unwrap_or(&self.whole);
        let mut hasher = DefaultHasher::new();
        let Mutant { name, file, find, replace, test, why: _, limit_s } = mutant;
        (name, file, find, replace, test, limit_s, sources, self.shared).hash(&mut hasher);
        hasher.finish()
    }
}

/// A package of the tree.
#[derive(Debug)]
struct LocalPackage {
    folder: PathBuf,
    /// Packages that it names, of the tree or not.
    needs: Vec<String>,
}

/// Returns the fingerprint of what every build depends on, but for packages of the tree.
fn shared(root: &Path) -> u64 {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    let compiler = Command::new("rustc").arg("-vV").output();
    compiler.map(|output| output.stdout).unwrap_or_default().hash(&mut hasher);
    read(".cargo/config.toml").hash(&mut hasher);
    read("Cargo.lock")
        .split("[[package]]")
        .filter(|package| package.contains("\nsource = "))
        .for_each(|package| package.hash(&mut hasher));
    // Another member of the workspace changes no build of those that do not need it.
    let mut manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap_or_default();
    if let Some(workspace) = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut) {
        workspace.remove("members");
        if let Some(needed) = workspace.get_mut("dependencies").and_then(|d| d.as_table_mut()) {
            needed.retain(|_, needed| needed.get("path").is_none());
        }
    }
    manifest.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the packages from which `name` is built, itself included.
fn closure<'p>(packages: &'p BTreeMap<String, LocalPackage>, name: &str) -> BTreeSet<&'p str> {
    let (mut all, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        if let Some((name, package)) = packages.get_key_value(name)
            && all.insert(name.as_str())
        {
            next.extend(package.needs.iter().map(String::as_str));
        }
    }
    all
}

/// Returns the packages of the tree by name; none where there is no workspace.
///
/// # Errors
/// Fails if cargo cannot be started, or its answer cannot be read.
fn local_packages(root: &Path) -> Result<BTreeMap<String, LocalPackage>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
        dependencies: Vec<Dependency>,
    }
    #[derive(Deserialize)]
    struct Dependency {
        name: String,
    }
    let words = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let answer = cargo(root, &words).output().context("starting cargo metadata")?;
    if !answer.status.success() {
        return Ok(BTreeMap::new());
    }
    let metadata: Metadata = serde_json::from_slice(&answer.stdout).context("cargo metadata")?;
    let package = |package: Package| {
        let folder = package.manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        let needs = package.dependencies.into_iter().map(|needed| needed.name).collect();
        (package.name, LocalPackage { folder, needs })
    };
    Ok(metadata.packages.into_iter().map(package).collect())
}

/// Adds names and contents of all files below a folder, in order; a missing one adds nothing.
///
/// # Errors
/// Fails if a file cannot be read.
fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        path.file_name().hash(hasher);
        if path.is_dir() {
            hash_folder(&path, hasher)?;
        } else {
            let contents = std::fs::read(&path).with_context(|| path.display().to_string())?;
            contents.hash(hasher);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn mutant(package: &str) -> Mutant {
        let test = format!("cargo test --package {package} --lib");
        let [name, file, find, replace, why] = [package, "a", "b", "c", "d"].map(str::to_owned);
        Mutant { name, file, find, replace, test, why, limit_s: 1 }
    }

    #[test]
    fn a_verdict_holds_until_something_changes_that_its_test_is_built_from() {
        let dir = std::env::temp_dir().join(format!("clump-verdicts-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let members = r#"["crates/low", "crates/high", "crates/other", "tests/processes"]"#;
        write(dir.join("Cargo.toml"), &format!("[workspace]\nmembers = {members}\n"));
        let package = |folder: &str, name: &str, needs: &str| {
            let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
            let needs = format!("{head}edition = \"2024\"\n[dependencies]\n{needs}\n");
            write(dir.join(folder).join("Cargo.toml"), &needs);
            write(dir.join(folder).join("src/lib.rs"), "");
        };
        package("crates/low", "low", "");
        package("crates/high", "high", "low = { path = \"../low\" }");
        package("crates/other", "other", "");
        package("tests/processes", "jobs", "");
        let names = ["low", "high", "other", "jobs"];
        let file = dir.join("verdicts.json");
        let known = BTreeSet::from(names);
        let held = || {
            let verdicts = Verdicts::open(&dir, file.clone(), &known).unwrap();
            names.map(|name| verdicts.holds(&mutant(name)))
        };
        let keep = || {
            let verdicts = Verdicts::open(&dir, file.clone(), &known).unwrap();
            names.iter().for_each(|name| verdicts.keep(&mutant(name)).unwrap());
        };
        assert_eq!(held(), [false; 4]);
        keep();
        assert_eq!(held(), [true; 4]);
        write(dir.join("crates/high/src/lib.rs"), "// changed");
        assert_eq!(held(), [true, false, true, false], "jobs are of the whole tree");
        keep();
        write(dir.join("crates/low/src/more.rs"), "// new");
        assert_eq!(held(), [false, false, true, false]);
        keep();
        let profile = "[profile.dev]\nopt-level = 1\n";
        write(dir.join("Cargo.toml"), &format!("[workspace]\nmembers = {members}\n{profile}"));
        assert_eq!(held(), [false; 4]);
        keep();
        package("crates/new", "new", "");
        let members = members.replace("]", ", \"crates/new\"]");
        write(dir.join("Cargo.toml"), &format!("[workspace]\nmembers = {members}\n{profile}"));
        assert_eq!(held(), [true, true, true, false]);
        let mut other = mutant("low");
        keep();
        other.replace = "another bug".into();
        assert!(!Verdicts::open(&dir, file.clone(), &known).unwrap().holds(&other));
        // What is no more in the list is forgotten with the next verdict.
        let fewer = Verdicts::open(&dir, file.clone(), &BTreeSet::from(["high"])).unwrap();
        fewer.keep(&mutant("high")).unwrap();
        assert!(!std::fs::read_to_string(&file).unwrap().contains("low"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
