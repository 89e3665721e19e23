//! Names of modules that Python source imports. Lines are searched without parsing the syntax: a name in a string does
//! no harm, because only installed modules are followed.

use std::collections::BTreeSet;

/// Returns the first components of all absolute imports.
pub(super) fn top_level_imports(source: &str) -> BTreeSet<&str> {
    source.split(['\n', ';']).flat_map(of_statement).collect()
}

/// Ways to load code by a name or path that is computed at run time.
const DYNAMIC: [&str; 6] = [
    "import_module",
    "__import__",
    "runpy",
    "spec_from_file_location",
    "SourceFileLoader",
    "sys.path",
];

/// Returns whether a source may import modules that its statements do not name.
pub(super) fn imports_dynamically(source: &str) -> bool {
    DYNAMIC.iter().any(|way| source.contains(way))
}

fn of_statement(statement: &str) -> Vec<&str> {
    let statement = statement.trim_start();
    let modules = if let Some(rest) = keyword(statement, "from") {
        let mut words = rest.split_whitespace();
        match (words.next(), words.next()) {
            (Some(module), Some("import")) => module,
            (Some(_), Some(_) | None) | (None, _) => return Vec::new(),
        }
    } else if let Some(rest) = keyword(statement, "import") {
        rest
    } else {
        return Vec::new();
    };
    modules.split(',').filter_map(top_level).collect()
}

fn keyword<'s>(statement: &'s str, keyword: &str) -> Option<&'s str> {
    statement
        .strip_prefix(keyword)
        .filter(|rest| rest.starts_with([' ', '\t']))
}

/// Returns `a` of `a.b as c`; `None` for a relative import.
fn top_level(module: &str) -> Option<&str> {
    let name = module.split_whitespace().next()?.split('.').next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric());
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("from importlib.metadata import version" => false; "of a package's own description")]
    #[test_case("import importlib\nx = importlib.import_module(name)" => true; "by a name")]
    #[test_case("__import__('x')" => true; "by the function behind the statement")]
    #[test_case("import sys\nsys.path.insert(0, 'lib')" => true; "from another directory")]
    fn dynamic(source: &str) -> bool {
        imports_dynamically(source)
    }

    #[test_case("import mcp" => vec!["mcp"])]
    #[test_case("from mcp.server import Server" => vec!["mcp"]; "submodule")]
    #[test_case("import a.b as c, d" => vec!["a", "d"]; "several")]
    #[test_case("  import sys; import re" => vec!["re", "sys"]; "one line")]
    #[test_case("from . import x\nfrom .a import b" => Vec::<&str>::new(); "relative")]
    #[test_case("from pathlib\nimporter = 1\nimport\nfrom a" => Vec::<&str>::new(); "no imports")]
    #[test_case("from a import (\n  b,\n)" => vec!["a"]; "over lines")]
    #[test_case("import ../../etc" => Vec::<&str>::new(); "no name")]
    fn imports(source: &str) -> Vec<&str> {
        top_level_imports(source).into_iter().collect()
    }
}
