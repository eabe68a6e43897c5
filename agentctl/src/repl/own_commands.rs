//! Slash commands of somebody's own: Markdown files whose text is a prompt, in `commands/` of the person's configuration and in
//! `.agentd/commands/` of the project. They are read when they are used.
//!
//! A project's file is the text of whoever wrote the project. It is sent for nobody but the person who types its name; it
//! names no file of the person and no skill, for only what they type behind the name does; and a link that leads out of
//! the project is not followed. A command of the person's hides one of the project's, and none hides one of the table.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::slash;
use crate::{daemon, failure::Failure, terminal::sanitize::clean_line};

/// The largest file, in bytes.
const LARGEST: u64 = 64 * 1024;
/// Files of one folder that are looked at.
const MOST_FILES: usize = 200;

/// The folder of a person's, below their configuration; and that of a project.
const OF_PERSON: &str = "commands";
const OF_PROJECT: &str = ".agentd/commands";

/// The author of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandOrigin {
    Person,
    Project,
}

impl CommandOrigin {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Person => "yours",
            Self::Project => "the project's",
        }
    }
}

/// A command of somebody's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnCommand {
    pub(super) name: String,
    pub(super) origin: CommandOrigin,
    /// Its file, as people are told of it.
    pub(super) file: String,
    pub(super) description: String,
    /// Its arguments, as it describes them.
    pub(super) argument: String,
    prompt: String,
}

/// The commands that there are, sorted by name, and what is wrong with others, each in a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnCommands {
    pub(super) commands: Vec<OwnCommand>,
    pub(super) problems: Vec<String>,
}

/// A folder of commands.
#[derive(Debug, Clone)]
struct CommandFolder {
    origin: CommandOrigin,
    path: PathBuf,
    /// The folder that nothing in it may lead out of.
    within: Option<PathBuf>,
}

/// The folders, the first before the others.
fn folders(project: Option<&Path>) -> Vec<CommandFolder> {
    let of_person = daemon::config_dir().ok().map(|folder| CommandFolder {
        origin: CommandOrigin::Person,
        path: folder.join(OF_PERSON),
        within: None,
    });
    let of_project = project.map(|project| CommandFolder {
        origin: CommandOrigin::Project,
        path: project.join(OF_PROJECT),
        within: Some(project.to_owned()),
    });
    of_person.into_iter().chain(of_project).collect()
}

/// All commands of the person's and of a project.
pub(super) fn all(project: Option<&Path>) -> OwnCommands {
    collect(&folders(project))
}

/// The command of that name; none if nobody has one.
///
/// # Errors
/// When its file is no command.
pub(super) fn find(name: &str, project: Option<&Path>) -> Result<Option<OwnCommand>, Failure> {
    for folder in folders(project) {
        let path = folder.path.join(format!("{name}.md"));
        match read(&folder, name, &path) {
            Ok(None) => {}
            found => {
                return found.map_err(|problem| {
                    Failure::usage(problem).hint("docs/extending.md says what a command looks like")
                });
            }
        }
    }
    Ok(None)
}

fn collect(folders: &[CommandFolder]) -> OwnCommands {
    let mut found = OwnCommands::default();
    for folder in folders {
        let entries = fs::read_dir(&folder.path).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| has_ending(path)).collect();
        paths.sort();
        if paths.len() > MOST_FILES {
            found.problems.push(format!(
                "{}: only the first {MOST_FILES} of {} commands are listed",
                shown(&folder.path),
                paths.len()
            ));
            paths.truncate(MOST_FILES);
        }
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match read(folder, &name, &path) {
                Ok(Some(command)) if found.commands.iter().any(|known| known.name == command.name) => {
                    found.problems.push(format!("{}: not used, because you have a command of this name", command.file));
                }
                Ok(Some(command)) => found.commands.push(command),
                Ok(None) => {}
                Err(problem) => found.problems.push(problem),
            }
        }
    }
    found.commands.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
}

fn shown(path: &Path) -> String {
    clean_line(&path.display().to_string())
}

/// A file as a command; none where there is no such file. A problem names the file.
fn read(folder: &CommandFolder, name: &str, path: &Path) -> Result<Option<OwnCommand>, String> {
    let file = shown(path);
    let text = match text_of(folder, path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(problem) => return Err(format!("{file}: {problem}")),
    };
    if !slash::is_own_name(name) {
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
        FrontMatter::read(&text).map_err(|problem| format!("{file}: {problem}"))?;
    if prompt.trim().is_empty() {
        return Err(format!("{file}: it has no prompt"));
    }
    let prompt = prompt.trim().to_owned();
    Ok(Some(OwnCommand { name: name.to_owned(), origin: folder.origin, file, description, argument, prompt }))
}

/// The text of a file; none where there is none.
fn text_of(folder: &CommandFolder, path: &Path) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("it cannot be read: {error}");
    let meant = match fs::canonicalize(path) {
        Ok(meant) => meant,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if let Some(within) = &folder.within {
        let within = fs::canonicalize(within).map_err(failed)?;
        if !meant.starts_with(within) {
            return Err("it is a link that leads out of the project".to_owned());
        }
    }
    // Asked before it is opened: opening a pipe would wait for its other end.
    let metadata = fs::metadata(&meant).map_err(failed)?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    if metadata.len() > LARGEST {
        return Err(format!("it is larger than {} KiB", LARGEST / 1024));
    }
    let bytes = fs::read(&meant).map_err(failed)?;
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The parts of a file.
#[derive(Debug, PartialEq, Eq)]
struct FrontMatter {
    description: String,
    argument: String,
    prompt: String,
}

impl FrontMatter {
    /// Reads `key: value` lines between two lines `---`, where the file begins with one. Other keys are those of others.
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
            // Lists, blocks and comments belong to keys that are not ours.
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
    /// The prompt with these arguments. Where it has no place for any, they stand behind it.
    pub(super) fn prompt(&self, arguments: &str) -> String {
        let (prompt, has_place) = filled(&self.prompt, arguments);
        if has_place || arguments.is_empty() { prompt } else { format!("{prompt}\n\n{arguments}") }
    }

    /// The first lines of its prompt, so many, and how many there are besides.
    pub(super) fn first_lines(&self, most: usize) -> (Vec<String>, usize) {
        let lines = self.prompt.lines().take(most).map(clean_line).collect();
        (lines, self.prompt.lines().count().saturating_sub(most))
    }
}

/// A prompt with its arguments in their places, and whether it has any. What an argument says is no place.
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

/// The words of the arguments. What stands in quotes is one.
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
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn arguments_take_their_places() {
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
    fn front_matter_is_optional_and_says_where_it_is_wrong() {
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
    fn commands_are_those_of_the_person_and_then_of_the_project() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("mine/review.md", "---\ndescription: Mine\n---\nReview $1");
        write("mine/compact.md", "Mine");
        write("mine/notes.txt", "no command");
        write("mine/empty.md", "---\ndescription: x\n---\n \n");
        write("app/.agentd/commands/review.md", "Theirs");
        write("app/.agentd/commands/ship-it.md", "Ship $ARGUMENTS");
        write("app/.agentd/commands/bad name.md", "x");
        write("app/.agentd/commands/large.md", &"x".repeat(70_000));
        write("secret.md", "secret");
        symlink(root.path().join("secret.md"), root.path().join("app/.agentd/commands/leak.md")).unwrap();
        symlink("ship-it.md", root.path().join("app/.agentd/commands/alias.md")).unwrap();
        let project = root.path().join("app");
        let folders = [
            CommandFolder { origin: CommandOrigin::Person, path: root.path().join("mine"), within: None },
            CommandFolder { origin: CommandOrigin::Project, path: project.join(OF_PROJECT), within: Some(project) },
        ];
        let found = collect(&folders);
        let names: Vec<_> = found.commands.iter().map(|command| (command.name.as_str(), command.origin)).collect();
        let (mine, theirs) = (CommandOrigin::Person, CommandOrigin::Project);
        assert_eq!(names, [("alias", theirs), ("review", mine), ("ship-it", theirs)]);
        let told = |name: &str, why: &str| {
            assert!(found.problems.iter().any(|problem| problem.contains(name) && problem.contains(why)), "{found:?}");
        };
        assert_eq!(found.problems.len(), 6, "{found:?}");
        told("compact.md", "/compact is a command of the chat");
        told("empty.md", "it has no prompt");
        told("review.md", "you have a command of this name");
        told("bad name.md", "letters, digits");
        told("large.md", "larger than 64 KiB");
        told("leak.md", "leads out of the project");
        assert!(!found.problems.iter().any(|problem| problem.contains("secret")));
        assert_eq!(read(&folders[1], "none", &root.path().join("none.md")), Ok(None));
    }
}
