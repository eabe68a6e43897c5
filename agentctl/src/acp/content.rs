//! Builds the input of a turn from the blocks of a prompt: text, project files by path, and other files to upload.
//! Typed text may begin with a slash command and mention files with `#`, as in a chat. Labels, files and resources are
//! not searched for commands or mentions.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ContentBlock, EmbeddedResource,
    EmbeddedResourceResource, Error, ImageContent, ResourceLink, SessionUpdate, UnstructuredCommandInput,
};
use agentd_core::{context::CompactionStrategy, input::Selection, path, routing::Planning, turn::StartTurn};
use agentd_proto::{MAX_UPLOAD_BYTES, client::Client};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use url::Url;

use super::{
    bridge::Bridge,
    message::{self, Result},
    session::OpenSession,
    tool_call::SessionRoots,
};
use crate::{
    daemon::Daemon,
    failure::Failure,
    mentions::{self, Bundle, MentionSource},
    project,
    repl::own_commands,
    session::Upload,
    terminal::clean_line,
};

/// A part of an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text typed by the user. Only this is searched for mentions and commands.
    Typed(String),
    /// Text from the editor or a document: the path of a file that tools can open, or the title of a link.
    Label(String),
    /// A file to upload; its path is inserted here.
    File { name: String, content: FileContent },
    /// Attached text; its name is inserted here, and the text is appended to the input.
    Context { name: String, text: String },
}

/// Content of a file to upload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    Bytes(Vec<u8>),
    OnDisk(PathBuf),
}

/// Converts the blocks of a prompt.
///
/// # Errors
/// Fails if the prompt is empty or contains an unsupported block.
pub(super) fn read(mut blocks: Vec<ContentBlock>, roots: &SessionRoots) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    // A command must come first, but some editors put files before the text.
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text(_));
    if let Some(at) = blocks.iter().position(is_text)
        && matches!(&blocks[at], ContentBlock::Text(first) if command_in(&first.text).is_some())
    {
        blocks[..=at].rotate_right(1);
    }
    // True if the last block was text that does not end with white space.
    let mut has_open_line = false;
    for block in blocks {
        let ends_within = matches!(&block, ContentBlock::Text(text) if !text.text.ends_with(char::is_whitespace));
        let had_open_line = std::mem::replace(&mut has_open_line, ends_within);
        parts.push(match block {
            // Some editors send additions as separate blocks, so a second text block starts a new paragraph.
            ContentBlock::Text(text) if had_open_line && !text.text.starts_with(char::is_whitespace) => {
                Part::Typed(format!("\n\n{}", text.text))
            }
            ContentBlock::Text(text) => Part::Typed(text.text),
            ContentBlock::Image(image) => read_picture(image, parts.len() + 1)?,
            ContentBlock::ResourceLink(link) => read_link(&link, roots),
            ContentBlock::Resource(resource) => read_resource(resource, roots)?,
            ContentBlock::Audio(_) => {
                return Err(message::invalid_params("audio is not supported; send text, pictures or files"));
            }
            _ => return Err(message::invalid_params("the prompt has a content block of an unknown type")),
        });
    }
    let is_empty = |part: &Part| matches!(part, Part::Typed(text) if text.trim().is_empty());
    if parts.iter().all(is_empty) {
        return Err(message::invalid_params("the prompt is empty"));
    }
    Ok(parts)
}

/// Returns the text of an input, and the number of bytes to search for mentions. `paths` are the paths of the input's
/// files, in order.
pub(super) fn text(parts: &[Part], paths: &[String]) -> (String, usize) {
    let mut text = InputText::default();
    let mut paths = paths.iter();
    for part in parts {
        match part {
            Part::Typed(typed) => text.typed.push_str(typed),
            Part::Label(label) => text.insert(label),
            Part::File { .. } => text.insert(paths.next().map_or("", String::as_str)),
            Part::Context { name, text: context } => {
                text.insert(name);
                text.appended.push_str(&format!("\n\nContent of {name} in the editor:\n\n{context}"));
            }
        }
    }
    let InputText { typed, appended, .. } = text;
    let bytes = typed.len();
    (typed + &appended, bytes)
}

/// An input under construction.
#[derive(Default)]
struct InputText {
    /// Text to search for mentions: typed text and labels. A label that could be a mention is replaced by a number.
    typed: String,
    /// Text appended after `typed`.
    appended: String,
    /// Number of labels explained in `appended`.
    named: usize,
}

impl InputText {
    /// Inserts a label. A label that could be a mention, pass for the user's own sentence, or change the meaning of
    /// typed text is replaced by a number.
    fn insert(&mut self, label: &str) {
        // The space also prevents a label at the start from being parsed as a command.
        if !self.typed.ends_with(char::is_whitespace) {
            self.typed.push(' ');
        }
        let mut words = label.split_whitespace();
        let is_prose = words.nth(1).is_some_and(|word| !word.starts_with('(')) || words.next().is_some();
        if is_prose || label.contains(['@', '`', '~', '>']) {
            self.named += 1;
            self.typed.push_str(&format!("[{}] ", self.named));
            self.appended.push_str(&format!("\n\n[{}] is {label}", self.named));
        } else {
            self.typed.push_str(label);
            self.typed.push(' ');
        }
    }
}

fn read_picture(image: ImageContent, number: usize) -> Result<Part, Error> {
    let ending = match image.mime_type.as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        other => {
            let text = format!("unsupported picture type {}; send PNG, JPEG, GIF or WebP", clean_line(other));
            return Err(message::invalid_params(text));
        }
    };
    let name = image.uri.as_deref().and_then(last_name).filter(|name| name.ends_with(&format!(".{ending}")));
    let name = name.unwrap_or_else(|| format!("picture-{number}.{ending}"));
    Ok(Part::File { name, content: FileContent::Bytes(decode_base64(&image.data)?) })
}

fn decode_base64(data: &str) -> Result<Vec<u8>, Error> {
    let bytes = STANDARD.decode(data.trim_ascii());
    bytes.map_err(|error| message::invalid_params(format!("a file in the prompt is not valid Base64: {error}")))
}

/// Converts a link: a project file to its tool path, another file to an upload, anything else to text.
fn read_link(link: &ResourceLink, roots: &SessionRoots) -> Part {
    let Some((path, address)) = file(&link.uri) else { return link_label(link) };
    let position = address.fragment().map(|part| format!(" ({})", clean_line(part)));
    if let Some(named) = roots.of_tools(&path) {
        return Part::Label(format!("{named}{}", position.unwrap_or_default()));
    }
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if can_upload(&path) => Part::File { name: name.to_owned(), content: FileContent::OnDisk(path) },
        _ => link_label(link),
    }
}

/// Returns the path of a `file:` URL, and the parsed URL.
fn file(uri: &str) -> Option<(PathBuf, Url)> {
    let address = Url::parse(uri).ok().filter(|address| address.scheme() == "file")?;
    Some((address.to_file_path().ok()?, address))
}

/// Returns true if the file may be uploaded. Files in hidden folders often contain secrets, and links are not always
/// made by the user.
fn can_upload(path: &Path) -> bool {
    let Ok(real) = std::fs::canonicalize(path) else { return false };
    let is_hidden = real.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
    let is_file = real.metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_UPLOAD_BYTES as u64);
    is_file && !is_hidden
}

fn link_label(link: &ResourceLink) -> Part {
    let (name, uri) = (clean_line(&link.name), clean_line(&link.uri));
    Part::Label(if name.is_empty() || uri.contains(&name) { uri } else { format!("{name} ({uri})") })
}

fn read_resource(resource: EmbeddedResource, roots: &SessionRoots) -> Result<Part, Error> {
    match resource.resource {
        EmbeddedResourceResource::TextResourceContents(text) => {
            Ok(Part::Context { name: named(&text.uri, roots), text: text.text })
        }
        EmbeddedResourceResource::BlobResourceContents(blob) => {
            let name = last_name(&blob.uri).unwrap_or_else(|| "file".to_owned());
            Ok(Part::File { name, content: FileContent::Bytes(decode_base64(&blob.blob)?) })
        }
        _ => Err(message::invalid_params("a resource in the prompt has neither text nor bytes")),
    }
}

/// Returns the name for a URI: the tool path of a project file, else the URI itself.
fn named(uri: &str, roots: &SessionRoots) -> String {
    file(uri).and_then(|(path, _)| roots.of_tools(&path)).unwrap_or_else(|| clean_line(uri))
}

/// Returns the last path segment of a URI.
fn last_name(uri: &str) -> Option<String> {
    let path = Url::parse(uri).ok().and_then(|address| address.to_file_path().ok());
    let path = path.unwrap_or_else(|| PathBuf::from(uri.split(['?', '#']).next().unwrap_or(uri)));
    let name = path.file_name()?.to_str()?;
    Some(clean_line(name)).filter(|name| !name.is_empty() && !name.contains(':'))
}

const COMPACT: &str = "compact";
const PLAN: &str = "plan";

/// Builds an update with all available commands.
pub(super) async fn available_commands(client: &Client, folder: Option<&Path>) -> SessionUpdate {
    let report = project::load_report(client, folder).await;
    let command = |name: &str, description: &str, hint: &str| {
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(name, description).input(input)
    };
    let mut commands = vec![
        command(COMPACT, "Summarize older history to free space in the window", ""),
        command(PLAN, "Plan a task, without changes before you approve the plan", "task"),
    ];
    let own = own_commands::all(&own_commands::plugins(client).await, report.as_ref()).commands;
    // A command without a description is described by its file name.
    commands.extend(own.iter().map(|own| {
        let description = if own.description.is_empty() { &own.file } else { &own.description };
        command(&own.name, description, &own.argument)
    }));
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// Replaces a turn that begins with a command by the turn that the command defines. Other text that starts with a slash
/// is left unchanged.
///
/// # Errors
/// Fails if the command cannot be used, or a required argument is missing.
pub(super) async fn apply_command(
    start: &mut StartTurn,
    client: &Client,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    let Some(text) = start.text.clone() else { return Ok(()) };
    let typed = start.typed_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(text.len());
    // Text after the typed part stays in the input, but is not an argument of the command.
    let (text, appended) = text.split_at(text.floor_char_boundary(typed));
    let Some((name, arguments)) = command_in(text) else { return Ok(()) };
    let (expanded, typed) = match name {
        COMPACT => {
            start.compact = Some(CompactionStrategy::default());
            (start.text, start.typed_bytes) = (None, None);
            return Ok(());
        }
        PLAN if arguments.is_empty() => {
            return Err(Failure::usage("/plan requires a task").hint("write it after /plan"));
        }
        PLAN => {
            start.planning = Some(Planning::Always);
            (arguments.to_owned(), None)
        }
        name => {
            let report = project::load_report(client, folder).await;
            match own_commands::find(name, &own_commands::plugins(client).await, report.as_ref())? {
                Some(command) => command.words(text, arguments.trim_end()),
                None => return Ok(()),
            }
        }
    };
    let typed = typed.or((!appended.is_empty()).then_some(expanded.len()));
    (start.text, start.typed_bytes) = (Some(expanded + appended), typed.map(|typed| typed as u64));
    Ok(())
}

/// Splits a text that begins with a command into name and arguments.
fn command_in(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    own_commands::is_own_name(name).then(|| (name, arguments.trim_start()))
}

/// Uploads mentioned files, and returns text to append to the input.
pub(super) async fn mentioned_files(
    bridge: &Bridge,
    session: &OpenSession,
    daemon: &Daemon,
    parts: &[Part],
    roots: &SessionRoots,
) -> Result<String> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Typed(text) => Some(text),
        _ => None,
    });
    let found = texts.flat_map(|text| mentions::find(text, &session.folder)).collect();
    let bundle = Bundle::collect(found, &roots.mounts(), MentionSource::Editor);
    let mut named = bundle.named;
    for path in &bundle.copies {
        let receipt = Upload::open(path)?.put(daemon, session.id).await?;
        named.push(format!("#{} is {}", path::shown(&path.display().to_string()), receipt.path));
    }
    for note in &bundle.notes {
        bridge.send_notice(session, note).await;
    }
    let files = if named.is_empty() { String::new() } else { format!("\n\nFiles: {}", named.join("; ")) };
    // The prompt may join a running turn, which accepts only text, so selections are quoted as text.
    Ok(bundle.selections.iter().map(quoted).fold(files, |appended, quote| appended + &quote))
}

fn quoted(Selection { uri, lines, text }: &Selection) -> String {
    let lines = lines.map(|lines| format!(", lines {} to {}", lines.first, lines.last)).unwrap_or_default();
    format!("\n\n{}{lines}:\n\n{text}", path::shown(uri))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{AudioContent, TextContent, TextResourceContents};

    use super::*;

    fn roots(project: &Path) -> SessionRoots {
        SessionRoots { project: Some(project.to_owned()), workspace: "/w".into(), ..SessionRoots::default() }
    }

    fn text_block(text: &str) -> ContentBlock {
        ContentBlock::Text(TextContent::new(text))
    }

    fn link(name: &str, uri: &str) -> ContentBlock {
        ContentBlock::ResourceLink(ResourceLink::new(name, uri))
    }

    #[test]
    fn text_and_links_become_one_prompt() {
        let check = |blocks: Vec<ContentBlock>, expected: &str| {
            let parts = read(blocks, &roots(Path::new("/p"))).unwrap();
            assert_eq!(text(&parts, &[]), (expected.to_owned(), expected.len()));
        };
        check(vec![text_block("Explain "), text_block("it")], "Explain it");
        check(vec![text_block("Explain it"), text_block("The file is a.rs")], "Explain it\n\nThe file is a.rs");
        check(
            vec![text_block("Explain"), link("a.rs", "file:///p/src/a.rs"), text_block("please")],
            "Explain /project/src/a.rs please",
        );
        check(vec![link("a.rs", "file:///p/a.rs#L1:9")], " /project/a.rs (L1:9) ");
        check(
            vec![text_block("See"), link("Rules", "zed:///agent/rules?id=1")],
            "See Rules (zed:///agent/rules?id=1) ",
        );
        check(vec![link("none", "file:///nowhere/none")], " file:///nowhere/none ");
    }

    #[test]
    fn labels_are_not_mentions_or_commands() {
        let check = |blocks: Vec<ContentBlock>, typed: &str, appended: &str| {
            let (text, bytes) = text(&read(blocks, &roots(Path::new("/p"))).unwrap(), &[]);
            assert_eq!((&text[..bytes], &text[bytes..]), (typed, appended));
        };
        let rules = || link("Ask @web_search", "zed:///rules");
        check(vec![text_block("See"), rules()], "See [1] ", "\n\n[1] is Ask @web_search (zed:///rules)");
        let rule = link("a.rs", "file:///p/Never%20ask.txt");
        check(vec![text_block("See"), rule], "See [1] ", "\n\n[1] is /project/Never ask.txt");
        let file = link("x", "file:///p/a%20@web_search");
        check(vec![text_block("`Fix"), file, text_block("now`")], "`Fix [1] now`", "\n\n[1] is /project/a @web_search");
        let embedded = |uri: &str| {
            let contents = TextResourceContents::new("text", uri);
            ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(contents)))
        };
        let content = "\n\nContent of /compact in the editor:\n\ntext";
        check(vec![embedded("/compact"), text_block("this")], " /compact this", content);
    }

    #[test]
    fn slash_command_moves_before_preceding_files() {
        let check = |blocks: Vec<ContentBlock>, expected: &str| {
            let parts = read(blocks, &roots(Path::new("/p"))).unwrap();
            assert_eq!(text(&parts, &[]).0, expected);
        };
        check(
            vec![link("a.rs", "file:///p/a.rs"), text_block("/plan tests for it")],
            "/plan tests for it /project/a.rs ",
        );
        check(vec![link("a.rs", "file:///p/a.rs"), text_block("plan tests")], " /project/a.rs plan tests");
        check(vec![text_block("In"), link("a.rs", "file:///p/a.rs"), text_block("/plan")], "In /project/a.rs /plan");
    }

    #[test]
    fn hidden_file_is_named_but_not_attached() {
        let folder = tempfile::Builder::new().prefix("visible").tempdir().unwrap();
        for name in ["notes.txt", ".env"] {
            let file = folder.path().join(name);
            std::fs::write(&file, "KEY=1").unwrap();
            let parts =
                read(vec![link(name, Url::from_file_path(&file).unwrap().as_str())], &SessionRoots::default()).unwrap();
            assert_eq!(matches!(&parts[0], Part::File { .. }), name == "notes.txt", "{parts:?}");
        }
    }

    #[test]
    fn unsupported_content_is_rejected() {
        let check = |block: ContentBlock, part: &str| {
            let error = read(vec![block], &SessionRoots::default()).unwrap_err();
            assert!(error.message.contains(part), "{error:?}");
        };
        check(ContentBlock::Audio(AudioContent::new("", "audio/wav")), "audio");
        check(ContentBlock::Image(ImageContent::new("", "image/svg+xml")), "image/svg+xml");
        check(ContentBlock::Image(ImageContent::new("!", "image/png")), "Base64");
        check(text_block(" \n"), "empty");
        assert!(read(Vec::new(), &SessionRoots::default()).is_err());
    }
}
