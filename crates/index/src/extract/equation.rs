//! Equations of Word and PowerPoint as LaTeX: fractions, powers, roots, sums and matrices keep what their letters alone do not say.

use super::xml::{self, Child, Node};

/// Replaces the equations of a part of a document by ones of a single text each; none where there are no equations.
pub(super) fn spelled_out(part: &str) -> Option<String> {
    const CLOSE: &str = "</m:oMath>";
    opening(part)?;
    let mut text = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(start) = opening(rest) {
        let (before, equation) = rest.split_at(start);
        text.push_str(before);
        let Some(end) = equation.find(CLOSE).map(|at| at + CLOSE.len()) else {
            rest = equation;
            break;
        };
        let (equation, after) = equation.split_at(end);
        match xml::parse(equation) {
            Ok(tree) => {
                let latex = tree.nodes().map(children).collect::<String>();
                let latex = guarded(latex.trim());
                text.push_str(&format!("<m:oMath><m:r><m:t>${latex}$</m:t></m:r></m:oMath>"));
            }
            Err(_) => text.push_str(equation),
        }
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// Start of the next equation. A paragraph of them has a name that begins like theirs.
fn opening(part: &str) -> Option<usize> {
    const NAME: &str = "<m:oMath";
    let is_whole = |at: &usize| part[at + NAME.len()..].starts_with(['>', ' ', '\n', '\r', '\t']);
    part.match_indices(NAME).map(|(at, _)| at).find(is_whole)
}

/// Marks that Markdown would be told with a backslash before them, and letters for private use that stand in for them until
/// then: the last ones of all, which no font has.
const GUARDED: [(char, char); 9] = [
    ('\\', '\u{10fff0}'),
    ('<', '\u{10fff1}'),
    ('>', '\u{10fff2}'),
    ('*', '\u{10fff3}'),
    ('[', '\u{10fff4}'),
    (']', '\u{10fff5}'),
    ('_', '\u{10fff6}'),
    ('&', '\u{10fff7}'),
    ('~', '\u{10fff8}'),
];

fn guarded(latex: &str) -> String {
    let other = |letter: char| GUARDED.iter().find(|(own, _)| *own == letter).map_or(letter, |(_, guard)| *guard);
    latex.chars().map(other).collect()
}

/// The text with the marks of its equations as they are.
pub(super) fn released(text: String) -> String {
    if !text.contains(|letter: char| ('\u{10fff0}'..='\u{10fff8}').contains(&letter)) {
        return text;
    }
    let own = |letter: char| GUARDED.iter().find(|(_, guard)| *guard == letter).map_or(letter, |(own, _)| *own);
    text.chars().map(own).collect()
}

fn children(node: &Node) -> String {
    node.nodes().map(latex).collect()
}

/// The part of that name, without the element around it.
fn of(node: &Node, name: &str) -> String {
    node.node(name).map(|part| children(part).trim().to_owned()).unwrap_or_default()
}

/// A property of the element, such as the sign of a sum.
fn property<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let properties = node.nodes().find(|node| node.name.ends_with("Pr"))?;
    properties.node(name).map(|property| property.attribute("val").unwrap_or_default())
}

fn latex(node: &Node) -> String {
    match node.name.as_str() {
        "r" => run(node),
        "f" if property(node, "type") == Some("lin") => format!("{}/{}", of(node, "num"), of(node, "den")),
        "f" if property(node, "type") == Some("noBar") => {
            format!("\\binom{{{}}}{{{}}}", of(node, "num"), of(node, "den"))
        }
        "f" => format!("\\frac{{{}}}{{{}}}", of(node, "num"), of(node, "den")),
        "sSup" => format!("{}^{{{}}}", of(node, "e"), of(node, "sup")),
        "sSub" => format!("{}_{{{}}}", of(node, "e"), of(node, "sub")),
        "sSubSup" => format!("{}_{{{}}}^{{{}}}", of(node, "e"), of(node, "sub"), of(node, "sup")),
        "sPre" => format!("{{}}_{{{}}}^{{{}}}{}", of(node, "sub"), of(node, "sup"), of(node, "e")),
        "rad" => match of(node, "deg") {
            degree if degree.is_empty() => format!("\\sqrt{{{}}}", of(node, "e")),
            degree => format!("\\sqrt[{degree}]{{{}}}", of(node, "e")),
        },
        "nary" => {
            // An integral where nothing is said.
            let mut text = symbols(property(node, "chr").unwrap_or("∫"));
            for (mark, part) in [('_', of(node, "sub")), ('^', of(node, "sup"))] {
                if !part.is_empty() {
                    text.push_str(&format!("{mark}{{{part}}}"));
                }
            }
            format!("{text} {}", of(node, "e"))
        }
        "d" => {
            let inner: Vec<String> = node.nodes().filter(|node| node.name == "e").map(children).collect();
            let between = property(node, "sepChr").unwrap_or("|");
            let (open, close) = (property(node, "begChr").unwrap_or("("), property(node, "endChr").unwrap_or(")"));
            format!("{}{}{}", bracket(open), inner.join(between), bracket(close))
        }
        "m" => {
            let cells =
                |row: &Node| row.nodes().filter(|node| node.name == "e").map(children).collect::<Vec<_>>().join(" & ");
            let rows: Vec<String> = node.nodes().filter(|node| node.name == "mr").map(cells).collect();
            format!("\\begin{{matrix}} {} \\end{{matrix}}", rows.join(" \\\\ "))
        }
        "eqArr" => {
            let rows: Vec<String> = node.nodes().filter(|node| node.name == "e").map(children).collect();
            match rows.as_slice() {
                [one] => one.clone(),
                rows => format!("\\begin{{aligned}} {} \\end{{aligned}}", rows.join(" \\\\ ")),
            }
        }
        "func" => {
            let name = of(node, "fName");
            let name = if name.chars().all(char::is_alphabetic) && KNOWN.contains(&&*name) {
                format!("\\{name}")
            } else {
                name
            };
            format!("{name} {}", of(node, "e"))
        }
        "limLow" => format!("{}_{{{}}}", of(node, "e"), of(node, "lim")),
        "limUpp" => format!("{}^{{{}}}", of(node, "e"), of(node, "lim")),
        "acc" => format!("{}{{{}}}", accent(property(node, "chr").unwrap_or("\u{302}")), of(node, "e")),
        "bar" if property(node, "pos") == Some("top") => format!("\\overline{{{}}}", of(node, "e")),
        "bar" => format!("\\underline{{{}}}", of(node, "e")),
        name if name.ends_with("Pr") => String::new(),
        // Boxes, groups, and what comes later.
        _ => children(node),
    }
}

/// Functions that have a command of their own.
const KNOWN: [&str; 14] =
    ["sin", "cos", "tan", "cot", "log", "ln", "exp", "lim", "max", "min", "sup", "inf", "det", "gcd"];

fn run(node: &Node) -> String {
    let text: String = node.nodes().filter(|node| node.name == "t").map(Node::text).collect();
    let other: String = node
        .children
        .iter()
        .filter_map(|child| match child {
            Child::Text(_) => None,
            Child::Node(node) => (node.name == "br").then_some("\n"),
        })
        .collect();
    symbols(&(text + &other))
}

/// Letters as LaTeX writes them, where it has other names for them. What it also takes as it is stays so.
fn symbols(text: &str) -> String {
    let mut latex = String::with_capacity(text.len());
    for letter in text.chars() {
        let command = match letter {
            '∑' => "\\sum",
            '∏' => "\\prod",
            '∫' => "\\int",
            '∬' => "\\iint",
            '∭' => "\\iiint",
            '∮' => "\\oint",
            '⋀' => "\\bigwedge",
            '⋁' => "\\bigvee",
            '⋃' => "\\bigcup",
            '⋂' => "\\bigcap",
            '∞' => "\\infty",
            '{' | '}' | '%' | '&' | '#' | '$' | '_' => {
                latex.push('\\');
                latex.push(letter);
                continue;
            }
            letter => {
                latex.push(plain(letter));
                continue;
            }
        };
        latex.push_str(command);
    }
    latex
}

/// Letters of mathematics, which are slanted by their number, as those that people search for.
fn plain(letter: char) -> char {
    use unicode_normalization::UnicodeNormalization as _;
    match letter {
        '\u{1d400}'..='\u{1d7ff}' | '\u{210e}' => std::iter::once(letter).nfkc().next().unwrap_or(letter),
        letter => letter,
    }
}

fn bracket(mark: &str) -> &str {
    match mark {
        "{" => "\\{",
        "}" => "\\}",
        "⌊" => "\\lfloor ",
        "⌋" => "\\rfloor ",
        "⌈" => "\\lceil ",
        "⌉" => "\\rceil ",
        "⟨" | "〈" => "\\langle ",
        "⟩" | "〉" => "\\rangle ",
        mark => mark,
    }
}

fn accent(mark: &str) -> &'static str {
    match mark {
        "\u{303}" | "~" => "\\tilde",
        "\u{304}" | "\u{305}" | "¯" => "\\bar",
        "\u{307}" => "\\dot",
        "\u{308}" => "\\ddot",
        "\u{20d7}" | "→" => "\\vec",
        "\u{30c}" => "\\check",
        _ => "\\hat",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(equation: &str, expected: &str) {
        let part = format!("<w:p><m:oMath>{equation}</m:oMath> and</w:p>");
        let wanted = format!("<w:p><m:oMath><m:r><m:t>${expected}$</m:t></m:r></m:oMath> and</w:p>");
        assert_eq!(released(spelled_out(&part).unwrap()), wanted);
    }

    #[test]
    fn equations_keep_their_signs() {
        let t = |text: &str| format!("<m:r><m:t>{text}</m:t></m:r>");
        check(&format!("<m:f><m:num>{}</m:num><m:den>{}</m:den></m:f>", t("2"), t("3")), "\\frac{2}{3}");
        check(&format!("<m:sSup><m:e>{}</m:e><m:sup>{}</m:sup></m:sSup>{}", t("𝑎"), t("2"), t("=b")), "a^{2}=b");
        check(
            &format!(
                "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{}</m:sub><m:sup>{}</m:sup><m:e>{}</m:e></m:nary>",
                t("k=0"),
                t("n"),
                t("k")
            ),
            "\\sum_{k=0}^{n} k",
        );
        check(
            &format!("<m:rad><m:radPr><m:degHide/></m:radPr><m:deg/><m:e>{}</m:e></m:rad>", t("x &lt; 1")),
            "\\sqrt{x < 1}",
        );
        check(&format!("<m:d><m:e>{}</m:e></m:d>", t("x")), "(x)");
        assert_eq!(spelled_out("<w:p/>"), None);
    }
}
