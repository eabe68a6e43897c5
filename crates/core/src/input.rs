//! Parts of a turn's input beside its words: as a client gives them, and as they are kept.

use serde::{Deserialize, Serialize};

use crate::files::{Picture, PreparedPicture};

/// Parts of one input at the most, words not counted: as many as the model is told of by name.
pub const MAX_INPUT_PARTS: usize = 20;

/// Size of a picture or file at the most, in bytes.
pub const MAX_PART_BYTES: usize = 8 << 20;

/// Size of a selection's text at the most, in bytes.
pub const MAX_SELECTION_BYTES: usize = 64 << 10;

/// Length of a selection's address at the most, in bytes.
pub const MAX_SELECTION_URI: usize = 1024;

/// Types of pictures that models see, with the ending of a file of each.
pub const PICTURE_TYPES: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/gif", "gif"), ("image/webp", "webp")];

/// A part of an input, as a client gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputPart {
    /// A picture.
    Picture(PictureData),
    /// A file.
    File {
        /// Its name, without folders.
        name: String,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// A part of something that the person looks at.
    Selection(Selection),
}

/// A picture, as a client gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PictureData {
    /// Its name; none for one by its type.
    pub name: Option<String>,
    /// Its type, such as `image/png`.
    pub media_type: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A picture that was looked at, with the bytes as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPicture {
    /// Its name.
    pub name: String,
    /// Its bytes, as they came.
    pub content: Vec<u8>,
    /// The picture for models.
    pub prepared: PreparedPicture,
}

/// A part of something that the person looks at, such as an unsaved buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Its address or path, as the person knows it.
    pub uri: String,
    /// The lines that it is, where it is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// The text.
    pub text: String,
}

/// Lines of a text, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// The first one.
    pub first: u32,
    /// The last one.
    pub last: u32,
}

/// A part of an input, as it is kept: the bytes are in files of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttachedPart {
    /// A file, with the picture for models where it is one.
    File {
        /// Its path, as tools write it.
        path: String,
        /// The picture for models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        picture: Option<Picture>,
    },
    /// A part of something that the person looks at.
    Selection(Selection),
}
