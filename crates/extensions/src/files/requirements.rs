//! Parses the Python packages that a skill declares. Names with versions are accepted; URLs, paths and options are not.
//! Packages come from the user's own index only, and a skill cannot choose another source.

use super::front::{Flaw, Front, SKILL_FILE};

/// Name of the file that lists packages.
pub(crate) const PACKAGES_FILE: &str = "requirements.txt";
/// Maximum size of a `requirements.txt`, in bytes.
pub(crate) const MAX_FILE: usize = 64 << 10;
/// Maximum number of packages.
const MAX_PACKAGES: usize = 100;
/// Maximum length of one package with the hashes of its wheels, in bytes.
const MAX_LINE: usize = 8 << 10;

/// Checks that each entry is a package. The installer checks the list again, regardless of its source.
///
/// # Errors
/// Returns the first invalid entry.
pub(crate) fn check(packages: &[String]) -> Result<(), Flaw> {
    packages.iter().try_for_each(|written| package(written).map(drop).map_err(|message| Flaw::new(0, message)))
}

/// Returns the packages that a skill needs, from its front matter and its `requirements.txt`.
pub(crate) fn packages(front: &Front, listed: Option<&str>) -> Result<Vec<String>, (&'static str, Flaw)> {
    let mut found = of_list(&front.dependencies).map_err(|flaw| (SKILL_FILE, flaw))?;
    let listed = listed.map_or(Ok(Vec::new()), of_file).map_err(|flaw| (PACKAGES_FILE, flaw))?;
    for package in listed {
        if !found.contains(&package) {
            found.push(package);
        }
    }
    Ok(found)
}

/// Parses the packages in a `requirements.txt`, each as passed to the installer.
///
/// # Errors
/// Returns the first invalid line.
pub(crate) fn of_file(text: &str) -> Result<Vec<String>, Flaw> {
    let mut found: Vec<String> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut bare = without_comment(line).trim().to_owned();
        // A list of hashes continues on the next line.
        while let Some(before) = bare.strip_suffix('\\') {
            let next = lines.next().map(|(_, next)| without_comment(next).trim()).unwrap_or_default();
            bare = format!("{} {next}", before.trim_end());
        }
        if bare.trim().is_empty() {
            continue;
        }
        package(bare.trim())
            .and_then(|package| add(&mut found, package))
            .map_err(|message| Flaw::new(index + 1, message))?;
    }
    Ok(found)
}

/// Parses the packages in front matter. A requirement for Python itself is dropped.
///
/// # Errors
/// Returns the first invalid entry.
pub(crate) fn of_list(listed: &[String]) -> Result<Vec<String>, Flaw> {
    let mut found = Vec::new();
    for written in listed {
        let is_python =
            |package: &str| Reader(package.trim()).name().is_some_and(|name| name.eq_ignore_ascii_case("python"));
        package(written.trim())
            .and_then(|package| if is_python(&package) { Ok(()) } else { add(&mut found, package) })
            .map_err(|message| Flaw::new(0, message))?;
    }
    Ok(found)
}

fn add(found: &mut Vec<String>, package: String) -> Result<(), String> {
    if found.len() >= MAX_PACKAGES {
        return Err(format!("a skill can require at most {MAX_PACKAGES} packages"));
    }
    if !found.contains(&package) {
        found.push(package);
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" #").map_or(line, |at| &line[..at])
}

/// Parses one package: its name, extras, versions, environment marker and wheel hashes. Nothing else is accepted,
/// because installers read options from such lines.
fn package(written: &str) -> Result<String, String> {
    let shown = || written.chars().take(80).collect::<String>();
    if written.len() > MAX_LINE {
        return Err(format!("`{}…` is too long", shown()));
    }
    if written.starts_with('-') {
        return Err(format!("`{}` is an option of pip; list packages only", shown()));
    }
    if written.contains("://") || written.contains('@') || written.starts_with(['.', '/', '~']) {
        return Err(format!("`{}` specifies an install location; list packages of the index only", shown()));
    }
    let mut parts: Vec<&str> = written.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let hashes = parts.split_off(parts.iter().position(|word| word.starts_with('-')).unwrap_or(parts.len()));
    if let Some(option) = hashes.iter().find(|word| !is_hash(word)) {
        let option: String = option.chars().take(80).collect();
        return Err(format!("`{option}` is an option of pip; after a package only --hash=sha256:… is accepted"));
    }
    let requirement = parts.join(" ");
    let mut reader = Reader(&requirement);
    if reader.requirement().is_none() || !reader.0.is_empty() {
        return Err(format!("`{}` is not a package name with versions, such as pypdf>=4", shown()));
    }
    Ok(parts.into_iter().chain(hashes).collect::<Vec<_>>().join(" "))
}

/// Returns true for options like `--hash=sha256:…`.
fn is_hash(word: &str) -> bool {
    let Some((kind, digest)) = word.strip_prefix("--hash=").and_then(|hash| hash.split_once(':')) else { return false };
    let digits = match kind {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    digest.len() == digits && digest.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Version comparisons, longest first.
const COMPARISONS: [&str; 8] = ["===", "~=", "==", "!=", "<=", ">=", "<", ">"];
/// Variables allowed in a marker.
const VARIABLES: [&str; 12] = [
    "python_version",
    "python_full_version",
    "os_name",
    "sys_platform",
    "platform_release",
    "platform_system",
    "platform_version",
    "platform_machine",
    "platform_python_implementation",
    "implementation_name",
    "implementation_version",
    "extra",
];
/// Maximum nesting of parentheses in a marker.
const MAX_DEPTH: usize = 8;

/// Parser for the grammar of PEP 508, without URLs. Anything that does not match is rejected.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn requirement(&mut self) -> Option<()> {
        self.name()?;
        if self.consume("[") && !self.consume("]") {
            self.listed(Self::name)?;
            self.consume("]").then_some(())?;
        }
        let in_parentheses = self.consume("(");
        let rest = self.0.trim_start();
        if in_parentheses || COMPARISONS.iter().any(|comparison| rest.starts_with(comparison)) {
            self.listed(Self::version)?;
        }
        (!in_parentheses || self.consume(")")).then_some(())?;
        if self.consume(";") { self.marker(0) } else { Some(()) }
    }

    /// Parses one or more items, separated by commas.
    fn listed(&mut self, one: impl Fn(&mut Self) -> Option<&'a str>) -> Option<()> {
        one(self)?;
        while self.consume(",") {
            one(self)?;
        }
        Some(())
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = self.run(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))?;
        let is_sound = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        (is_sound(name.chars().next()) && is_sound(name.chars().next_back())).then_some(name)
    }

    fn version(&mut self) -> Option<&'a str> {
        self.any_of(&COMPARISONS)?;
        let version = self.run(|letter| letter.is_ascii_alphanumeric() || ".*+!_-".contains(letter))?;
        version.starts_with(|first: char| first.is_ascii_digit()).then_some(version)
    }

    fn marker(&mut self, depth: usize) -> Option<()> {
        loop {
            if self.consume("(") {
                (depth < MAX_DEPTH).then_some(())?;
                self.marker(depth + 1)?;
                self.consume(")").then_some(())?;
            } else {
                self.value()?;
                self.comparison()?;
                self.value()?;
            }
            if self.any_of(&["and ", "or "]).is_none() {
                return Some(());
            }
        }
    }

    fn comparison(&mut self) -> Option<()> {
        if self.consume("not ") {
            return self.consume("in ").then_some(());
        }
        self.any_of(&COMPARISONS).or_else(|| self.any_of(&["in "])).map(drop)
    }

    /// Parses a variable or a quoted string. Blanks in the string are rejected: an installer would read the rest as an
    /// option.
    fn value(&mut self) -> Option<()> {
        for mark in ["'", "\""] {
            if self.consume(mark) {
                let end = self.0.find(mark)?;
                let text = &self.0[..end];
                self.0 = &self.0[end + 1..];
                let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._+*-".contains(letter);
                return text.chars().all(is_plain).then_some(());
            }
        }
        let name = self.run(|letter| letter.is_ascii_alphanumeric() || letter == '_')?;
        VARIABLES.contains(&name).then_some(())
    }

    fn any_of(&mut self, tokens: &[&'static str]) -> Option<&'static str> {
        tokens.iter().copied().find(|word| self.consume(word))
    }

    /// Consumes a word and blanks before it.
    fn consume(&mut self, word: &str) -> bool {
        let Some(rest) = self.0.trim_start_matches(' ').strip_prefix(word) else { return false };
        self.0 = rest;
        true
    }

    /// Consumes all following characters that fit, and blanks before them.
    fn run(&mut self, fits: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.0.trim_start_matches(' ');
        let end = rest.find(|letter| !fits(letter)).unwrap_or(rest.len());
        let (matched, rest) = rest.split_at(end);
        self.0 = rest;
        (!matched.is_empty()).then_some(matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_accept_packages_and_reject_locations() {
        let accepted = |text: &str, expected: &[&str]| assert_eq!(of_file(text).unwrap(), expected, "{text}");
        accepted("pypdf\n", &["pypdf"]);
        accepted(
            "# tools\n\npypdf >= 4, <6  # reads\npypdf >= 4, <6\nPillow==10.*\n",
            &["pypdf >= 4, <6", "Pillow==10.*"],
        );
        accepted("requests[socks]~=2.0; python_version < '3.12'", &["requests[socks]~=2.0; python_version < '3.12'"]);
        let rejected = |text: &str, line: usize, part: &str| {
            let flaw = of_file(text).unwrap_err();
            assert!(flaw.line == line && flaw.message.contains(part), "{text}: {flaw:?}");
        };
        rejected("a\n--index-url http://evil\n", 2, "option of pip");
        rejected("-e .\n", 1, "option of pip");
        rejected("-r other.txt", 1, "option of pip");
        rejected("a @ https://evil/a.whl", 1, "specifies an install location");
        rejected("git+https://evil/a.git", 1, "specifies an install location");
        rejected("./wheels/a.whl", 1, "specifies an install location");
        rejected("/etc/passwd", 1, "specifies an install location");
        rejected("a$(touch x)", 1, "not a package name");
        rejected("a; import os; os.system('x') & rm", 1, "not a package name");
        rejected("a b c", 1, "not a package name");
        rejected("evilpkg==1.0 --no-binary=evilpkg", 1, "after a package only --hash");
        rejected(&(0..200).map(|n| format!("p{n}\n")).collect::<String>(), 101, "at most");
    }

    #[test]
    fn python_itself_is_not_a_package() {
        let listed = ["python>=3.8", "python-docx>=1", "pypdf"].map(str::to_owned);
        assert_eq!(of_list(&listed).unwrap(), ["python-docx>=1", "pypdf"]);
        assert!(of_list(&["https://x/y.whl".to_owned()]).is_err());
    }

    #[test]
    fn hashes_and_markers_are_accepted() {
        let digest = "0".repeat(64);
        let accepted = |text: &str, expected: &str| assert_eq!(of_file(text).unwrap(), [expected], "{text}");
        accepted(
            &format!("pypdf==4.0 \\\n    --hash=sha256:{digest} \\\n    --hash=sha256:{digest}\n"),
            &format!("pypdf==4.0 --hash=sha256:{digest} --hash=sha256:{digest}"),
        );
        for whole in [
            "a[b,c-d]>=1,<2; (python_version < \"3.12\" or sys_platform == 'win32') and extra != 'x'",
            "a (>=1,!=1.5.*)",
            "a===1.0+local.1",
            "a==1!2.0",
            "zope.interface",
            "a; 'linux' in sys_platform",
            "a; sys_platform not in 'win32'",
            "a[]",
        ] {
            accepted(whole, whole);
        }
    }

    #[test]
    fn hostile_requirement_lines_are_rejected() {
        for line in include_str!("../../tests/corpus/hostile_requirements.txt").lines() {
            let line = line.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r");
            if line.is_empty() || line.starts_with("# ") {
                continue;
            }
            assert!(of_file(&line).is_err(), "{line:?} was accepted");
            assert!(check(std::slice::from_ref(&line)).is_err(), "{line:?} was accepted");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_packages_contain_no_options(text in "[a-z]{1,4}[ a-z0-9=<>;'\"\\[\\](),.*_@/:$\\\\-]{0,30}") {
            if let Ok(package) = package(&text) {
                let options = package.split([' ', '\t']).skip(1);
                for word in options {
                    proptest::prop_assert!(!word.starts_with('-') || is_hash(word), "{package:?}");
                }
                proptest::prop_assert!(!package.contains(['@', '/', '$', '\\']), "{package:?}");
            }
        }
    }
}
