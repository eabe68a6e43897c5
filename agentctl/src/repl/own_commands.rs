//! Own slash commands: Markdown files whose text is a prompt. Files in `commands/` of the user's configuration are read
//! when they are used. The daemon lists those of plugins and of `.agentd/commands/` of the project.
//!
//! The text of a project's command comes from the author of the project. It is used only if the user trusts the
//! project, and only if the user types its name. Only the arguments that the user types can mention files and skills.
//! The same applies to commands of plugins. For equal names, commands of the user precede those of plugins, which
//! precede those of the project. No command replaces a builtin one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agentd_core::{
    error::ErrorKind,
    plugin::{PluginReport, PluginState},
    project::{PROJECT_FOLDER, ProjectCommand, ProjectReport, ProjectTrust},
};
use agentd_proto::client::Client;

use super::slash;
pub(crate) use super::slash::is_own_name;
use crate::{daemon, failure::Failure, project, terminal::sanitize::clean_line};

/// Maximum size of a file, in bytes.
const LARGEST: u64 = 64 * 1024;
/// Maximum number of files in a folder.
const MOST_FILES: usize = 200;

/// Folder of commands, in the user's configuration and in that of a project.
const FOLDER: &str = "commands";

/// Author of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOrigin {
    Person,
    Plugin,
    Project,
}

impl CommandOrigin {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Person => "yours",
            Self::Plugin => "a plugin's",
            Self::Project => "the project's",
        }
    }
}

/// Own command of the user, a plugin or a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnCommand {
    pub(crate) name: String,
    pub(super) origin: CommandOrigin,
    /// Name of its file for people.
    pub(crate) file: String,
    pub(crate) description: String,
    /// Description of its arguments.
    pub(crate) argument: String,
    prompt: String,
}

/// Commands sorted by name, and the problems of others, each in a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnCommands {
    pub(crate) commands: Vec<OwnCommand>,
    pub(super) problems: Vec<String>,
}

/// Returns the installed plugins; none if the daemon cannot list them.
pub(crate) async fn plugins(client: &Client) -> Vec<PluginReport> {
    let plugins = client.known_plugins().await.unwrap_or_default();
    plugins.into_iter().filter(|plugin| plugin.state == PluginState::Installed).collect()
}

/// Returns all own commands of the user, of plugins and of a project.
pub(crate) fn all(plugins: &[PluginReport], project: Option<&ProjectReport>) -> OwnCommands {
    let mut found = person_folder().map(|folder| collect(&folder)).unwrap_or_default();
    add_foreign(&mut found, plugins, project);
    found.commands.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

/// Returns the own command with this name, or `None` if there is none.
///
/// # Errors
/// Fails if its file is invalid, or its project is not trusted.
pub(crate) fn find(
    name: &str,
    plugins: &[PluginReport],
    project: Option<&ProjectReport>,
) -> Result<Option<OwnCommand>, Failure> {
    let broken = |problem| Failure::usage(problem).hint("docs/extending.md says what a command looks like");
    if let Some(folder) = person_folder()
        && let Some(command) = read(name, &folder.join(format!("{name}.md"))).map_err(broken)?
    {
        return Ok(Some(command));
    }
    let mut foreign = foreign(plugins, project);
    let Some((origin, file, command)) = foreign.find(|(.., command)| command.name == name) else { return Ok(None) };
    match project.filter(|project| origin == CommandOrigin::Project && project.trust != ProjectTrust::Trusted) {
        Some(project) => {
            let untrusted = format!("/{name} comes from this project, which is not trusted");
            Err(Failure::new(ErrorKind::Conflict, untrusted).hint(project::trust_hint(project)))
        }
        None => parse(origin, name, file, &command.text).map(Some).map_err(broken),
    }
}

/// Returns the commands of plugins and of a project in the order of their precedence, each with a name of its file for
/// people.
fn foreign<'a>(
    plugins: &'a [PluginReport],
    project: Option<&'a ProjectReport>,
) -> impl Iterator<Item = (CommandOrigin, String, &'a ProjectCommand)> {
    let of_plugins = plugins.iter().flat_map(|plugin| {
        let file = move |name: &str| clean_line(&format!("commands/{name}.md of the plugin {}", plugin.name));
        plugin.commands.iter().map(move |command| (CommandOrigin::Plugin, file(&command.name), command))
    });
    let of_project = project.into_iter().flat_map(|project| {
        let folder = project.path.join(PROJECT_FOLDER).join(FOLDER);
        let file = move |name: &str| shown(&folder.join(format!("{name}.md")));
        project.commands.iter().map(move |command| (CommandOrigin::Project, file(&command.name), command))
    });
    of_plugins.chain(of_project)
}

/// Returns the folder of the user's commands.
fn person_folder() -> Option<PathBuf> {
    daemon::config_dir().ok().map(|folder| folder.join(FOLDER))
}

/// Reads the commands of a folder, and the problems of invalid ones.
fn collect(folder: &Path) -> OwnCommands {
    let mut found = OwnCommands::default();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| has_ending(path)).collect();
    paths.sort();
    if paths.len() > MOST_FILES {
        let all = paths.len();
        found.problems.push(format!("{}: only the first {MOST_FILES} of {all} commands are listed", shown(folder)));
        paths.truncate(MOST_FILES);
    }
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match read(&name, &path) {
            Ok(Some(command)) => found.commands.push(command),
            Ok(None) => {}
            Err(problem) => found.problems.push(problem),
        }
    }
    found
}

/// Adds the commands of plugins and of a trusted project, except those whose name is in use. Each omitted command is
/// reported.
fn add_foreign(found: &mut OwnCommands, plugins: &[PluginReport], project: Option<&ProjectReport>) {
    let trusted = project.filter(|project| project.trust == ProjectTrust::Trusted);
    for (origin, file, ProjectCommand { name, text }) in foreign(plugins, trusted) {
        let known = found.commands.iter().find(|known| known.name == *name);
        let because = known.map(|known| match known.origin {
            CommandOrigin::Person => "you have a command of this name".to_owned(),
            CommandOrigin::Plugin | CommandOrigin::Project => format!("of {}", known.file),
        });
        match (parse(origin, name, file, text), because) {
            (Ok(command), None) => found.commands.push(command),
            (Ok(command), Some(because)) => {
                found.problems.push(format!("{}: not used, because {because}", command.file));
            }
            (Err(problem), _) => found.problems.push(problem),
        }
    }
    if let (Some(project), None) = (project.filter(|project| !project.commands.is_empty()), trusted) {
        let many = crate::report::count(project.commands.len(), "command");
        found.problems.push(format!("{many} of this project: not used, because it is not trusted"));
    }
}

fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
}

fn shown(path: &Path) -> String {
    clean_line(&path.display().to_string())
}

/// Reads a command of the user. Returns `None` if the file does not exist. A problem names the file.
fn read(name: &str, path: &Path) -> Result<Option<OwnCommand>, String> {
    let file = shown(path);
    match text_of(path) {
        Ok(Some(text)) => parse(CommandOrigin::Person, name, file, &text).map(Some),
        Ok(None) => Ok(None),
        Err(problem) => Err(format!("{file}: {problem}")),
    }
}

/// Parses a text as a command. A problem names the file.
fn parse(origin: CommandOrigin, name: &str, file: String, text: &str) -> Result<OwnCommand, String> {
    if !is_own_name(name) {
        return Err(format!(
            "{file}: its name may have letters, digits, - and _ only, and begins with one of the first two"
        ));
    }
    if slash::is_builtin(name) {
        return Err(format!(
            "{file}: /{name} is a command of the chat and cannot be replaced; give the file another name"
        ));
    }
    let FrontMatter { description, argument, prompt } =
        FrontMatter::read(text).map_err(|problem| format!("{file}: {problem}"))?;
    if prompt.trim().is_empty() {
        return Err(format!("{file}: it has no prompt"));
    }
    let prompt = prompt.trim().to_owned();
    Ok(OwnCommand { name: name.to_owned(), origin, file, description, argument, prompt })
}

/// Returns the text of a file, or `None` if it does not exist.
fn text_of(path: &Path) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("it cannot be read: {error}");
    // Checked before the file is opened, because opening a pipe would wait for its other end.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    if metadata.len() > LARGEST {
        return Err(format!("it is larger than {} KiB", LARGEST / 1024));
    }
    let bytes = fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Parts of a command's file.
#[derive(Debug, PartialEq, Eq)]
struct FrontMatter {
    description: String,
    argument: String,
    prompt: String,
}

impl FrontMatter {
    /// Reads `key: value` lines between two lines `---` at the start of the file. Unknown keys are ignored, because
    /// other systems define them.
    fn read(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        let mut parts = Self { description: String::new(), argument: String::new(), prompt: String::new() };
        let Some(rest) = text.strip_prefix("---\n") else { return Ok(Self { prompt: text, ..parts }) };
        let mut at = 0;
        for (number, line) in rest.split_inclusive('\n').enumerate() {
            at += line.len();
            let line = line.trim_end();
            if line == "---" {
                rest[at..].clone_into(&mut parts.prompt);
                return Ok(parts);
            }
            // Lists, blocks and comments belong to unknown keys.
            if line.is_empty() || line.starts_with([' ', '\t', '#', '-']) {
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                return Err(format!("line {} of it is no `key: value`", number + 2));
            };
            let value = clean_line(unquoted(value.trim()));
            match key.trim() {
                "description" => parts.description = value,
                "argument-hint" => parts.argument = value,
                _ => {}
            }
        }
        Err("a line `---` is missing behind its first lines".to_owned())
    }
}

fn unquoted(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

impl OwnCommand {
    /// Returns the prompt with these arguments. Without placeholders, the arguments follow the prompt.
    pub(super) fn prompt(&self, arguments: &str) -> String {
        let (prompt, has_place) = filled(&self.prompt, arguments);
        if has_place || arguments.is_empty() { prompt } else { format!("{prompt}\n\n{arguments}") }
    }

    /// Returns the input for a typed line, and the number of its bytes that the user typed, unless it counts as typed
    /// completely. For commands of plugins and projects, only the line counts as typed.
    pub(crate) fn words(&self, line: &str, arguments: &str) -> (String, Option<usize>) {
        let prompt = self.prompt(arguments);
        match self.origin {
            CommandOrigin::Person => (prompt, None),
            CommandOrigin::Plugin | CommandOrigin::Project => {
                let typed = line.trim_end();
                let whose = if self.origin == CommandOrigin::Plugin { "a plugin" } else { "the project's" };
                let text = format!("{typed}\n\nThis command of {whose} stands for:\n\n{prompt}");
                (text, Some(typed.len()))
            }
        }
    }

    /// Returns the first `most` lines of the prompt, and the number of the others.
    pub(super) fn first_lines(&self, most: usize) -> (Vec<String>, usize) {
        let lines = self.prompt.lines().take(most).map(clean_line).collect();
        (lines, self.prompt.lines().count().saturating_sub(most))
    }
}

/// Replaces the placeholders of a prompt, and returns true if there were any. Placeholders in arguments are not
/// replaced.
fn filled(prompt: &str, arguments: &str) -> (String, bool) {
    let words = words(arguments);
    let mut filled = String::with_capacity(prompt.len() + arguments.len());
    let mut has_place = false;
    let mut rest = prompt;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if let Some(after) = behind.strip_prefix("ARGUMENTS") {
            filled.push_str(arguments);
            (rest, has_place) = (after, true);
        } else if let Some(number @ 1..=9) = behind.chars().next().and_then(|c| c.to_digit(10))
            && !behind[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            filled.push_str(words.get(number as usize - 1).map_or("", String::as_str));
            (rest, has_place) = (&behind[1..], true);
        } else {
            filled.push('$');
            rest = behind;
        }
    }
    filled.push_str(rest);
    (filled, has_place)
}

/// Splits the arguments into words. A quoted text is part of one word.
fn words(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in arguments.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_arguments_are_substituted() {
        #[track_caller]
        fn check(prompt: &str, arguments: &str, expected: &str) {
            let command = OwnCommand {
                name: "x".into(),
                origin: CommandOrigin::Person,
                file: String::new(),
                description: String::new(),
                argument: String::new(),
                prompt: prompt.into(),
            };
            assert_eq!(command.prompt(arguments), expected);
        }
        check("Review $ARGUMENTS.", "a.rs b.rs", "Review a.rs b.rs.");
        check("Move $1 to $2, not $3!", "a 'b c'", "Move a to b c, not !");
        check("All: $ARGUMENTS, first: $1", "$2 x", "All: $2 x, first: $2");
        check("Costs $10 or $ 5 or $x or $", "", "Costs $10 or $ 5 or $x or $");
        check("Review it.", "with care", "Review it.\n\nwith care");
        check("Review it.", "", "Review it.");
        check("$1", "it's one", "its one");
        check("$2", "a \"\" b", "");
    }

    #[test]
    fn front_matter_is_optional_and_errors_have_a_location() {
        let parts = |text: &str| FrontMatter::read(text).map(|parts| (parts.description, parts.argument, parts.prompt));
        let of = |one: &str, other: &str, prompt: &str| Ok((one.into(), other.into(), prompt.into()));
        assert_eq!(parts("Do it.\n---\n"), of("", "", "Do it.\n---\n"));
        assert_eq!(
            parts(
                "---\r\ndescription: 'Looks: hard'\r\nargument-hint: [FILE]\r\nallowed-tools:\r\n  - x\r\n---\r\nDo it.\r\n"
            ),
            of("Looks: hard", "[FILE]", "Do it.\n")
        );
        assert_eq!(parts("---\ndescription: x"), Err("a line `---` is missing behind its first lines".into()));
        assert_eq!(parts("---\nname: x\nodd\n---\nDo"), Err("line 3 of it is no `key: value`".into()));
    }

    #[test]
    fn invalid_commands_and_untrusted_projects_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
        write("compact.md", "Mine");
        write("notes.txt", "no command");
        write("empty.md", "---\ndescription: x\n---\n \n");
        write("large.md", &"x".repeat(70_000));
        let command = |name: &str| ProjectCommand { name: name.to_owned(), text: "x".to_owned() };
        let mut project = ProjectReport {
            trust: ProjectTrust::Trusted,
            commands: ["ship-it", "bad name"].map(command).into(),
            ..ProjectReport::default()
        };
        let mut found = collect(root.path());
        add_foreign(&mut found, &[], Some(&project));
        assert_eq!((found.commands.len(), found.problems.len()), (1, 4), "{found:?}");
        let told = |name: &str, why: &str| {
            assert!(found.problems.iter().any(|problem| problem.contains(name) && problem.contains(why)), "{found:?}");
        };
        told("compact.md", "/compact is a command of the chat");
        told("empty.md", "it has no prompt");
        told("large.md", "larger than 64 KiB");
        told("bad name.md", "letters, digits");
        assert_eq!(read("none", &root.path().join("none.md")), Ok(None));
        project.trust = ProjectTrust::Changed;
        let mut found = OwnCommands::default();
        add_foreign(&mut found, &[], Some(&project));
        assert!(found.commands.is_empty() && found.problems[0].contains("not trusted"), "{found:?}");
        assert!(find("ship-it", &[], Some(&project)).is_err());
    }
}
