//! Every command line that README.md and docs/ print is one that the programs take.

use clap::ValueEnum;
use clump_cli::schema::DescribedCommand;
use clump_docs_tests::check::check;
use clump_docs_tests::exceptions::{NOT_RUN, reason};
use clump_docs_tests::help;
use clump_docs_tests::page::{Block, Page, pages, root};
use clump_docs_tests::printed::{Printed, of_blocks, of_spans};
use std::collections::BTreeSet;

fn printed() -> Vec<Printed> {
    let pages = pages(&root()).unwrap();
    pages.iter().flat_map(|page| of_blocks(page).into_iter().chain(of_spans(page))).collect()
}

/// Checks that there are more than `least` command lines, and that all are right.
fn all_are_right(all: &[Printed], least: usize) {
    assert!(all.len() > least, "only {} were found", all.len());
    let wrong = all.iter().filter_map(|line| {
        let error = check(line).err()?;
        Some(format!("{}: `{}`: {error:#}", line.place(), line.text))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn command_lines_are_right() {
    all_are_right(&printed(), 150);
}

#[test]
fn examples_of_helps_are_right() {
    all_are_right(&help::examples(), 40);
}

#[test]
fn wrong_command_lines_are_refused() {
    let refused = |text: &str| {
        let line = Printed { page: "p".into(), line: 1, block: Some(1), text: text.into() };
        check(&line).is_err()
    };
    for right in [
        "clump run -n 4 --nodes 2 ./prog --any",
        "CLUMP_NET_FAULTS=loss=1% clump run ./prog",
        "cargo run --release -p clump-sim --bin soak -- --seeds 1",
        "clump run target/release/examples/ping",
        "mpirun -n 4 clump app sort -i a -o b",
    ] {
        assert!(!refused(right), "{right}");
    }
    for wrong in [
        "clump run --nods 2 ./prog",
        "clump runs",
        "CLUMP_NET_LOST_PPM=1 clump run ./prog",
        "cargo run --release -p clump-sim --bin soap",
        "cargo xtask instal",
        "clump run target/release/examples/pong",
        "mpirun -n 4 clump app sort --im a -o b",
        "clumb run ./prog",
        "cp crates/none.c .",
    ] {
        assert!(refused(wrong), "{wrong}");
    }
}

#[test]
fn fields_of_json_are_listed_as_their_schemas_have_them() {
    let text = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    for command in DescribedCommand::value_variants() {
        let value = command.to_possible_value().unwrap();
        let start = format!("| `{}` |", value.get_name());
        let row = text.lines().find(|line| line.starts_with(&start)).unwrap_or(&start);
        let cell = row.split(" | ").nth(2).unwrap_or_default();
        let listed: BTreeSet<&str> = cell.split('`').skip(1).step_by(2).collect();
        let schema = serde_json::to_value(command.schema()).unwrap();
        let fields = schema["properties"].as_object().unwrap();
        let fields: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
        assert_eq!(listed, fields, "docs/commands.md: {row}");
    }
}

#[test]
fn blocks_of_commands_are_marked() {
    let unmarked = |page: &Page, block: &Block| {
        let starts = ["clump ", "cargo ", "clump-cc ", "cc ", "gcc ", "target/release/", "./"];
        let commands = |line: &&String| starts.iter().any(|start| line.starts_with(start));
        let line = block.lines.iter().find(commands).filter(|_| block.language.is_empty())?;
        Some(format!("{}:{}: `{line}`", page.path, block.line))
    };
    let pages = pages(&root()).unwrap();
    let blocks = pages.iter().flat_map(|page| page.blocks().into_iter().map(move |b| (page, b)));
    let wrong: Vec<String> = blocks.filter_map(|(page, block)| unmarked(page, &block)).collect();
    assert!(wrong.is_empty(), "write ```sh, or `$ ` in front: {wrong:#?}");
}

#[test]
fn reasons_not_to_run_belong_to_a_line() {
    let all = [printed(), help::examples()].concat();
    for (page, start, why) in NOT_RUN {
        let there = all.iter().any(|line| line.page == *page && line.text.starts_with(start));
        assert!(there, "{page} prints no line that begins with `{start}` ({why})");
    }
    let run = all.iter().filter(|line| line.block.is_some() && reason(line).is_none()).count();
    assert!(run > 20, "only {run} lines are run");
}
