//! Holds the paths of a file against the table.

use std::collections::BTreeSet;

use super::{
    paths::{self, Path},
    source::Token,
    table::{CRATES, IMPURE, UNITS, Unit},
};

/// What is wrong with one file, a line each.
///
/// `module` is the file's place (`["mcpmon", "cli", "mod"]` without the `mod`), `dependencies` are all crates that the
/// workspace can use.
pub(super) fn violations(
    tokens: &[Token],
    module: &[String],
    dependencies: &BTreeSet<String>,
) -> BTreeSet<String> {
    let (crate_name, inside) = module.split_first().expect("a module lies in a crate");
    let inside = if inside == ["main"] { &[] } else { inside };
    let unit = unit(&module.join("::"));
    let mentioned = paths::mentioned(tokens, inside);
    mentioned
        .iter()
        .filter_map(|path| violation(unit, crate_name, path, dependencies))
        .collect()
}

fn violation(unit: &Unit, crate_name: &str, path: &Path, dependencies: &BTreeSet<String>) -> Option<String> {
    let shown = path.join("::");
    match path.first()?.as_str() {
        "crate" => module_violation(unit, &[crate_name, &path[1..].join("::")].join("::")),
        first if CRATES.iter().any(|(name, _)| *name == first) => module_violation(unit, &shown),
        first if is_standard(first) => {
            let allowed = unit.crates.contains(&first) || (first != "std" && unit.crates.contains(&"std"));
            let impure =
                unit.path.starts_with("mcpmon_core") && IMPURE.iter().any(|impure| touches(path, impure));
            (!allowed || impure).then(|| format!("{} must not use {shown}", unit.path))
        }
        first if dependencies.contains(first) => {
            (!unit.crates.contains(&first)).then(|| format!("{} must not use the crate {first}", unit.path))
        }
        _ => None,
    }
}

fn module_violation(unit: &Unit, path: &str) -> Option<String> {
    let path = path.trim_end_matches("::");
    let target = self::unit(path);
    // A crate's own root holds what belongs to no module: error types, macros, re-exports.
    let own =
        target.path == unit.path || (is_root(target) && unit.path.starts_with(&format!("{}::", target.path)));
    let reaches_all = path
        .strip_suffix("::*")
        .is_some_and(|module| UNITS.iter().any(|unit| is_below(unit.path, module)));
    let allowed = own || unit.modules.contains(&target.path);
    (!allowed || reaches_all).then(|| format!("{} must not use {path}", unit.path))
}

/// The row that a module or an item belongs to.
fn unit(path: &str) -> &'static Unit {
    let mut candidates: Vec<&Unit> = UNITS
        .iter()
        .filter(|unit| unit.path == path || is_below(path, unit.path))
        .collect();
    candidates.sort_by_key(|unit| unit.path.len());
    candidates
        .pop()
        .expect("every crate of the table has a row for its root")
}

fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.starts_with("::"))
}

fn is_root(unit: &Unit) -> bool {
    !unit.path.contains("::")
}

fn is_standard(name: &str) -> bool {
    ["std", "core", "alloc"].contains(&name)
}

/// Whether a path is, lies in, or imports (`*`) what is forbidden; `core` and `std` are one here.
fn touches(path: &Path, forbidden: &str) -> bool {
    let forbidden: Vec<&str> = forbidden.split("::").skip(1).collect();
    let path: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
    match path.split_last() {
        Some((&"*", prefix)) => forbidden.starts_with(prefix) || prefix.starts_with(&forbidden),
        Some(_) | None => path.starts_with(&forbidden),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::source, *};

    fn found(module: &str, text: &str) -> Vec<String> {
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        let dependencies = ["serde", "tokio", "tracing", "aya", "rusqlite"]
            .map(str::to_owned)
            .into();
        violations(&source::read(text).tokens, &module, &dependencies)
            .into_iter()
            .collect()
    }

    #[track_caller]
    fn refused(module: &str, hit: &str, near_miss: &str) {
        assert_eq!(
            found(module, hit).len(),
            1,
            "{module}: {hit}: {:?}",
            found(module, hit)
        );
        assert_eq!(
            found(module, near_miss),
            Vec::<String>::new(),
            "{module}: {near_miss}"
        );
    }

    #[test]
    fn the_core_has_no_files_sockets_environment_clock_or_tasks() {
        let core = "mcpmon_core::decide::pins";
        refused(core, "use std::fs;", "use std::fmt;");
        refused(core, "use std::{fmt, env::var};", "use std::{fmt, borrow::Cow};");
        refused(
            core,
            "use std::net::{IpAddr, TcpStream};",
            "use std::net::{IpAddr, SocketAddr};",
        );
        refused(core, "use std::time::Instant;", "use std::time::Duration;");
        refused(core, "use std::time::*;", "use std::collections::*;");
        refused(
            core,
            "fn f() { std::thread::spawn(g); }",
            "fn f() { std::iter::once(g); }",
        );
        refused(
            core,
            "use std::time as t; fn f() { t::SystemTime::now(); }",
            "use std::time as t; fn f(x: t::Duration) {}",
        );
        refused(core, "use tokio::sync;", "use serde_like::sync;");
        refused(core, "fn f() { tracing::info!(x); }", "fn f() { log::info!(x); }");
    }

    #[test]
    fn layers_are_used_downwards_only() {
        refused(
            "mcpmon_core::model::ids",
            "use crate::policy::Policy;",
            "use crate::model::ServerId;",
        );
        refused(
            "mcpmon_core::model::ids",
            "use super::super::decide;",
            "use super::digest;",
        );
        refused(
            "mcpmon_core::inspect",
            "fn f(x: crate::policy::Policy) {}",
            "fn f(x: crate::model::Event) {}",
        );
        refused(
            "mcpmon_core::policy::network",
            "use crate::inspect::launch;",
            "use super::server;",
        );
        refused(
            "mcpmon::record::store",
            "use mcpmon_core::decide::pins;",
            "use mcpmon_core::model::Event;",
        );
        refused(
            "mcpmon::record",
            "use crate::intercept::kernel;",
            "use crate::record::store;",
        );
        refused(
            "mcpmon::intercept::kernel",
            "use rusqlite::Row;",
            "use aya::Ebpf;",
        );
        refused(
            "mcpmon::intercept",
            "use crate::agent::x;",
            "use mcpmon_common::event;",
        );
        refused(
            "mcpmon::config",
            "use crate::{config, intercept};",
            "use crate::{config};",
        );
        refused("mcpmon::agent", "use crate::cli;", "use crate::{config, record};");
        refused(
            "mcpmon::cli::commands::doctor",
            "use mcpmon_core::decide;",
            "use crate::agent;",
        );
        refused("mcpmon::agent", "use crate::*;", "use crate::config::*;");
    }

    #[test]
    fn the_kernel_side_knows_the_abi_and_nothing_else() {
        refused(
            "mcpmon_ebpf::connect",
            "use mcpmon_core::policy;",
            "use mcpmon_common::event;",
        );
        refused("mcpmon_ebpf::connect", "use std::fmt;", "use core::fmt;");
        refused("mcpmon_common::event", "use serde::Serialize;", "use aya::Pod;");
        refused(
            "mcpmon_common::event",
            "fn f() { alloc::vec::Vec::new(); }",
            "fn f() { core::mem::size_of::<u8>(); }",
        );
    }

    #[test]
    fn the_binary_only_starts_the_command_line() {
        refused(
            "mcpmon::main",
            "fn main() { mcpmon::agent::run() }",
            "fn main() { mcpmon::cli::run() }",
        );
    }

    #[test]
    fn rows_are_named_once_and_name_rows() {
        let mut names = BTreeSet::new();
        for unit in &UNITS {
            assert!(names.insert(unit.path), "{} has two rows", unit.path);
        }
        for unit in &UNITS {
            for module in unit.modules {
                assert!(
                    names.contains(module),
                    "{} may use {module}, which has no row",
                    unit.path
                );
            }
        }
    }
}
