//! Equations of Word and PowerPoint as text of one line: fractions, powers, roots, sums and matrices keep what their letters alone do
//! not say.

use super::xml::{self, Node};

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
                let line = tree.nodes().map(children).collect::<String>();
                let line = line.trim().replace('&', "&amp;").replace('<', "&lt;");
                text.push_str(&format!("<m:oMath><m:r><m:t>{line}</m:t></m:r></m:oMath>"));
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

fn children(node: &Node) -> String {
    node.nodes().map(linear).collect()
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

fn linear(node: &Node) -> String {
    let part = |name: &str| of(node, name);
    // The letters below and above, as far as there are any.
    let scripts = |below: &str, above: &str| {
        let script = |mark: char, text: String| if text.is_empty() { text } else { format!("{mark}{}", group(text)) };
        script('_', part(below)) + &script('^', part(above))
    };
    let parts = || node.nodes().filter(|node| node.name == "e").map(children);
    match node.name.as_str() {
        "r" => run(node),
        "f" if property(node, "type") == Some("noBar") => format!("({}¦{})", part("num"), part("den")),
        "f" => format!("{}/{}", group(part("num")), group(part("den"))),
        "sSup" | "sSub" | "sSubSup" => group(part("e")) + &scripts("sub", "sup"),
        "sPre" => scripts("sub", "sup") + &part("e"),
        "limLow" | "limUpp" => {
            let (below, above) = if node.name == "limLow" { ("lim", "") } else { ("", "lim") };
            part("e") + &scripts(below, above)
        }
        "rad" => match part("deg") {
            degree if degree.is_empty() => format!("√({})", part("e")),
            degree => format!("({})^(1/{})", part("e"), group(degree)),
        },
        // An integral where nothing is said.
        "nary" => format!("{}{} {}", property(node, "chr").unwrap_or("∫"), scripts("sub", "sup"), part("e")),
        "d" => {
            let mark = |name: &str, usual| property(node, name).unwrap_or(usual);
            let inner: Vec<String> = parts().collect();
            format!("{}{}{}", mark("begChr", "("), inner.join(mark("sepChr", "|")), mark("endChr", ")"))
        }
        "mr" => parts().collect::<Vec<_>>().join(", "),
        "m" => node.nodes().filter(|node| node.name == "mr").map(linear).collect::<Vec<_>>().join("; "),
        "eqArr" => parts().collect::<Vec<_>>().join("; "),
        "func" => format!("{} {}", part("fName"), part("e")),
        "acc" => group(part("e")) + property(node, "chr").unwrap_or("\u{302}"),
        "bar" => group(part("e")) + if property(node, "pos") == Some("top") { "\u{305}" } else { "\u{332}" },
        name if name.ends_with("Pr") => String::new(),
        // Boxes, groups, and what comes later.
        _ => children(node),
    }
}

/// Brackets around what is more than one number or name.
fn group(text: String) -> String {
    if text.chars().all(char::is_alphanumeric) { text } else { format!("({text})") }
}

/// The text of a run. Slanted letters of mathematics become the letters that people search for.
fn run(node: &Node) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    let plain = |letter: char| match letter {
        '\u{1d400}'..='\u{1d7ff}' | '\u{210e}' => std::iter::once(letter).nfkc().next().unwrap_or(letter),
        letter => letter,
    };
    let text: String = node.nodes().filter(|node| node.name == "t").map(Node::text).collect();
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(equation: &str, expected: &str) {
        let part = format!("<w:p><m:oMath>{equation}</m:oMath> and</w:p>");
        let wanted = format!("<w:p><m:oMath><m:r><m:t>{expected}</m:t></m:r></m:oMath> and</w:p>");
        assert_eq!(spelled_out(&part).unwrap(), wanted);
    }

    #[test]
    fn equations_keep_their_signs() {
        let t = |text: &str| format!("<m:r><m:t>{text}</m:t></m:r>");
        check(&format!("<m:f><m:num>{}</m:num><m:den>{}</m:den></m:f>", t("2"), t("a+b")), "2/(a+b)");
        check(&format!("<m:sSup><m:e>{}</m:e><m:sup>{}</m:sup></m:sSup>{}", t("𝑎"), t("2"), t("=b")), "a^2=b");
        check(
            &format!(
                "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{}</m:sub><m:sup>{}</m:sup><m:e>{}</m:e></m:nary>",
                t("k=0"),
                t("n"),
                t("k")
            ),
            "∑_(k=0)^n k",
        );
        check(
            &format!("<m:rad><m:radPr><m:degHide/></m:radPr><m:deg/><m:e>{}</m:e></m:rad>", t("x &lt; 1")),
            "√(x &lt; 1)",
        );
        check(&format!("<m:d><m:e>{}</m:e><m:e>{}</m:e></m:d>", t("x"), t("y")), "(x|y)");
        check(&format!("<m:acc><m:e>{}</m:e></m:acc>", t("x")), "x\u{302}");
        let row = format!("<m:mr><m:e>{}</m:e><m:e>{}</m:e></m:mr>", t("1"), t("0"));
        check(&format!("<m:d><m:e><m:m>{row}{row}</m:m></m:e></m:d>"), "(1, 0; 1, 0)");
        assert_eq!(spelled_out("<w:p/>"), None);
    }
}
