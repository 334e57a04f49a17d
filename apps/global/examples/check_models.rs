//! Checks models against their counts: cases of a file, in the form of the language suite; by byte
//! code, by the interpreter and, where there is a C compiler, by machine code.

use anyhow::{Context, Result, bail};
use clump_global_apps::murphi::compiled::{CompiledModel, LibraryFolder};
use clump_global_apps::murphi::reader::read;
use clump_global_apps::murphi::serial;
use clump_global_apps::murphi::single::SingleSearch;
use clump_global_apps::murphi::symmetry::SymmetryMode;
use clump_os::console;

/// Returns the counts of a search, as cases have them; `fails` if the model does something wrong.
fn count(text: &str, compiled: bool) -> Result<String> {
    let model = read(text, &[]).map_err(|error| anyhow::anyhow!(error.show("model", text)))?;
    let mut search = SingleSearch::new(model, SymmetryMode::Off).map_err(anyhow::Error::msg)?;
    if compiled {
        let (model, packing) = (&search.engine.model, &search.packing);
        let folder = LibraryFolder::new()?;
        folder.compile(model, packing)?;
        let library = LibraryFolder::library(folder.number());
        let code = CompiledModel::load(&library, model, packing)?;
        search.engine.use_compiled(code);
    }
    search.run()?;
    let states = search.store.count();
    if search.failure.is_some() {
        return Ok("fails".into());
    }
    if !compiled {
        let found = serial::search(&search.engine.model, &search.reduction);
        if (found.states, found.fired) != (states, search.fired) {
            bail!("the interpreter finds {found:?}, and byte code {states}, {}", search.fired);
        }
    }
    Ok(format!("{states} states, {} fired", search.fired))
}

fn main() -> Result<()> {
    let file = std::env::args_os().nth(1).context("usage: check_models FILE")?;
    let text = std::fs::read_to_string(file)?;
    let (mut checked, mut compiles) = (0, true);
    for case in text.split("=== ").skip(1) {
        let (name, rest) = case.split_once('\n').context("a case has a name")?;
        let (expected, model) = rest.split_once('\n').context("a case has counts")?;
        for compiled in [false, true] {
            if compiled && !compiles {
                continue;
            }
            let found = match count(model, compiled) {
                Err(error) if compiled && format!("{error:#}").contains("cannot be started") => {
                    console::err("there is no C compiler: machine code is not checked");
                    compiles = false;
                    continue;
                }
                found => found.with_context(|| name.to_owned())?,
            };
            if Some(found.as_str()) != expected.strip_prefix("> ") {
                bail!("{name}, compiled: {compiled}: {found}, and not {expected}\n{model}");
            }
        }
        checked += 1;
    }
    if checked == 0 {
        bail!("no cases");
    }
    Ok(console::out(&format!("{checked} models have their counts\n"))?)
}
