//! Every snippet in Rust of README.md and docs/ compiles. An error of the compiler in a file
//! `docs_PAGE.md.rs` names the line of the page.

use clump_docs_tests::page::{Block, Page, pages, root};

/// Result of a snippet that is a part of a function.
type Compiled = std::result::Result<(), Box<dyn std::error::Error>>;

/// All snippets: they are compiled with this test, and never run.
#[allow(
    unused_variables,
    unused_imports,
    unused_mut,
    unused_assignments,
    dead_code,
    nonstandard_style,
    clippy::all,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    missing_docs,
    reason = "as pages print it"
)]
mod unit {
    use super::Compiled;
    use clump::{am::*, conn::*, op::*, pgas::*, rma::*, svm::*, *};
    use std::collections::HashMap;
    include!(concat!(env!("OUT_DIR"), "/snippets.rs"));
}

fn page(text: &str) -> Page {
    Page { path: "docs/page.md".into(), text: text.into() }
}

#[test]
fn each_snippet_stands_at_the_line_that_it_has_in_its_page() {
    let text = "# A\n\n<!-- given: a: u64,\nb: u64 -->\n```rust\nlet c = a + b;\n```\n\n```rust\n\
                fn main() {}\n```\n";
    let due = "\n\n\n\nfn line_5( a: u64, b: u64  ) -> Compiled {\nlet c = a + b;\n\
               #[allow(unreachable_code)] Ok(()) }\n\nmod line_9 {\nfn main() {}\n}\n";
    assert_eq!(page(text).rust(), due);
}

#[test]
fn snippets_name_their_language() {
    let code = |block: &Block| {
        let marks = ["fn ", "let ", "#include", "clump_", "svm_", "AM_", "clump::"];
        let is_code = |line: &String| marks.iter().any(|mark| line.starts_with(mark));
        block.language.is_empty() && block.lines.iter().any(is_code)
    };
    let all = pages(&root()).unwrap();
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|page| page.blocks().into_iter().map(move |block| (page, block)))
        .filter(|(_, block)| code(block))
        .map(|(page, block)| format!("{}:{}", page.path, block.line))
        .collect();
    assert!(wrong.is_empty(), "code without a language: {wrong:?}");
    let rust = all.iter().flat_map(Page::blocks).filter(|block| block.language == "rust").count();
    assert!(rust >= 12, "only {rust} snippets in Rust were found");
}
