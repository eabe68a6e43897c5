use agentd_core::{files::StoredInput, model::Slot, turn::StopReason};
use clap::Parser as _;

use super::*;
use crate::{
    args::{Cli, Command},
    render::jsonl,
    samples,
};

fn parse(line: &str) -> Result<RunArgs, clap::Error> {
    let words = ["agentctl", "run"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words)?.command {
        Command::Run(args) => Ok(*args),
        other => panic!("{other:?} is not run"),
    }
}

#[test]
fn everything_that_scripts_rely_on_is_understood() {
    let args = parse(
        "ask - --session 0193 --model code --max-steps 7 -C src:rw --file a.txt --file b.txt --on-interrupt wait \
         --output stream-json",
    )
    .unwrap();
    assert_eq!(args.words, ["ask", "-"]);
    assert_eq!(args.session.session.as_deref(), Some("0193"));
    assert_eq!(args.turn.model, Some(ModelName::Slot(Slot::Code)));
    assert_eq!(args.max_steps.map(NonZeroU32::get), Some(7));
    assert_eq!(args.turn.project, Some("src:rw".parse().unwrap()));
    assert_eq!(args.files, [PathBuf::from("a.txt"), PathBuf::from("b.txt")]);
    assert_eq!(args.on_interrupt, Some(AtInterrupt::Wait));
    assert_eq!(args.output, Output::StreamJson);
    let args = parse("ask").unwrap();
    assert_eq!((args.on_interrupt, args.output, args.session.resume), (None, Output::Text, false));
    assert!(parse("--continue").unwrap().session.resume);
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "ask --session 0193 --continue",
        "ask --model =",
        "ask --max-steps 0",
        "ask --output xml",
        "ask --timeout 0",
        "ask --timeout 5m",
        "ask --on-interrupt maybe",
        "ask --unknown",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn interrupts_are_asked_on_a_terminal_and_denied_elsewhere() {
    assert_eq!(AtInterrupt::choose(None, true, false), Ok(AtInterrupt::Ask));
    assert_eq!(AtInterrupt::choose(None, false, false), Ok(AtInterrupt::Deny));
    assert_eq!(AtInterrupt::choose(Some(AtInterrupt::Wait), true, false), Ok(AtInterrupt::Wait));
    assert_eq!(AtInterrupt::choose(Some(AtInterrupt::Ask), false, false).unwrap_err().exit, Exit::Usage);
    assert_eq!(AtInterrupt::choose(None, true, true), Ok(AtInterrupt::Wait));
    assert_eq!(AtInterrupt::choose(Some(AtInterrupt::Ask), true, true).unwrap_err().exit, Exit::Usage);
}

#[test]
fn the_result_says_where_an_input_is_that_did_not_fit() {
    let result = samples::result(StopReason::Completed);
    let path = "uploads/stdin.txt".to_owned();
    let stored = StoredInput { path, bytes: 126_454, lines: 2500, shown_bytes: 37_000, shown_lines: 700 };
    let notes = TurnNotes { stored: Some(stored), ..TurnNotes::default() };
    let line = jsonl::result(SessionId::generate(), &result, &notes).unwrap();
    let input =
        r#"{"stored_as":"uploads/stdin.txt","bytes":126454,"lines":2500,"shown_bytes":37000,"shown_lines":700}"#;
    assert_eq!(line["input"].to_string(), input);
}
