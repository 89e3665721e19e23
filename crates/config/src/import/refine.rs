//! Removal of parts that cannot be used: each is cut out and reported, until the rest is a valid configuration.

use super::{NoteKind, convert::Draft};
use crate::{
    compile,
    load::{self, KeyPath, PathSubject},
};

/// Lists whose elements keep their meaning when any one of their keys is removed.
const TOLERANT: [&str; 1] = ["mcp.servers"];

/// Most removed parts: after each one the whole file is compiled again. A file with more mistakes is not a policy of
/// that tool.
const MAX_CUTS: usize = 500;

/// Removes the parts that cannot be used, until the rest compiles.
pub(super) fn refine(draft: &mut Draft) {
    let mut cuts = 0;
    while let Some(wrong) = first_mistake(draft) {
        cuts += 1;
        if cuts > MAX_CUTS {
            draft.give_up(format!("more than {MAX_CUTS} of its keys cannot be used"));
            return;
        }
        let root = KeyPath::root();
        let is_there = |way: &KeyPath| *way != root && draft.tree.find(way).is_some();
        let Some(cut) = candidates(&wrong).find(is_there) else {
            draft.give_up(wrong.message);
            return;
        };
        let node = draft.tree.nearest(&wrong.path).clone();
        let ours = draft.tree.written(&wrong.path);
        let whole = match cut == wrong.path {
            true => "",
            false => {
                "; the whole rule is left out, because without this condition it would match more than intended"
            }
        };
        draft.note(
            &node,
            NoteKind::LeftOut,
            &ours,
            format!("{}{whole}", wrong.message),
        );
        draft.tree.cut(&cut);
    }
}

struct Wrong {
    path: KeyPath,
    message: String,
    is_unknown: bool,
}

fn first_mistake(draft: &Draft) -> Option<Wrong> {
    let config = match load::config(&draft.tree) {
        Ok(config) => config,
        Err(fault) => {
            return Some(Wrong {
                is_unknown: fault.subject == PathSubject::Key,
                path: fault.path,
                message: fault.message,
            });
        }
    };
    let finding = compile::compile(&config).mistakes.into_iter().next()?;
    Some(Wrong {
        path: finding.path,
        message: finding.message,
        is_unknown: false,
    })
}

/// Returns the paths that may be cut, best first. A rule without one of its conditions would match more than
/// intended, so the whole element of a list is cut; but an unknown key besides the conditions can be cut
/// alone.
fn candidates(wrong: &Wrong) -> impl Iterator<Item = KeyPath> {
    let element = wrong.path.element();
    let beside = |element: &KeyPath| wrong.path.parent().as_ref() == Some(element);
    let keeps_element = element.as_ref().is_none_or(|(list, element)| {
        TOLERANT.contains(&list.as_str()) || (wrong.is_unknown && beside(element))
    });
    let exact = keeps_element.then(|| wrong.path.clone());
    let element = element.map(|(_, element)| element);
    let around = std::iter::successors(wrong.path.parent(), KeyPath::parent);
    exact.into_iter().chain(element).chain(around)
}
