//! One file of C or C++ for each snippet: functions at the level of the file, the rest in a
//! function of its own.

use crate::page::Block;
use std::fmt::Write;

/// Includes in front of snippets in C that are no whole programs.
const C: &str = "#include <clump.h>\n#include <clump/svm.h>\n";
/// Includes in front of snippets in C++ that are no whole programs.
const CPP: &str = "#include <clump/clump.hpp>\n#include <map>\n#include <vector>\n";

/// Returns files with the snippets of one page in one language, each in front of a line that names
/// its place. A whole program is a file, and so is a snippet in C; those in C++ share one, since
/// its headers take long to compile.
pub fn units(path: &str, blocks: &[Block], language: &str) -> Vec<String> {
    let parts = blocks.iter().filter(|block| block.language == language);
    let (programs, parts): (Vec<&Block>, Vec<&Block>) =
        parts.partition(|block| block.lines.iter().any(|line| line.starts_with("#include")));
    let whole = |block: &&Block| {
        format!("#line {} \"{path}\"\n{}\n", block.line + 1, block.lines.join("\n"))
    };
    let mut units: Vec<String> = programs.iter().map(whole).collect();
    if language == "c" {
        units.extend(parts.iter().map(|block| format!("{C}{}", functions(path, block))));
        return units;
    }
    let spaces = parts
        .iter()
        .map(|block| format!("namespace line_{} {{\n{}\n}}\n", block.line, functions(path, block)));
    let spaces: String = spaces.collect();
    units.extend((!parts.is_empty()).then(|| format!("{CPP}{spaces}")));
    units
}

/// Returns definitions of functions as they are, and the statements between them as a function.
fn functions(path: &str, block: &Block) -> String {
    let (mut outside, mut inside) = (String::new(), String::new());
    let mut in_function = false;
    for (at, line) in block.lines.iter().enumerate() {
        let starts = !line.starts_with(' ') && line.ends_with(") {") && !line.contains('=');
        in_function |= starts;
        let part = if in_function { &mut outside } else { &mut inside };
        _ = writeln!(part, "#line {} \"{path}\"\n{line}", block.line + 1 + at);
        in_function &= line != "}";
    }
    let body =
        format!("void snippet_{}(void);\nvoid snippet_{0}(void) {{\n{inside}\n}}", block.line);
    format!("{}\n{outside}\n{body}\n", block.given)
}
