//! House rules that apply to the text of one file.

use std::path::Path;

use super::source::Token;

/// Most lines of a file: longer ones contain more than one idea.
const MAX_LINES: usize = 600;

/// Hosts of registries and build directories, which belong to a machine, not to the project; split so that this file
/// has none.
const LOCAL: [&str; 6] = [
    concat!("/root/.car", "go"),
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("registry.npmjs", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
];

/// The words with which no line of a doc comment begins: a question is not a description.
const QUESTIONS: [&str; 11] = [
    "What", "Which", "Where", "Who", "Whose", "Whom", "How", "Whether", "That", "When", "Why",
];

/// Words in names of constants, and the terms of bounds that stand for them.
const BOUNDS: [(&str, &str); 9] = [
    ("DEEPEST", "MAX_…_DEPTH"),
    ("FEWEST", "MIN"),
    ("LARGEST", "MAX"),
    ("LEAST", "MIN"),
    ("LONGEST", "MAX"),
    ("MOST", "MAX"),
    ("PATIENCE", "TIMEOUT"),
    ("SHORTEST", "MIN"),
    ("SMALLEST", "MIN"),
];

const PRINTING: [&str; 5] = ["dbg", "eprint", "eprintln", "print", "println"];

/// Returns the violations in the text of any file of the repository.
pub(super) fn of_text(text: &str) -> Vec<String> {
    let local = |(number, line): (usize, &str)| {
        let found = LOCAL.iter().find(|place| stands_in(line, place))?;
        Some(format!("line {} mentions {found}", number + 1))
    };
    text.lines().enumerate().filter_map(local).collect()
}

/// Returns whether a line contains this place, and not only a longer path that ends with it.
fn stands_in(line: &str, place: &str) -> bool {
    let starts =
        |(at, _): (usize, &str)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.~$".contains(c));
    line.match_indices(place).any(starts)
}

/// Returns the violations in the text of a Rust file; tables of test cases may be long and need no
/// introduction.
pub(super) fn of_rust(path: &Path, text: &str) -> Vec<String> {
    if path.file_stem().is_some_and(|name| name == "tests") || path.iter().any(|part| part == "tests") {
        return Vec::new();
    }
    let lines = text.lines().count();
    let long =
        (lines > MAX_LINES).then(|| format!("{lines} lines, more than {MAX_LINES}: more than one idea"));
    let undocumented = !text.starts_with("//! ");
    let undocumented = undocumented.then(|| "does not open with `//!` and what it owns".to_owned());
    long.into_iter().chain(undocumented).collect()
}

/// Returns the doc comments of a Rust file that have a line beginning with a question word.
pub(super) fn questions(text: &str) -> Vec<String> {
    let question = |(number, line): (usize, &str)| {
        let line = line.trim_start();
        let words = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
        let first = words
            .split_whitespace()
            .next()?
            .trim_end_matches(|c: char| !c.is_alphanumeric());
        QUESTIONS.contains(&first).then(|| {
            format!(
                "line {}: a doc comment describes, and does not begin with {first:?}",
                number + 1
            )
        })
    };
    text.lines().enumerate().filter_map(question).collect()
}

/// Returns the doc comments of a Rust file that have a block of code: no run of the tests compiles it.
pub(super) fn code(text: &str) -> Vec<String> {
    let fence = |(number, line): (usize, &str)| {
        let line = line.trim_start();
        let words = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
        let fenced = words.trim_start().starts_with("```");
        fenced.then(|| {
            format!(
                "line {}: code in a doc comment is not compiled: make it a test",
                number + 1
            )
        })
    };
    text.lines().enumerate().filter_map(fence).collect()
}

/// Returns the constants whose names have another word for a bound than the house.
pub(super) fn bounds(tokens: &[Token]) -> Vec<String> {
    let named = |pair: &[Token]| {
        let [Token::Name(keyword), Token::Name(name)] = pair else {
            return None;
        };
        let (word, term) = BOUNDS
            .iter()
            .find(|(word, _)| name.split('_').any(|part| part == *word))?;
        ["const", "static"]
            .contains(&keyword.as_str())
            .then(|| format!("the constant {name} is a bound: {term} in place of {word}"))
    };
    tokens.windows(2).filter_map(named).collect()
}

/// Returns the macros with which this file prints.
pub(super) fn prints(tokens: &[Token]) -> Vec<String> {
    let printing = |pair: &[Token]| match pair {
        [Token::Name(name), Token::Punctuation('!')] if PRINTING.contains(&name.as_str()) => {
            Some(format!("prints with {name}!; only the command line does"))
        }
        _ => None,
    };
    tokens.windows(2).filter_map(printing).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::source, *};

    #[test]
    fn places_of_one_machine_are_found() {
        let found = of_text(concat!("a\nb \"/root/.car", "go/c"));
        assert_eq!(found, [concat!("line 2 mentions /root/.car", "go")]);
        let near = concat!("/root/.cart, ~/root/.car", "go, /home/u/root/.car", "go");
        assert_eq!(of_text(near), Vec::<String>::new());
    }

    #[test]
    fn a_rust_file_says_what_it_owns_and_is_not_long() {
        let long = |lines| format!("//! Owns it.{}", "\n".repeat(lines));
        for (path, text, expected) in [
            ("src/a.rs", "//! Owns it.\n".to_owned(), 0),
            ("src/a.rs", "use std::fmt;\n//! Late.".to_owned(), 1),
            ("src/a.rs", long(MAX_LINES), 0),
            ("src/a.rs", long(MAX_LINES + 1), 1),
            ("src/a/tests.rs", long(MAX_LINES + 1), 0),
        ] {
            let found = of_rust(Path::new(path), &text);
            assert_eq!(found.len(), expected, "{path}: {} bytes", text.len());
        }
    }

    #[test]
    fn doc_lines_that_begin_with_a_question_word_are_found() {
        let found =
            questions("//! Owns it.\n///Whose\n    /// Why.\n// What\nfn f() {} /// How\n/// Whatever.\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("line 2: ") && found[1].starts_with("line 3: "),
            "{found:?}"
        );
    }

    #[test]
    fn code_in_doc_comments_is_found() {
        let found = code("//! Owns it.\n/// ```\n    //! ```text\n// ```\nlet a = \"```\";\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn bounds_have_one_name() {
        let text = "const MOST_ROWS: u8 = 1; static PATIENCE: u8 = 2; const MAX_ROWS: u8 = 3; const ALMOST: u8 = 4; use a::LONGEST;";
        let found = bounds(&source::read(text).tokens);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn printing_is_found_and_formatting_is_not() {
        assert_eq!(
            prints(&source::read("fn f() { println!(\"a\") }").tokens).len(),
            1
        );
        let near = "fn f() { writeln!(x, \"println!\"); format!(\"\"); print(x) }";
        assert_eq!(prints(&source::read(near).tokens), Vec::<String>::new());
    }
}
