//! Attachments to a turn's input, in the form sent by clients and in the form that is stored.

use serde::{Deserialize, Serialize};

use crate::files::{Picture, PreparedPicture};

/// Maximum number of parts of one input, excluding the text. The model is shown all of their names.
pub const MAX_INPUT_PARTS: usize = 20;

/// Maximum size of a picture or file, in bytes.
pub const MAX_PART_BYTES: usize = 8 << 20;

/// Maximum size of a selection's text, in bytes.
pub const MAX_SELECTION_BYTES: usize = 64 << 10;

/// Maximum length of a selection's URI, in bytes.
pub const MAX_SELECTION_URI: usize = 1024;

/// Media types of pictures that models accept, each with its file extension.
pub const PICTURE_TYPES: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/gif", "gif"), ("image/webp", "webp")];

/// Returns true if the bytes begin like a picture of one of the [types](PICTURE_TYPES) that models accept.
pub fn is_picture(head: &[u8]) -> bool {
    let starts: [&[u8]; 3] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8"];
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    is_webp || starts.iter().any(|start| head.starts_with(start))
}

/// Part of an input, as sent by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputPart {
    /// A picture for the model.
    Picture(PictureData),
    /// A file to upload.
    File {
        /// Name without a folder path.
        name: String,
        /// Bytes of the file.
        content: Vec<u8>,
    },
    /// An excerpt of a text that the user is viewing.
    Selection(Selection),
}

/// Picture as sent by a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PictureData {
    /// File name. If `None`, the name is derived from the type.
    pub name: Option<String>,
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Encoded bytes of the picture.
    pub content: Vec<u8>,
}

/// Validated picture with its original bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPicture {
    /// Name of the file.
    pub name: String,
    /// Original bytes of the picture.
    pub content: Vec<u8>,
    /// Picture prepared for models.
    pub prepared: PreparedPicture,
}

/// Excerpt of a text that the user is viewing, such as an unsaved buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// URI or path of the text, as known to the user.
    pub uri: String,
    /// Selected lines. `None` if the whole text is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// Text of the selection.
    pub text: String,
}

/// Range of lines, starting at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// Number of the first line.
    pub first: u32,
    /// Number of the last line, inclusive.
    pub last: u32,
}

/// Stored part of an input. Its content is in session files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttachedPart {
    /// A file, with a picture for models if the file is a picture.
    File {
        /// Path in the form that tools use.
        path: String,
        /// Picture prepared for models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        picture: Option<Picture>,
    },
    /// An excerpt of a text that the user is viewing.
    Selection(Selection),
}
