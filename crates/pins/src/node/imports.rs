//! The imports of a JavaScript source. Words are searched without parsing the syntax: a name in a comment does no harm,
//! because only existing files are followed.

use std::collections::BTreeSet;

/// The imports of a source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeImports {
    /// The names in its statements and calls, unchanged.
    pub(super) names: BTreeSet<String>,
    /// True if the name of an import is computed at run time.
    pub(super) is_dynamic: bool,
}

/// A word that precedes an import.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportKeyword {
    Require,
    Import,
    From,
}

impl NodeImports {
    pub(super) fn of(source: &str) -> Self {
        let mut imports = Self::default();
        for (word, after) in words(source) {
            let after = after.trim_start();
            let (argument, is_call) = match after.strip_prefix('(') {
                Some(argument) => (argument.trim_start(), true),
                None => (after, false),
            };
            match (literal(argument), word) {
                (Some(_), ImportKeyword::Require) if !is_call => {}
                (Some(_), ImportKeyword::From) if is_call => {}
                (Some(name), _) => _ = imports.names.insert(name.to_owned()),
                (None, ImportKeyword::Require | ImportKeyword::Import) => imports.is_dynamic |= is_call,
                (None, ImportKeyword::From) => {}
            }
        }
        imports
    }
}

/// Returns every word that may import, with the text after it.
fn words(source: &str) -> impl Iterator<Item = (ImportKeyword, &str)> {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let known = [
        ("require", ImportKeyword::Require),
        ("import", ImportKeyword::Import),
        ("from", ImportKeyword::From),
    ];
    known.into_iter().flat_map(move |(text, word)| {
        source.match_indices(text).filter_map(move |(at, _)| {
            let (before, after) = (&source[..at], &source[at + text.len()..]);
            let stands_alone = !before.ends_with(part_of_name)
                && !after.starts_with('.')
                && !after.starts_with(part_of_name);
            stands_alone.then_some((word, after))
        })
    })
}

/// Returns the text in quotes at the beginning, if it is a plain literal.
fn literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let (name, _) = text[1..].split_once(quote)?;
    let is_made = name.is_empty() || name.contains(['\n', '\\']) || quote == '`' && name.contains("${");
    (!is_made).then_some(name)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("const a = require('./a'); const { b } = require( \"b\" );" => ("./a b".to_owned(), false); "calls")]
    #[test_case("import './a.js'; import b from \"b\";\nimport {\n c,\n} from './c.mjs'" => ("./a.js ./c.mjs b".to_owned(), false); "statements")]
    #[test_case("export * from './a'; export{b}from'./b'" => ("./a ./b".to_owned(), false); "exports")]
    #[test_case("await import('./a.js'); import(`./b.js`)" => ("./a.js ./b.js".to_owned(), false); "calls of import")]
    #[test_case("x = {...require('./a'), b: module.require('./b')}" => ("./a ./b".to_owned(), false); "calls behind dots")]
    #[test_case("require(name)" => ("".to_owned(), true); "a name that is made")]
    #[test_case("import(`./${name}.js`)" => ("".to_owned(), true); "a name with a part that is made")]
    #[test_case("if (require.main === module) {} import.meta.url; Array.from('x'); required('x'); from = 'x'" => ("".to_owned(), false); "other words")]
    fn imports(source: &str) -> (String, bool) {
        let imports = NodeImports::of(source);
        let names: Vec<_> = imports.names.into_iter().collect();
        (names.join(" "), imports.is_dynamic)
    }
}
