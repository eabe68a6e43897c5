//! Modules that scripts of skills import: which one a failed command lacked, and which package brings it. Pure.

/// Packages whose modules have other names.
const OTHER_NAMES: [(&str, &str); 26] = [
    ("Crypto", "pycryptodome"),
    ("OpenSSL", "pyOpenSSL"),
    ("PIL", "pillow"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "pymupdf"),
    ("git", "GitPython"),
    ("github", "PyGithub"),
    ("jose", "python-jose"),
    ("jwt", "PyJWT"),
    ("magic", "python-magic"),
    ("mpl_toolkits", "matplotlib"),
    ("pkg_resources", "setuptools"),
    ("pptx", "python-pptx"),
    ("psycopg2", "psycopg2-binary"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("slugify", "python-slugify"),
    ("telegram", "python-telegram-bot"),
    ("win32com", "pywin32"),
    ("yaml", "PyYAML"),
];

/// The package that brings a Python module, as far as is known.
pub(super) fn package_of(module: &str) -> &str {
    OTHER_NAMES.iter().find(|(name, _)| *name == module).map_or(module, |(_, package)| package)
}

/// The module that a Python program lacked, as its last words say.
pub(super) fn lacking(output: &str) -> Option<&str> {
    let (_, rest) = output.rsplit_once("ModuleNotFoundError: No module named '")?;
    let module = rest.split('\'').next()?.split('.').next()?;
    let is_name = module.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && !module.is_empty() && module.len() <= 64).then_some(module)
}

/// Returns whether a Python script names a module in an import, on any machine.
pub(super) fn has_import(text: &str, module: &str) -> bool {
    text.lines().any(|line| python_modules(line.trim_start()).iter().any(|name| name == module))
}

/// The top modules that a line imports.
fn python_modules(line: &str) -> Vec<String> {
    let top = |path: &str| {
        let name: String =
            path.trim().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        (!name.is_empty()).then_some(name)
    };
    let line = line.split('#').next().unwrap_or_default();
    if let Some(rest) = line.strip_prefix("from ") {
        let is_import = rest.split_whitespace().nth(1) == Some("import");
        return top(rest).filter(|_| is_import).into_iter().collect();
    }
    let Some(rest) = line.strip_prefix("import ") else { return Vec::new() };
    rest.split(',').filter_map(top).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_import_names_its_module() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(lacking(text), expected, "{text}");
        check("Traceback\nModuleNotFoundError: No module named 'yaml'\n", Some("yaml"));
        check("ModuleNotFoundError: No module named 'google.cloud'", Some("google"));
        check("ModuleNotFoundError: No module named 'a b; x'", None);
        check("ModuleNotFoundError: No module named ''", None);
        check("ImportError: cannot import name", None);
        assert!(has_import("try:\n    import yaml\n", "yaml") && !has_import("# import yaml\n", "yaml"));
        assert_eq!((package_of("yaml"), package_of("rich")), ("PyYAML", "rich"));
    }

    #[test]
    fn modules_of_a_line_are_found() {
        let check = |line: &str, expected: &[&str]| assert_eq!(python_modules(line), expected, "{line}");
        check("import numpy.linalg as l, pandas # import no", &["numpy", "pandas"]);
        check("from PIL import Image", &["PIL"]);
        check("from . import x", &[]);
        check("from x to y", &[]);
        check("important = 1", &[]);
        check("import ,,", &[]);
    }
}
