//! Answers with their texts.

use super::{indexed, project, write};

#[test]
fn an_answer_has_path_lines_symbol_and_text() {
    let folder =
        project(&[("src/shapes.rs", "/// Area of a circle.\nfn circle_area(radius: f64) -> f64 {\n    radius\n}\n")]);
    let code = indexed(folder.path());
    let answers = code.search("area of a circle", "", 3);
    let answer = &answers[0];
    assert_eq!((answer.path.as_str(), answer.first_line, answer.last_line), ("src/shapes.rs", 1, 4));
    assert_eq!(answer.symbol.as_ref().map(|symbol| symbol.name.as_str()), Some("circle_area"));
    assert!(answer.text.starts_with("/// Area of a circle.\nfn circle_area"));
    assert!(!answer.is_stale && answer.score > 0.0);
}

#[test]
fn a_change_behind_the_index_is_told() {
    let folder = project(&[("a.rs", "fn first_version() {}\n")]);
    let code = indexed(folder.path());
    write(folder.path(), "a.rs", b"// a line above\nfn first_version() {}\n");
    assert!(code.search("first_version", "", 1)[0].is_stale);
}
