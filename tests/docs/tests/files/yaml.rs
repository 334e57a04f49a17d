//! Files in YAML, by PyYAML where it is, and the command lines of clump in them.

use super::{Verdict, fed, padded};
use anyhow::{Context, Result, ensure};
use clump_docs_tests::check::check;
use clump_docs_tests::page::{Block, Page};
use clump_docs_tests::printed::Printed;
use serde_json::Value;
use std::process::Command;

/// Program that writes all documents of its input as one array in JSON.
const AS_JSON: &str =
    "import sys, json, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";

fn parser(program: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", program]);
    command
}

/// Reads a file in YAML. Objects of Kubernetes have to say what they are, and `command:` of clump
/// has to be one that it takes.
///
/// # Errors
/// Fails if the file is wrong.
pub fn read(page: &Page, block: &Block) -> Result<Verdict> {
    if fed(&mut parser("import yaml"), "").is_err() {
        let why = "nothing here reads YAML; install python3 with PyYAML (python3-yaml)";
        return Ok(Verdict::Skipped(why.into()));
    }
    let documents: Vec<Value> = serde_json::from_str(&fed(&mut parser(AS_JSON), &padded(block))?)?;
    for document in &documents {
        ensure!(document.is_object(), "no mapping: {document}");
        if document.get("apiVersion").is_some() || document.get("spec").is_some() {
            for name in ["/apiVersion", "/kind", "/metadata/name"] {
                let text = document.pointer(name).and_then(Value::as_str);
                text.with_context(|| format!("an object of Kubernetes has no {name}"))?;
            }
        }
        commands(page, block, document)?;
    }
    Ok(Verdict::Right)
}

/// Checks all commands of clump in a value.
fn commands(page: &Page, block: &Block, value: &Value) -> Result<()> {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "command" {
                    command(page, block, field)?;
                }
                commands(page, block, field)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| commands(page, block, item)),
        _ => Ok(()),
    }
}

fn command(page: &Page, block: &Block, value: &Value) -> Result<()> {
    let words = value.as_array().context("`command` takes a list of words")?;
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    let words = words.context("a word of `command` is no text")?;
    if words.first() != Some(&"clump") {
        return Ok(());
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (page, text) = (page.path.clone(), quoted.join(" "));
    let printed = Printed { page, line: block.line, block: Some(block.line), text };
    check(&printed).with_context(|| printed.text.clone())
}

#[test]
fn wrong_objects_of_kubernetes_are_refused() {
    use super::{accepted, refused};
    if fed(&mut parser("import yaml"), "").is_err() {
        println!("SKIPPED refusing wrong YAML: install python3 with PyYAML (python3-yaml)");
        return;
    }
    let job = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
               spec:\n  containers:\n  - command: [clump, run, prog]";
    accepted("yaml", job);
    refused("yaml", &job.replace("name: a", "name a: ["), "line 6");
    refused("yaml", &job.replace("kind", "sort"), "/kind");
    refused("yaml", &job.replace("run, prog", "run, --nods, prog"), "--nods");
    refused("yaml", &job.replace("run, prog", "run, 1"), "no text");
    refused("yaml", "only words", "no mapping");
}
