//! Text of annotations: form fields, text notes and comments.

use hayro_syntax::{
    Pdf,
    object::{Array, Dict, Name, Object, Rect, String as Bytes},
    page::Page,
};

use super::{
    drawing,
    line::{self, Piece},
    turn::View,
};

/// Maximum number of characters per text.
const MAX_LETTERS: usize = 100_000;
/// Maximum number of fields and comments per page.
const MAX_ANNOTATIONS: usize = 5000;
/// Maximum number of ancestors that are searched for a field's inherited property.
const MAX_PARENTS: usize = 10;

/// Annotation texts of a page.
#[derive(Debug, Default)]
pub(super) struct AnnotationTexts {
    /// Form values and notes, each with a rectangle on the stored page: left, bottom, right, top.
    texts: Vec<(String, [f32; 4])>,
    /// Comments, each as a sentence.
    pub(super) comments: Vec<String>,
    /// Names of files attached to the page.
    pub(super) files: Vec<String>,
    /// Description of annotations that exceed a limit, as the end of a sentence.
    pub(super) truncated: Option<String>,
}

impl AnnotationTexts {
    pub(super) fn of(page: &Page<'_>) -> Self {
        let mut annotations = Self::default();
        if let Some(listed) = page.raw().get::<Array<'_>>("Annots") {
            listed.iter::<Dict<'_>>().take(MAX_ANNOTATIONS).for_each(|one| annotations.take(&one));
            if listed.iter::<Dict<'_>>().nth(MAX_ANNOTATIONS).is_some() {
                annotations.truncated = Some(format!("more than {MAX_ANNOTATIONS} fields and comments"));
            }
        }
        annotations
    }

    fn take(&mut self, one: &Dict<'_>) {
        // Invisible, hidden, or not shown on screen.
        const INVISIBLE_FLAGS: u32 = 1 | 1 << 1 | 1 << 5;
        if one.get::<u32>("F").unwrap_or_default() & INVISIBLE_FLAGS != 0 {
            return;
        }
        match one.get::<Name<'_>>("Subtype").as_deref() {
            Some(b"Widget") => self.store(value(one), one),
            Some(b"FreeText" | b"Stamp") => self.store(text(one, "Contents"), one),
            Some(b"Popup" | b"Link") | None => {}
            Some(kind) => {
                let file = one.get::<Object<'_>>("FS").and_then(|file| file_name(&file));
                self.files.extend(file.filter(|_| kind == b"FileAttachment"));
                let comment = text(one, "Contents").map(|comment| self.truncated_text(comment.trim()));
                if let Some(comment) = comment.filter(|comment| !comment.is_empty()) {
                    let by = text(one, "T").filter(|by| !by.trim().is_empty());
                    let by = by.map(|by| format!(" by {}", by.trim())).unwrap_or_default();
                    let comment = comment.split_whitespace().collect::<Vec<_>>().join(" ");
                    self.comments.push(format!("Comment{by}: {comment}"));
                }
            }
        }
    }

    fn truncated_text(&mut self, text: &str) -> String {
        if text.chars().nth(MAX_LETTERS).is_some() {
            let reason = || format!("a field or a comment of more than {MAX_LETTERS} letters");
            self.truncated.get_or_insert_with(reason);
        }
        text.chars().take(MAX_LETTERS).collect()
    }

    /// Stores a text with the rectangle of its annotation.
    fn store(&mut self, text: Option<String>, of: &Dict<'_>) {
        if let (Some(text), Some(place)) = (text, of.get::<Rect>("Rect"))
            && !text.trim().is_empty()
        {
            let text = self.truncated_text(&text);
            self.texts.push((text, drawing::rectangle(&place)));
        }
    }

    /// Returns the texts as pieces in the coordinates of a view.
    pub(super) fn pieces(&self, view: &View) -> Vec<Piece> {
        self.texts.iter().flat_map(|(text, corners)| pieces_of(text, *corners, view)).collect()
    }
}

fn pieces_of(text: &str, [one_x, one_y, other_x, other_y]: [f32; 4], view: &View) -> Vec<Piece> {
    let ((one_x, one_y), (other_x, other_y)) = (view.point((one_x, one_y)), view.point((other_x, other_y)));
    let (left, right, top) = (one_x.min(other_x), one_x.max(other_x), one_y.max(other_y));
    let lines: Vec<&str> = text.lines().collect();
    let size = ((top - one_y.min(other_y)) / lines.len().max(1) as f32 / 1.4).clamp(4.0, 12.0);
    let mut base = top;
    let mut pieces = Vec::new();
    for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
        base -= 1.1 * size;
        let text = line.trim().to_owned();
        pieces.push(Piece { text, left, right, base, size, ..Piece::default() });
    }
    pieces
}

/// Returns the displayed value of a form field.
fn value(field: &Dict<'_>) -> Option<String> {
    let value = inherited_property(field, "V")?;
    match inherited_property(field, "FT")?.into_name()?.as_ref() {
        b"Tx" => display_value(&value),
        b"Ch" => {
            let chosen = match &value {
                Object::Array(several) => several.iter::<Object<'_>>().filter_map(|one| display_value(&one)).collect(),
                one => vec![display_value(one)?],
            };
            let options = inherited_property(field, "Opt").and_then(Object::into_array);
            Some(chosen.into_iter().map(|one| choice_name(options.as_ref(), one)).collect::<Vec<_>>().join(", "))
        }
        // A checked box has any state other than `Off`.
        b"Btn" => (field.get::<Name<'_>>("AS")?.as_ref() != b"Off").then(|| "☒".to_owned()),
        _ => None,
    }
}

/// Returns the displayed name of a choice.
fn choice_name(options: Option<&Array<'_>>, chosen: String) -> String {
    let pairs = options.into_iter().flat_map(|options| options.iter::<Array<'_>>().take(MAX_ANNOTATIONS));
    let mut names = pairs.filter_map(|pair| {
        let mut pair = pair.iter::<Object<'_>>();
        let (name, text) = (pair.next()?, pair.next()?);
        (display_value(&name)? == chosen).then(|| display_value(&text)).flatten()
    });
    names.next().unwrap_or(chosen)
}

fn display_value(value: &Object<'_>) -> Option<String> {
    match value {
        Object::String(text) => Some(line::string(text.as_bytes())),
        Object::Name(name) => Some(name.as_str().to_owned()),
        // Long texts may be stored as a stream.
        Object::Stream(text) => text.decoded_data().ok().map(|text| line::string(&text)),
        _ => None,
    }
}

/// Returns a property of a field, or the inherited property.
fn inherited_property<'a>(field: &Dict<'a>, key: &str) -> Option<Object<'a>> {
    let mut field = field.clone();
    for _ in 0..MAX_PARENTS {
        if let Some(value) = field.get::<Object<'_>>(key).filter(|value| !matches!(value, Object::Null(_))) {
            return Some(value);
        }
        field = field.get::<Dict<'_>>("Parent")?;
    }
    None
}

/// Returns the names of files attached to the document.
pub(super) fn attached_files(document: &Pdf) -> Vec<String> {
    const MAX_DEPTH: usize = 8;
    let mut names = Vec::new();
    let root = || {
        let catalog = document.xref().get::<Dict<'_>>(document.xref().root_id())?;
        catalog.get::<Dict<'_>>("Names")?.get::<Dict<'_>>("EmbeddedFiles")
    };
    let mut level: Vec<Dict<'_>> = root().into_iter().collect();
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for node in &level {
            // The array alternates between names and files.
            let files = node.get::<Array<'_>>("Names").into_iter();
            let files = files.flat_map(|all| all.iter::<Object<'_>>().take(2 * MAX_ANNOTATIONS)).skip(1).step_by(2);
            names.extend(files.filter_map(|file| file_name(&file)));
            let kids = node.get::<Array<'_>>("Kids").into_iter();
            below.extend(kids.flat_map(|kids| kids.iter::<Dict<'_>>().take(MAX_ANNOTATIONS)));
            if names.len() + below.len() > MAX_ANNOTATIONS {
                return names;
            }
        }
        level = below;
    }
    names
}

fn file_name(file: &Object<'_>) -> Option<String> {
    let file = match file {
        Object::String(name) => return Some(line::string(name.as_bytes())),
        Object::Dict(file) => file,
        _ => return None,
    };
    text(file, "UF").or_else(|| text(file, "F")).filter(|name| !name.trim().is_empty())
}

fn text(of: &Dict<'_>, key: &str) -> Option<String> {
    of.get::<Bytes<'_>>(key).map(|text| line::string(text.as_bytes()))
}
