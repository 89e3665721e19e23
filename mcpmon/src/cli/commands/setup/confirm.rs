//! The question to a person at a terminal before files are changed.

use std::io::{self, BufRead, IsTerminal as _};

use crate::cli::{CliError, output::Output};

/// Longest answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Returns whether a person can see a question and answer it.
pub(in crate::cli::commands) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether to continue. Any answer but a yes is a no; then `refusal` is printed.
pub(in crate::cli::commands) fn ask(
    question: &str,
    refusal: &str,
    answers: &mut dyn BufRead,
    output: &mut Output<'_>,
) -> Result<bool, CliError> {
    output.prompt(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    io::Read::take(answers, MAX_ANSWER_BYTES).read_line(&mut answer)?;
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        output.note(refusal)?;
    }
    Ok(is_yes)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::cli::output::Form;

    #[test_case("y\n" => true)]
    #[test_case(" YES\r\n" => true; "a longer yes")]
    #[test_case("n\n" => false)]
    #[test_case("\n" => false; "only the end of a line")]
    #[test_case("" => false; "the end of the terminal")]
    #[test_case("yesterday\n" => false)]
    fn only_a_yes_is_a_yes(answer: &str) -> bool {
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::plain(&mut data, &mut notes, Form::Table);
        let refusal = "nothing was changed";
        let is_yes = ask(
            "Change 1 file of a client?",
            refusal,
            &mut answer.as_bytes(),
            &mut output,
        );
        let is_yes = is_yes.expect("written");
        let notes = String::from_utf8(notes).expect("text");
        let end = if is_yes { "" } else { "nothing was changed\n" };
        assert_eq!(notes, format!("Change 1 file of a client? [y/N] {end}"));
        assert_eq!(data, b"");
        is_yes
    }
}
