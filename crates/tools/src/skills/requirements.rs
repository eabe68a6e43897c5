//! The Python packages that a skill declares. Names with versions are taken; addresses, paths and options are not: what is
//! installed comes from the person's own index, and nothing that a skill writes decides from where.

use super::front::Flaw;

/// Bytes of a `requirements.txt` at the most.
pub(crate) const MAX_FILE: usize = 64 << 10;
/// Packages at the most.
const MAX_PACKAGES: usize = 100;
/// Bytes of one line.
const MAX_LINE: usize = 300;

/// The packages of a `requirements.txt`, each as it is installed.
///
/// # Errors
/// The first line that is none.
pub(crate) fn of_file(text: &str) -> Result<Vec<String>, Flaw> {
    let mut found: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bare = without_comment(line).trim();
        if bare.is_empty() {
            continue;
        }
        let package = package(bare).map_err(|message| Flaw::new(index + 1, message))?;
        add(&mut found, package).map_err(|message| Flaw::new(index + 1, message))?;
    }
    Ok(found)
}

/// Those that the front matter lists. What it says of Python itself is no package.
///
/// # Errors
/// The first that is none.
pub(crate) fn of_list(listed: &[String]) -> Result<Vec<String>, Flaw> {
    let mut found = Vec::new();
    for written in listed {
        let package = package(written.trim()).map_err(|message| Flaw::new(0, message))?;
        if !package_name(&package).eq_ignore_ascii_case("python") {
            add(&mut found, package).map_err(|message| Flaw::new(0, message))?;
        }
    }
    Ok(found)
}

fn add(found: &mut Vec<String>, package: String) -> Result<(), String> {
    if found.len() >= MAX_PACKAGES {
        return Err(format!("a skill can need {MAX_PACKAGES} packages at the most"));
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

/// One package with its versions and marker.
fn package(written: &str) -> Result<String, String> {
    let shown = || written.chars().take(80).collect::<String>();
    if written.len() > MAX_LINE {
        return Err(format!("`{}…` is too long", shown()));
    }
    if written.starts_with('-') {
        return Err(format!("`{}` is an option of pip; list packages only", shown()));
    }
    if written.contains("://") || written.contains('@') || written.starts_with(['.', '/', '~']) {
        return Err(format!("`{}` names a place to install from; list packages of the index only", shown()));
    }
    let (versions, marker) =
        written.split_once(';').map_or((written, None), |(versions, marker)| (versions, Some(marker)));
    let name = package_name(versions);
    let rest = &versions.trim()[name.len()..];
    let is_sound = !name.is_empty() && is_extras_and_versions(rest) && marker.is_none_or(is_marker);
    if is_sound {
        Ok(written.split_whitespace().collect::<Vec<_>>().join(" "))
    } else {
        Err(format!("`{}` is no package name with versions, such as pypdf>=4", shown()))
    }
}

/// The name that it begins with.
fn package_name(written: &str) -> &str {
    let written = written.trim();
    let end = written.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
    let name = &written[..end.unwrap_or(written.len())];
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) { name } else { "" }
}

/// `[extra,extra]` and then versions.
fn is_extras_and_versions(rest: &str) -> bool {
    let rest = rest.trim();
    let versions = match rest.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((extras, versions))
                if extras.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_., ".contains(letter)) =>
            {
                versions
            }
            _ => return false,
        },
        None => rest,
    };
    let versions = versions.trim();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "<>=!~.,*+-_() ".contains(letter);
    versions.is_empty() || (versions.starts_with(['<', '>', '=', '!', '~', '(']) && versions.chars().all(plain))
}

fn is_marker(marker: &str) -> bool {
    marker.chars().all(|letter| letter.is_ascii_alphanumeric() || "<>=!~.,-_()'\" ".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_taken_and_places_are_not() {
        let taken = |text: &str, expected: &[&str]| assert_eq!(of_file(text).unwrap(), expected, "{text}");
        taken("pypdf\n", &["pypdf"]);
        taken(
            "# tools\n\npypdf >= 4, <6  # reads\npypdf >= 4, <6\nPillow==10.*\n",
            &["pypdf >= 4, <6", "Pillow==10.*"],
        );
        taken("requests[socks]~=2.0; python_version < '3.12'", &["requests[socks]~=2.0; python_version < '3.12'"]);
        let refused = |text: &str, line: usize, part: &str| {
            let flaw = of_file(text).unwrap_err();
            assert!(flaw.line == line && flaw.message.contains(part), "{text}: {flaw:?}");
        };
        refused("a\n--index-url http://evil\n", 2, "option of pip");
        refused("-e .\n", 1, "option of pip");
        refused("-r other.txt", 1, "option of pip");
        refused("a @ https://evil/a.whl", 1, "names a place");
        refused("git+https://evil/a.git", 1, "names a place");
        refused("./wheels/a.whl", 1, "names a place");
        refused("/etc/passwd", 1, "names a place");
        refused("a$(touch x)", 1, "no package name");
        refused("a; import os; os.system('x') & rm", 1, "no package name");
        refused("a b c", 1, "no package name");
        refused(&(0..200).map(|n| format!("p{n}\n")).collect::<String>(), 101, "at the most");
    }

    #[test]
    fn python_itself_is_no_package() {
        let listed = ["python>=3.8", "python-docx>=1", "pypdf"].map(str::to_owned);
        assert_eq!(of_list(&listed).unwrap(), ["python-docx>=1", "pypdf"]);
        assert!(of_list(&["https://x/y.whl".to_owned()]).is_err());
    }
}
