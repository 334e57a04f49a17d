//! Snippets of CMake: a project with one program is configured with them.

use super::{Verdict, padded};
use anyhow::{Result, bail};
use clump_docs_tests::page::{Block, Page};
use std::fs;
use std::process::Command;

/// Files of the package as an installation has them.
const CONFIG: &str = include_str!(concat!(env!("OUT_DIR"), "/clump-config.cmake"));
const VERSION: &str = include_str!(concat!(env!("OUT_DIR"), "/clump-config-version.cmake"));

/// Project that includes a snippet; its program is `prog`.
const PROJECT: &str = "cmake_minimum_required(VERSION 3.16)\nproject(page C)\n\
                       add_executable(prog prog.c)\n";

/// Configures a project with a snippet, where CMake is. CMake names the line of the page.
///
/// # Errors
/// Fails if CMake does.
pub fn configure(page: &Page, block: &Block) -> Result<Verdict> {
    for (program, package) in [("cmake", "cmake"), ("cc", "a compiler for C")] {
        if Command::new(program).arg("--version").output().is_err() {
            return Ok(Verdict::Skipped(format!("no `{program}` here; install {package}")));
        }
    }
    let name = format!("clump-cmake-{}-{}", std::process::id(), block.line);
    let folder = std::env::temp_dir().join(name);
    let prefix = folder.join("prefix");
    let package = prefix.join("lib/cmake/clump");
    fs::create_dir_all(&package)?;
    fs::create_dir_all(prefix.join("include"))?;
    fs::write(package.join("clump-config.cmake"), CONFIG)?;
    fs::write(package.join("clump-config-version.cmake"), VERSION)?;
    let snippet = format!("{}.cmake", page.path.replace('/', "_"));
    fs::write(folder.join(&snippet), padded(block))?;
    fs::write(folder.join("prog.c"), "int main(void) { return 0; }\n")?;
    fs::write(folder.join("CMakeLists.txt"), format!("{PROJECT}include({snippet})\n"))?;
    let mut cmake = Command::new("cmake");
    cmake.args(["-B", "build"]).current_dir(&folder);
    cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    let done = cmake.output();
    fs::remove_dir_all(&folder)?;
    let done = done?;
    if !done.status.success() {
        bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(Verdict::Right)
}

#[test]
fn wrong_snippets_of_cmake_are_refused() {
    use super::{accepted, refused};
    if Command::new("cmake").arg("--version").output().is_err() {
        println!("SKIPPED refusing wrong snippets of CMake: install cmake");
        return;
    }
    let right = "find_package(clump 0.1 REQUIRED)\ntarget_link_libraries(prog clump::static)";
    accepted("cmake", right);
    refused("cmake", &right.replace("0.1", "99.0"), "docs_page.md.cmake:4");
    refused("cmake", &right.replace("::static", "::archive"), "clump::archive");
    refused("cmake", "if(TRUE)\n", "docs_page.md.cmake");
}
