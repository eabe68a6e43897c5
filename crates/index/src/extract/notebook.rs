//! Notebooks of Jupyter: cells, each with what it printed.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Teller, broken, clean};
use crate::{failure::Failure, kind::Kind};

/// Characters of the output of one cell.
const OUTPUT: usize = 10_000;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    let book: Value = serde_json::from_str(&text).map_err(|error| broken(Kind::Ipynb, &error.to_string()))?;
    // The third version has its cells one level deeper.
    let cells = book.get("cells").or_else(|| book.pointer("/worksheets/0/cells")).and_then(Value::as_array);
    let cells = cells.ok_or_else(|| broken(Kind::Ipynb, "it has no cells"))?;
    let language = ["/metadata/kernelspec/language", "/metadata/language_info/name"];
    let language = language.iter().find_map(|at| book.pointer(at)?.as_str()).unwrap_or("python");
    let mut long = Vec::new();
    let shown = |(number, cell)| {
        let (text, is_cut) = shown(number, cell, language);
        long.extend(is_cut.then_some(number));
        text
    };
    let parts: Vec<String> = (1..).zip(cells).map(shown).filter(|cell| !cell.is_empty()).collect();
    let title = parts.iter().flat_map(|part| part.lines()).find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
    teller.head(title.as_deref(), None)?;
    for number in long {
        teller.leave_out(format!("cell {number} printed more than {OUTPUT} characters"));
    }
    teller.unpaged(parts.join("\n\n"))
}

/// A cell with what it printed, and whether that is not all.
fn shown(number: usize, cell: &Value, language: &str) -> (String, bool) {
    let source = cell.get("source").or_else(|| cell.get("input")).map(joined).unwrap_or_default();
    let source = source.trim_end();
    if cell.get("cell_type").and_then(Value::as_str) != Some("code") {
        return (source.to_owned(), false);
    }
    let mut is_cut = false;
    let mut text = format!("[cell {number}]\n```{language}\n{source}\n```");
    for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
        let printed = [output.get("text"), output.pointer("/data/text~1plain"), output.get("evalue")];
        let Some(printed) = printed.into_iter().flatten().next().map(joined) else { continue };
        let error = output.get("ename").and_then(Value::as_str).map(|name| format!("{name}: ")).unwrap_or_default();
        let end = printed.char_indices().nth(OUTPUT).map_or(printed.len(), |(at, _)| at);
        is_cut |= end < printed.len();
        let printed = printed.get(..end).unwrap_or_default().trim_end();
        if !printed.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n\nOutput:\n```\n{error}{printed}\n```");
        }
    }
    (text, is_cut)
}

/// A text that may be told line by line.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_shown_with_what_they_printed() {
        let cell = serde_json::json!({
            "cell_type": "code", "source": ["x = 1\n", "print(x)"],
            "outputs": [{"output_type": "stream", "text": ["1\n"]}, {"ename": "KeyError", "evalue": "'a'"}]
        });
        assert_eq!(
            shown(2, &cell, "python").0,
            "[cell 2]\n```python\nx = 1\nprint(x)\n```\n\nOutput:\n```\n1\n```\n\nOutput:\n```\nKeyError: 'a'\n```"
        );
        assert_eq!(shown(1, &serde_json::json!({"cell_type": "markdown", "source": "# Title\n"}), "").0, "# Title");
        let long = "x".repeat(OUTPUT + 1);
        let (text, is_cut) =
            shown(1, &serde_json::json!({"cell_type": "code", "source": "", "outputs": [{"text": long}]}), "");
        assert!(is_cut && text.len() < OUTPUT + 100);
    }
}
