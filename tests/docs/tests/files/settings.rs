//! Files in TOML: settings of clump, plans of the simulator, machines of virtual time, manifests of
//! cargo.

use super::{Verdict, padded};
use anyhow::{Result, bail};
use clump_boot::config::Config;
use clump_docs_tests::page::{Block, Page};
use clump_sim::NamedPlan;

/// Tables of a manifest of cargo.
const MANIFEST: &[&str] = &["package", "dependencies", "workspace", "profile"];

/// Reads a file in TOML by the parser of the program that takes such files.
///
/// # Errors
/// Fails if that parser does, or if no program takes it.
pub fn toml(page: &Page, block: &Block) -> Result<Verdict> {
    let text = padded(block);
    let table: toml::Table = toml::from_str(&text)?;
    if table.contains_key("world") {
        let plan = NamedPlan::parse(&page.path, &text)?;
        for seed in plan.seeds() {
            plan.runs(seed)?;
        }
        return Ok(Verdict::Right);
    }
    if table.keys().any(|key| MANIFEST.contains(&key.as_str())) {
        return Ok(Verdict::Right);
    }
    if table.contains_key("network") && table.contains_key("node") {
        clump_virtual::Machine::read(&text)?;
        return Ok(Verdict::Right);
    }
    let mut settings = Vec::new();
    for (name, value) in &table {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(_) | toml::Value::Boolean(_) => value.to_string(),
            _ => bail!("`{name}`: no plan (`world = ...`), no manifest, and no setting of clump"),
        };
        settings.push((name.clone(), text));
    }
    Config::of_settings(&settings)?;
    Ok(Verdict::Right)
}

#[test]
fn wrong_settings_plans_and_manifests_are_refused() {
    use super::{accepted, refused};
    accepted("toml", "lanes = 3\nstats = true\nemu = 'L=+1us'");
    refused("toml", "lanes = 0x", "line 4");
    refused("toml", "lans = 3", "lans");
    refused("toml", "stats = 'maybe'", "stats");
    refused("toml", "[lanes]\ncount = 3", "no setting of clump");
    let plan = "about = 'a'\nworld = 'messages'\nseeds = { first = 1, count = 1 }\n";
    accepted("toml", plan);
    refused("toml", &format!("{plan}[cluster]\nrank = 4"), "rank");
    refused("toml", &plan.replace("messages", "massages"), "massages");
    refused("toml", "[node]\nL_us = 1\n[network]\nL_us = 1", "o_send_us");
    accepted("toml", "[dependencies]\nclump = '0.1'");
}
