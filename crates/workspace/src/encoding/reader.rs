//! A text file of any size, decoded while it is read.

use std::io::{self, Cursor, Read};

use encoding_rs::UTF_8;
use encoding_rs_io::DecodeReaderBytesBuilder;

use super::{Charset, detect};

/// Bytes of a large file that decide its kind.
const SAMPLE: usize = 64 * 1024;

/// Bytes before the first NUL from which on they are the beginning of a text.
const BEGINNING: usize = 64;

/// Text of a file: UTF-8, in which a lone `\r` is `\n` where it ends lines.
pub struct TextReader<'a> {
    /// Encoding of the file.
    pub charset: Charset,
    /// Set if the beginning alone decided what the file is, so that anything may follow.
    pub is_sampled: bool,
    cr_ends: bool,
    decoded: Box<dyn Read + 'a>,
}

impl<'a> TextReader<'a> {
    /// Opens the text of a file of about `size` bytes. Files of up to `most` bytes are looked at as a whole, so that reads,
    /// searches and edits agree on what they are. `buffer` is scratch space. With `or_begins`, a file that only begins as a text is
    /// opened, too.
    ///
    /// # Errors
    /// The kind of the file where it is no text; the outer one where it cannot be read.
    pub fn open(
        mut content: impl Read + 'a,
        size: u64,
        most: u64,
        or_begins: bool,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Result<Self, &'static str>> {
        let most = if size <= most { most } else { SAMPLE as u64 };
        buffer.clear();
        buffer.reserve(usize::try_from(size.min(most)).unwrap_or(SAMPLE) + 1);
        (&mut content).take(most).read_to_end(buffer)?;
        let sample: &'a [u8] = buffer;
        let whole = (sample.len() as u64) < most;
        // A zero byte far behind does not make a log unreadable, as it makes it unsafe to edit.
        let (mut is_sampled, mut detected) = (!whole, detect(sample, whole));
        if detected.is_err() && sample.len() > SAMPLE {
            (is_sampled, detected) = (true, detect(&sample[..SAMPLE], false));
        }
        let beginning = sample.split(|byte| *byte == 0).next().unwrap_or_default();
        if or_begins && detected.is_err() && beginning.len() >= BEGINNING {
            (is_sampled, detected) = (true, detect(beginning, false).or(detected));
        }
        let charset = match detected {
            Ok(charset) => charset,
            Err(what) => return Ok(Err(what)),
        };
        let cr_ends = charset.ends_lines_with_cr(sample);
        let bytes = Cursor::new(&sample[charset.bom..]).chain(content);
        let decoded: Box<dyn Read + 'a> = if charset.encoding == UTF_8 && std::str::from_utf8(sample).is_ok() {
            Box::new(bytes)
        } else {
            Box::new(DecodeReaderBytesBuilder::new().encoding(Some(charset.encoding)).bom_sniffing(false).build(bytes))
        };
        Ok(Ok(Self { charset, is_sampled, cr_ends, decoded }))
    }
}

impl Read for TextReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.decoded.read(buffer)?;
        if self.cr_ends {
            buffer[..length].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        Ok(length)
    }
}
