//! The files of a bundle and of a host: which keys are taken from which.

use mcpmon_bundle::BundleFile;

use super::{LoadedDocument, MapEntry, Node, YamlValue, config_of, merge, overlay, read_all, read_one};
use crate::{
    load::KeyPath,
    mistake::{Mistake, Mistakes, Origin},
};

/// The path of a key.
type Keys = &'static [&'static str];

/// The sections that only a host can have: addresses, paths, hooks and keys are not part of a bundle.
const OWN: [Keys; 6] = [
    &["version"],
    &["proxy"],
    &["llm_storage"],
    &["record"],
    &["metrics"],
    &["policy"],
];

/// The keys that a file of a bundle may have.
const fn allowed(file: BundleFile) -> &'static [Keys] {
    match file {
        BundleFile::Policy => &[
            &["version"],
            &["mode"],
            &["mcp"],
            &["network"],
            &["exec"],
            &["dlp"],
        ],
        BundleFile::Suppressions => &[&["version"], &["mcp", "suppressions"]],
        BundleFile::Pins => &[&["version"], &["mcp", "version_pinning", "known"]],
    }
}

/// Reads the policy of a bundle with the settings of a host.
pub(crate) fn read_bundle(bundle: &[(BundleFile, Origin)], own: &[Origin]) -> LoadedDocument {
    let (mut mistakes, mut merged) = policy(bundle, own);
    let mut settings = read_all(bundle.len()..mistakes.origins().len(), &mut mistakes);
    drop(keep(&mut settings, &OWN, ""));
    merged = merge(merged, settings);
    let config = config_of(&mut merged, &mut mistakes);
    LoadedDocument {
        config,
        tree: merged,
        mistakes,
    }
}

/// Reads the policy in a host's files on top of the bundle: keys that the files do not set come from the bundle, except
/// for the keys `apart`, whose values come from the files alone. Returns `None` if the files have no policy.
pub(crate) fn read_on_bundle(
    bundle: &[(BundleFile, Origin)],
    own: &[Origin],
    apart: &[KeyPath],
) -> Option<LoadedDocument> {
    let (mut mistakes, mut merged) = policy(bundle, own);
    let tree = read_all(bundle.len()..mistakes.origins().len(), &mut mistakes);
    if keep(&mut tree.clone(), &OWN, "").is_empty() {
        return None;
    }
    for path in apart {
        merged.remove(path);
    }
    let mut merged = overlay(merged, tree);
    let config = config_of(&mut merged, &mut mistakes);
    Some(LoadedDocument {
        config,
        tree: merged,
        mistakes,
    })
}

/// Merges the files of the bundle, without keys that a bundle may not have; `own` follows them among the origins.
fn policy(bundle: &[(BundleFile, Origin)], own: &[Origin]) -> (Mistakes, Node) {
    let origins = bundle.iter().map(|(_, origin)| origin).chain(own);
    let mut mistakes = Mistakes::new(origins.cloned().collect());
    let mut merged = Node::empty();
    for (index, (file, _)) in bundle.iter().enumerate() {
        let Some(mut tree) = read_one(index, &mut mistakes) else {
            continue;
        };
        for (key, entry) in keep(&mut tree, allowed(*file), "") {
            mistakes.push(Mistake {
                place: entry.place,
                message: refusal(*file, &key),
                key,
                related: None,
            });
        }
        merged = merge(merged, tree);
    }
    (mistakes, merged)
}

fn refusal(file: BundleFile, key: &str) -> String {
    match file {
        BundleFile::Policy => format!(
            "`{key}` is in no bundle: addresses, paths and keys are for each host's own file; remove it here"
        ),
        BundleFile::Suppressions => {
            format!(
                "`{}` holds `mcp.suppressions` only: move this to `policy.yaml`",
                file.name()
            )
        }
        BundleFile::Pins => format!(
            "`{}` holds `mcp.version_pinning.known` only: move this to `policy.yaml`",
            file.name()
        ),
    }
}

/// Removes every key that is not in `allowed`; returns the removed ones.
fn keep(node: &mut Node, allowed: &[Keys], above: &str) -> Vec<(String, MapEntry)> {
    let YamlValue::Map(entries) = &mut node.value else {
        return Vec::new();
    };
    let mut removed = Vec::new();
    let mut kept = Vec::new();
    for mut entry in std::mem::take(entries) {
        let path = match above {
            "" => entry.key.clone(),
            above => format!("{above}.{}", entry.key),
        };
        let below: Vec<Keys> = allowed
            .iter()
            .filter_map(|keys| keys.split_first())
            .filter(|(key, _)| **key == entry.key)
            .map(|(_, below)| below)
            .collect();
        if below.is_empty() {
            removed.push((path, entry));
            continue;
        }
        if !below.iter().any(|keys| keys.is_empty()) {
            removed.extend(keep(&mut entry.node, &below, &path));
        }
        kept.push(entry);
    }
    *entries = kept;
    removed
}
