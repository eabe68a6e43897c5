//! What a word means once its quotes are gone.

/// A word of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Word {
    /// The word without quotes and escapes. What will be expanded stands as it is written.
    pub(crate) text: String,
    /// The word as it is written.
    pub(crate) raw: String,
    /// It holds variables, the output of a command or a home folder: nobody knows it beforehand.
    pub(crate) varies: bool,
    /// File names are put in its place.
    pub(crate) globs: bool,
    /// It holds `{a,b}`: it may become several words.
    pub(crate) braces: bool,
    /// Some of it was quoted or escaped.
    pub(crate) quoted: bool,
    /// Commands whose output is put into it.
    pub(crate) inner: Vec<String>,
}

impl Word {
    /// A word that is known already.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { raw: quoted(&text), text, ..Self::default() }
    }

    /// The same word with something behind it that nobody knows.
    pub(crate) fn and_more(self) -> Self {
        Self { text: self.text + "$", varies: true, ..self }
    }

    /// Returns whether it is known before it runs, up to the file names that a glob stands for.
    pub(crate) fn is_static(&self) -> bool {
        !self.varies && !self.braces
    }

    /// Returns whether it is just what it says: nothing is put in its place.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_static() && !self.globs
    }

    /// The text after the last slash, where the word is known.
    pub(crate) fn file_name(&self) -> &str {
        if self.is_plain() { self.text.rsplit('/').next().unwrap_or_default() } else { "" }
    }
}

/// Letters that mean nothing to the shell.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+' | b'=' | b'-')
}

/// Text in single quotes, where it needs any.
pub(super) fn quoted(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
