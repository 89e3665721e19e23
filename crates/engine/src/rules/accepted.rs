//! Rules that suppressions may name.

use mcpmon_model::BUILT_IN;

/// Rules that act upon what others find, and the kinds of what those over names, files and several servers find.
const ACTING: [&str; 25] = [
    "argument_inspection",
    "burst",
    "credential",
    "credential_file",
    "cross_server",
    "cross_server_flow",
    "delimiter",
    "dlp",
    "edit",
    "edits",
    "elicitation_poisoning",
    "levenshtein",
    "name_similarity",
    "output_poisoning",
    "output_secrets",
    "owner",
    "read_then_send",
    "sampling_poisoning",
    "shadow_tool",
    "skeleton",
    "skill_manifest",
    "suffix",
    "tool_poisoning",
    "transposition",
    "word_order",
];

/// Returns the names that suppressions may have besides those of the configuration's own patterns: ids of rules, names
/// of findings, and rules that act on findings.
pub fn suppressible() -> impl Iterator<Item = &'static str> {
    let texts = mcpmon_detect::instructions::rules().flat_map(|rule| [rule.id.as_str(), rule.name.as_str()]);
    let installed = mcpmon_detect::inventory::rules()
        .iter()
        .map(|rule| rule.id.as_str());
    ACTING.into_iter().chain(BUILT_IN).chain(texts).chain(installed)
}
