//! Skills that a command refers to: those whose folders it names; and the module that a failed command lacked, with its package.

use std::path::PathBuf;

use agentd_core::{
    guide::skills_named,
    ports::{SkillPackages, Workspace},
};

use super::{SkillStore, environment::Environments, link};

use crate::files::agreed::lock;

/// Words in a command that runs something of a skill with Python.
const RUNS: [&str; 3] = ["python", ".py", "pip"];

/// Folders in which a command finds the programs of a skill.
#[derive(Debug)]
pub struct Programs {
    /// The Python environment.
    pub environment: PathBuf,
    /// The folder of its interpreters, which precedes all others.
    pub first: PathBuf,
    /// The folder of its packages' programs, which follows all others: a package must not decide what `ls` is.
    pub last: PathBuf,
}

/// Returns whether a command could need packages of a skill at all.
pub(super) fn may_need(command: &str) -> bool {
    command.contains("skills") && RUNS.iter().any(|word| command.contains(word))
}

impl SkillStore {
    /// Packages that the command needs and that are not installed.
    pub(super) fn missing_packages(&self, workspace: &Workspace, command: &str) -> Vec<SkillPackages> {
        let wanted = skills_named(command).into_iter().filter_map(|name| wanted(workspace, name));
        wanted.filter(|wanted| self.0.environments.ready(&wanted.environment).is_none()).collect()
    }

    /// Notes the package of a module that a command lacked, for the skill that it names and that imports it. What the
    /// command has printed alone would let anybody have anything asked for.
    pub(super) fn note_import(&self, workspace: &Workspace, command: &str, module: &str) -> Option<String> {
        let _alone = lock(&self.0.linking);
        let package = package_of(module);
        let noted =
            |name: &&str| link::imports(workspace, name, module) && link::note_package(workspace, name, package);
        skills_named(command).into_iter().find(noted).map(|_| package.to_owned())
    }

    /// The folder that a command which runs something of a skill finds `python` in where no other has it.
    pub fn plain_python(&self, command: &str) -> Option<PathBuf> {
        (may_need(command) && !skills_named(command).is_empty()).then(|| self.0.environments.plain())?
    }

    /// The environments that it runs in. A command that names no skill has the packages of the session's only one that
    /// needs any.
    pub fn programs(&self, workspace: &Workspace, command: &str) -> Vec<Programs> {
        let mut about: Vec<SkillPackages> =
            skills_named(command).into_iter().filter_map(|name| wanted(workspace, name)).collect();
        if about.is_empty() {
            let all = link::linked(workspace);
            about = all.iter().filter_map(|name| wanted(workspace, name)).collect();
            about.truncate(if about.len() == 1 { 1 } else { 0 });
        }
        let ready = about.iter().filter_map(|wanted| self.0.environments.ready(&wanted.environment));
        let programs = ready.filter_map(|environment| {
            Some(Programs {
                first: self.0.environments.front(&environment)?,
                last: environment.join("bin"),
                environment,
            })
        });
        programs.collect()
    }
}

/// The packages of a skill that the session has.
fn wanted(workspace: &Workspace, name: &str) -> Option<SkillPackages> {
    let packages = link::packages(workspace, name).filter(|packages| !packages.is_empty())?;
    let environment = Environments::name(name, &packages);
    Some(SkillPackages { skill: name.to_owned(), packages, environment })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_nothing_needs_nothing() {
        assert!(may_need("python skills/pdf/x.py") && !may_need("cat skills/pdf/x.md") && !may_need("python x.py"));
    }

    #[test]
    fn a_failed_import_names_its_module() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(lacking(text), expected, "{text}");
        check("Traceback\nModuleNotFoundError: No module named 'yaml'\n", Some("yaml"));
        check("ModuleNotFoundError: No module named 'google.cloud'", Some("google"));
        check("ModuleNotFoundError: No module named 'a b; x'", None);
        check("ModuleNotFoundError: No module named ''", None);
        check("ImportError: cannot import name", None);
        assert_eq!((package_of("yaml"), package_of("rich")), ("PyYAML", "rich"));
    }
}
