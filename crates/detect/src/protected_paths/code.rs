//! Programs in other languages: which quoted texts may be paths, and whether anything is written.

use super::FileAccess;
use crate::tables::{self, WordList};

/// The functions that write a file in Python, JavaScript, Ruby, Perl, PHP or Lua.
static WRITERS: WordList = tables::PROTECTED_PATHS.list("code", "writers");
/// Bytes of a program that are read.
const MAX_CODE: usize = 256 << 10;

/// The texts in `code` that may be paths, and what may be done to them.
pub(super) fn paths(code: &str) -> Vec<(&str, FileAccess)> {
    let code = &code[..code.floor_char_boundary(MAX_CODE)];
    let lower = code.to_lowercase();
    let access = match WRITERS.iter().any(|writer| lower.contains(writer)) {
        true => FileAccess::Write,
        false => FileAccess::Read,
    };
    let ends = |c: char| matches!(c, '"' | '\'' | '`');
    let may_be = |text: &&str| text.contains(['/', '\\', '.', '~']) && !text.contains('\n');
    code.split(ends)
        .filter(may_be)
        .map(|text| (text, access))
        .collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("open('~/.x','w').write('y')", &[("~/.x", FileAccess::Write), (").write(", FileAccess::Write)]; "written")]
    #[test_case("print(open(\"/x\").read())", &[("/x", FileAccess::Read), (").read())", FileAccess::Read)]; "read")]
    fn texts_of_code(code: &str, expected: &[(&str, FileAccess)]) {
        assert_eq!(paths(code), expected);
    }
}
