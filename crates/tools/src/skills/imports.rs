//! Imports of a skill's scripts that no package of the skill brings. Pure, and read without running anything.
//!
//! It is a look at lines, not a parser: an import that only some machines reach (within `try`) is not told, and neither is one
//! of the language's own library or of a file of the skill.

/// Modules that come with Python.
const PYTHON: &str = "\
    abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii \
    bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall \
    compression concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses \
    datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp \
    fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib \
    heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 \
    linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt \
    multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb \
    pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile \
    pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched secrets \
    select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile \
    sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog \
    tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib \
    trace traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings \
    wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// Modules that come with Node.
const NODE: &str = "\
    assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain \
    events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl sea \
    sqlite stream string_decoder sys test timers tls trace_events tty url util v8 vm wasi worker_threads zlib";

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

/// Endings of Node's scripts.
const NODE_ENDINGS: [&str; 4] = [".js", ".mjs", ".cjs", ".ts"];

/// An import that nothing of the skill brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingImport {
    /// The script, below the skill's folder.
    pub(crate) file: String,
    /// The first line that imports it, from 1.
    pub(crate) line: usize,
    /// The problem and the way to mend it, in a sentence.
    pub(crate) message: String,
}

/// Looks through the scripts of a skill, each with its path below the skill's folder. `all` are the paths of all its files, and
/// `packages` those that it declares. Each module is told once.
pub(crate) fn missing<'a>(
    scripts: impl IntoIterator<Item = (&'a str, &'a str)>,
    all: &[&str],
    packages: &[String],
) -> Vec<MissingImport> {
    let mut found: Vec<MissingImport> = Vec::new();
    let mut told: Vec<(bool, String)> = Vec::new();
    for (file, text) in scripts {
        let is_python = file.ends_with(".py");
        let imports = match () {
            () if is_python => python_imports(text),
            () if NODE_ENDINGS.iter().any(|ending| file.ends_with(ending)) => node_imports(text),
            () => continue,
        };
        for (line, module) in imports {
            let is_there = if is_python { python_has(&module, all, packages) } else { node_has(&module) };
            if is_there || told.contains(&(is_python, module.clone())) {
                continue;
            }
            told.push((is_python, module.clone()));
            let message = if is_python { python_way(&module) } else { node_way(&module) };
            found.push(MissingImport { file: file.to_owned(), line, message });
        }
    }
    found
}

/// The package that brings a Python module, as far as is known.
pub(crate) fn package_of(module: &str) -> &str {
    OTHER_NAMES.iter().find(|(name, _)| *name == module).map_or(module, |(_, package)| package)
}

/// The module that a Python program lacked, as its last words say.
pub(crate) fn lacking(output: &str) -> Option<&str> {
    let (_, rest) = output.rsplit_once("ModuleNotFoundError: No module named '")?;
    let module = rest.split('\'').next()?.split('.').next()?;
    let is_name = module.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && !module.is_empty() && module.len() <= 64).then_some(module)
}

/// Returns whether a Python script names a module in an import, on any machine.
pub(crate) fn has_import(text: &str, module: &str) -> bool {
    text.lines().any(|line| python_modules(line.trim_start()).iter().any(|name| name == module))
}

fn python_way(module: &str) -> String {
    let package = package_of(module);
    format!(
        "it imports `{module}`, and no package of the skill brings that; add `{package}` to `dependencies` in SKILL.md, or to \
         requirements.txt: it is installed, after asking, when a command first needs it"
    )
}

fn node_way(module: &str) -> String {
    format!(
        "it imports the Node package `{module}`, and agentd installs none of those for skills; put what it needs into the \
         script, or install it where commands find it"
    )
}

fn python_has(module: &str, all: &[&str], packages: &[String]) -> bool {
    if PYTHON.split_whitespace().any(|known| known == module) {
        return true;
    }
    let of_skill = |path: &&str| path.split('/').any(|part| part.strip_suffix(".py").unwrap_or(part) == module);
    if all.iter().any(of_skill) {
        return true;
    }
    let module_name = normal(module);
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == module).map(|(_, package)| normal(package));
    packages.iter().any(|package| {
        let end = package.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
        let package = normal(&package[..end.unwrap_or(package.len())]);
        // `opencv-python` and `opencv-python-headless` bring the same, as do `python-docx` and `docx`.
        let is_like = |name: &str| {
            package == name || package.starts_with(&format!("{name}-")) || package.ends_with(&format!("-{name}"))
        };
        is_like(&module_name)
            || other.as_deref().is_some_and(|other| is_like(other) || other.starts_with(&format!("{package}-")))
    })
}

fn node_has(module: &str) -> bool {
    module.starts_with("node:") || NODE.split_whitespace().any(|known| known == module)
}

/// A name of a package as an index compares it.
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// The modules that a Python script imports on all machines, each with its line.
fn python_imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The quotes of a text that goes over several lines, and the depth of a block that may fail.
    let mut quotes: Option<&str> = None;
    let mut optional: Option<usize> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let was_quoted = quotes.is_some();
        quotes = quotes_behind(line, quotes);
        let words = line.trim_start();
        if was_quoted || words.is_empty() || words.starts_with('#') {
            continue;
        }
        let depth = line.len() - words.len();
        if optional.is_some_and(|block| depth <= block) {
            optional = None;
        }
        if optional.is_none()
            && (words.starts_with("try:") || words.starts_with("if ") && words.contains("TYPE_CHECKING"))
        {
            optional = Some(depth);
        }
        if optional.is_none() {
            found.extend(python_modules(words).into_iter().map(|module| (number, module)));
        }
    }
    found
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

/// The quotes that are open behind a line.
fn quotes_behind<'a>(line: &str, open: Option<&'a str>) -> Option<&'a str> {
    let mut open = open;
    let mut rest = line;
    loop {
        let next = match open {
            Some(quotes) => rest.find(quotes).map(|at| (at, quotes)),
            None => ["\"\"\"", "'''"].into_iter().filter_map(|quotes| Some((rest.find(quotes)?, quotes))).min(),
        };
        let Some((at, quotes)) = next else { return open };
        open = if open.is_some() { None } else { Some(quotes) };
        rest = &rest[at + quotes.len()..];
    }
}

/// The packages that a Node script imports, each with its line.
fn node_imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.trim_start();
        if words.starts_with("//") || words.starts_with('*') {
            continue;
        }
        for mark in ["require(", "import(", " from ", "import "] {
            for (at, _) in words.match_indices(mark) {
                // `import x from` names its module behind `from`.
                if mark == "import " && at > 0 {
                    continue;
                }
                let rest = words[at + mark.len()..].trim_start();
                let Some(quote) = rest.chars().next().filter(|quote| "'\"`".contains(*quote)) else { continue };
                let Some((path, _)) = rest[1..].split_once(quote) else { continue };
                found.extend(node_package(path).map(|package| (number, package)));
            }
        }
    }
    found
}

fn node_package(path: &str) -> Option<String> {
    if path.is_empty() || path.starts_with(['.', '/', '#']) || path.contains(['$', ' ', '\\']) {
        return None;
    }
    let parts = if path.starts_with('@') { 2 } else { 1 };
    Some(path.split('/').take(parts).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(file: &str, text: &str, all: &[&str], packages: &[&str]) -> Vec<(usize, String)> {
        let packages: Vec<String> = packages.iter().map(|package| (*package).to_owned()).collect();
        let found = missing([(file, text)], all, &packages);
        found.into_iter().map(|missing| (missing.line, missing.message.split('`').nth(1).unwrap().to_owned())).collect()
    }

    #[test]
    fn python_imports_are_found() {
        #[track_caller]
        fn check(text: &str, all: &[&str], packages: &[&str], expected: &[(usize, &str)]) {
            let found = told("scripts/run.py", text, all, packages);
            let found: Vec<(usize, &str)> = found.iter().map(|(line, name)| (*line, name.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
        check("import os, sys\nimport yaml\n", &[], &[], &[(2, "yaml")]);
        check("import yaml\n", &[], &["PyYAML>=6"], &[]);
        check("from PIL import Image\n", &[], &["Pillow"], &[]);
        check("import cv2\n", &[], &["opencv-python==4.1"], &[]);
        check("import docx\n", &[], &["python-docx"], &[]);
        check("import numpy.linalg as l, pandas\n", &[], &["numpy"], &[(1, "pandas")]);
        check("from . import x\nfrom .y import z\n", &[], &[], &[]);
        check("import helper\nfrom lib.a import b\n", &["scripts/helper.py", "scripts/lib/a.py"], &[], &[]);
        check("try:\n    import fast\nexcept ImportError:\n    fast = None\nimport slow\n", &[], &[], &[(5, "slow")]);
        check("if TYPE_CHECKING:\n    import types_only\n", &[], &[], &[]);
        check("\"\"\"Says:\nimport nothing\n\"\"\"\nx = \"\"\"one\"\"\"\nimport real\n", &[], &[], &[(5, "real")]);
        check("def f():\n    import inner  # comment, import no\n    import inner\n", &[], &[], &[(2, "inner")]);
        check("from x to y\nimportant = 1\nfrom_ = 2\n", &[], &[], &[]);
        check("import \nfrom \nimport ,,\nfrom import import\n", &[], &[], &[(4, "import")]);
    }

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
    fn node_imports_are_found() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let found = told("scripts/run.mjs", text, &[], &[]);
            let found: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(found, expected, "{text}");
        }
        check("const fs = require('fs'), x = require(\"left-pad/lib\");", &["left-pad"]);
        check(
            "import sharp from 'sharp';\nimport {a} from \"@scope/name/deep\";\nimport 'node:path';",
            &["sharp", "@scope/name"],
        );
        check("import './local.js'; await import(`../x`); require(name); // require('no')", &["no"]);
        check("// import x from 'y'\n", &[]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,400}") {
            let _ = told("a.py", &text, &[], &[]);
            let _ = told("a.js", &text, &[], &[]);
        }
    }
}
