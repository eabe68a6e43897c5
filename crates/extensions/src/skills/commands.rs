//! Finds the skills that a command refers to by their folders, and the package for a module that a failed command
//! lacked.

use std::path::PathBuf;

use agentd_core::{
    guide::skills_named,
    ports::{SkillPackages, Workspace},
};

use super::{SkillStore, environment::Environments, link};

use crate::files::agreed_folder::lock;

/// Substrings of a command that may run a skill's code with Python.
const PYTHON_MARKS: [&str; 3] = ["python", ".py", "pip"];

/// Folders in which a command finds a skill's programs.
#[derive(Debug)]
pub struct Programs {
    /// Folder of the Python environment.
    pub environment: PathBuf,
    /// Folder of the environment's interpreters, first in `PATH`.
    pub first: PathBuf,
    /// Folder with the programs from the skill's packages, last in `PATH`, so that a package cannot replace `ls`.
    pub last: PathBuf,
}

/// Returns true if a command could need a skill's packages.
pub(super) fn may_need(command: &str) -> bool {
    command.contains("skills") && PYTHON_MARKS.iter().any(|word| command.contains(word))
}

impl SkillStore {
    /// Returns the packages that the command needs and that are not installed.
    pub(super) fn missing_packages(&self, workspace: &Workspace, command: &str) -> Vec<SkillPackages> {
        let packages_of = skills_named(command).into_iter().filter_map(|name| packages_of(workspace, name));
        packages_of.filter(|packages_of| self.0.environments.ready(&packages_of.environment).is_none()).collect()
    }

    /// Records the package for a module that a command lacked, for a skill that the command names and that imports the
    /// module. The command's output alone is not sufficient, because it could request any package.
    pub(super) fn note_import(&self, workspace: &Workspace, command: &str, module: &str) -> Option<String> {
        let _guard = lock(&self.0.linking);
        let package = package_of(module);
        let imports_module =
            |name: &&str| link::imports(workspace, name, module) && link::note_package(workspace, name, package);
        skills_named(command).into_iter().find(imports_module).map(|_| package.to_owned())
    }

    /// Returns the folder with `python`, as a fallback for a command that runs a skill's code.
    pub fn plain_python(&self, command: &str) -> Option<PathBuf> {
        (may_need(command) && !skills_named(command).is_empty()).then(|| self.0.environments.plain())?
    }

    /// Returns the environments for a command. A command that names no skill gets the environment of the session's
    /// only skill with packages.
    pub fn programs(&self, workspace: &Workspace, command: &str) -> Vec<Programs> {
        let mut about: Vec<SkillPackages> =
            skills_named(command).into_iter().filter_map(|name| packages_of(workspace, name)).collect();
        if about.is_empty() {
            let all = link::linked_skills(workspace);
            about = all.iter().filter_map(|name| packages_of(workspace, name)).collect();
            about.truncate(if about.len() == 1 { 1 } else { 0 });
        }
        let ready = about.iter().filter_map(|packages_of| self.0.environments.ready(&packages_of.environment));
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

/// Returns the packages of a skill in the session.
fn packages_of(workspace: &Workspace, name: &str) -> Option<SkillPackages> {
    let packages = link::packages(workspace, name).filter(|packages| !packages.is_empty())?;
    let environment = Environments::name(name, &packages);
    Some(SkillPackages { skill: name.to_owned(), packages, environment })
}

/// Modules and their packages, where the names differ.
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

/// Returns the package that provides a Python module. Defaults to the module's own name.
pub(super) fn package_of(module: &str) -> &str {
    OTHER_NAMES.iter().find(|(name, _)| *name == module).map_or(module, |(_, package)| package)
}

/// Returns the module that a Python program lacked, from the last such error in its output.
pub(super) fn missing_module(output: &str) -> Option<&str> {
    let (_, rest) = output.rsplit_once("ModuleNotFoundError: No module named '")?;
    let module = rest.split('\'').next()?.split('.').next()?;
    let is_name = module.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && !module.is_empty() && module.len() <= 64).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_no_skill_need_no_environment() {
        assert!(may_need("python skills/pdf/x.py") && !may_need("cat skills/pdf/x.md") && !may_need("python x.py"));
    }

    #[test]
    fn missing_module_is_read_from_the_import_error() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(missing_module(text), expected, "{text}");
        check("Traceback\nModuleNotFoundError: No module named 'yaml'\n", Some("yaml"));
        check("ModuleNotFoundError: No module named 'google.cloud'", Some("google"));
        check("ModuleNotFoundError: No module named 'a b; x'", None);
        check("ModuleNotFoundError: No module named ''", None);
        check("ImportError: cannot import name", None);
        assert_eq!((package_of("yaml"), package_of("rich")), ("PyYAML", "rich"));
    }
}
