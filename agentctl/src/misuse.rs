//! Command lines that make no sense: people read clap's words, programs that asked for JSON get a result as well.

use std::ffi::OsString;

use agentd_core::error::ErrorKind;
use clap::error::Error;

use crate::{failure::Failure, report};

/// Ends the process with what clap has to say: also where it is the help that was asked for.
pub(crate) fn end(error: &Error) -> ! {
    if error.use_stderr() && wants_result(std::env::args_os().skip(1)) {
        let failure = Failure::new(ErrorKind::InvalidInput, first_line(error)).hint("agentctl run --help");
        // Whoever closed standard output still gets the exit code.
        let _ = report::json_line(&report::no_result(None, None, &failure, 0));
    }
    error.exit()
}

/// Returns whether a program runs a turn and waits for its result. The words are looked at one by one, because as a
/// whole they could not be read.
fn wants_result(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let is_json = |value: &str| matches!(value, "json" | "stream-json");
    let apart = words.windows(2).any(|pair| pair[0] == "--output" && is_json(&pair[1]));
    let joined = words.iter().any(|word| word.strip_prefix("--output=").is_some_and(is_json));
    words.iter().any(|word| word == "run") && (apart || joined)
}

/// The error without the usage below it.
fn first_line(error: &Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_what_they_ask_for() {
        let check = |line: &str, expected: bool| {
            assert_eq!(wants_result(line.split(' ').map(OsString::from)), expected, "{line}");
        };
        check("run x --output json --model foo", true);
        check("--socket s run x --output=stream-json --max-steps 0", true);
        check("run x --output text --max-steps 0", false);
        check("run x --output", false);
        check("attach --output json", false);
    }
}
