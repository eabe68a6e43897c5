//! Texts that stand on a page and are not part of it: values of forms, notes that were put on it, and comments.

use std::collections::HashMap;

use pdf_oxide::{PdfDocument, object::Object};

use super::{line::Piece, string, turn::View};

/// Characters that are read of one.
const MOST_LETTERS: usize = 4000;
/// Fields and comments of a page that are looked at.
const MOST: usize = 5000;
/// Fields above a field that are asked for its value.
const PARENTS: usize = 10;

type Dictionary = HashMap<String, Object>;

/// Texts beside the content of a page.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Filled in or put on the page, with their places as it is stored: left, bottom, right, top.
    texts: Vec<(String, [f32; 4])>,
    /// Comments, in a sentence each.
    pub(super) comments: Vec<String>,
    /// Names of files that are attached to a place of the page.
    pub(super) files: Vec<String>,
}

impl Beside {
    pub(super) fn of(document: &PdfDocument, page: usize) -> Self {
        let mut beside = Self::default();
        let Ok(object) = document.get_page(page) else { return beside };
        let Some(listed) = object.as_dict().and_then(|page| resolved(document, page.get("Annots")?)) else {
            return beside;
        };
        for one in listed.as_array().into_iter().flatten().take(MOST) {
            if let Some(one) = resolved(document, one)
                && let Some(dictionary) = one.as_dict()
            {
                beside.take(document, dictionary);
            }
        }
        beside
    }

    fn take(&mut self, document: &PdfDocument, one: &Dictionary) {
        let get = |key: &str| one.get(key).and_then(|value| resolved(document, value));
        // Not to be seen, on a screen at least.
        const UNSEEN: i64 = 1 | 1 << 1 | 1 << 5;
        let flags = get("F").and_then(|flags| flags.as_integer()).unwrap_or_default();
        if flags & UNSEEN != 0 {
            return;
        }
        let contents = || get("Contents").as_ref().and_then(Object::as_string).map(string::text);
        match get("Subtype").as_ref().and_then(Object::as_name) {
            Some("Widget") => self.put(value(document, one), get("Rect")),
            Some("FreeText" | "Stamp") => self.put(contents(), get("Rect")),
            Some("Popup" | "Link") | None => {}
            Some(kind) => {
                let file = get("FS").and_then(|file| file_name(document, &file));
                if let Some(file) = file.filter(|_| kind == "FileAttachment") {
                    self.files.push(file);
                }
                let text = contents().map(|text| text.trim().chars().take(MOST_LETTERS).collect::<String>());
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    let by = get("T").as_ref().and_then(Object::as_string).map(string::text);
                    let by = by.filter(|by| !by.trim().is_empty()).map(|by| format!(" by {}", by.trim()));
                    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    self.comments.push(format!("Comment{}: {text}", by.unwrap_or_default()));
                }
            }
        }
    }

    fn put(&mut self, text: Option<String>, place: Option<Object>) {
        let (Some(text), Some(place)) = (text, place) else { return };
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "points on a page")]
        let number = |object: &Object| match object {
            Object::Integer(number) => Some(*number as f32),
            Object::Real(number) => Some(*number as f32).filter(|number| number.is_finite()),
            _ => None,
        };
        let corners: Vec<f32> = place.as_array().into_iter().flatten().filter_map(number).collect();
        if let (Ok(corners), false) = (corners.try_into(), text.trim().is_empty()) {
            self.texts.push((text, corners));
        }
    }

    /// The texts where the view shows them.
    pub(super) fn pieces(&self, view: &View) -> Vec<Piece> {
        self.texts.iter().flat_map(|(text, corners)| pieces_of(text, *corners, view)).collect()
    }
}

fn pieces_of(text: &str, [one_x, one_y, other_x, other_y]: [f32; 4], view: &View) -> Vec<Piece> {
    let ((one_x, one_y), (other_x, other_y)) = (view.point((one_x, one_y)), view.point((other_x, other_y)));
    let (left, right, top) = (one_x.min(other_x), one_x.max(other_x), one_y.max(other_y));
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(MOST_LETTERS).collect()).collect();
    #[expect(clippy::cast_precision_loss, reason = "lines of a field")]
    let size = ((top - one_y.min(other_y)) / lines.len().max(1) as f32 / 1.4).clamp(4.0, 12.0);
    let mut base = top;
    let mut pieces = Vec::new();
    for line in lines.into_iter().filter(|line: &String| !line.trim().is_empty()) {
        base -= 1.1 * size;
        let text = line.trim().to_owned();
        pieces.push(Piece { text, left, right, base, size, is_bold: false, is_mono: false, is_table: false });
    }
    pieces
}

/// Value of a field, as it is shown.
fn value(document: &PdfDocument, field: &Dictionary) -> Option<String> {
    let kind = inherited(document, field, "FT")?;
    let value = inherited(document, field, "V")?;
    match kind.as_name()? {
        "Tx" => shown(document, &value),
        "Ch" => {
            let chosen = match &value {
                Object::Array(several) => several.iter().filter_map(|one| shown(document, one)).collect(),
                one => vec![shown(document, one)?],
            };
            let options = inherited(document, field, "Opt");
            Some(chosen.into_iter().map(|one| option(document, options.as_ref(), one)).collect::<Vec<_>>().join(", "))
        }
        // What is ticked says so by a state other than this one.
        "Btn" => {
            let state = field.get("AS").and_then(|state| resolved(document, state));
            let state = state.as_ref().and_then(Object::as_name)?;
            (state != "Off").then(|| "☒".to_owned())
        }
        _ => None,
    }
}

/// Shown name of a choice that programs know by another one.
fn option(document: &PdfDocument, options: Option<&Object>, chosen: String) -> String {
    let pairs = options.and_then(Object::as_array).into_iter().flatten().filter_map(|one| resolved(document, one));
    let shown = pairs.take(MOST).find_map(|pair| {
        let [name, text] = pair.as_array()?.as_slice() else { return None };
        (shown(document, name)? == chosen).then(|| shown(document, text)).flatten()
    });
    shown.unwrap_or(chosen)
}

fn shown(document: &PdfDocument, value: &Object) -> Option<String> {
    let value = resolved(document, value)?;
    value.as_string().map(string::text).or_else(|| value.as_name().map(str::to_owned))
}

/// Property of a field, or of the field that it is a part of.
fn inherited(document: &PdfDocument, field: &Dictionary, key: &str) -> Option<Object> {
    let own = |field: &Dictionary| field.get(key).and_then(|value| resolved(document, value));
    if let Some(value) = own(field) {
        return Some(value);
    }
    let mut parent = field.get("Parent").and_then(|parent| resolved(document, parent));
    for _ in 0..PARENTS {
        let above = parent?;
        let above = above.as_dict()?;
        if let Some(value) = own(above) {
            return Some(value);
        }
        parent = above.get("Parent").and_then(|parent| resolved(document, parent));
    }
    None
}

/// Names of the files that are attached to the document as a whole.
pub(super) fn attached(document: &PdfDocument) -> Vec<String> {
    const DEEP: usize = 8;
    let mut names = Vec::new();
    let root = || {
        let catalog = document.catalog().ok()?;
        let names = resolved(document, catalog.as_dict()?.get("Names")?)?;
        resolved(document, names.as_dict()?.get("EmbeddedFiles")?)
    };
    let mut level: Vec<Object> = root().into_iter().collect();
    for _ in 0..DEEP {
        let mut below = Vec::new();
        for node in &level {
            let Some(node) = node.as_dict() else { continue };
            let list = |key: &str| node.get(key).and_then(|list| resolved(document, list));
            for pair in list("Names").as_ref().and_then(Object::as_array).into_iter().flat_map(|all| all.chunks(2)) {
                let file = pair.get(1).and_then(|file| resolved(document, file));
                names.extend(file.and_then(|file| file_name(document, &file)));
            }
            let kids = list("Kids");
            let kids = kids.as_ref().and_then(Object::as_array).into_iter().flatten();
            below.extend(kids.filter_map(|kid| resolved(document, kid)));
            if names.len() + below.len() > MOST {
                return names;
            }
        }
        level = below;
    }
    names
}

fn file_name(document: &PdfDocument, file: &Object) -> Option<String> {
    if let Some(name) = file.as_string() {
        return Some(string::text(name));
    }
    let file = file.as_dict()?;
    let name = |key: &str| resolved(document, file.get(key)?)?.as_string().map(string::text);
    name("UF").or_else(|| name("F")).filter(|name| !name.trim().is_empty())
}

/// The object itself, wherever it is kept. One that cannot be read is none.
fn resolved(document: &PdfDocument, object: &Object) -> Option<Object> {
    document.resolve_object(object).ok().filter(|object| !matches!(object, Object::Null))
}
