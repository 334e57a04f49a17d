//! Every snippet in C and C++ of README.md and docs/ compiles: C as of 2011, C++ as of 2020.

use clump_docs_tests::c_unit::units;
use clump_docs_tests::page::{Block, pages, root};
use std::fs;
use std::process::Command;

/// Warnings of snippets are errors, but for what is not used: a snippet shows a part.
const STRICT: [&str; 7] = [
    "-Wall",
    "-Werror",
    "-Wno-unused-variable",
    "-Wno-unused-function",
    "-Wno-unused-but-set-variable",
    "-Wno-unused-parameter",
    "-Wno-unused-value",
];

/// Returns what the compiler says about files, if it refuses one.
fn refusal(compiler: &str, standard: &str, ending: &str, units: &[String]) -> Option<String> {
    let folder =
        std::env::temp_dir().join(format!("clump-snippets-{}-{ending}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg("-fsyntax-only").arg("-I");
    command.arg(root().join("crates/clump-capi/include"));
    for (at, unit) in units.iter().enumerate() {
        let file = folder.join(format!("{at}.{ending}"));
        fs::write(&file, unit).unwrap();
        command.arg(file);
    }
    let output = command.output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

/// Returns true, with a notice, if there is no such compiler.
fn is_missing(compiler: &str) -> bool {
    let missing = Command::new(compiler).arg("--version").output().is_err();
    if missing {
        println!("SKIPPED snippets: no `{compiler}` here; install a compiler for C and C++");
    }
    missing
}

fn compile_all(language: &str, least: usize, compiler: &str, standard: &str) {
    if is_missing(compiler) {
        return;
    }
    let pages = pages(&root()).unwrap();
    let blocks = pages.iter().flat_map(|page| page.blocks());
    let count = blocks.filter(|block| block.language == language).count();
    assert!(count >= least, "only {count} snippets were found");
    let all: Vec<String> =
        pages.iter().flat_map(|page| units(&page.path, &page.blocks(), language)).collect();
    if let Some(said) = refusal(compiler, standard, language, &all) {
        panic!("{said}");
    }
}

#[test]
fn snippets_in_c_compile() {
    compile_all("c", 6, "cc", "-std=c11");
}

#[test]
fn snippets_in_cpp_compile() {
    compile_all("cpp", 3, "c++", "-std=c++20");
}

#[test]
fn a_wrong_snippet_is_refused_at_its_line() {
    if is_missing("cc") {
        return;
    }
    let said = |line: &str| {
        let block = Block {
            line: 41,
            language: "c".into(),
            given: "extern clump_t *cl;".into(),
            lines: vec![line.into()],
        };
        refusal("cc", "-std=c11", "wrong.c", &units("docs/page.md", &[block], "c"))
    };
    assert_eq!(said("clump_barrier(cl);"), None);
    let said = said("clump_barier(cl);").unwrap();
    assert!(said.contains("docs/page.md:42"), "{said}");
}
